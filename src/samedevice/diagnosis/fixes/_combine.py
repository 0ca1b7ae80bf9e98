"""Changes of whole lines out of unified diffs, and several of them in one text.

Must guarantee: a change is made only where the text has the very lines that its diff takes away; of two that
touch the same lines in the same place, the later one is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from samedevice.diagnosis.fixes._source import lines_of

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


_ASKED = re.compile(r"\.to\(([\w.\[\]]+)\.device\)")
"""A move to where another tensor is."""


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
                    found += _by_line(Change(at, tuple(old), tuple(new)))
                    at += len(old)
                    old, new = [], []
                at += 1
    return tuple(found)


def _by_line(change: Change) -> list[Change]:
    """A change of as many lines as before, line by line."""
    if len(change.old) != len(change.new):
        return [change]
    pairs = enumerate(zip(change.old, change.new, strict=True))
    return [Change(change.first + at, (old,), (new,)) for at, (old, new) in pairs if old != new]


def changed(text: str, changes: Iterable[Change]) -> str | None:
    """The text with the changes made; None where it has other lines than they take away."""
    lines = text.split("\n")
    lines = [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
    for change in sorted(set(changes), key=lambda each: each.first, reverse=True):
        if tuple(lines[change.first : change.end]) != change.old:
            return None
        lines[change.first : change.end] = change.new
    return "".join(lines)


def combined(text: str, diffs: Sequence[str]) -> tuple[str, dict[int, int | None]]:
    """The text with all diffs that go together, and those that do not.

    Those are by their number: with the number of the one that each collides with, None for one that does not
    fit the text at all. Two that change the same line in different places of it go together.
    """
    taken: dict[int, tuple[Change, ...]] = {}
    refused: dict[int, int | None] = {}
    whole: set[Change] = set()
    for number, diff in enumerate(diffs):
        changes = changes_of(diff)
        if not changes or changed(text, changes) is None:
            refused[number] = None
            continue
        with_these = _joined(whole, changes)
        if with_these is None:
            refused[number] = next(
                known for known, theirs in taken.items() if _joined(set(theirs), changes) is None
            )
            continue
        taken[number], whole = changes, with_these
    result = changed(text, whole)
    assert result is not None, "each fits, and none touches another"
    return result, refused


def _joined(known: set[Change], changes: Iterable[Change]) -> set[Change] | None:
    """Both sets of changes as one; None where two of them cannot both be made."""
    result = set(known)
    for change in changes:
        beside = [each for each in result if each != change and _touch(each, change)]
        if not beside:
            result.add(change)
            continue
        if len(beside) > 1 or (beside[0].first, beside[0].old) != (change.first, change.old):
            return None
        if not change.old:  # both put lines in the same place
            result.remove(beside[0])
            result.add(Change(change.first, (), (*beside[0].new, *change.new)))
            continue
        old = "".join(change.old)
        new = _both(old, "".join(beside[0].new), "".join(change.new))
        if new is None:
            return None
        result.remove(beside[0])
        result.add(Change(change.first, change.old, tuple(lines_of(new))))
    return result


def _both(old: str, one: str, other: str) -> str | None:
    """A text with two changes of it, each of one stretch; None where the stretches meet."""
    first, second = sorted((_stretch(old, one), _stretch(old, other)))
    if one == other or first[1] >= second[0]:
        return one if one == other else None
    (_, _, begin, end, text), (_, _, at, until, more) = first, second
    for named, left in ((text, old[:at]), (more, old[:begin])):
        if (asked := _ASKED.search(named)) is not None and re.search(rf"\b{re.escape(asked[1])}\Z", left):
            return None  # one follows a tensor that the other moves
    return f"{old[:begin]}{text}{old[end:at]}{more}{old[until:]}"


def _stretch(old: str, new: str) -> tuple[int, int, int, int, str]:
    """Where two texts differ: the first and last character that it may be said of, then the stretch of the
    old one from its first character on, and what stands there in the new one.
    """
    most = min(len(old), len(new))
    before = next((at for at in range(most) if old[at] != new[at]), most)
    behind = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    left = most - before  # what follows the first difference, as far as both have it
    end = min(behind, left)
    earliest = min(before, len(old) - behind)
    return earliest, len(old) - end, before, len(old) - end, new[before : len(new) - end]


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
