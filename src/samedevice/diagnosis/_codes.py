"""The codes of what happened: the rules that name a kind of event.

Causes have codes of their own; see `rules`.
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.diagnosis.rules import RULES, rule_of
from samedevice.events import EventKind

CODES: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.kind is not None)

_BY_KIND = {rule.kind: rule for rule in CODES}
assert len(_BY_KIND) == len(CODES) == len(EventKind), "every kind of event has exactly one code"


def code_for(kind: EventKind) -> Rule:
    """The rule that names events of `kind`."""
    return _BY_KIND[kind]


def code_of(code: str) -> Rule:
    """The rule of a code such as `SD101` or `SD111`; raises `KeyError` when there is none."""
    return rule_of(code)
