"""Findings of tests on their way to the reader.

Through the reports, from the workers of xdist too, to the end of the run.

pytest speaks English, and so do findings here, whatever the locale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from samedevice.findings import Finding

_TESTS_SHOWN = 5


def as_text(findings: Sequence[Finding[str]]) -> str:
    """The whole diagnosis of each."""
    from samedevice.report import finding_text

    return "\n".join(finding_text(finding) for finding in findings).rstrip()


def as_entries(findings: Sequence[Finding[str]], where: str) -> list[dict[str, Any]]:
    """Findings as plain data that a report can carry between processes."""
    from samedevice.report import finding_text

    return [
        {
            "where": where,
            "line": _line(finding),
            "text": finding_text(finding).rstrip(),
            "count": finding.count,
            "statement": statement_of(finding),
        }
        for finding in findings
    ]


def statement_of(finding: Finding[str]) -> list[Any]:
    """What tells a finding's statement from others, as plain data."""
    at = finding.at
    return [finding.code, finding.op, *((at.file, at.line, at.function) if at else ())]


def _line(finding: Finding[str]) -> str:
    from samedevice.diagnosis import code_of
    from samedevice.report import short_path

    place = (
        f" ({short_path(finding.at.file)}:{finding.at.line} in {finding.at.function})" if finding.at else ""
    )
    return f"{finding.code} {code_of(finding.code).name}: {finding.title}{place}"


@dataclass(slots=True)
class _Statement:
    """One statement, with everything that ran into it."""

    line: str
    text: str
    tests: list[str] = field(default_factory=list)


class Summary:
    """Collects what the reports carry and lists it at the end, each statement once."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._statements: dict[tuple[Any, ...], _Statement] = {}
        self._failed: set[str] = set()
        self._ignored: set[tuple[Any, ...]] = set()
        self._problems: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the findings of one test."""
        if report.failed:
            self._failed.add(report.nodeid)
        self._ignored |= {tuple(each) for each in getattr(report, "device_findings_ignored", ())}
        self._problems |= dict.fromkeys(getattr(report, "device_problems", ()))
        for entry in getattr(report, "device_findings", ()):
            found = self._statements.setdefault(
                tuple(entry["statement"]), _Statement(entry["line"], entry["text"])
            )
            if entry["where"] not in found.tests:
                found.tests.append(entry["where"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The section: the diagnosis in full unless a failure above shows it."""
        if not self._statements and not self._ignored:
            return
        terminalreporter.section("device findings")
        for statement in self._statements.values():
            shown = self._config.option.tbstyle != "no" and any(
                test in self._failed for test in statement.tests
            )
            terminalreporter.write_line(f"{statement.line}; see above" if shown else statement.text)
            at_most = len(statement.tests) if self._config.option.verbose > 0 else _TESTS_SHOWN
            for test in statement.tests[:at_most]:
                terminalreporter.write_line(f"  in {test}")
            if len(statement.tests) > at_most:
                terminalreporter.write_line(f"  and in {len(statement.tests) - at_most} more; -v lists them")
        for line in self._problems:
            terminalreporter.write_line(line)
        if self._ignored:
            terminalreporter.write_line(
                f"{_counted(len(self._ignored), 'statement')} ignored, by comments or the settings"
            )
        if not self._statements:
            return
        tests = {test for statement in self._statements.values() for test in statement.tests}
        terminalreporter.write_line(
            f"{_counted(len(self._statements), 'statement')} in {_counted(len(tests), 'test')}"
        )


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
