"""Why tests of others do not pass on a virtual machine: a file of reasons, and what it leaves open.

A key of a file of reasons is a test, in which `*` stands for anything, or `said: ` and what pytest says of
the test, for all tests of which it says that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SAID_AT_MOST = 150


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended: `passed`, `failed` or `skipped`, and what pytest said."""

    outcome: str
    reason: str
    stand_in: bool = False
    """Whether it opened a stand-in."""


def explained(test: str, outcome: Outcome, known: Iterable[str]) -> str | None:
    """The key of the reason that speaks of this test; one that names the test comes before one that repeats
    what was said.
    """
    keys = [key for key in known if _speaks_of(key, test, outcome)]
    return min(keys, key=lambda key: (key.startswith(_SAID), "*" in key), default=None)


_SAID = "said: "


def _speaks_of(key: str, test: str, outcome: Outcome) -> bool:
    pattern, text = (
        (key.removeprefix(_SAID), _squeezed(outcome.reason)) if key.startswith(_SAID) else (key, test)
    )
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def unaccounted(machine: Mapping[str, Outcome], known: Mapping[str, str], whole: bool = True) -> list[str]:
    """What the file of reasons does not say rightly; a reason without a test is wrong only after a `whole`
    run.
    """
    open_tests = {test: outcome for test, outcome in machine.items() if outcome.outcome != "passed"}
    used = {test: explained(test, outcome, known) for test, outcome in open_tests.items()}
    lines = [
        f"no reason given: {open_tests[test].outcome} {test}: {_one_line(open_tests[test].reason)}"
        for test in sorted(used)
        if not used[test]
    ]
    idle = sorted(set(known) - set(used.values())) if whole else []
    return lines + [f"a reason is given, but no such test is left: {key}" for key in idle]


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _one_line(text: str) -> str:
    line = _squeezed(text)
    return line if len(line) <= _SAID_AT_MOST else line[: _SAID_AT_MOST - 1] + "…"


def told(outcomes: Mapping[str, Outcome], known: Mapping[str, str]) -> list[str]:
    """The reasons that speak of tests that do not pass, one line each with their number."""
    rows: dict[str, list[str]] = {}
    for test, outcome in outcomes.items():
        if outcome.outcome != "passed" and (key := explained(test, outcome, known)):
            rows.setdefault(known[key], []).append(outcome.outcome)
    lines = []
    for reason, seen in rows.items():
        counts = Counter(seen)
        lines.append(f"{counts['failed']:>4} failed {counts['skipped']:>4} skipped  {reason}")
    return lines
