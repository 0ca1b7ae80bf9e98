"""One change for all findings that one mistake gave.

A tensor on the wrong device is met by several statements, and each of them is a finding with a fix of its
own; a person wants the whole repair in one piece. Must guarantee: what is united are fixes that each finding
has anyway, and nothing is called safe that one of them is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from samedevice.diagnosis.fixes._combine import changes_of, combined
from samedevice.diagnosis.fixes._edit import file_diff
from samedevice.diagnosis.fixes._source import Script
from samedevice.events import Decision, Operand, Place
from samedevice.findings import Finding, Fix
from samedevice.messages import Phrase, Several, Value
from samedevice.provenance.syntax import tree_of

_MOST_NAMED = 3
"""Changes that the title of a united fix names; the diff has all."""


def with_others(fixes: Sequence[Fix[Phrase]], others: Iterable[Sequence[Fix[Phrase]]]) -> list[Fix[Phrase]]:
    """A finding's fixes, with one in front that mends other expressions of its statement, too; `others` are
    those of expressions that meet another tensor.
    """
    first = [each[0] for each in (fixes, *others) if each and each[0].diff is not None and each[0].file]
    here = [each for each in first if each.file == first[0].file]
    whole = _whole(here) if fixes and fixes[0] in here and len(here) > 1 else None
    return [*fixes] if whole is None else [whole, *fixes]


def united(findings: Sequence[Finding[Phrase]]) -> list[Finding[Phrase]]:
    """The findings; those of one mistake whose first fixes change several places of a file have one more in
    front, which changes them all.
    """
    result = list(findings)
    for members in _of_one_mistake(findings):
        needed = _needed(findings, members)
        first = [findings[at].fixes[0] for at in needed]
        # the others are gone with one
        whole = first[0] if len({each.diff for each in first}) == 1 else _whole(first)
        for at in members if whole is not None else ():
            fixes = [each for each in (whole, *findings[at].fixes) if each is not None]
            result[at] = replace(findings[at], fixes=tuple(dict.fromkeys(fixes)))
    return result


def _needed(findings: Sequence[Finding[Phrase]], members: Sequence[int]) -> list[int]:
    """The members whose changes are needed; one is left out only for the sake of one that stays."""
    kept: list[int] = []
    for at in sorted(members, key=lambda at: not (_at_decision(findings[at]) or _for_good(findings[at]))):
        if not any(_gone(findings[at], findings[on]) for on in kept):
            kept.append(at)
    return sorted(kept)


def _gone(finding: Finding[Phrase], with_fix_of: Finding[Phrase]) -> bool:
    """Whether a finding needs no change of its own beside the first fix of another one."""
    if _follows(finding, with_fix_of):
        return True
    own, other = _decision(finding), _decision(with_fix_of)
    same = own is not None and other is not None and bool(own.order) and own.order == other.order
    if own is not None and other is not None and own.kind == other.kind == "loaded":
        if own.at == other.at and _at_decision(with_fix_of):
            return True  # out of one file
    if same and with_fix_of.fixes[0].title.key in _OF_ATTRIBUTE and not _at_decision(with_fix_of):
        same = bool(_names(finding) & _names(with_fix_of))  # two were computed from one
    return (same or _of_one_module(finding, with_fix_of)) and (
        _at_decision(with_fix_of) or _for_good(with_fix_of)
    )


_OF_ATTRIBUTE = ("fix.moved-once", "fix.kept-on")
"""Changes that move what one attribute holds, whatever else was computed from the same tensor."""


def _names(finding: Finding[Phrase]) -> set[str]:
    """What the blamed tensor is called, and what it was computed from on its device."""
    blamed = _guilty(finding)
    parts = () if blamed is None else (each for each in blamed.ingredients if each.device == blamed.device)
    return {each for each in (blamed and blamed.local, *(part.name for part in parts)) if each}


def _of_one_module(finding: Finding[Phrase], other: Finding[Phrase]) -> bool:
    """Whether both blame weights of one module, and the fix of the other one moves all that it has."""
    blamed = [_guilty(finding), _guilty(other)]
    owners = {(each.parameter or "").rpartition(".")[0] for each in blamed if each is not None and each.role}
    whole = other.fixes[0].title.key in ("fix.model-to", "fix.attached")
    return whole and len(owners) == 1 and all(each is not None and each.role for each in blamed)


def _at_decision(finding: Finding[Phrase]) -> bool:
    """Whether the first fix changes the line that put the tensor where it is."""
    decision = _decision(finding)
    place = None if decision is None else decision.at
    return place is not None and changes_line(finding.fixes[0], place)


def _for_good(finding: Finding[Phrase]) -> bool:
    """Whether the first fix moves the tensor itself, for all that read it later, and no copy for one use."""
    return finding.fixes[0].title.key in (
        "fix.moved-once",
        "fix.kept-on",
        "fix.not-sent",
        "fix.asked-for",
        "fix.model-to",
        "fix.attached",
    ) or (finding.fixes[0].title.key == "fix.input-to" and finding.fixes[0].safety == "safe")


def changes_line(fix: Fix[Phrase], place: Place) -> bool:
    """Whether a fix changes a line."""
    changes = changes_of(fix.diff or "") if place.file == fix.file else ()
    return any(each.first < place.line <= each.end for each in changes)


def _follows(finding: Finding[Phrase], first: Finding[Phrase]) -> bool:
    """Whether a finding blames what the statement of another one computed, on the device where that one's
    wrong tensor is: it is there since the run went on after that one.
    """
    wrong, cause, at = _guilty(finding), _guilty(first), first.at
    if wrong is None or cause is None or at is None or finding.at == at:
        return False
    beside = [each for each in finding.operands if each.dtype and each.device == cause.device]
    if beside and wrong not in beside and all(_computed_at(each, at) for each in beside):
        return True
    elsewhere = bool(at.call) or finding.at is None or finding.at.line != at.line
    return _computed_at(wrong, at) and elsewhere and wrong.device == cause.device


def _computed_at(operand: Operand, at: Place) -> bool:
    """Whether a statement computed an operand, or what the operand was computed from on its device."""
    parts = (each.made for each in operand.ingredients if each.device == operand.device and each.role is None)
    return any(
        made is not None
        and (made.file, made.line) == (at.file, at.line)
        and at.call in (made.call or made.code)
        for made in (operand.made, *parts)
    )


def _guilty(finding: Finding[Phrase]) -> Operand | None:
    return next((each for each in finding.operands if each.name == finding.guilty), None)


def _of_one_mistake(findings: Sequence[Finding[Phrase]]) -> list[list[int]]:
    """Numbers of findings that belong together, of those whose first fix changes a file."""
    groups: list[list[int]] = []
    for number, finding in enumerate(findings):
        if not finding.fixes or finding.fixes[0].diff is None or finding.fixes[0].file is None:
            continue
        near = [group for group in groups if any(_related(finding, findings[at]) for at in group)]
        groups = [group for group in groups if group not in near]
        groups.append(sorted([number, *(at for group in near for at in group)]))
    return [group for group in groups if len(group) > 1]


def _related(one: Finding[Phrase], other: Finding[Phrase]) -> bool:
    """Whether one decision put both tensors where they are; or they have the same cause and were put there by
    one function, or are used in one.
    """
    if one.fixes[0].file != other.fixes[0].file:
        return False
    first, second = _decision(one), _decision(other)
    if first is not None and second is not None and first.order and first.order == second.order:
        return True
    if one.cause != other.cause:
        return False
    places = [None if each is None else each.at for each in (first, second)]
    return _in_one_function(*places) or _in_one_function(one.at, other.at)


def _decision(finding: Finding[Phrase]) -> Decision | None:
    """The newest decision about the tensor that a finding blames."""
    guilty = _guilty(finding)
    return None if guilty is None else guilty.decision


def _in_one_function(one: Place | None, other: Place | None) -> bool:
    return one is not None and other is not None and (one.file, one.function) == (other.file, other.function)


def _whole(fixes: Sequence[Fix[Phrase]]) -> Fix[Phrase] | None:
    """All changes in one; None where they do not go together, or are one already."""
    different = list({fix.diff: fix for fix in fixes if fix.diff is not None}.values())
    file = fixes[0].file
    if len(different) < 2 or file is None or (script := Script.read(file)) is None:
        return None
    text, refused = combined(script.source, [fix.diff or "" for fix in different])
    if refused or not _parses(text) or (diff := file_diff(Path(file), script.source, text)) is None:
        return None
    named = list(dict.fromkeys(part for fix in different for part in _parts(fix.title)))
    titles: list[Value] = [*named[:_MOST_NAMED]]
    if len(named) > _MOST_NAMED:
        titles.append(Phrase("note.more", count=len(named) - _MOST_NAMED))
    whole = Phrase("fix.united", count=len(named), fixes=Several(tuple(titles), "clause"))
    title = named[0] if len(named) == 1 and isinstance(named[0], Phrase) else whole
    sure = all(fix.safety == "safe" for fix in different)
    return Fix(title, "safe" if sure else "check", diff, file)


def _parts(title: Phrase) -> tuple[Value, ...]:
    """What a title names, one by one."""
    parts = dict(title.values).get("fixes") if title.key == "fix.united" else None
    return parts.parts if isinstance(parts, Several) else (title,)


def _parses(text: str) -> bool:
    try:
        tree_of(text)
    except (SyntaxError, ValueError):
        return False
    return True
