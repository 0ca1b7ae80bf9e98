"""The rules of lint, one file each, found by being there. Their codes begin with SD2."""

from __future__ import annotations

from samedevice.lint._rule import LintRule
from samedevice.parts import found_in, in_order

RULES: tuple[LintRule, ...] = in_order(found_in(__name__, "RULE"))
_BY_CODE = {rule.code: rule for rule in RULES}
_BY_NAME = {rule.name: rule for rule in RULES}


def rule_of(code: str) -> LintRule:
    """The rule of a code such as `SD201`; raises `KeyError` when there is none."""
    return _BY_CODE[code]


def find_rule(word: str) -> LintRule | None:
    """The rule with this code or name, in any case."""
    wanted = word.strip()
    return _BY_CODE.get(wanted.upper()) or _BY_NAME.get(wanted.lower())


__all__ = ["RULES", "find_rule", "rule_of"]
