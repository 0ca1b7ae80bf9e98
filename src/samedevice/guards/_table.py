"""A placement as a table for people."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from samedevice.guards._placement import Placement

_WIDTH = 140


def placement_table(placed: Placement) -> Group:
    """What rich prints: a row a part, the devices with their bytes, tied names, warnings."""
    from samedevice.guards._placement import amount

    table = Table(title=placed.model, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for heading in ("module", "class", "device", "size", "tensors", "hook"):
        table.add_column(
            heading, justify="right" if heading in ("size", "tensors") else "left", overflow="fold"
        )
    for part in placed.parts:
        kind = f"{part.count} x {part.kind}" if part.count > 1 else part.kind
        row = (part.module, kind, part.device, amount(part.nbytes), str(part.tensors), part.hook or "-")
        table.add_row(*(Text(cell) for cell in row))
    lines = [Text(f"{device}  {amount(nbytes)}") for device, nbytes in placed.devices.items()]
    lines += [Text(f"tied: {' = '.join(names)}") for names in placed.tied]
    lines += [Text.assemble(("warning: ", "bold yellow"), warned.text()) for warned in placed.warnings]
    return Group(table, *lines)


def placement_text(placed: Placement) -> str:
    """The same as plain text."""
    stream = StringIO()
    console = Console(
        file=stream, width=_WIDTH, highlight=False, markup=False, emoji=False, color_system=None
    )
    console.print(placement_table(placed))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
