"""How a placement plan is shown: the GPUs drawn, what proves it, the line that uses it; and as data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from io import StringIO
from itertools import groupby
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from samedevice.diagnosis import judge
from samedevice.messages import SOURCE, Bytes, Language, Phrase, Value
from samedevice.planner import inference
from samedevice.planner.inference import PlacementPlan, Share
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.html import html_of
from samedevice.report.shown import Findings, shown_findings
from samedevice.report.terminal import finding_text

_SCHEMA = 1
_BAR = 24
"""Columns of the drawing of a GPU."""
_PARTS = (
    ("weights", "\u2588", "#", "cyan"),
    ("cache", "\u2593", "=", "green"),
    ("working", "\u2592", "+", "yellow"),
)
"""What a bar is made of: its name, its character, that of a stream without it, its colour."""
_FREE = ("\u2591", ".")
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


class Plan:
    """What `sd.plan` returns; `print` shows it, `device_map` is what `from_pretrained` takes."""

    def __init__(self, placed: PlacementPlan, language: Language = SOURCE) -> None:
        self.placed = placed
        self._language = language

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
        events = () if proof is None else proof.events
        return shown_findings((judge(event, count) for event, count in events), self._language)

    def __repr__(self) -> str:
        state = "proved" if self.proved else "fits" if self.fits else "does not fit"
        return f"<plan of {self.placed.profile.source.name} on {self.placed.machine.spec}: {state}>"

    def __str__(self) -> str:
        stream = StringIO()
        console = Console(
            file=stream,
            width=_WIDTH,
            force_jupyter=False,
            highlight=False,
            markup=False,
            emoji=False,
            color_system=None,
        )
        console.print(self)
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())

    def _repr_html_(self) -> str:
        return html_of(lambda console: console.print(self))

    def __rich__(self) -> Group:
        return self.shown(self._language)

    def shown(self, language: Language, *, ascii_only: bool = False, map_file: str | None = None) -> Group:
        """The plan for a terminal."""
        placed = self.placed
        head = Table.grid(padding=(0, 2, 0, 0))
        head.add_column(style="dim", no_wrap=True)
        head.add_column(overflow="fold")
        parts: list[Any] = [head, Text(), _drawing(placed, language, ascii_only=ascii_only), Text()]
        for label, phrase in _head(placed):
            head.add_row(*_row(label, phrase, language))
        foot = Table.grid(padding=(0, 2, 0, 0))
        foot.add_column(style="dim", no_wrap=True)
        foot.add_column(overflow="fold")
        for label, phrase in _foot(placed):
            foot.add_row(*_row(label, phrase, language))
        if placed.proved:
            foot.add_row(*_row(Phrase("place.python"), self.python(map_file), language))
        parts.append(foot)
        for finding in self.findings[:_FOUND]:
            parts += [Text(), Text(finding_text(finding, language).rstrip())]
        return Group(*parts)

    def python(self, map_file: str | None = None) -> str:
        """The line that loads the model by this plan."""
        source = self.placed.profile.source
        placed = f"json.load(open({map_file!r}))" if map_file else map_text(self.device_map)
        arguments = f'{source.path!r}, dtype="{source.dtype}", device_map={placed}'
        return f"model = {loader(source)}.from_pretrained({arguments})"

    def script(self) -> str:
        """A program that loads the model by this plan and continues a text."""
        placed = self.placed
        entries = "".join(f"    {name!r}: {gpu},\n" for name, gpu in self.device_map.items())
        return _SCRIPT.format(
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


def _row(label: Phrase, value: Value, language: Language) -> tuple[Text, Text]:
    return Text(render(label, language)), Text(harmless(render(value, language)))


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
    yield (
        Phrase("place.machine"),
        Phrase("place.machine-line", machine=str(placed.machine), reserve=Bytes(placed.reserve)),
    )


def _count(parameters: int) -> str:
    """As model names have it: 7.62B, 494M."""
    return f"{parameters / 1e9:.2f}B" if parameters >= 1e9 else f"{parameters / 1e6:.3g}M"


def _foot(placed: PlacementPlan) -> Iterator[tuple[Phrase, Phrase]]:
    division, proof = placed.division, placed.proof
    if not placed.fits:
        missing = Bytes(-division.room)
        yield Phrase("place.result"), Phrase("place.unfit", missing=missing)
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
    ran = Phrase(
        "place.ran",
        seconds=f"{proof.seconds:.0f}",
        versions=", ".join(f"{name} {version}" for name, version in proof.versions.items()),
    )
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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    heads = ("place.gpu", "", "place.weights", "place.cache", "place.working", "place.free", "place.blocks")
    for number, head in enumerate(heads):
        right = 2 <= number <= 5
        said = Text.assemble(
            *_sign(number - 2, ascii_only=ascii_only), render(Phrase(head), language) if head else ""
        )
        table.add_column(said, justify="right" if right else "left", overflow="fold", no_wrap=number < 6)
    for line in _lines(placed):
        share, (first, last, count) = line.share, line.blocks
        name = f"cuda:{line.first}" if line.first == line.last else f"cuda:{line.first}-{line.last}"
        each = "place.count" if line.first == line.last else "place.count-each"
        between = first if first == last else f"{first} .. {last}"
        table.add_row(
            Text(name),
            _bar(share, placed.machine.gpus[share.gpu].total_memory, ascii_only=ascii_only),
            *(str(Bytes(size)) for size in (share.planned.weights, share.planned.cache, _working(share))),
            Text(
                str(Bytes(share.free)) if share.free >= 0 else f"-{Bytes(-share.free)}",
                "" if share.free >= 0 else "bold red",
            ),
            Text(f"{render(Phrase(each, count=count), language)}{harmless(between)}"),
        )
    if placed.unused:
        names = ", ".join(f"cuda:{gpu}" for gpu in placed.unused)
        table.add_row(Text(names, "dim"), *[""] * 5, Text(render(Phrase("place.unused"), language), "dim"))
    return table


def _working(share: Share) -> int:
    """What is needed beyond weights and caches, as it was measured where it was."""
    if share.peak is None:
        return share.planned.working
    return max(share.peak.allocated - share.planned.weights - share.planned.cache, 0)


def _sign(part: int, *, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """How a bar shows a part, for the head of its column."""
    if 0 <= part < len(_PARTS):
        _, mark, plain, colour = _PARTS[part]
        yield (f"{plain if ascii_only else mark} ", colour)
    elif part == len(_PARTS):
        yield (f"{_FREE[ascii_only]} ", "")


def _bar(share: Share, total: int, *, ascii_only: bool) -> Text:
    """A GPU from 0 to its memory; what does not fit ends at its right border."""
    bar = Text()
    held = drawn = 0
    for (_, mark, plain, colour), size in zip(
        _PARTS, (share.planned.weights, share.planned.cache, _working(share)), strict=True
    ):
        held += size
        upto = min(round(held / total * _BAR), _BAR)
        bar.append((plain if ascii_only else mark) * (upto - drawn), colour)
        drawn = upto
    bar.append(_FREE[ascii_only] * (_BAR - drawn), "dim")
    return bar


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
        "workload": {"batch": work.batch, "context": work.context, "new_tokens": work.new_tokens},
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
        "proof": _trial(placed, findings),
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


def _trial(placed: PlacementPlan, findings: Findings) -> dict[str, Any] | None:
    proof = placed.proof
    if proof is None:
        return None
    return {
        "holds": placed.proved,
        "rounds": placed.rounds,
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
