"""How a placement plan is shown: the GPUs drawn, what proves it, the line that uses it; and as data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from samedevice import diagnosis
from samedevice.messages import SOURCE, Bytes, Language, Phrase, Value
from samedevice.planner import inference
from samedevice.planner.inference import Offer, PlacementPlan, Profile, Proof, Share
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.gpu_bars import amounts, bar, labelled, signs
from samedevice.report.html import html_of
from samedevice.report.plain import plain_text
from samedevice.report.shown import Findings, shown_findings
from samedevice.report.terminal import finding_text

_SCHEMA = 1
_WIDTH = 110
_FOUND = 3
"""Findings of a proof that are shown whole."""

_SCRIPT = '''\
"""Load a model by a device map that samedevice made and tried, and continue a text."""

import sys

from transformers import {loader}, AutoTokenizer

MODEL = {path!r}
DEVICE_MAP = {{
{entries}}}

model = {loader}.from_pretrained(MODEL, dtype={dtype!r}, device_map=DEVICE_MAP)
tokenizer = AutoTokenizer.from_pretrained(MODEL)
text = " ".join(sys.argv[1:]) or "The first thing to know about several GPUs is"
inputs = tokenizer(text, return_tensors="pt").to("cuda:{home}")
tokens = model.generate(**inputs, max_new_tokens={new_tokens})
print(tokenizer.decode(tokens[0], skip_special_tokens=True))
'''


_SCRIPT_OF_PICTURES = '''\
"""Load a model by a device map that samedevice made and tried, and ask it about pictures.

Usage: python THIS PICTURE ... QUESTION
"""

import sys

from transformers import AutoProcessor, {loader}

MODEL = {path!r}
DEVICE_MAP = {{
{entries}}}

*pictures, question = sys.argv[1:]
model = {loader}.from_pretrained(MODEL, dtype={dtype!r}, device_map=DEVICE_MAP)
processor = AutoProcessor.from_pretrained(MODEL)
content = [{{"type": "image", "path": picture}} for picture in pictures]
content.append({{"type": "text", "text": question}})
inputs = processor.apply_chat_template(
    [{{"role": "user", "content": content}}],
    add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt",
).to("cuda:{home}")
tokens = model.generate(**inputs, max_new_tokens={new_tokens})
print(processor.decode(tokens[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))
'''


class Plan:
    """What `sd.plan` returns; `print` shows it, `device_map` is what `from_pretrained` takes."""

    def __init__(
        self, placed: PlacementPlan, language: Language = SOURCE, concurrent: int | None = None
    ) -> None:
        self.placed = placed
        self._language = language
        self._concurrent = concurrent

    @property
    def device_map(self) -> dict[str, int]:
        """The map: the number of a GPU for each block."""
        return self.placed.device_map

    @property
    def fits(self) -> bool:
        """Whether it fits by calculation."""
        return self.placed.fits

    @property
    def proved(self) -> bool:
        """Whether it ran on the virtual machine without a finding, and within every GPU's budget."""
        return self.placed.proved

    @property
    def room(self) -> int:
        """Bytes that are left on the GPU with the fewest; negative where it does not fit."""
        return self.placed.room

    @cached_property
    def findings(self) -> Findings:
        """What the proof found."""
        proof = self.placed.proof
        return Findings() if proof is None else found_in(proof, self._language)

    def __repr__(self) -> str:
        state = "proved" if self.proved else "fits" if self.fits else "does not fit"
        return f"<plan of {self.placed.profile.source.name} on {self.placed.machine.spec}: {state}>"

    def __str__(self) -> str:
        return plain_text(self, _WIDTH)

    def _repr_html_(self) -> str:
        return html_of(lambda console: console.print(self))

    def __rich__(self) -> Group:
        return self.shown(self._language)

    def shown(self, language: Language, *, ascii_only: bool = False, map_file: str | None = None) -> Group:
        """The plan for a terminal."""
        placed = self.placed
        parts: list[Any] = [
            labelled(self.head(), language),
            Text(),
            _drawing(placed, language, ascii_only=ascii_only),
            Text(),
            labelled(self.foot(map_file), language),
        ]
        for finding in self.findings[:_FOUND]:
            parts += [Text(), Text(finding_text(finding, language).rstrip())]
        return Group(*parts)

    def head(self) -> list[tuple[Phrase, Value]]:
        """What was placed, for which work, on what machine."""
        return list(_head(self.placed))

    def foot(self, map_file: str | None = None) -> list[tuple[Phrase, Value]]:
        """What makes sure of it, and the line that uses it."""
        placed = self.placed
        foot: list[tuple[Phrase, Value]] = list(_foot(placed))
        if placed.proved:
            foot.append((Phrase("place.python"), self.python(map_file)))
        if self._concurrent is not None and placed.fits:
            foot += _served(placed, self._concurrent)
        return foot

    def python(self, map_file: str | None = None) -> str:
        """The line that loads the model by this plan."""
        source = self.placed.profile.source
        placed = f"json.load(open({map_file!r}))" if map_file else map_text(self.device_map)
        arguments = f'{source.path!r}, dtype="{source.dtype}", device_map={placed}'
        return f"model = {loader(source)}.from_pretrained({arguments})"

    def script(self) -> str:
        """A program that loads the model by this plan and continues a text."""
        placed = self.placed
        template = _SCRIPT if placed.profile.pictures is None else _SCRIPT_OF_PICTURES
        entries = "".join(f"    {name!r}: {gpu},\n" for name, gpu in self.device_map.items())
        return template.format(
            loader=loader(placed.profile.source),
            path=placed.profile.source.path,
            dtype=placed.profile.source.dtype,
            entries=entries,
            home=placed.shares[0].gpu,
            new_tokens=placed.workload.new_tokens,
        )

    def as_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        return _document(self.placed, self.findings)


def loader(source: inference.ModelSource) -> str:
    """The class that a script loads the model with."""
    names = source.values.get("architectures")
    architecture = source.architecture
    known = (
        isinstance(names, list) and architecture.isidentifier() and not architecture.endswith("ForCausalLM")
    )
    return architecture if known else "AutoModelForCausalLM"


def map_text(device_map: Mapping[str, int]) -> str:
    """A device map as a short Python expression: numbered layers as ranges."""
    entries: list[str] = []
    for (stem, gpu), group in groupby(device_map.items(), key=lambda pair: (_numbered(pair[0])[0], pair[1])):
        names = [name for name, _ in group]
        numbers = [_numbered(name)[1] for name in names]
        if len(names) > 2 and numbers == list(range(numbers[0], numbers[0] + len(names))):
            first = f"{numbers[0]}, " if numbers[0] else ""
            entries.append(f'**{{f"{stem}.{{n}}": {gpu} for n in range({first}{numbers[-1] + 1})}}')
        else:
            entries += [f"{json.dumps(name)}: {gpu}" for name in names]
    return "{" + ", ".join(entries) + "}"


def _numbered(name: str) -> tuple[str, int]:
    """`model.layers` and 3 of `model.layers.3`; the name itself and -1 of another."""
    stem, _, number = name.rpartition(".")
    return (
        (stem, int(number))
        if stem and number.isdecimal() and stem.replace(".", "_").isidentifier()
        else (name, -1)
    )


def _head(placed: PlacementPlan) -> Iterator[tuple[Phrase, Phrase]]:
    profile, work = placed.profile, placed.workload
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
            count=_count(profile.parameters),
            dtype=source.dtype,
            said=said,
        ),
    )
    yield (
        Phrase("place.work"),
        Phrase("place.work-line", batch=work.batch, context=work.context, new_tokens=work.new_tokens),
    )
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
    yield (
        Phrase("place.machine"),
        Phrase("place.machine-line", machine=str(placed.machine), reserve=Bytes(placed.reserve)),
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


def _served(placed: PlacementPlan, asked: int) -> Iterator[tuple[Phrase, Value]]:
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
    yield Phrase("place.vllm"), served.commands["vllm"]
    yield Phrase("place.sglang"), served.commands["sglang"]


def _count(parameters: int) -> str:
    """As model names have it: 7.62B, 494M."""
    return f"{parameters / 1e9:.2f}B" if parameters >= 1e9 else f"{parameters / 1e6:.3g}M"


def _foot(placed: PlacementPlan) -> Iterator[tuple[Phrase, Phrase]]:
    division, proof = placed.division, placed.proof
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
    ran = ran_phrase(proof)
    if proof.error is not None:
        yield Phrase("place.proof"), Phrase("place.failed", error=proof.error)
    elif placed.proved:
        yield Phrase("place.proof"), Phrase("place.proved", room=Bytes(placed.room), ran=ran)
    elif proof.events:
        yield Phrase("place.proof"), Phrase("place.found", count=len(proof.events), ran=ran)
    else:
        yield Phrase("place.proof"), Phrase("place.over", missing=Bytes(-placed.room), ran=ran)
    if placed.rounds > 1:
        yield Phrase("place.note"), Phrase("place.again", rounds=placed.rounds)


# -- the drawing


@dataclass(frozen=True, slots=True)
class _Line:
    """GPUs side by side that hold the same amounts."""

    first: int
    last: int
    share: Share
    blocks: tuple[str, str, int]
    """First, last, and how many on each GPU."""


def _lines(placed: PlacementPlan) -> list[_Line]:
    lines: list[_Line] = []
    for share in placed.shares:
        line = _Line(share.gpu, share.gpu, share, (share.blocks[0], share.blocks[-1], len(share.blocks)))
        held = lines[-1] if lines else None
        if held is not None and held.last + 1 == share.gpu and _alike(held, line):
            names = (held.blocks[0], line.blocks[1], line.blocks[2])
            lines[-1] = replace(held, last=share.gpu, blocks=names)
        else:
            lines.append(line)
    return lines


def _alike(one: _Line, other: _Line) -> bool:
    return one.blocks[2] == other.blocks[2] and (
        one.share.planned,
        one.share.budget,
        one.share.free,
    ) == (other.share.planned, other.share.budget, other.share.free)


def _drawing(placed: PlacementPlan, language: Language, *, ascii_only: bool) -> Table:
    heads = ("place.gpu", "", "place.weights", "place.cache", "place.working", "place.free", "place.blocks")
    table = amounts(
        [
            (
                Text.assemble(
                    *signs(number - 2, ascii_only=ascii_only), render(Phrase(head), language) if head else ""
                ),
                2 <= number <= 5,
            )
            for number, head in enumerate(heads)
        ]
    )
    for line in _lines(placed):
        share, (first, last, count) = line.share, line.blocks
        name = f"cuda:{line.first}" if line.first == line.last else f"cuda:{line.first}-{line.last}"
        each = "place.count" if line.first == line.last else "place.count-each"
        between = first if first == last else f"{first} .. {last}"
        sizes = (share.planned.weights, share.planned.cache, working(share))
        table.add_row(
            Text(name),
            bar(sizes, placed.machine.gpus[share.gpu].total_memory, ascii_only=ascii_only),
            *(str(Bytes(size)) for size in sizes),
            left(share.free),
            Text(f"{render(Phrase(each, count=count), language)}{harmless(between)}"),
        )
    if placed.unused:
        names = ", ".join(f"cuda:{gpu}" for gpu in placed.unused)
        table.add_row(Text(names, "dim"), *[""] * 5, Text(render(Phrase("place.unused"), language), "dim"))
    return table


def left(free: int) -> Text:
    """What is left; in red where it is less than nothing."""
    return Text(str(Bytes(free))) if free >= 0 else Text(f"-{Bytes(-free)}", "bold red")


def working(share: Share) -> int:
    """What is needed beyond weights and caches, as it was measured where it was."""
    if share.peak is None:
        return share.planned.working
    return max(share.peak.allocated - share.planned.weights - share.planned.cache, 0)


# -- as data


def _document(placed: PlacementPlan, findings: Findings) -> dict[str, Any]:
    profile, work, division = placed.profile, placed.workload, placed.division
    source = profile.source
    return {
        "schema": _SCHEMA,
        "model": {
            "name": source.name,
            "architecture": source.architecture,
            "parameters": profile.parameters,
            "dtype": source.dtype,
            "dtype_from": source.dtype_from,
        },
        "machine": placed.machine.describe(),
        "workload": _workload(work),
        "pictures": None if profile.pictures is None else _pictures(profile.pictures),
        "objective": placed.objective,
        "reserve": placed.reserve,
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
        "ways_out": [render(way) for way in placed.ways_out],
        "serving": _serving(placed),
        "proof": None
        if placed.proof is None
        else _trial(placed.proof, placed.proved, placed.rounds, findings),
    }


def _workload(work: inference.Workload) -> dict[str, Any]:
    return {
        "batch": work.batch,
        "context": work.context,
        "new_tokens": work.new_tokens,
        "images": work.images,
    }


def _pictures(pictures: inference.Pictures) -> dict[str, int]:
    return {
        "count": pictures.count,
        "width": pictures.width,
        "height": pictures.height,
        "tokens": pictures.tokens,
        "length": pictures.length,
    }


def _serving(placed: PlacementPlan) -> dict[str, Any] | None:
    served = placed.serving if placed.fits else None
    if served is None:
        return None
    return {**asdict(served), "commands": dict(served.commands)}


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


def _trial(proof: Proof, holds: bool, rounds: int, findings: Findings) -> dict[str, Any]:
    return {
        "holds": holds,
        "rounds": rounds,
        "findings": [finding.as_json() for finding in findings],
        "out_of_memory": proof.out_of_memory,
        "error": proof.error,
        "peaks": {
            f"cuda:{peak.gpu}": {
                "load": peak.load,
                "prompt": peak.prompt,
                "last_token": peak.last,
                "reserved": peak.reserved,
            }
            for peak in proof.peaks
        },
        "seconds": round(proof.seconds, 2),
        "versions": dict(proof.versions),
    }


# -- maps that are there already


class CheckedMap:
    """What a trial of a device map showed."""

    def __init__(self, checked: inference.CheckedMap, language: Language = SOURCE) -> None:
        self.checked = checked
        self.findings = found_in(checked.proof, language)

    @property
    def holds(self) -> bool:
        """Whether nothing was found and every peak is within its GPU's budget."""
        return self.checked.holds

    def shown(self, language: Language, *, ascii_only: bool = False) -> Group:
        """The trial for a terminal."""
        checked = self.checked
        heads = ("place.gpu", "", "place.peak", "place.free", "place.phase")
        table = amounts(
            [
                (Text(render(Phrase(head), language) if head else ""), 2 <= n <= 3)
                for n, head in enumerate(heads)
            ]
        )
        for peak in checked.proof.peaks:
            free = checked.budgets[peak.gpu] - peak.allocated
            table.add_row(
                Text(f"cuda:{peak.gpu}"),
                bar((peak.allocated,), checked.machine.gpus[peak.gpu].total_memory, ascii_only=ascii_only),
                str(Bytes(peak.allocated)),
                left(free),
                Text(render(_phase(peak), language)),
            )
        rows = [(Phrase("place.proof"), self._outcome())]
        parts: list[Any] = [table, Text(), labelled(rows, language)]
        for finding in self.findings[:_FOUND]:
            parts += [Text(), Text(finding_text(finding, language).rstrip())]
        return Group(*parts)

    def _outcome(self) -> Phrase:
        proof, budgets = self.checked.proof, self.checked.budgets
        ran = ran_phrase(proof)
        if proof.error is not None:
            return Phrase("place.failed", error=proof.error)
        worst = min(proof.peaks, key=lambda peak: budgets[peak.gpu] - peak.allocated, default=None)
        room = 0 if worst is None else budgets[worst.gpu] - worst.allocated
        if worst is not None and room < 0:
            key = "place.proof-oom" if proof.out_of_memory else "place.over-budget"
            return Phrase(key, gpu=f"cuda:{worst.gpu}", missing=Bytes(-room), ran=ran)
        if proof.events:
            return Phrase("place.found", count=len(proof.events), ran=ran)
        return Phrase("place.proved", room=Bytes(room), ran=ran)

    def as_json(self) -> dict[str, Any]:
        """The trial as a JSON object."""
        checked = self.checked
        work = checked.workload
        return {
            "schema": _SCHEMA,
            "machine": checked.machine.describe(),
            "workload": _workload(work),
            "reserve": checked.reserve,
            "device_map": dict(checked.device_map),
            "proved": self.holds,
            "budgets": {f"cuda:{gpu}": budget for gpu, budget in checked.budgets.items()},
            "proof": _trial(checked.proof, self.holds, 1, self.findings),
        }


def _phase(peak: inference.Peak) -> Phrase:
    phases = {
        "load": Phrase("place.phase-load"),
        "prompt": Phrase("place.phase-prompt"),
        "last": Phrase("place.phase-last"),
    }
    return phases[max(phases, key=lambda name: int(getattr(peak, name)))]


def found_in(proof: Proof, language: Language) -> Findings:
    """What a trial found."""
    return shown_findings((diagnosis.judge(event, count) for event, count in proof.events), language)


def ran_phrase(proof: Proof) -> Phrase:
    """What was run, how long, and with which versions."""
    versions = ", ".join(f"{name} {version}" for name, version in proof.versions.items())
    return Phrase("place.ran", seconds=f"{proof.seconds:.0f}", versions=versions)


# -- machines of the table


_SHOWN = 18
"""Machines that are shown before the rest is counted."""


def print_offers(
    console: Console, profile: Profile, found: Sequence[Offer], language: Language = SOURCE
) -> None:
    """The machines on which a model fits, one line each."""
    if not found:
        console.print(Text(render(Phrase("place.which-none", count=8), language)))
        return
    priced = any(offer.price is not None for offer in found)
    order = Phrase("place.which-price" if priced else "place.which-memory")
    console.print(Text(render(Phrase("place.which-head", order=order), language)))
    heads = ["place.spec", "place.total", "place.least", *(["place.price"] if priced else [])]
    table = amounts([(Text(render(Phrase(head), language)), number > 0) for number, head in enumerate(heads)])
    for offer in found[:_SHOWN]:
        cells = [offer.spec, str(Bytes(offer.count * offer.gpu.total_memory)), str(Bytes(offer.room))]
        price = "-" if offer.price is None else f"{offer.price:g}"
        table.add_row(*map(Text, [*cells, *([price] if priced else [])]))
    console.print(table)
    if len(found) > _SHOWN:
        console.print(Text(render(Phrase("place.which-more", count=len(found) - _SHOWN), language), "dim"))
    next_one = Phrase("place.which-next", model=profile.source.path, spec=found[0].spec)
    console.print(Text(harmless(render(next_one, language)), "dim"))


def offers_document(profile: Profile, found: Sequence[Offer]) -> dict[str, Any]:
    """The machines as a JSON object."""
    return {
        "schema": _SCHEMA,
        "model": profile.source.name,
        "workload": _workload(profile.workload),
        "machines": [
            {
                "spec": offer.spec,
                "gpu": offer.gpu.name,
                "count": offer.count,
                "room": offer.room,
                "price": offer.price,
            }
            for offer in found
        ],
    }
