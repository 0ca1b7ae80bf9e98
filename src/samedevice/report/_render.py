"""Phrases as text: the one place where what was found gets a language."""

from __future__ import annotations

from samedevice.errors import SameDeviceError
from samedevice.messages import SOURCE, Bytes, Language, Phrase, Render, Several, Value, catalogue
from samedevice.report._words import bytes_text


def render(phrase: Phrase, language: Language = SOURCE) -> str:
    """The sentence of a phrase, filled with its values."""
    return catalogue(language)[phrase.key].format_map(
        {name: _text(value, language) for name, value in phrase.values}
    )


def renderer(language: Language) -> Render:
    """What renders in this language."""
    return lambda phrase: render(phrase, language)


def error_text(error: SameDeviceError, language: Language = SOURCE) -> str:
    """What an error of ours says; one that was raised below has a phrase in place of text."""
    said = error.args[0] if error.args else ""
    return render(said, language) if isinstance(said, Phrase) else str(error)


def _text(value: Value, language: Language) -> str | int | float:
    if isinstance(value, Phrase):
        return render(value, language)
    if isinstance(value, Several):
        return _joined([str(_text(part, language)) for part in value.parts], value.joint, language)
    return bytes_text(value.count) if isinstance(value, Bytes) else value


def _joined(parts: list[str], joint: str, language: Language) -> str:
    sentences = catalogue(language)
    if joint == "and" and len(parts) > 1:
        *most, last = parts
        return f"{sentences['list.comma'].join(most)}{sentences['list.and']}{last}"
    between = "" if joint == "none" else sentences["list.comma" if joint == "and" else f"list.{joint}"]
    return between.join(parts)
