"""GPU products as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from samedevice.machines import Gpu
from samedevice.messages import SOURCE, Bytes, Language, Phrase
from samedevice.report._render import render

_HEADS = ("gpus.key", "gpus.memory", "gpus.capability", "gpus.name", "gpus.aliases")


def print_gpus(console: Console, gpus: Sequence[Gpu], *, sources: bool, language: Language = SOURCE) -> None:
    """A row for each GPU; with `sources`, where its figures are from stands below the table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in _HEADS:
        right = head in ("gpus.memory", "gpus.capability")
        table.add_column(Text(render(Phrase(head), language)), justify="right" if right else "left")
    for gpu in gpus:
        major, minor = gpu.capability
        cells = (gpu.key, str(Bytes(gpu.total_memory, "GiB")), f"{major}.{minor}", gpu.name)
        table.add_row(*map(Text, (*cells, ", ".join(gpu.aliases))))
    console.print(table)
    if sources:
        console.print()
    for gpu in gpus if sources else ():
        told = render(Phrase("gpus.source", key=gpu.key, source=gpu.source), language)
        console.print(Text(told, "dim"))
    if not sources:
        console.print(Text(render(Phrase("gpus.more", count=len(gpus)), language), "dim"))
