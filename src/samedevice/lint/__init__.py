"""Device bugs that the source already shows: rules over files that are read and never run.

Neither torch nor the files are imported. The rules come in with the first name that is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samedevice.lint._files import Unreadable, files_below
    from samedevice.lint._lint import Checked, Options, check_file, check_files, check_text, chosen_rules
    from samedevice.lint._rule import LintRule
    from samedevice.lint.rules import RULES, find_rule, rule_of

__all__ = [
    "RULES",
    "Checked",
    "LintRule",
    "Options",
    "Unreadable",
    "check_file",
    "check_files",
    "check_text",
    "chosen_rules",
    "files_below",
    "find_rule",
    "rule_of",
]

_HOMES = {
    "_files": ("Unreadable", "files_below"),
    "_lint": ("Checked", "Options", "check_file", "check_files", "check_text", "chosen_rules"),
    "_rule": ("LintRule",),
    "rules": ("RULES", "find_rule", "rule_of"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
