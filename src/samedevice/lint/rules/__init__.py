"""The rules of lint, one file each, found by being there. Their codes begin with SD2."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from samedevice.diagnosis.rules import in_order
from samedevice.lint._rule import LintRule

_FOUND: list[LintRule] = [import_module(f"{__name__}.{found.name}").RULE for found in iter_modules(__path__)]
assert in_order(_FOUND), "each code and each name once"
RULES: tuple[LintRule, ...] = tuple(sorted(_FOUND, key=lambda rule: rule.code))
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
