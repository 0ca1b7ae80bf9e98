"""The rules, one file each, found by being there.

Codes SD101 to SD110 say what happened, those from SD111 on why: one for each cause; those from SD401 on
refuse a launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from samedevice.diagnosis._rule import Rule
from samedevice.messages import SOURCE, Language


def in_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules by their codes; a code or a name that two of them have is our mistake."""
    found = sorted(rules, key=lambda rule: rule.code)
    for given in ([rule.code for rule in found], [rule.name for rule in found]):
        twice = [each for each, count in Counter(given).items() if count > 1]
        assert not twice, f"two rules have {twice[0]}"
    return tuple(found)


RULES: tuple[Rule, ...] = in_order(
    import_module(f"{__name__}.{found.name}").RULE for found in iter_modules(__path__)
)

_BY_CODE = {rule.code: rule for rule in RULES}
_BY_NAME = {rule.name: rule for rule in RULES}

REFUSALS: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.code.startswith("SD4"))
"""What only a launch can be refused for; a launch is refused for causes as well."""

CAUSES: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.kind is None and rule not in REFUSALS)


def rule_of(code: str) -> Rule:
    """The rule of a code such as `SD111`; raises `KeyError` when there is none."""
    return _BY_CODE[code]


def rule_named(name: str) -> Rule:
    """The rule of a name or slug; raises `KeyError` when there is none."""
    return _BY_NAME[name]


def find_rule(word: str) -> Rule | None:
    """The rule with this code or name, in any case."""
    wanted = word.strip()
    return _BY_CODE.get(wanted.upper()) or _BY_NAME.get(wanted.lower())


def sentence_of_rule(key: str, language: Language) -> str:
    """What a rule's own file says for a key such as `rules.out-of-memory.cure`.

    In English where it does not have the language.
    """
    _, name, part = key.split(".", maxsplit=2)
    texts = rule_named(name).texts[part]
    return texts.get(language, texts[SOURCE])


__all__ = [
    "CAUSES",
    "REFUSALS",
    "RULES",
    "find_rule",
    "in_order",
    "rule_named",
    "rule_of",
    "sentence_of_rule",
]
