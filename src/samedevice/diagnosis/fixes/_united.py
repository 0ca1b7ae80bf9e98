"""One change for all findings that one mistake gave.

A tensor on the wrong device is met by several statements, and each of them is a finding with a fix of its
own; a person wants the whole repair in one piece. Must guarantee: what is united are fixes that each finding
has anyway, and nothing is called safe that one of them is not.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from samedevice.diagnosis.fixes._combine import combined
from samedevice.diagnosis.fixes._edit import file_diff
from samedevice.diagnosis.fixes._source import Script
from samedevice.events import Decision, Operand, Place
from samedevice.findings import Finding, Fix
from samedevice.messages import Phrase, Several, Value

_MOST_NAMED = 3
"""Changes that the title of a united fix names; the diff has all."""


def united(findings: Sequence[Finding[Phrase]]) -> list[Finding[Phrase]]:
    """The findings; those of one mistake whose first fixes change several places of a file have one more in
    front, which changes them all.
    """
    result = list(findings)
    for members in _of_one_mistake(findings):
        whole = _whole([findings[at].fixes[0] for at in members])
        for at in members if whole is not None else ():
            fixes = (whole, *findings[at].fixes) if whole is not None else ()
            result[at] = replace(findings[at], fixes=fixes)
    return result


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
    guilty: Operand | None = next((each for each in finding.operands if each.name == finding.guilty), None)
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
    named = list(dict.fromkeys(fix.title for fix in different))
    titles: list[Value] = [*named[:_MOST_NAMED]]
    if len(named) > _MOST_NAMED:
        titles.append(Phrase("note.more", count=len(named) - _MOST_NAMED))
    title = Phrase("fix.united", count=len(different), fixes=Several(tuple(titles)))
    sure = all(fix.safety == "safe" for fix in different)
    return Fix(title, "safe" if sure else "check", diff, file)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
