"""Judging: from what the runtime saw, or a person pasted, to findings that people can act on. Plain records
in and out; torch is never imported.
"""

from __future__ import annotations

from samedevice.diagnosis._codes import CODES, code_of
from samedevice.diagnosis._explain import explain_text
from samedevice.diagnosis._judge import judge
from samedevice.diagnosis._rule import HEADINGS, Rule
from samedevice.diagnosis._weigh import UNDETERMINED
from samedevice.diagnosis.fixes import fix_at_use
from samedevice.diagnosis.rules import CAUSES, REFUSALS, RULES, find_rule, rule_named, sentence_of_rule

__all__ = [
    "CAUSES",
    "CODES",
    "HEADINGS",
    "REFUSALS",
    "RULES",
    "UNDETERMINED",
    "Rule",
    "code_of",
    "explain_text",
    "find_rule",
    "fix_at_use",
    "judge",
    "rule_named",
    "sentence_of_rule",
]
