"""Verdicts on a machine and an environment: what will not work, and what repairs it.

`probes` reads and never judges; `checks` judges facts and never reads; a check is one file. Needs no torch,
no GPU and no network, and says what it could not read. The checks come in with the first name that is asked
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.parts import on_demand

if TYPE_CHECKING:
    from samedevice.doctor._examine import Examination, examine
    from samedevice.doctor.check import Check, Fault
    from samedevice.doctor.checks import CHECKS, find_check, sentence_of_check
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
    "compare_copies",
    "compared",
    "examine",
    "find_check",
    "locked",
    "read_facts",
    "read_locked",
    "sentence_of_check",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "_examine": ("Examination", "examine"),
        "check": ("Check", "Fault"),
        "checks": ("CHECKS", "find_check", "sentence_of_check"),
        "environment": ("Comparison", "Difference", "Locked", "compared", "locked", "read_locked"),
        "facts": ("CopyTest", "Facts"),
        "host": ("Answer", "Host", "Metadata", "ThisHost"),
        "probes": ("compare_copies", "read_facts"),
    },
)
