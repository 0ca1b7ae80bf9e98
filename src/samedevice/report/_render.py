"""Phrases as text: the one place where what was found gets a language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from samedevice import doctor, rulebook
from samedevice.errors import SameDeviceError
from samedevice.findings import Finding, Fix
from samedevice.messages import SOURCE, Language, Phrase, Several, Value, catalogue


def render(value: Value, language: Language = SOURCE) -> str:
    """The sentence of a phrase, filled with its values; text stays as it is."""
    match value:
        case Phrase(key, values):
            filled = {name: render(each, language) for name, each in values}
            return _BETWEEN_CHINESE.sub("", _sentence(key, language).format_map(filled))
        case Several(parts, joint):
            return _joined([render(part, language) for part in parts], joint, language)
    return str(value)


def render_finding(finding: Finding[str | Phrase], language: Language = SOURCE) -> Finding[str]:
    """The finding with its texts, as the public interface gives it away."""
    return Finding(
        **{name: getattr(finding, name) for name in finding.__slots__ if name not in _TEXTS},
        title=render(finding.title, language),
        notes=tuple(render(note, language) for note in finding.notes),
        reasons=tuple(render(reason, language) for reason in finding.reasons),
        cure=None if finding.cure is None else render(finding.cure, language),
        ask=None if finding.ask is None else render(finding.ask, language),
        fixes=tuple(_fix(fix, language) for fix in finding.fixes),
    )


def _fix(fix: Fix[str | Phrase], language: Language) -> Fix[str]:
    tried = None if fix.tried is None else render(fix.tried, language)
    return Fix(render(fix.title, language), fix.safety, fix.diff, fix.file, tried)


@contextmanager
def worded_errors(language: Language = SOURCE) -> Iterator[None]:
    """Errors of ours leave this block with text."""
    try:
        yield
    except SameDeviceError as error:
        error.args = (error_text(error, language), *error.args[1:])
        raise


def error_text(error: BaseException, language: Language = SOURCE) -> str:
    """What an error says; one of ours that was raised below has a phrase in place of text."""
    said = error.args[0] if isinstance(error, SameDeviceError) and error.args else None
    return render(said, language) if isinstance(said, Phrase) else str(error)


_BETWEEN_CHINESE = re.compile(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")
"""A space that a sentence has for a word in Latin letters, where the value is Chinese as well."""
_TEXTS = ("title", "notes", "reasons", "cure", "ask", "fixes")


def _sentence(key: str, language: Language) -> str:
    """A catalogue may have the sentences of a rule or a check, too; else its own file has them."""
    sentences = catalogue(language)
    if key.startswith("rules.") and key not in sentences:
        return rulebook.sentence_of_rule(key, language)
    if key.startswith("checks.") and key not in sentences:
        return doctor.sentence_of_check(key, language)
    return sentences[key]


def _joined(parts: list[str], joint: str, language: Language) -> str:
    if joint == "none":
        return "".join(parts)
    sentences = catalogue(language)
    between = sentences["list.clause" if joint == "clause" else "list.comma"]
    if joint != "and" or len(parts) < 2:
        return between.join(parts)
    return f"{between.join(parts[:-1])}{sentences['list.and']}{parts[-1]}"
