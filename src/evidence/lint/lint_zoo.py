"""Lint flags the faulty statement of at least half of the released bugs, without running anything.

Time: a minute; half an hour the first time.
Needs: PyPI the first time, for old releases.

    python -m evidence lint-zoo             # the totals of each part, and the cases of the first part
    python -m evidence lint-zoo --seen      # the cases of the seen half as well

The failing statement is often not the faulty one. So a bug counts as flagged when, in the file in which it
fails, a finding stands on the failing statement, or names it as where its tensors meet, or stands on a
statement that the repaired release no longer has that finding on. Which cases of the unseen half are flagged
is not printed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.zoo.zoo import FIRST, PARTS, SEEN, Case, cases
from samedevice.findings import Finding
from samedevice.lint import Options, check_file, chosen_rules
from samedevice.messages import Phrase

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


def judged(case: Case) -> Row:
    """Lint the file in which a case fails, of the faulty release and of the repaired one."""
    bad, good = (_findings(case, way) for way in ("bad", "good"))
    first, last = case.expect["lines"]
    failing = [each.code for each in bad if any(first <= line <= last for line in _lines(each))]
    left = [_known(each) for each in good]
    repaired = []
    for each in bad:
        if _known(each) in left:
            left.remove(_known(each))
        else:
            repaired.append(each.code)
    return Row(case, tuple(failing), tuple(repaired))


def _findings(case: Case, way: str) -> list[Finding[Phrase]]:
    path = _file(case, way)
    return [] if path is None else list(check_file(path, EVERY).findings)


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
    told = [value for reason in finding.reasons for name, value in reason.values if name == "line"]
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
    rows = [judged(case) for case in every]
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
