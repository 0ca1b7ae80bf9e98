"""How what `sd.placement` and `sd.check` return is printed."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from samedevice import guards
from samedevice.messages import SOURCE, Bytes, Language
from samedevice.report._render import render
from samedevice.report.html import html_of
from samedevice.report.plain import plain_text

_SCHEMA = 1
_WIDTH = 140


@dataclass(frozen=True, slots=True)
class Warned(guards.Warned):
    """Something about the placement that will fail, or that surprises."""

    def text(self, language: Language = SOURCE) -> str:
        """The sentence for people."""
        return render(self.phrase, language)


@dataclass(frozen=True, slots=True)
class Placement(guards.Placement):
    """What `sd.placement` returns; `print` shows it as a table."""

    warnings: tuple[Warned, ...]

    def __str__(self) -> str:
        return plain_text(self, _WIDTH)

    def __repr__(self) -> str:
        held = ", ".join(f"{device} {Bytes(nbytes)}" for device, nbytes in self.devices.items())
        return f"<placement of {self.model}: {held or 'nothing'}>"

    def _repr_html_(self) -> str:
        return html_of(lambda console: console.print(self))

    def __rich__(self) -> Group:
        table = Table(title=self.model, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for heading in ("module", "class", "device", "size", "tensors", "hook"):
            table.add_column(
                heading, justify="right" if heading in ("size", "tensors") else "left", overflow="fold"
            )
        for part in self.parts:
            kind = f"{part.count} x {part.kind}" if part.count > 1 else part.kind
            size = render(Bytes(part.nbytes))
            row = (part.module, kind, part.device, size, str(part.tensors), part.hook or "-")
            table.add_row(*(Text(cell) for cell in row))
        lines = [Text(f"{device}  {render(Bytes(nbytes))}") for device, nbytes in self.devices.items()]
        lines += [Text(f"tied: {' = '.join(names)}") for names in self.tied]
        lines += [Text.assemble(("warning: ", "bold yellow"), warned.text()) for warned in self.warnings]
        return Group(table, *lines)

    def lines(self, language: Language = SOURCE) -> list[str]:
        """One line for each device: its bytes and what it holds."""
        return [render(phrase, language) for phrase in self.phrases()]

    def log(
        self, logger: logging.Logger | None = None, level: int = logging.INFO, language: Language = SOURCE
    ) -> None:
        """Log one line for each device, and each warning as a warning.

        On the logger `samedevice` unless another is given.
        """
        chosen = logger or logging.getLogger("samedevice")
        for line in self.lines(language):
            chosen.log(level, "%s", line)
        for warned in self.warnings:
            chosen.warning("%s", warned.text(language))

    def as_json(self) -> dict[str, Any]:
        """The placement as a JSON object."""
        return {
            "schema": _SCHEMA,
            "model": self.model,
            "devices": dict(self.devices),
            "parts": [asdict(part) for part in self.parts],
            "tied": [list(names) for names in self.tied],
            "hooks": self.hooks,
            "device_map": dict(self.device_map),
            "warnings": [
                {"name": each.name, "modules": list(each.modules), "text": each.text()}
                for each in self.warnings
            ],
        }


@dataclass(frozen=True, slots=True)
class Alignment(guards.Alignment):
    """What `sd.check` returns: true when everything fits."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<alignment with {self.model}: {len(self.moves)} of {self.tensors} tensors to move>"

    def _repr_html_(self) -> str:
        return html_of(lambda console: console.print(Text(str(self))))

    def lines(self, language: Language = SOURCE) -> list[str]:
        """A line for each tensor in the wrong place, or one that says that all fit."""
        return [render(phrase, language) for phrase in self.phrases()]


def printable_placement(placed: guards.Placement) -> Placement:
    """The placement for people."""
    fields = {name: getattr(placed, name) for name in guards.Placement.__slots__}
    warnings = tuple(Warned(each.name, each.modules, each.values) for each in placed.warnings)
    return Placement(**{**fields, "warnings": warnings})


def printable_alignment(found: guards.Alignment) -> Alignment:
    """The alignment for people."""
    return Alignment(found.model, found.tensors, found.moves)
