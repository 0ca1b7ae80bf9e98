"""Device bugs that the source already shows: rules over files that are read and never run.

Neither torch nor the files are imported. The rules come in with the first name that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.parts import on_demand

if TYPE_CHECKING:
    from samedevice.lint._files import Unreadable, files_below, is_excluded
    from samedevice.lint._lint import (
        Checked,
        Linter,
        Options,
        check_file,
        check_files,
        check_text,
        chosen_rules,
    )
    from samedevice.lint._rule import LintRule
    from samedevice.lint.rules import RULES, find_rule, rule_of

__all__ = [
    "RULES",
    "Checked",
    "LintRule",
    "Linter",
    "Options",
    "Unreadable",
    "check_file",
    "check_files",
    "check_text",
    "chosen_rules",
    "files_below",
    "find_rule",
    "is_excluded",
    "rule_of",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "_files": ("Unreadable", "files_below", "is_excluded"),
        "_lint": ("Checked", "Linter", "Options", "check_file", "check_files", "check_text", "chosen_rules"),
        "_rule": ("LintRule",),
        "rules": ("RULES", "find_rule", "rule_of"),
    },
)
