"""What all pages are made of: the frame, GPUs as lanes, findings as cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from samedevice import diagnosis, rulebook
from samedevice.events import Operand, Place
from samedevice.findings import Finding, Fix
from samedevice.messages import Bytes, Language, Phrase, Value
from samedevice.report._render import render, render_finding
from samedevice.report._words import harmless, typed_shape
from samedevice.report.terminal import (
    CONFIDENCES,
    SAFETIES,
    decision_phrase,
    origin_text,
    place_text,
    same_line,
    spelled,
    why_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment

_SIGNS = {"+": "added", "-": "removed", "@": "where"}
"""The first character of a line of a diff, and its class in the style sheet."""
_NAMES = ("--- a/", "+++ b/")
"""How the lines begin in which a diff names its file."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar, with its line in the list below."""

    kind: str
    """Its class in the style sheet."""
    label: str
    amount: str
    share: float = 0.0
    """Percent of the bar; 0 for what the list alone has."""


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of a model on its GPU."""

    names: str
    kind: str
    kept: int
    amounts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """One GPU."""

    device: str
    gpu: str
    total: str
    parts: tuple[Part, ...]
    limit: float | None = None
    """Percent of the bar where its memory ends; None where nothing goes beyond."""
    head: str = ""
    """What stands above the blocks."""
    blocks: tuple[BlockRow, ...] = ()
    moments: tuple[Part, ...] = ()
    """Peaks in the order of time."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled line; `code` is shown as code."""

    label: str
    text: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """One finding."""

    code: str
    name: str
    title: str
    at: Fact | None
    facts: tuple[Fact, ...]
    operands: tuple[dict[str, Any], ...]
    fixes: tuple[dict[str, Any], ...]
    stack: tuple[Fact, ...]


def page(template: str, language: Language, words: Sequence[str], version: str, **values: Any) -> str:
    """A template of ours with its values; `words` are keys of texts that it names."""
    said = {key.rpartition(".")[2]: render(Phrase(key), language) for key in (*words, *_WORDS)}
    made = render(Phrase("page.made", version=version), language)
    return _environment().get_template(template).render(language=language, words=said, made=made, **values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("samedevice.report.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


_WORDS = (
    "page.operand",
    "page.shape",
    "memory.device",
    "page.origin",
    "page.lineage",
    "page.stack",
    "page.wrong",
    "page.nothing",
    "page.findings",
)


def facts(rows: Iterable[tuple[Phrase, Value]], language: Language) -> tuple[Fact, ...]:
    """Labelled lines with their texts; a value that is no phrase is a command or a statement."""
    return tuple(
        Fact(render(label, language), "", harmless(value))
        if isinstance(value, str)
        else Fact(render(label, language), harmless(render(value, language)))
        for label, value in rows
    )


def percent(size: int, whole: int) -> float:
    """A part of a bar, with as many digits as a screen shows."""
    return round(100 * max(size, 0) / whole, 2) if whole else 0.0


def amount(size: int) -> str:
    """An amount of memory; what is missing has a minus."""
    return str(Bytes(size)) if size >= 0 else f"-{Bytes(-size)}"


def cards(findings: Iterable[Finding[str | Phrase]], language: Language) -> tuple[Card, ...]:
    """Findings for the template."""
    return tuple(_card(render_finding(finding, language), language) for finding in findings)


def _card(finding: Finding[str], language: Language) -> Card:
    at = finding.at
    known = any(operand.name != "?" for operand in finding.operands)
    return Card(
        finding.code,
        rulebook.code_of(finding.code).name,
        harmless(finding.title),
        _place(at, language) if at is not None and (at.file or at.code) else None,
        tuple(_facts(finding, language)),
        tuple(_operand(each, finding.guilty, language) for each in finding.operands) if known else (),
        tuple(_fix(fix, language) for fix in finding.fixes),
        tuple(_place(place, language) for place in finding.stack),
    )


def _facts(finding: Finding[str], language: Language) -> Iterator[Fact]:
    """What is said about a finding, in the order of the terminal."""

    def fact(label: str, text: str, code: str = "") -> Fact:
        return Fact(render(Phrase(label), language), harmless(text), code)

    if finding.user_at is not None and not same_line(finding.user_at, finding.at):
        place = _place(finding.user_at, language)
        yield fact("label.called", place.text, place.code)
    if finding.module:
        yield fact("label.module", finding.module)
    if finding.count > 1:
        yield fact("label.count", render(Phrase("times", count=finding.count), language))
    if finding.ranks:
        yield fact("label.ranks", ", ".join(map(str, finding.ranks)))
    if finding.message:
        yield fact("label.message", finding.message)
    for device, held in finding.memory.items():
        amounts = {"allocated": Bytes(held.allocated), "total": Bytes(held.total)}
        yield fact("label.held", render(Phrase("held", device=device, **amounts), language))
    yield fact("label.why", why_text(finding, language))
    told = finding.cause != diagnosis.UNDETERMINED
    if told:
        confidence = render(Phrase(CONFIDENCES[finding.confidence]), language)
        yield fact("label.cause", f"{finding.cause} ({confidence})")
    for reason in finding.reasons:
        yield fact("label.because", reason)
    if finding.candidates:
        yield fact("label.maybe", ", ".join(finding.candidates))
    for note in finding.notes:
        yield fact("label.note", note)
    if finding.cure and not any(fix.diff for fix in finding.fixes):
        yield fact("label.do", finding.cure)
    if finding.ask is not None:
        yield fact("label.ask", finding.ask)
    if finding.versions:
        versions = ", ".join(f"{name} {version}" for name, version in finding.versions.items())
        yield fact("label.versions", versions)
    code = rulebook.page_code(finding.code, finding.cause if told else None)
    yield fact("label.more", "", f"samedevice explain {code}")


def _place(place: Place, language: Language) -> Fact:
    where = place_text(place) if place.file else ""
    if where and place.function:
        where = render(Phrase("at", place=where, function=place.function), language)
    return Fact("", harmless(where), harmless(place.code))


def _operand(operand: Operand, guilty: str | None, language: Language) -> dict[str, Any]:
    return {
        "name": spelled(operand),
        "shape": typed_shape(operand),
        "device": operand.device,
        "origin": origin_text(operand, language),
        "guilty": operand.name == guilty,
        "lineage": [
            Fact(
                step.device,
                harmless(render(decision_phrase(step), language)),
                "" if step.at is None else harmless(step.at.code),
            )
            for step in operand.lineage
        ],
    }


def _fix(fix: Fix[str], language: Language) -> dict[str, Any]:
    said = render(Phrase(SAFETIES[fix.safety]), language)
    if fix.tried is not None:
        said = render(Phrase("tried.said", safety=said, outcome=fix.tried), language)
    return {
        "label": render(Phrase("label.fix"), language),
        "title": harmless(fix.title),
        "said": said,
        "safety": fix.safety,
        "lines": [
            ("where" if line.startswith(_NAMES) else _SIGNS.get(line[:1], "same"), harmless(line))
            for line in (fix.diff or "").splitlines()
        ],
    }
