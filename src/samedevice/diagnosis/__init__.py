"""From what the runtime saw, or a person pasted, to findings that people can act on.

Plain records in and out; torch is never imported.

The rules come in with the first name that is asked for: a run in which nothing is found starts and ends
without them. Who must start quickly imports this package, not names from it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samedevice.diagnosis._codes import CODES, code_of
    from samedevice.diagnosis._explain import explain_text
    from samedevice.diagnosis._judge import judge
    from samedevice.diagnosis._rule import HEADINGS, Rule
    from samedevice.diagnosis._source import Source
    from samedevice.diagnosis._weigh import UNDETERMINED
    from samedevice.diagnosis.fixes import changes_of, combined, file_diff, fix_at_use, lines_before
    from samedevice.diagnosis.rules import CAUSES, REFUSALS, RULES, find_rule, rule_named, sentence_of_rule

__all__ = [
    "CAUSES",
    "CODES",
    "HEADINGS",
    "REFUSALS",
    "RULES",
    "UNDETERMINED",
    "Rule",
    "Source",
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
    "sentence_of_rule",
]

_HOMES = {
    "_codes": ("CODES", "code_of"),
    "_explain": ("explain_text",),
    "_judge": ("judge",),
    "_rule": ("HEADINGS", "Rule"),
    "_source": ("Source",),
    "_weigh": ("UNDETERMINED",),
    "fixes": ("changes_of", "combined", "file_diff", "fix_at_use", "lines_before"),
    "rules": ("CAUSES", "REFUSALS", "RULES", "find_rule", "rule_named", "sentence_of_rule"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
