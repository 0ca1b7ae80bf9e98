"""Verdicts on a machine and an environment: what will not work, and what repairs it.

`probes` reads and never judges; `checks` judges facts and never reads; a check is one file. Needs no torch,
no GPU and no network, and says what it could not read. The checks come in with the first name that is asked
for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samedevice.doctor._examine import Examination, examine
    from samedevice.doctor.check import Check, Fault
    from samedevice.doctor.checks import CHECKS, check_named, find_check, sentence_of_check
    from samedevice.doctor.environment import Comparison, Difference, Locked, compared, locked, read_locked
    from samedevice.doctor.facts import CopyTest, Facts
    from samedevice.doctor.host import Answer, Host, Metadata, ThisHost
    from samedevice.doctor.probes import compare_copies, read_facts

__all__ = [
    "CHECKS",
    "Answer",
    "Check",
    "Comparison",
    "CopyTest",
    "Difference",
    "Examination",
    "Facts",
    "Fault",
    "Host",
    "Locked",
    "Metadata",
    "ThisHost",
    "check_named",
    "compare_copies",
    "compared",
    "examine",
    "find_check",
    "locked",
    "read_facts",
    "read_locked",
    "sentence_of_check",
]

_HOMES = {
    "_examine": ("Examination", "examine"),
    "check": ("Check", "Fault"),
    "checks": ("CHECKS", "check_named", "find_check", "sentence_of_check"),
    "environment": ("Comparison", "Difference", "Locked", "compared", "locked", "read_locked"),
    "facts": ("CopyTest", "Facts"),
    "host": ("Answer", "Host", "Metadata", "ThisHost"),
    "probes": ("compare_copies", "read_facts"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
