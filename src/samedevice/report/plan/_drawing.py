"""The GPUs of a plan drawn in a terminal, those that hold the same amounts in one line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.table import Table
from rich.text import Text

from samedevice.messages import Bytes, Language, Phrase
from samedevice.planner.inference import PlacementPlan, Share
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.gpu_bars import amounts, bar, signs


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


def drawing(placed: PlacementPlan, language: Language, *, ascii_only: bool) -> Table:
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
