"""What a suite decided not to be told again; each test is a program of the baseline, by its node id.

Must guarantee: what a baseline leaves out does not depend on which other tests ran, in which order, or in
which worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from samedevice.diagnosis import code_of
from samedevice.errors import UsageError
from samedevice.findings import Finding
from samedevice.pytest_plugin._summary import WRITE, Notes
from samedevice.report import (
    error_text,
    finding_text,
    gone_lines,
    problem_lines,
    render_finding,
    short_path,
)
from samedevice.settings import Settings, find_settings
from samedevice.suppression import Baseline, Decisions, Found, Sifted, baseline_to_use, sift

IMPORTS = "pytest"
"""The program that findings belong to while the tests are imported."""


def program_of(item: pytest.Item) -> str:
    """A test as the baseline knows it."""
    return f"pytest {item.nodeid}"


@dataclass(frozen=True, slots=True)
class Left:
    """What was found in a test, parted by what the suite decided."""

    told: tuple[Finding[str], ...]
    ignored: tuple[Finding[str], ...]
    problems: tuple[str, ...]
    """Comments that leave nothing out because they cannot be understood."""
    baseline: Notes | None
    """What the baseline may become by this test, as plain data for a report; None without a baseline."""


@dataclass(frozen=True, slots=True)
class Known:
    """The settings of the project and the baseline of the suite."""

    settings: Settings
    baseline: Baseline | None
    write: bool
    """Whether the baseline is written instead of held against."""

    def left(self, found: Sequence[Found], program: str, *, whole: bool) -> Left:
        """Part what was found in a program, which ran to its end where `whole` is true."""
        sifted = sift(found, Decisions(self.settings.ignore, self.baseline), program)
        told = tuple(render_finding(finding) for finding in sifted.findings)
        ignored = tuple(render_finding(each.finding) for each in sifted.ignored)
        problems = tuple(problem_lines(sifted))
        if self.write:
            told, ignored = (), (*told, *ignored)
        return Left(told, ignored, problems, self._note(sifted, program, whole))

    def _note(self, sifted: Sifted, program: str, whole: bool) -> Notes | None:
        if self.baseline is None:
            return None
        own = sifted.identities(self.baseline)
        return {
            "program": program,
            "whole": whole,
            "found": [[each.code, each.file, each.statement, each.operator] for each in own],
            "absent": gone_lines(sifted.absent) if whole else [],
        }


def read_known(config: pytest.Config) -> Known:
    """Read the settings and the baseline of a suite; raises `pytest.UsageError` for what is wrong there."""
    given, write = config.option.device_baseline, config.option.write_device_baseline
    try:
        settings = find_settings(config.rootpath)
        path = Path(given).absolute() if given else settings.baseline  # absolute: tests change the folder
        if path is None:
            if write:
                raise pytest.UsageError(
                    f"samedevice: {WRITE} needs --device-baseline FILE, or baseline in [tool.samedevice]"
                )
            return Known(settings, None, False)
        return Known(settings, baseline_to_use(path, write=write, option=WRITE), write)
    except UsageError as error:
        raise pytest.UsageError(f"samedevice: {error_text(error)}") from None


def notes_of(left: Left, where: str) -> Notes:
    """What a test, or what `where` names, has to tell."""
    return {
        "findings": [_entry(finding, where) for finding in left.told],
        "ignored": [_statement_of(finding) for finding in left.ignored],
        "problems": list(left.problems),
        "baseline": left.baseline,
    }


def _entry(finding: Finding[str], where: str) -> Notes:
    return {
        "where": where,
        "line": _line(finding),
        "text": finding_text(finding).rstrip(),
        "count": finding.count,
        "statement": _statement_of(finding),
    }


def _statement_of(finding: Finding[str]) -> list[Any]:
    """What tells a finding's statement from others."""
    at = finding.at
    return [finding.code, finding.op, *((at.file, at.line, at.function) if at else ())]


def _line(finding: Finding[str]) -> str:
    place = (
        f" ({short_path(finding.at.file)}:{finding.at.line} in {finding.at.function})" if finding.at else ""
    )
    return f"{finding.code} {code_of(finding.code).name}: {finding.title}{place}"
