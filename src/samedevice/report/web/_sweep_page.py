"""A sweep as a page: root causes, and models by machines and actions with links to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from samedevice.messages import Language, Phrase
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.sweep import full_phrases, parts_of, seen_phrase, since_text, untried
from samedevice.report.web._page import facts, page
from samedevice.sweep import Compared, Swept, Target

_WORDS = ("sweep.page-roots", "sweep.page-models", "sweep.page-not")


@dataclass(frozen=True, slots=True)
class _Cell:
    """A model with one action on one machine."""

    text: str
    roots: tuple[int, ...]
    """Numbers of the root causes that it met."""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    reason: str
    cells: tuple[_Cell, ...]


def sweep_page(swept: Swept, language: Language, *, version: str, compared: Compared | None = None) -> str:
    """The page of a sweep; every value is escaped."""
    columns = sorted({_column(run) for target in swept.targets for run in target.of_kind("run")})
    number_of = {s: n for n, root in enumerate(swept.roots, 1) for s in root.statements}
    reasons = dict(untried(swept))
    state = Phrase("sweep.page-found", count=len(swept.roots)) if swept.roots else Phrase("sweep.page-clean")
    release = swept.versions.get(swept.package, "")
    title = Phrase("sweep.page-title", package=swept.package, version=release)
    scripts = swept.scripts
    return page(
        "sweep.html",
        language,
        _WORDS,
        version,
        title=render(title, language),
        state=render(state, language),
        good=not swept.roots,
        head=facts([(Phrase("label.versions"), _versions(swept))], language),
        roots=[
            {
                "key": harmless(root.key),
                "seen": render(seen_phrase(root), language),
                "classes": [harmless(name) for name in root.targets],
                "full": [render(phrase, language) for phrase in full_phrases(root, language)],
                "statements": [harmless(each) for each in root.statements],
                "code": harmless((root.document.get("at") or {}).get("code") or ""),
                "operands": [
                    _operand(each, root.document.get("guilty")) for each in root.document["operands"]
                ],
                "script": next((scripts[each] for each in root.statements if each in scripts), ""),
            }
            for root in swept.roots
        ],
        changes=[] if compared is None else _changes(swept, compared, language),
        columns=columns,
        rows=[_row(target, columns, number_of, reasons, language) for target in swept.targets],
    )


def _changes(swept: Swept, compared: Compared, language: Language) -> list[dict[str, Any]]:
    """What two releases differ in; root causes of the page with their numbers on it."""
    numbers = {root.key: number for number, root in enumerate(swept.roots, 1)}
    return [
        {
            "title": render(phrase, language),
            "roots": [
                {
                    "key": harmless(root.key),
                    "number": numbers.get(root.key),
                    "classes": [harmless(name) for name in root.targets],
                    "since": since_text(compared, root, language),
                }
                for root in roots
            ],
        }
        for phrase, roots in parts_of(compared)
    ]


def _versions(swept: Swept) -> str:
    return ", ".join(f"{name} {version}" for name, version in swept.versions.items())


def _column(run: Mapping[str, Any]) -> str:
    return f"{run['action']}, {run['machine']}"


def _operand(operand: Mapping[str, Any], guilty: str | None) -> dict[str, Any]:
    shape = f"{operand['dtype']} {list(operand['shape'] or ())}"
    name = harmless(str(operand["name"]))
    return {"name": name, "shape": shape, "device": operand["device"], "guilty": operand["name"] == guilty}


def _row(
    target: Target,
    columns: list[str],
    number_of: Mapping[str, int],
    reasons: Mapping[str, str],
    language: Language,
) -> _Row:
    met: dict[str, set[int]] = {column: set() for column in columns}
    ran: dict[str, Phrase] = {}
    for run in target.of_kind("run"):
        column = _column(run)
        met[column] |= {number_of[each] for each in run["statements"] if each in number_of}
        if run["status"] in ("ran", "found"):
            ran[column] = Phrase("sweep.page-ran")
        elif run["status"] == "failed":
            ran.setdefault(column, Phrase("sweep.page-failed"))
    cells = [
        _Cell(render(ran[column], language) if column in ran else "", tuple(sorted(met[column])))
        for column in columns
    ]
    reason = reasons.get(target.name, "" if any(target.of_kind("built")) else target.how)
    return _Row(harmless(target.name.rpartition(":")[2]), harmless(reason), tuple(cells))
