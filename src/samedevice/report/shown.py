"""Findings as `import samedevice` gives them away: short in a list, whole in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from samedevice import rulebook
from samedevice.findings import Finding
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.report._render import render_finding
from samedevice.report._words import short_path
from samedevice.report.html import folded, html_of
from samedevice.report.terminal import print_finding

_UNFOLDED = 3
"""So many findings of a list are open at once."""


class ShownFinding(Finding[str]):
    """A finding with its texts; a notebook shows it whole."""

    def __repr__(self) -> str:
        at = f" at {short_path(self.at.file)}:{self.at.line}" if self.at is not None and self.at.file else ""
        return f"<{self.code} {rulebook.code_of(self.code).name}{at}>"

    def _repr_html_(self) -> str:
        return html_of(partial(print_finding, finding=self))


class Findings(list[Finding[str]]):
    """Findings in their order."""

    def _repr_html_(self) -> str:
        return "".join(
            folded(_head(finding), html_of(partial(print_finding, finding=finding)), unfolded=few)
            for few in [len(self) <= _UNFOLDED]
            for finding in self
        )


def shown_findings(findings: Iterable[Finding[Phrase]], language: Language = SOURCE) -> Findings:
    """Findings with their texts in a language."""
    return Findings(_shown(render_finding(finding, language)) for finding in findings)


def _shown(finding: Finding[str]) -> ShownFinding:
    return ShownFinding(**{name: getattr(finding, name) for name in Finding.__slots__})


def _head(finding: Finding[str]) -> str:
    return f"{finding.code} {rulebook.code_of(finding.code).name}: {finding.title}"
