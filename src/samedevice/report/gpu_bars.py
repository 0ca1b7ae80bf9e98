"""GPUs drawn as bars, and labelled lines: what the pages about plans are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from samedevice.messages import Language, Phrase, Value
from samedevice.report._render import render
from samedevice.report._words import harmless

_BAR = 24
"""Columns of the drawing of a GPU."""
_PARTS = (("\u2588", "#", "cyan"), ("\u2593", "=", "green"), ("\u2592", "+", "yellow"))
"""Each part of a bar: its character, that of a stream without it, its colour."""
_FREE = ("\u2591", ".")
CHARACTERS = "".join(mark for mark, *_ in _PARTS) + _FREE[0]
"""What a stream must be able to carry, or the drawing is made of plain ones."""


def bar(sizes: Sequence[int], total: int, *, ascii_only: bool) -> Text:
    """A GPU from 0 to its memory; what does not fit ends at its right border."""
    drawing = Text()
    held = drawn = 0
    for (mark, plain, colour), size in zip(_PARTS, sizes, strict=False):
        held += size
        upto = min(round(held / total * _BAR), _BAR)
        drawing.append((plain if ascii_only else mark) * (upto - drawn), colour)
        drawn = upto
    drawing.append(_FREE[ascii_only] * (_BAR - drawn), "dim")
    return drawing


def signs(part: int, *, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """How a bar shows a part, for the head of its column; the part behind the last is what is free."""
    if 0 <= part < len(_PARTS):
        mark, plain, colour = _PARTS[part]
        yield (f"{plain if ascii_only else mark} ", colour)
    elif part == len(_PARTS):
        yield (f"{_FREE[ascii_only]} ", "")


def labelled(rows: Iterable[tuple[Phrase, Value]], language: Language) -> Table:
    """Lines with a label each."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(Text(render(label, language)), Text(harmless(render(value, language))))
    return table


def amounts(heads: Sequence[tuple[Text, bool]]) -> Table:
    """A table whose columns have a head and stand at the right or not; the last one may wrap."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, (head, right) in enumerate(heads, 1):
        justify = "right" if right else "left"
        table.add_column(head, justify=justify, overflow="fold", no_wrap=number < len(heads))  # type: ignore[arg-type] # a literal
    return table
