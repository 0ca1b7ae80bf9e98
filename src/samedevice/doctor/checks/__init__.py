"""The checks, one file each, found by being there. Their codes are SD301 and so on."""

from __future__ import annotations

from samedevice.doctor.check import Check
from samedevice.messages import SOURCE, Language
from samedevice.parts import found_in, in_order

CHECKS: tuple[Check, ...] = in_order(found_in(__name__, "CHECK"), "checks")
_BY_NAME = {check.name: check for check in CHECKS}


def find_check(word: str) -> Check | None:
    """The check with this code or name, in any case."""
    wanted = word.strip()
    return next((each for each in CHECKS if wanted.upper() == each.code or wanted.lower() == each.name), None)


def sentence_of_check(key: str, language: Language) -> str:
    """What a check's own file says for a key such as `checks.mig.title`.

    In English where it does not have the language.
    """
    _, name, part = key.split(".", maxsplit=2)
    texts = _BY_NAME[name].texts[part]
    return texts.get(language, texts[SOURCE])


__all__ = ["CHECKS", "find_check", "sentence_of_check"]
