"""From what the runtime saw, or a person pasted, to findings that people can act on.

Plain records in and out; torch is never imported.

The rules come in with the first name that is asked for: a run in which nothing is found starts and ends
without them. Who must start quickly imports this package, not names from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.parts import on_demand

if TYPE_CHECKING:
    from samedevice.diagnosis._codes import CODES, code_of
    from samedevice.diagnosis._explain import explain_text
    from samedevice.diagnosis._followers import without_followers
    from samedevice.diagnosis._judge import judge, verdict_of
    from samedevice.diagnosis._results import with_results
    from samedevice.diagnosis._rule import HEADINGS, Rule
    from samedevice.diagnosis._weigh import UNDETERMINED, Verdict
    from samedevice.diagnosis.fixes import (
        Held,
        brought_to_host,
        changes_of,
        combined,
        file_diff,
        fix_at_use,
        lines_before,
        united,
        unwrapped,
        with_map_entry,
    )
    from samedevice.diagnosis.rules import CAUSES, REFUSALS, RULES, find_rule, rule_named

__all__ = [
    "CAUSES",
    "CODES",
    "HEADINGS",
    "REFUSALS",
    "RULES",
    "UNDETERMINED",
    "Held",
    "Rule",
    "Verdict",
    "brought_to_host",
    "changes_of",
    "code_of",
    "combined",
    "explain_text",
    "file_diff",
    "find_rule",
    "fix_at_use",
    "judge",
    "lines_before",
    "rule_named",
    "united",
    "unwrapped",
    "verdict_of",
    "with_map_entry",
    "with_results",
    "without_followers",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "_codes": ("CODES", "code_of"),
        "_explain": ("explain_text",),
        "_judge": ("judge", "verdict_of"),
        "_followers": ("without_followers",),
        "_results": ("with_results",),
        "_rule": ("HEADINGS", "Rule"),
        "_weigh": ("UNDETERMINED", "Verdict"),
        "fixes": (
            "Held",
            "brought_to_host",
            "changes_of",
            "combined",
            "file_diff",
            "fix_at_use",
            "lines_before",
            "united",
            "unwrapped",
            "with_map_entry",
        ),
        "rules": ("CAUSES", "REFUSALS", "RULES", "find_rule", "rule_named"),
    },
)
