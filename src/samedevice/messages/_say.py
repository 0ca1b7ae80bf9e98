"""A sentence at once, for the layers that do not return phrases yet."""

from __future__ import annotations

from collections.abc import Sequence

from samedevice.messages._catalogue import Language, catalogue


def say(key: str, language: Language, **values: object) -> str:
    """The sentence of `key` in `language`, filled with `values`."""
    return catalogue(language)[key].format_map(values)


def enumerate_words(words: Sequence[str], language: Language) -> str:
    """`a`, `a and b`, `a, b and c`."""
    sentences = catalogue(language)
    *most, last = words
    return f"{sentences['list.comma'].join(most)}{sentences['list.and']}{last}" if most else last
