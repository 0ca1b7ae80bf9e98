"""A sentence at once, for `preflight`, which does not return phrases yet."""

from __future__ import annotations

from samedevice.messages._catalogue import Language, catalogue
from samedevice.messages._phrase import Phrase, Several, Value


def say(key: str, language: Language, **values: object) -> str:
    """The sentence of `key` in `language`, filled with `values`."""
    filled = {
        name: said(value, language) if isinstance(value, (Phrase, Several)) else value
        for name, value in values.items()
    }
    return catalogue(language)[key].format_map(filled)


def said(value: Value, language: Language) -> str:
    """A value as text."""
    match value:
        case Phrase(key, values):
            return say(key, language, **dict(values))
        case Several(parts, joint):
            between = "" if joint == "none" else catalogue(language)[f"list.{joint}"]
            return between.join(said(part, language) for part in parts)
    return str(value)
