"""How a plan for a diffusion pipeline is shown, as data, and as a program that loads by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from samedevice.messages import Bytes, Language, Phrase, Value
from samedevice.planner.pipelines import (
    Offloaded,
    Picture,
    PipelinePlan,
    PipelineShare,
    dtype_argument,
    made_phrase,
)
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.gpu_bars import amounts, bar, labelled, signs
from samedevice.report.plan._document import SCHEMA, trial
from samedevice.report.plan._drawing import left
from samedevice.report.plan._facts import (
    FINDINGS_SHOWN,
    count_text,
    found_in,
    machine_lines,
    outcome,
    outside_bytes,
)
from samedevice.report.plan._loading import prepared
from samedevice.report.shown import Findings
from samedevice.report.terminal import finding_text

_SCRIPT = '''\
"""Load a pipeline as samedevice chose and tried it, and make a picture."""

import sys

import diffusers
import torch
{imports}
MODEL = {path!r}
{load}
{prompt}made = pipe({asked})
if hasattr(made, "images"):
    for number, image in enumerate(made.images):
        image.save(f"picture-{{number}}.png")
else:
    for number, frames in enumerate(made.frames):
        diffusers.utils.export_to_video(frames, f"film-{{number}}.mp4")
'''
_PROMPT = """\
prompt = " ".join(sys.argv[1:]) or "a lighthouse in the evening"
"""
_PLACED = """\
PLACES = {{
{entries}}}


def load(name):
    kind, gpu = PLACES[name]
    model = kind.from_pretrained(MODEL, subfolder=name, {argument}, device_map={{"": gpu}})
    skipped = getattr(model, "_skip_keys", None)
    return dispatch_model(model, device_map={{"": gpu}}, force_hooks=True, skip_keys=skipped)


parts = {{name: load(name) for name in PLACES}}
pipe = diffusers.{kind}.from_pretrained(MODEL, {argument}, **parts)"""


def pipeline_shown(plan: PipelinePlan, language: Language, *, ascii_only: bool = False) -> Group:
    """The plan for a terminal."""
    parts: list[Any] = [
        labelled(pipeline_head(plan), language),
        Text(),
        _drawing(plan, language, ascii_only=ascii_only),
        Text(),
        labelled(pipeline_foot(plan), language),
    ]
    for finding in pipeline_findings(plan, language)[:FINDINGS_SHOWN]:
        parts += [Text(), Text(finding_text(finding, language).rstrip())]
    return Group(*parts)


def pipeline_findings(plan: PipelinePlan, language: Language) -> Findings:
    """What the trial found."""
    return Findings() if plan.last_proof is None else found_in(plan.last_proof, language)


def pipeline_head(plan: PipelinePlan) -> Iterator[tuple[Phrase, Value]]:
    """What was placed, for which work, on what machine."""
    source = plan.source
    asked = source.dtype_from == "asked"
    yield (
        Phrase("place.model"),
        Phrase(
            "pipeline.line",
            name=source.name,
            kind=source.kind,
            count=count_text(sum(each.parameters for each in plan.components)),
            models=len(plan.components),
            dtype=source.dtype,
            said=Phrase("place.dtype-asked" if asked else "pipeline.dtype-assumed"),
        ),
    )
    if source.shipped:
        yield Phrase("place.config"), Phrase("place.published")
    made, picture = plan.profile.made, plan.picture
    yield Phrase("place.work"), _work(plan)
    wanted = replace(made, size=picture.size or made.size, frames=picture.frames or made.frames)
    if wanted != made:
        said = Phrase("pipeline.other-than-asked", asked=made_phrase(wanted), made=made_phrase(made))
        yield Phrase("place.note"), said
    yield from machine_lines(plan.machine, plan.reserve)


def _work(plan: PipelinePlan) -> Phrase:
    """What one call makes."""
    made = plan.profile.made
    if made.size is None:
        return Phrase("pipeline.results", batch=made.batch)
    kinds = (
        ("pipeline.picture", "pipeline.pictures")
        if made.frames is None
        else ("pipeline.film", "pipeline.films")
    )
    said = Phrase(kinds[made.batch > 1], batch=made.batch, made=made_phrase(made))
    return Phrase("pipeline.work", said=said) if "prompt" in plan.profile.wishes else said


def pipeline_state(plan: PipelinePlan) -> Phrase:
    """Whether it fits, and how sure that is."""
    if plan.chosen is not None:
        return Phrase("pipeline.offloaded")
    return Phrase("page.proved" if plan.proved else "page.fails" if plan.fits else "page.unfit")


def pipeline_foot(plan: PipelinePlan) -> Iterator[tuple[Phrase, Value]]:
    """What makes sure of it, and the lines that use it."""
    room = plan.placement.room
    if plan.fits:
        yield Phrase("pipeline.whole-label"), Phrase("pipeline.whole")
        yield Phrase("place.best"), Phrase("pipeline.best", room=Bytes(room), tried=plan.placement.tried)
    else:
        key = "pipeline.unfit" if plan.chosen is None else "pipeline.fits-offloaded"
        yield Phrase("place.result"), Phrase(key, missing=Bytes(-room))
    if plan.offloads:
        for passed in plan.offloads[:-1]:
            yield Phrase("pipeline.passed-label"), _passed(passed)
        yield from _offload_lines(plan.offloads[-1], plan.weights)
    if (proof := plan.last_proof) is not None:
        room = plan.offloads[-1].room if plan.offloads else plan.room
        versions = ", ".join(f"{name} {version}" for name, version in proof.versions.items())
        ran = Phrase("pipeline.ran", seconds=f"{proof.seconds:.0f}", versions=versions)
        yield Phrase("place.proof"), outcome(proof, room, ran, proved=plan.proved)
    for way in plan.ways_out:
        yield Phrase("label.next"), way
    if plan.proved:
        for line in pipeline_lines(plan):
            yield Phrase("place.python"), line


def _offload_lines(found: Offloaded, weights: int) -> Iterator[tuple[Phrase, Value]]:
    """How the components come to the GPU."""
    key = "pipeline.offload-whole" if found.offload.whole else "pipeline.offload-parts"
    said = Phrase(key, method=found.offload.call(), gpu=f"cuda:{found.gpu}", host=Bytes(weights))
    yield Phrase("pipeline.offload-label"), said
    if found.offload.tiled:
        yield Phrase("place.note"), Phrase("pipeline.tiled")


def _passed(found: Offloaded) -> Phrase:
    """Why an offload that moves more at once was not taken."""
    proof = found.proof
    if proof is None:
        why = Phrase("pipeline.passed-untried", missing=Bytes(-found.room))
    elif proof.error is not None:
        why = Phrase("pipeline.passed-error", error=proof.error)
    elif proof.different is not None:
        why = Phrase("pipeline.passed-different", different=proof.different)
    elif proof.events:
        first = proof.events[0][0].at
        why = Phrase(
            "pipeline.passed-found",
            count=len(proof.events),
            where=f"{PurePath(first.file).name}:{first.line}",
        )
    else:
        why = Phrase("pipeline.passed-over", missing=Bytes(max(-found.room, 0)))
    return Phrase("pipeline.passed", method=found.offload.call(), why=why)


def _drawing(plan: PipelinePlan, language: Language, *, ascii_only: bool) -> Table:
    parts = ("place.weights", "place.working") if plan.chosen is None else ("pipeline.in-use",)
    heads = ("place.gpu", "", *parts, "place.free", "pipeline.components")
    marks = {2: 0, 3: 2, 4: 3} if plan.chosen is None else {2: 0, 3: 3}
    """What of a bar a column is; the bar's second part, a KV cache, a pipeline does not have."""
    table = amounts(
        [
            (
                Text.assemble(
                    *signs(marks.get(number, -1), ascii_only=ascii_only),
                    render(Phrase(head), language) if head else "",
                ),
                number in marks,
            )
            for number, head in enumerate(heads)
        ]
    )
    for share in plan.shares:
        names = ", ".join(each.name for each in share.components)
        sizes = share.in_use
        table.add_row(
            Text(f"cuda:{share.gpu}"),
            bar(
                (sizes[0], 0, *sizes[1:]),
                plan.machine.gpus[share.gpu].total_memory,
                ascii_only=ascii_only,
            ),
            *(str(Bytes(size)) for size in sizes),
            left(share.free),
            Text(harmless(names)),
        )
    if plan.unused:
        unused = ", ".join(f"cuda:{gpu}" for gpu in plan.unused)
        table.add_row(
            Text(unused, "dim"),
            *[""] * (len(heads) - 2),
            Text(render(Phrase("place.unused"), language), "dim"),
        )
    return table


def pipeline_lines(plan: PipelinePlan) -> Iterator[str]:
    """The lines that load the pipeline by this plan."""
    source, argument = plan.source, _argument(plan)
    if plan.chosen is not None:
        yield f"pipe = diffusers.{source.kind}.from_pretrained({source.path!r}, {argument})"
        yield from plan.chosen.offload.lines(plan.chosen.gpu)
        return
    for name, gpu in plan.placement.gpus.items():
        library, kind = source.models[name]
        arguments = f"{source.path!r}, subfolder={name!r}, {argument}, device_map={{'': {gpu}}}"
        yield f"{name} = {library}.{kind}.from_pretrained({arguments})"
        skipped = plan.profile.skipped.get(name)
        keys = "" if skipped is None else f", skip_keys={list(skipped)!r}"
        yield f"accelerate.dispatch_model({name}, {{'': {gpu}}}, force_hooks=True{keys})"
    given = ", ".join(f"{name}={name}" for name in plan.placement.gpus)
    yield f"pipe = diffusers.{source.kind}.from_pretrained({source.path!r}, {argument}, {given})"


def pipeline_script(plan: PipelinePlan) -> str:
    """A program that loads the pipeline by this plan and makes a picture."""
    source, wishes = plan.source, plan.profile.wishes
    template = prepared(_SCRIPT, plan.last_proof)
    if "prompt" not in wishes:
        template = template.replace("import sys\n\n", "", 1)
    if plan.chosen is not None:
        imports = ""
        opened = f"pipe = diffusers.{source.kind}.from_pretrained(MODEL, {_argument(plan)})"
        load = "\n".join([opened, *plan.chosen.offload.lines(plan.chosen.gpu)])
    else:
        imports = "import transformers\nfrom accelerate import dispatch_model\n"
        entries = "".join(
            f"    {name!r}: ({'.'.join(source.models[name])}, {gpu}),\n"
            for name, gpu in plan.placement.gpus.items()
        )
        load = _PLACED.format(entries=entries, argument=_argument(plan), kind=source.kind)
    said = {name: repr(value) for name, value in wishes.items()}
    if "prompt" in wishes:
        said["prompt"] = f"[prompt] * {len(wishes['prompt'])}"
    return template.format(
        path=source.path,
        imports=imports,
        load=load,
        prompt=_PROMPT if "prompt" in wishes else "",
        asked=", ".join(f"{name}={value}" for name, value in said.items()),
    )


def _argument(plan: PipelinePlan) -> str:
    """The type of the weights, as the installed libraries call it."""
    libraries = {"diffusers", *(library for library, _ in plan.source.models.values())}
    return f"{dtype_argument(*libraries)}=torch.{plan.source.dtype}"


def pipeline_document(plan: PipelinePlan, language: Language) -> dict[str, Any]:
    """The plan as a JSON object."""
    source, proof, chosen = plan.source, plan.last_proof, plan.chosen
    made = plan.profile.made
    made_width, made_height = made.size or (None, None)
    return {
        "schema": SCHEMA,
        "model": {
            "name": source.name,
            "architecture": source.kind,
            "parameters": sum(each.parameters for each in plan.components),
            "dtype": source.dtype,
            "dtype_from": source.dtype_from,
            "config_shipped": source.shipped,
        },
        "machine": plan.machine.describe(),
        "workload": picture_document(plan.picture),
        "makes": {"width": made_width, "height": made_height, "frames": made.frames},
        "reserve": plan.reserve,
        "overhead": dict(zip(("context", "blas"), outside_bytes(plan.machine), strict=True)),
        "feasible": plan.fits or chosen is not None,
        "proved": plan.proved,
        "room": plan.room,
        "device_map": dict(plan.placement.gpus) if plan.fits else None,
        "components": [
            {
                "name": each.name,
                "class": each.kind,
                "parameters": each.parameters,
                "weights": each.weights,
                "working": each.working,
            }
            for each in plan.components
        ],
        "devices": [_device(plan, share) for share in plan.shares],
        "unused": [f"cuda:{gpu}" for gpu in plan.unused],
        "offload": None if chosen is None else _offload(chosen),
        "passed_over": [render(_passed(each)) for each in plan.offloads if each is not chosen],
        "certificate": {"room": plan.placement.room, "placements": plan.placement.tried},
        "ways_out": [render(way) for way in plan.ways_out],
        "proof": None
        if proof is None
        else trial(proof, plan.proved, plan.rounds, pipeline_findings(plan, language)),
    }


def picture_document(picture: Picture) -> dict[str, Any]:
    """What was asked for, in data."""
    width, height = picture.size or (None, None)
    return {"batch": picture.batch, "width": width, "height": height, "frames": picture.frames}


def _offload(chosen: Offloaded) -> dict[str, Any]:
    return {
        "method": chosen.offload.method,
        "arguments": dict(chosen.offload.arguments),
        "device": f"cuda:{chosen.gpu}",
        "vae_tiling": chosen.offload.tiled,
    }


def _device(plan: PipelinePlan, share: PipelineShare) -> dict[str, Any]:
    gpu = plan.machine.gpus[share.gpu]
    return {
        "device": f"cuda:{share.gpu}",
        "gpu": gpu.name,
        "blocks": [each.name for each in share.components],
        "weights": share.weights,
        "working": share.working,
        "planned_peak": None if share.weights is None else share.planned,
        "measured_peak": None if share.peak is None else share.peak.allocated,
        "total": gpu.total_memory,
        "budget": share.budget,
        "free": share.free,
    }
