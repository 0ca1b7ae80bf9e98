"""What `sd.plan` returns and `samedevice plan` shows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rich.console import Group
from rich.text import Text

from samedevice.messages import SOURCE, Language, Phrase, Value
from samedevice.planner.inference import PlacementPlan
from samedevice.report.gpu_bars import labelled
from samedevice.report.html import html_of
from samedevice.report.plain import plain_text
from samedevice.report.plan._document import plan_document
from samedevice.report.plan._drawing import drawing
from samedevice.report.plan._facts import FINDINGS_SHOWN, foot, found_in, head, served
from samedevice.report.plan._loading import loading_line, loading_script
from samedevice.report.shown import Findings
from samedevice.report.terminal import finding_text

_WIDTH = 110


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
            drawing(placed, language, ascii_only=ascii_only),
            Text(),
            labelled(self.foot(map_file), language),
        ]
        for finding in self.findings[:FINDINGS_SHOWN]:
            parts += [Text(), Text(finding_text(finding, language).rstrip())]
        return Group(*parts)

    def head(self) -> list[tuple[Phrase, Value]]:
        """What was placed, for which work, on what machine."""
        return list(head(self.placed))

    def foot(self, map_file: str | None = None) -> list[tuple[Phrase, Value]]:
        """What makes sure of it, and the line that uses it."""
        placed = self.placed
        rows: list[tuple[Phrase, Value]] = list(foot(placed))
        if placed.proved:
            rows.append((Phrase("place.python"), self.python(map_file)))
        if self._concurrent is not None and placed.fits:
            rows += served(placed, self._concurrent)
        return rows

    def python(self, map_file: str | None = None) -> str:
        """The line that loads the model by this plan."""
        return loading_line(self.placed, map_file)

    def script(self) -> str:
        """A program that loads the model by this plan and continues a text."""
        return loading_script(self.placed)

    def as_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        return plan_document(self.placed, self.findings, self._concurrent)
