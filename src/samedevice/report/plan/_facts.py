"""What is said around the drawing of a plan: what was placed where, and what makes sure of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from samedevice import diagnosis
from samedevice.machines import Machine, blas_workspace, cuda_context
from samedevice.messages import Bytes, Language, Phrase, Several, Value
from samedevice.planner import inference
from samedevice.planner.inference import PlacementPlan, Proof
from samedevice.report.shown import Findings, shown_findings

FINDINGS_SHOWN = 3
"""Findings of a proof that are shown whole."""
_NAMED = 3
"""So many modules are named; of more the first and the last."""


PHASES = {
    "load": Phrase("place.phase-load"),
    "prompt": Phrase("place.phase-prompt"),
    "last_token": Phrase("place.phase-last"),
    "run": Phrase("pipeline.phase-run"),
}
"""What the parts of a trial are called."""


def head(placed: PlacementPlan) -> Iterator[tuple[Phrase, Phrase]]:
    profile = placed.profile
    source = profile.source
    said = {
        "asked": Phrase("place.dtype-asked"),
        "config": Phrase("place.dtype-config"),
        "weights": Phrase("place.dtype-weights"),
        "assumed": Phrase("place.dtype-assumed"),
    }[source.dtype_from]
    yield (
        Phrase("place.model"),
        Phrase(
            "place.model-line",
            name=source.name,
            architecture=source.architecture,
            count=count_text(profile.parameters),
            dtype=source.dtype,
            said=said,
        ),
    )
    if source.shipped:
        yield Phrase("place.config"), Phrase("place.published")
    yield Phrase("place.work"), _work(placed)
    if (pictures := profile.pictures) is not None:
        yield (
            Phrase("place.pictures-label"),
            Phrase(
                "place.pictures-line",
                images=pictures.count,
                width=pictures.width,
                height=pictures.height,
                tokens=pictures.tokens,
                all=pictures.length,
            ),
        )
    elif source.sees:
        yield Phrase("place.pictures-label"), Phrase("place.pictures-none")
    if source.hears and profile.sound is None:
        yield Phrase("place.sound-label"), Phrase("place.sound-none")
    yield from machine_lines(placed.machine, placed.reserve)


def machine_lines(machine: Machine, reserve: int) -> Iterator[tuple[Phrase, Phrase]]:
    """The machine, what of each GPU is left free, and a note where that is less than what torch takes."""
    context, blas = outside_bytes(machine)
    yield (
        Phrase("place.machine"),
        Phrase(
            "place.machine-line",
            machine=str(machine),
            reserve=Bytes(reserve),
            context=Bytes(context),
            blas=Bytes(blas),
        ),
    )
    if reserve < context + blas:
        yield Phrase("place.note"), Phrase("place.reserve-small", needed=Bytes(context + blas))


def _work(placed: PlacementPlan) -> Phrase:
    work, sound = placed.workload, placed.profile.sound
    if sound is not None:
        return Phrase("place.sound-line", batch=work.batch, seconds=sound.seconds, new_tokens=work.new_tokens)
    return Phrase("place.work-line", batch=work.batch, context=work.context, new_tokens=work.new_tokens)


def outside_bytes(machine: Machine) -> tuple[int, int]:
    """The CUDA context and the workspace of cuBLAS on the GPU where they take the most."""
    return (
        max(cuda_context(gpu) for gpu in machine.gpus),
        max(blas_workspace(gpu) for gpu in machine.gpus),
    )


def _most(most: inference.Most) -> Phrase:
    match most.axis, most.limited:
        case "context", False:
            return Phrase("place.longest", context=most.value, grain=inference.GRAIN[most.axis])
        case "context", True:
            return Phrase("place.longest-limit", context=most.value)
        case _, False:
            return Phrase("place.widest", batch=most.value)
    return Phrase("place.widest-limit", batch=most.value)


_ENGINES = {
    "vllm": Phrase("place.vllm"),
    "sglang": Phrase("place.sglang"),
    "deepspeed": Phrase("place.deepspeed"),
    "torchrun": Phrase("place.torchrun"),
}


def served(placed: PlacementPlan, asked: int) -> Iterator[tuple[Phrase, Value]]:
    """How engines that split every layer would serve it."""
    served = placed.serving
    if served is None:
        yield Phrase("place.serve"), Phrase("place.no-serving")
        return
    sizes = {"tensor": served.tensor, "pipeline": served.pipeline}
    if not served.sequences:
        yield Phrase("place.serve"), Phrase("place.serve-none", **sizes)
        return
    amounts = {"sequences": served.sequences, "length": served.length, "asked": asked}
    yield Phrase("place.serve"), Phrase("place.serve-line", **sizes, **amounts)
    for engine, command in served.commands(asked).items():
        yield _ENGINES[engine], command


def count_text(parameters: int) -> str:
    """As model names have it: 7.62B, 494M."""
    return f"{parameters / 1e9:.2f}B" if parameters >= 1e9 else f"{parameters / 1e6:.3g}M"


def foot(placed: PlacementPlan) -> Iterator[tuple[Phrase, Phrase]]:
    division, proof = placed.division, placed.proof
    for lesson in placed.lessons:
        yield Phrase("place.learned"), lesson_phrase(lesson)
    if placed.most is not None and placed.most.value:
        yield Phrase("place.most"), _most(placed.most)
    if not placed.fits:
        missing = Bytes(-division.room)
        yield Phrase("place.result"), Phrase("place.unfit", missing=missing)
        for way in placed.ways_out:
            yield Phrase("label.next"), way
        return
    certified = {
        "room": "place.best-room",
        "stage": "place.best-stage",
        "gpus": "place.best-gpus",
        "price": "place.best-price",
    }
    yield (
        Phrase("place.best"),
        Phrase(
            certified[placed.objective],
            room=Bytes(division.room),
            bound=Bytes(division.bound),
            tried=division.tried,
            gpus=len(division.runs),
        ),
    )
    if proof is None:
        return
    yield Phrase("place.proof"), outcome(proof, placed.room, ran_phrase(proof), proved=placed.proved)
    if not placed.proved:
        yield Phrase("place.note"), Phrase("place.no-cure")


def outcome(proof: Proof, room: int, ran: Phrase, *, proved: bool) -> Phrase:
    """What came of a trial; `ran` says what it was."""
    if proof.error is not None:
        return Phrase("place.failed", error=proof.error)
    if proof.different is not None:
        return Phrase("pipeline.other", different=proof.different, ran=ran)
    if proved:
        key = "place.proved-expandable" if proof.expandable else "place.proved"
        return Phrase(key, room=Bytes(room), ran=ran)
    if proof.events:
        return Phrase("place.found", count=len(proof.events), ran=ran)
    if room >= 0:
        return Phrase("place.gaps", ran=ran)
    return Phrase("place.over", missing=Bytes(-room), ran=ran)


def lesson_phrase(lesson: inference.Lesson) -> Phrase:
    """What a trial showed, in a sentence."""
    trial, missing = lesson.trial, Bytes(lesson.missing)
    if lesson.error is not None:
        return Phrase("place.learned-error", trial=trial, error=lesson.error)
    if lesson.gpu is not None:
        key = "place.learned-gaps" if lesson.gaps else "place.learned-missing"
        return Phrase(key, trial=trial, gpu=f"cuda:{lesson.gpu}", missing=missing)
    at = lesson.statement
    assert at is not None, "modules are put together because of a statement or an error"
    where = f"{PurePath(at.file).name}:{at.line}"
    names = lesson.together
    modules = (
        Several(names)
        if len(names) <= _NAMED
        else Phrase("place.learned-range", count=len(names), first=names[0], last=names[-1])
    )
    return Phrase("place.learned-together", trial=trial, modules=modules, where=where, code=at.code)


def found_in(proof: Proof, language: Language) -> Findings:
    """What a trial found."""
    return shown_findings((diagnosis.judge(event, count) for event, count in proof.events), language)


def ran_phrase(proof: Proof) -> Phrase:
    """What was run, how long, and with which versions."""
    versions = ", ".join(f"{name} {version}" for name, version in proof.versions.items())
    return Phrase("place.ran", seconds=f"{proof.seconds:.0f}", versions=versions)
