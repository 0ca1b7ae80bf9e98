"""Findings as SARIF 2.1.0, which code hosts and editors read.

A result stands on the statement of the project that fails, or that leads to the failing one; everything else
that is known of it (where operands were made and moved, the failing line of a library) are related locations.
Rules carry their pages. Findings that were left out are no results: code hosts would open alerts for them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from samedevice import diagnosis, rulebook
from samedevice.events import Place
from samedevice.findings import Confidence, Finding, Fix
from samedevice.messages import SOURCE, Language, Phrase, Value
from samedevice.report._pages import page_text
from samedevice.report._project import path_below, place_in_project
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.terminal import finding_text
from samedevice.suppression import identity_of

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_FINGERPRINT = "samedeviceFinding/v1"
_ROOT = "SRCROOT"
_TAGS: Mapping[Language, str] = {"en": "en-US", "zh": "zh-CN"}
_PRECISION: Mapping[Confidence, str] = {"certain": "very-high", "likely": "high", "guess": "medium"}
_RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def sarif_document(
    findings: Sequence[Finding[Phrase]],
    *,
    version: str,
    command: str,
    root: Path,
    target: str | None = None,
    language: Language = SOURCE,
    exit_code: int = 0,
    successful: bool = True,
) -> dict[str, Any]:
    """The log of one run of `command` (`run`, `preflight`, `explain`) in the project at `root`.

    A finding without a place, such as GPUs that are too small for their ranks, stands on the file `target`.
    """
    rules = _rules(findings)
    index = {rule.code: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    whole = Place(target, 1, "") if target is not None else None
    results = [_result(finding, whole, index, seen, root, language) for finding in findings]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "samedevice",
                        "version": version,
                        "language": _TAGS.get(language, language),
                        "rules": [_descriptor(rule, language) for rule in rules],
                    }
                },
                "automationDetails": {"id": f"samedevice/{command}/"},
                "language": _TAGS.get(language, language),
                "invocations": [{"executionSuccessful": successful, "exitCode": exit_code}],
                "originalUriBaseIds": {_ROOT: {"uri": f"{root.as_uri()}/"}},
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }


def _rules(findings: Sequence[Finding[Phrase]]) -> list[diagnosis.Rule]:
    """The rules of what happened and of its causes, by their codes."""
    found = {finding.code: rulebook.code_of(finding.code) for finding in findings}
    causes = [
        rulebook.rule_named(finding.cause) for finding in findings if finding.cause != diagnosis.UNDETERMINED
    ]
    found |= {rule.code: rule for rule in causes}
    return [found[code] for code in sorted(found)]


def _descriptor(rule: diagnosis.Rule, language: Language) -> dict[str, Any]:
    page = _RELATIVE_LINK.sub(r"\1", page_text(rule, language))  # it leads nowhere outside the documentation
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": render(rule.phrase("title"), language)},
        "fullDescription": {"text": render(rule.phrase("meaning"), language)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["pytorch", "devices"], "problem.severity": "error"},
    }


def _result(
    finding: Finding[Phrase],
    whole: Place | None,
    index: Mapping[str, int],
    seen: Counter[str],
    root: Path,
    language: Language,
) -> dict[str, Any]:
    place = place_in_project(finding, root) or whole
    own = identity_of(finding, root)
    digest = hashlib.sha256("\0".join((own.code, own.file, own.statement, own.operator)).encode()).hexdigest()
    seen[digest] += 1
    related = list(_related(finding, place, root, language))
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": "error",
        "message": {"text": _message(finding, language)},
        "locations": [] if place is None else [_location(place, root)],
        "partialFingerprints": {_FINGERPRINT: f"{digest[:32]}:{seen[digest]}"},
        "occurrenceCount": finding.count,
        "properties": {
            "cause": finding.cause,
            "confidence": finding.confidence,
            "precision": _PRECISION[finding.confidence],
            "candidates": list(finding.candidates),
            "operator": finding.op,
            "ranks": list(finding.ranks),
        },
    }
    if related:
        result["relatedLocations"] = [{"id": number, **each} for number, each in enumerate(related, 1)]
    if fixes := [fix for each in finding.fixes if (fix := _fix(each, finding, root, language)) is not None]:
        result["fixes"] = fixes
    return result


def _message(finding: Finding[Phrase], language: Language) -> str:
    """The diagnosis; its first sentence alone says what happened, for lists that show no more."""
    first, _, rest = finding_text(finding, language).rstrip("\n").partition("\n")
    stop = "" if first.endswith((".", "。")) else "."
    return f"{first}{stop}\n{rest}" if rest else f"{first}{stop}"


def _related(
    finding: Finding[Phrase], place: Place | None, root: Path, language: Language
) -> Iterator[dict[str, Any]]:
    named: list[tuple[Place, Value]] = [
        (each, label)
        for each, label in ((finding.at, Phrase("sarif.fails")), (finding.user_at, Phrase("sarif.leads")))
        if each is not None and each.file and each != place
    ]
    for operand in finding.operands:
        if operand.made is not None and operand.made.file:
            named.append((operand.made, Phrase("sarif.made", operand=operand.name)))
        if operand.moved is not None and operand.moved.file:
            named.append((operand.moved, Phrase("sarif.moved", operand=operand.name)))
    for each, label in named:
        yield {**_location(each, root), "message": {"text": harmless(render(label, language))}}


def _location(place: Place, root: Path) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file, root)}
    if place.line > 0:
        snippet = {"snippet": {"text": place.code}} if place.code else {}
        physical["region"] = {"startLine": place.line, **snippet}
    location: dict[str, Any] = {"physicalLocation": physical}
    if place.function:
        location["logicalLocations"] = [{"name": place.function, "kind": "function"}]
    return location


def _artifact(file: str, root: Path) -> dict[str, Any]:
    inside = path_below(file, root)
    if inside is not None:
        return {"uri": quote(inside), "uriBaseId": _ROOT}
    path = Path(file)
    return {"uri": path.as_uri() if path.is_absolute() else quote(file)}


def _fix(fix: Fix[Phrase], finding: Finding[Phrase], root: Path, language: Language) -> dict[str, Any] | None:
    """A fix whose diff changes the file of the finding, as replacements of whole lines."""
    places = [place for place in (finding.at, finding.user_at) if place is not None]
    changes = []
    for name, hunks in _hunks(fix.diff or ""):
        file = next((place.file for place in places if Path(place.file).name == Path(name).name), None)
        if file is None or not all(count for _, count, _ in hunks):  # lines of an empty file cannot be named
            return None
        changes.append(
            {
                "artifactLocation": _artifact(file, root),
                "replacements": [_replacement(first, count, new) for first, count, new in hunks],
            }
        )
    if not changes:
        return None
    return {"description": {"text": harmless(render(fix.title, language))}, "artifactChanges": changes}


def _replacement(first: int, count: int, new: Sequence[str]) -> dict[str, Any]:
    return {
        "deletedRegion": {"startLine": first, "endLine": first + count - 1},
        "insertedContent": {"text": "\n".join(new)},
    }


def _hunks(diff: str) -> list[tuple[str, list[tuple[int, int, list[str]]]]]:
    """The files of a unified diff, each with (first line, lines, new lines) of its changes."""
    files: list[tuple[str, list[tuple[int, int, list[str]]]]] = []
    old = new = 0
    for line in diff.split("\n"):
        if old + new <= 0:
            if line.startswith("+++ "):
                files.append((line[4:].removeprefix("b/"), []))
            elif (match := _HUNK.match(line)) and files:
                old, new = int(match[2] or 1), int(match[3] or 1)
                files[-1][1].append((int(match[1]), old, []))
        elif line[:1] in (" ", "+", "-"):
            if line[0] != "-":
                files[-1][1][-1][2].append(line[1:])
                new -= 1
            old -= line[0] != "+"
    return files
