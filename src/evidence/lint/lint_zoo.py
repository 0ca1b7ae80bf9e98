"""Lint flags the faulty statement of at least half of the released bugs, without running anything.

Time: a minute; half an hour the first time.
Needs: PyPI the first time, for old releases.

    python -m evidence lint-zoo             # the totals of each part, and the cases of the first part
    python -m evidence lint-zoo --seen      # the cases of the seen half as well

The failing statement is often not the faulty one. So a bug counts as flagged when, in the file in which it
fails, a finding stands on the failing statement, or names it as where its tensors meet, or stands on a
statement that the repaired release no longer has that finding on; or when, in another file that the repaired
release has changed, a finding names the failing statement by its file and line. Which cases of the unseen
half are flagged is not printed.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.zoo.zoo import FIRST, PARTS, SEEN, Case, cases
from samedevice.findings import Finding
from samedevice.lint import Linter, Options, chosen_rules
from samedevice.messages import Phrase
from samedevice.static.tensors import MAKERS

GOAL = 0.5
EVERY = Options(select=("ALL",), fixes=False)
USUAL = frozenset(rule.code for rule in chosen_rules(Options()))


@dataclass(frozen=True, slots=True)
class Row:
    """A case with what lint says of it."""

    case: Case
    failing: tuple[str, ...]
    """Codes of findings on the failing statement, or that name it."""
    repaired: tuple[str, ...]
    """Codes of findings that the repaired release no longer has."""

    @property
    def flagged(self) -> bool:
        """Whether the bug is seen."""
        return bool(self.failing or self.repaired)

    def of_rules(self, codes: Container[str]) -> Row:
        """What these rules alone say."""
        failing, repaired = (
            tuple(code for code in told if code in codes) for told in (self.failing, self.repaired)
        )
        return Row(self.case, failing, repaired)


def judged(case: Case, linter: Linter) -> Row:
    """Lint the file in which a case fails, of the faulty release and of the repaired one; of the faulty one
    also other files that the repair may have changed, for findings that name the failing statement.
    """
    bad, good = (_findings(case, way, linter) for way in ("bad", "good"))
    first, last = case.expect["lines"]
    failing = [each.code for each in bad if any(first <= line <= last for line in _lines(each))]
    beside = [each for path in _changed(case) for each in linter.check(path).findings]
    at = range(first, last + 1)
    failing += [each.code for each in beside if not _named_at(each).isdisjoint((_name(case), n) for n in at)]
    left = [_known(each) for each in good]
    repaired = []
    for each in bad:
        if _known(each) in left:
            left.remove(_known(each))
        else:
            repaired.append(each.code)
    return Row(case, tuple(failing), tuple(repaired))


def _findings(case: Case, way: str, linter: Linter) -> list[Finding[Phrase]]:
    path = _file(case, way)
    return [] if path is None else list(linter.check(path).findings)


def _name(case: Case) -> str:
    return str(case.expect["file"])


def _named_at(finding: Finding[Phrase]) -> set[tuple[str, int]]:
    """The lines of other files that the reasons of a finding name."""
    told = [dict(reason.values) for reason in finding.reasons]
    return {(str(each["file"]), int(str(each["line"]))) for each in told if "file" in each}


def _changed(case: Case) -> list[Path]:
    """The other files of the faulty release that make or send tensors and are not the same in the repaired
    release; none where so many are that they say nothing of the bug.
    """
    bad, good = _file(case, "bad"), _file(case, "good")
    if bad is None or good is None or bad == case.script:
        return []
    depth = len(Path(_name(case)).parts)
    roots = bad.parents[depth - 1], good.parents[depth - 1]
    package = roots[0] / Path(_name(case)).parts[0]
    found = []
    for path in sorted(package.rglob("*.py")) if package.is_dir() else ():
        other = roots[1] / path.relative_to(roots[0])
        if path != bad and other.is_file() and path.read_bytes() != other.read_bytes():
            found.append(path)
    making = [path for path in found if _MAY_MAKE.search(path.read_text("utf-8", "replace"))]
    return making if len(making) <= _MOST_CHANGED else []


_MAY_MAKE = re.compile(rf"\b({'|'.join(sorted(MAKERS))})\(|\.cuda\(")
_MOST_CHANGED = 40
"""Other files that are read of a release; of one that changed more, none is."""


def _file(case: Case, way: str) -> Path | None:
    """The file of a release in which the case fails; one of the case's own script is the same both ways."""
    ending = case.expect["file"]
    for name, version in case.pins[way].items():
        path: Path = overlays.overlay_folder(name, version) / ending
        if path.is_file():
            return path
    return case.script if case.script.name == Path(ending).name else None


def _lines(finding: Finding[Phrase]) -> list[int]:
    """The line of a finding, and those that its reasons name."""
    here = [dict(reason.values) for reason in finding.reasons]
    told = [each["line"] for each in here if "line" in each and "file" not in each]
    own = [] if finding.at is None else [finding.at.line]
    return [*own, *(int(str(value)) for value in told)]


def _known(finding: Finding[Phrase]) -> tuple[str, str, str]:
    """By what a finding is known again in another release."""
    place = finding.at
    return (finding.code, place.function, place.code) if place is not None else (finding.code, "", "")


def totals(rows: Iterable[Row]) -> str:
    """How many are flagged."""
    every = list(rows)
    flagged = sum(row.flagged for row in every)
    exact = sum(bool(row.failing) for row in every)
    share = 100 * flagged / max(1, len(every))
    return f"{flagged}/{len(every)} flagged ({share:.0f} %), {exact} at the failing statement or naming it"


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 where the goal is reached over all cases."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--seen", action="store_true", help="print the cases of the seen half as well")
    options = parser.parse_args(arguments)
    every = cases()
    overlays.ensure_all(pins for case in every for pins in case.pins.values())
    linter = Linter(EVERY)
    rows = [judged(case, linter) for case in every]
    usual = [row.of_rules(USUAL) for row in rows]
    for row in rows:
        if row.case.part == FIRST or (options.seen and row.case.part == SEEN):
            codes = ", ".join(dict.fromkeys((*row.failing, *row.repaired))) or "-"
            print(f"{row.case.id:40} {codes}")
    for title, told in (("all rules", rows), ("rules that are on by default", usual)):
        print(f"\n{title}")
        for part in PARTS:
            print(f"  {part:7} {totals(row for row in told if row.case.part == part)}")
        print(f"  all     {totals(told)}")
    return 0 if sum(row.flagged for row in rows) >= GOAL * len(rows) else 1
