"""Findings as workflow commands of GitHub Actions, which show them on the lines of a pull request.

Must guarantee: whatever a file or a statement is called, one finding is one command. A runner reads `%25`,
`%0D` and `%0A` everywhere, `%3A` and `%2C` in properties.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from samedevice import rulebook
from samedevice.findings import Finding
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.report._project import path_below, place_in_project
from samedevice.report._words import harmless
from samedevice.report.lines import problem_lines
from samedevice.report.terminal import finding_text
from samedevice.suppression import Sifted

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def finding_commands(
    findings: Sequence[Finding[str | Phrase]], root: Path, language: Language = SOURCE
) -> list[str]:
    """One `::error` for each finding, with its whole diagnosis."""
    return [_of_finding(finding, root, language) for finding in findings]


def problem_commands(sifted: Sifted, root: Path, language: Language = SOURCE) -> list[str]:
    """One `::error` for each comment that ignores nothing because it cannot be understood."""
    lines = problem_lines(sifted, language)
    return [
        command(line, {"file": path_below(problem.file, root) or problem.file, "line": str(problem.line)})
        for problem, line in zip(sifted.problems, lines, strict=True)
    ]


def command(message: str, properties: dict[str, str]) -> str:
    """An `::error` with its properties and its message escaped."""
    listed = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    return f"::error {listed}::{_escaped(message, _DATA)}"


def _of_finding(finding: Finding[str | Phrase], root: Path, language: Language) -> str:
    place = place_in_project(finding, root)
    properties = {}
    if place is not None:
        properties["file"] = harmless(path_below(place.file, root) or place.file)
        if place.line:
            properties["line"] = str(place.line)
    properties["title"] = f"{finding.code} {rulebook.code_of(finding.code).name}"
    return command(finding_text(finding, language).rstrip("\n"), properties)


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in text)
