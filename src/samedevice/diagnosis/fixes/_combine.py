"""Changes of whole lines out of unified diffs, and several of them in one text.

Must guarantee: a change is made only where the text has the very lines that its diff takes away; of two that
touch the same lines, the later one is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from samedevice.diagnosis.fixes._source import lines_of

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Change:
    """Lines that stand for others."""

    first: int
    """How many lines stand before the old ones."""
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def end(self) -> int:
        """How many lines stand before what follows the old ones."""
        return self.first + len(self.old)


def changes_of(diff: str) -> tuple[Change, ...]:
    """The changes of a unified diff of one file, without the lines around them."""
    lines = diff.split("\n")
    found: list[Change] = []
    index = 0
    while index < len(lines):
        if (head := _HUNK.match(lines[index])) is None:
            index += 1
            continue
        before, count, after = int(head[1]), int(head[2] or 1), int(head[3] or 1)
        at = before - 1 if count else before
        old: list[str] = []
        new: list[str] = []
        index += 1
        body: list[tuple[str, str]] = []
        while index < len(lines) and (count or after or lines[index].startswith("\\")):
            sign, text = lines[index][:1], f"{lines[index][1:]}\n"
            index += 1
            if sign == "\\":  # of the line above
                body[-1] = (body[-1][0], body[-1][1][:-1])
                continue
            body.append((sign or " ", text))
            count -= sign != "+"
            after -= sign != "-"
        for sign, text in [*body, (" ", "")]:
            if sign == "-":
                old.append(text)
            elif sign == "+":
                new.append(text)
            else:
                if old or new:
                    found.append(Change(at, tuple(old), tuple(new)))
                    at += len(old)
                    old, new = [], []
                at += 1
    return tuple(found)


def changed(text: str, changes: Iterable[Change]) -> str | None:
    """The text with the changes made; None where it has other lines than they take away."""
    lines = text.split("\n")
    lines = [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
    for change in sorted(set(changes), key=lambda each: each.first, reverse=True):
        if tuple(lines[change.first : change.end]) != change.old:
            return None
        lines[change.first : change.end] = change.new
    return "".join(lines)


def in_conflict(some: Iterable[Change], others: Iterable[Change]) -> bool:
    """Whether two sets of changes touch the same lines in different ways."""
    theirs = tuple(others)
    return any(one != other and _touch(one, other) for one in some for other in theirs)


def combined(text: str, diffs: Sequence[str]) -> tuple[str, dict[int, int | None]]:
    """The text with all diffs that go together, and those that do not.

    Those are by their number: with the number of the one that each collides with, None for one that does not
    fit the text at all.
    """
    taken: dict[int, tuple[Change, ...]] = {}
    refused: dict[int, int | None] = {}
    for number, diff in enumerate(diffs):
        changes = changes_of(diff)
        if not changes or changed(text, changes) is None:
            refused[number] = None
            continue
        other = next((known for known, theirs in taken.items() if in_conflict(changes, theirs)), None)
        if other is None:
            taken[number] = changes
        else:
            refused[number] = other
    whole = changed(text, {change for changes in taken.values() for change in changes})
    assert whole is not None, "each fits, and none touches another"
    return whole, refused


def lines_before(old: str, new: str, line: int) -> range:
    """The lines of the old text that a line of the new one stands for, counted from 1."""
    matcher = SequenceMatcher(None, lines_of(old), lines_of(new), autojunk=False)
    for tag, first, last, begin, end in matcher.get_opcodes():
        if begin < line <= end:
            if tag == "equal":
                same = first + line - begin
                return range(same, same + 1)
            return range(first + 1, last + 1)
    return range(line, line + 1)


def _touch(one: Change, other: Change) -> bool:
    if one.first == other.first:
        return True
    first, second = sorted((one, other), key=lambda each: each.first)
    return second.first < first.end
