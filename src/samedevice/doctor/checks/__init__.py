"""The checks, one file each, found by being there. Their codes are SD301 and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from samedevice.doctor.check import Check
from samedevice.messages import SOURCE, Language


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks by their codes; a code or a name that two of them have is our mistake."""
    found = sorted(checks, key=lambda check: check.code)
    for given in ([check.code for check in found], [check.name for check in found]):
        twice = [each for each, count in Counter(given).items() if count > 1]
        assert not twice, f"two checks have {twice[0]}"
    return tuple(found)


CHECKS: tuple[Check, ...] = in_order(
    import_module(f"{__name__}.{found.name}").CHECK for found in iter_modules(__path__)
)
_BY_NAME = {check.name: check for check in CHECKS}


def check_named(name: str) -> Check:
    """The check of a name; raises `KeyError` when there is none."""
    return _BY_NAME[name]


def find_check(word: str) -> Check | None:
    """The check with this code or name, in any case."""
    wanted = word.strip()
    return next((each for each in CHECKS if wanted.upper() == each.code or wanted.lower() == each.name), None)


def sentence_of_check(key: str, language: Language) -> str:
    """What a check's own file says for a key such as `checks.mig.title`.

    In English where it does not have the language.
    """
    _, name, part = key.split(".", maxsplit=2)
    texts = check_named(name).texts[part]
    return texts.get(language, texts[SOURCE])


__all__ = ["CHECKS", "check_named", "find_check", "in_order", "sentence_of_check"]
