"""Releases that are known to be broken, from `releases.json`, and the ones that work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._weigh import Verdict
from samedevice.diagnosis.paste import Report
from samedevice.findings import Fix
from samedevice.messages import Phrase


@dataclass(frozen=True, slots=True)
class Release:
    """One row of the table."""

    package: str
    bad: tuple[str, str]
    """The first and the last release that were seen to have the bug; between them it is taken to be there."""
    good: str
    """A release that was seen to work."""
    file: str
    functions: tuple[str, ...]
    cause: str
    source: str
    """Where this is known from."""

    def has(self, release: str) -> bool:
        """Whether a release has the bug; a build of its source before or after it counts as the release."""
        first, last = map(Version, self.bad)
        try:
            return first <= Version(Version(release).base_version) <= last
        except InvalidVersion:
            return False


@cache
def releases() -> tuple[Release, ...]:
    """The table."""
    rows = json.loads(Path(__file__).with_name("releases.json").read_text("utf-8"))
    return tuple(
        Release(
            row["package"],
            (row["bad"][0], row["bad"][1]),
            row["good"],
            row["file"],
            tuple(row["functions"]),
            row["cause"],
            row["source"],
        )
        for row in rows
    )


def releases_of_event(failure: Failure, verdict: Verdict) -> list[Fix[Phrase]]:
    """A release to install when the failing file, function and version are in the table."""
    event = failure.event
    return _fixes(event.at.file, event.at.function, dict(event.versions), verdict)


def releases_for(report: Report, verdict: Verdict) -> tuple[Fix[Phrase], ...]:
    """The same for a pasted text; without a version the row is offered as something to compare."""
    if report.at is None or report.at.file is None:
        return ()
    return tuple(_fixes(report.at.file, report.at.function or "", report.versions, verdict))


def _fixes(file: str, function: str, versions: dict[str, str], verdict: Verdict) -> list[Fix[Phrase]]:
    path, name, found = f"/{file.replace(chr(92), '/')}", function.rpartition(".")[2], []
    for row in releases():
        if not path.endswith(f"/{row.file}") or name not in row.functions:
            continue
        # A whole forward has many statements; there the cause must agree, too.
        if name == "forward" and row.cause not in (
            verdict.cause,
            *(each.rule.name for each in verdict.candidates),
        ):
            continue
        installed = versions.get(row.package)
        values = {"package": row.package, "good": row.good, "source": row.source}
        if installed is None:
            bad = row.bad[0] if row.bad[0] == row.bad[1] else f"{row.bad[0]}-{row.bad[1]}"
            found.append(Fix(Phrase("fix.release-maybe", bad=bad, **values), "check"))
        elif row.has(installed):
            found.append(Fix(Phrase("fix.release", version=installed, **values), "check"))
    return found
