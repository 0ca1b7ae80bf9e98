"""Findings of tests on their way to the reader.

Through the reports, from the workers of xdist too, to the end of the run.

pytest speaks English, and so do findings here, whatever the locale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from samedevice.findings import Finding
    from samedevice.suppression import Baseline

Notes = dict[str, Any]
"""What a report tells of one test, as plain data that goes from process to process."""
WRITE = "--write-device-baseline"
"""The option that writes a baseline."""
_TESTS_SHOWN = 5


def as_text(findings: Sequence[Finding[str]]) -> str:
    """The whole diagnosis of each."""
    from samedevice.report import finding_text

    return "\n".join(finding_text(finding) for finding in findings).rstrip()


@dataclass(slots=True)
class _Statement:
    """One statement, with everything that ran into it."""

    line: str
    text: str
    tests: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Program:
    """What a baseline has to know of one test; a rerun may tell it twice."""

    found: Counter[tuple[str, ...]] = field(default_factory=Counter)
    absent: list[str] = field(default_factory=list)
    whole: bool = False

    def add(self, note: Notes) -> None:
        self.found |= Counter(tuple(each) for each in note["found"])
        self.whole |= note["whole"]
        self.absent = note["absent"]


class Summary:
    """Collects what the reports carry and lists it at the end, each statement once."""

    def __init__(self, config: pytest.Config, written: Baseline | None) -> None:
        self._config = config
        self._written = written
        """The baseline to write when all has run."""
        self._said: list[str] = []
        self._programs: dict[str, _Program] = {}
        self._statements: dict[tuple[Any, ...], _Statement] = {}
        self._failed: set[str] = set()
        self._ignored: set[tuple[Any, ...]] = set()
        self._problems: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the findings of one test."""
        if report.failed:
            self._failed.add(report.nodeid)
        for notes in getattr(report, "device_notes", ()):
            self._take(notes)

    def _take(self, notes: Notes) -> None:
        self._ignored |= {tuple(each) for each in notes["ignored"]}
        self._problems |= dict.fromkeys(notes["problems"])
        if (own := notes["baseline"]) is not None:
            self._programs.setdefault(own["program"], _Program()).add(own)
        for entry in notes["findings"]:
            found = self._statements.setdefault(
                tuple(entry["statement"]), _Statement(entry["line"], entry["text"])
            )
            if entry["where"] not in found.tests:
                found.tests.append(entry["where"])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the baseline; only the process that has heard of all tests does."""
        baseline = self._written
        if baseline is None or hasattr(session.config, "workerinput") or session.config.option.collectonly:
            return
        from samedevice.errors import UsageError
        from samedevice.report import error_text
        from samedevice.suppression import Identity, updated, write_baseline

        if not self._programs:
            self._said.append(f"{baseline.path} was not written: no test ran on a virtual machine")
            return
        had = {entry.program for entry in baseline.entries}
        for name, program in self._programs.items():
            if program.found or name in had:
                own = [Identity(*each) for each in program.found.elements()]
                baseline = updated(baseline, name, own, whole=program.whole)
        try:
            write_baseline(baseline)
        except UsageError as error:
            self._said.append(error_text(error))
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return
        count = sum(program.found.total() for program in self._programs.values())
        self._said.append(f"wrote the baseline {baseline.path}; findings of all tests: {count}")

    def _absent(self) -> list[str]:
        """Entries of the baseline that no longer occur; where they are written anew there are none."""
        if self._written is not None:
            return []
        lines = [f"{name}: {line}" for name, program in self._programs.items() for line in program.absent]
        if not lines:
            return []
        told = f"entries of the baseline that no longer occur: {len(lines)}; {WRITE} removes them"
        return [*lines, told] if self._config.option.verbose > 0 else [told]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The section: the diagnosis in full unless a failure above shows it."""
        said = [*self._absent(), *self._said]
        if not self._statements and not self._ignored and not said:
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
                f"{_counted(len(self._ignored), 'statement')} ignored, by comments, settings or the baseline"
            )
        for line in said:
            terminalreporter.write_line(line)
        if not self._statements:
            return
        tests = {test for statement in self._statements.values() for test in statement.tests}
        terminalreporter.write_line(
            f"{_counted(len(self._statements), 'statement')} in {_counted(len(tests), 'test')}"
        )


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
