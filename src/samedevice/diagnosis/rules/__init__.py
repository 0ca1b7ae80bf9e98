"""The rules, one file each, found by being there.

Codes SD101 to SD110 say what happened, those from SD111 on why: one for each cause; those from SD401 on
refuse a launch.
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.parts import found_in, in_order

RULES: tuple[Rule, ...] = in_order(found_in(__name__, "RULE"))

_BY_CODE = {rule.code: rule for rule in RULES}
_BY_NAME = {rule.name: rule for rule in RULES}

REFUSALS: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.code.startswith("SD4"))
"""What only a launch can be refused for; a launch is refused for causes as well."""

CAUSES: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.kind is None and rule not in REFUSALS)

SIGNED: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.signs)
"""What a text can point to: the causes, and refusals that a launcher's own message words."""


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


__all__ = [
    "CAUSES",
    "REFUSALS",
    "RULES",
    "SIGNED",
    "find_rule",
    "rule_named",
    "rule_of",
]
