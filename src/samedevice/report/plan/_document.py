"""A plan as a JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from samedevice.planner import inference
from samedevice.planner.inference import PlacementPlan, Proof, Share
from samedevice.report._render import render
from samedevice.report.plan._facts import lesson_phrase, outside_bytes
from samedevice.report.shown import Findings

SCHEMA = 1


def plan_document(placed: PlacementPlan, findings: Findings, asked: int | None) -> dict[str, Any]:
    profile, work, division = placed.profile, placed.workload, placed.division
    source = profile.source
    return {
        "schema": SCHEMA,
        "model": {
            "name": source.name,
            "architecture": source.architecture,
            "parameters": profile.parameters,
            "dtype": source.dtype,
            "dtype_from": source.dtype_from,
            "config_shipped": source.shipped,
        },
        "machine": placed.machine.describe(),
        "workload": workload_document(work),
        "pictures": None if profile.pictures is None else _pictures(profile.pictures),
        "sound": None if profile.sound is None else {"seconds": profile.sound.seconds},
        "objective": placed.objective,
        "reserve": placed.reserve,
        "overhead": dict(zip(("context", "blas"), outside_bytes(placed.machine), strict=True)),
        "feasible": placed.fits,
        "proved": placed.proved,
        "room": placed.room,
        "device_map": placed.device_map if placed.fits else None,
        "devices": [_device(placed, share) for share in placed.shares],
        "unused": [f"cuda:{gpu}" for gpu in placed.unused],
        "certificate": {
            "room": division.room,
            "bound": division.bound,
            "thresholds": division.tried,
            "stage_seconds": division.stage,
        },
        "most": None if placed.most is None else asdict(placed.most),
        "learned": [_lesson(lesson) for lesson in placed.lessons],
        "ways_out": [render(way) for way in placed.ways_out],
        "serving": _serving(placed, asked),
        "proof": None
        if placed.proof is None
        else trial(placed.proof, placed.proved, placed.rounds, findings),
    }


def workload_document(work: inference.Workload) -> dict[str, Any]:
    """What was asked for, in data."""
    return {
        "batch": work.batch,
        "context": work.context,
        "new_tokens": work.new_tokens,
        "images": work.images,
    }


def _lesson(lesson: inference.Lesson) -> dict[str, Any]:
    return {
        "trial": lesson.trial,
        "together": list(lesson.together),
        "device": None if lesson.gpu is None else f"cuda:{lesson.gpu}",
        "missing": lesson.missing,
        "text": render(lesson_phrase(lesson)),
    }


def _pictures(pictures: inference.Pictures) -> dict[str, int]:
    return {
        "count": pictures.count,
        "width": pictures.width,
        "height": pictures.height,
        "tokens": pictures.tokens,
        "length": pictures.length,
    }


def _serving(placed: PlacementPlan, asked: int | None) -> dict[str, Any] | None:
    served = placed.serving if placed.fits else None
    if served is None:
        return None
    return {
        "tensor": served.tensor,
        "pipeline": served.pipeline,
        "length": served.length,
        "sequences": served.sequences,
        "commands": served.commands(asked),
    }


def _device(placed: PlacementPlan, share: Share) -> dict[str, Any]:
    gpu = placed.machine.gpus[share.gpu]
    return {
        "device": f"cuda:{share.gpu}",
        "gpu": gpu.name,
        "blocks": list(share.blocks),
        "weights": share.planned.weights,
        "cache": share.planned.cache,
        "working": share.planned.working,
        "planned_peak": share.planned.total,
        "measured_peak": None if share.peak is None else share.peak.allocated,
        "total": gpu.total_memory,
        "budget": share.budget,
        "free": share.free,
    }


def trial(proof: Proof, holds: bool, rounds: int, findings: Findings) -> dict[str, Any]:
    return {
        "holds": holds,
        "rounds": rounds,
        "findings": [finding.as_json() for finding in findings],
        "out_of_memory": proof.out_of_memory,
        "expandable_segments": proof.expandable,
        "error": proof.error,
        "different": None if proof.different is None else render(proof.different),
        "peaks": {f"cuda:{peak.gpu}": {**peak.phases, "reserved": peak.reserved} for peak in proof.peaks},
        "seconds": round(proof.seconds, 2),
        "versions": dict(proof.versions),
    }
