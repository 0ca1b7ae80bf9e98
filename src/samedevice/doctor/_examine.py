"""Every check asked, and what came out as findings of the public contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.checks import CHECKS
from samedevice.doctor.facts import Facts, Unread
from samedevice.findings import Finding
from samedevice.messages import Phrase

_NAMED = ("torch", "torchvision", "torchaudio", "triton", "transformers", "accelerate", "peft", "deepspeed")


@dataclass(frozen=True, slots=True)
class Examination:
    """What the checks said of the facts."""

    facts: Facts
    findings: tuple[Finding[Phrase], ...]
    idle: tuple[tuple[Check, Unread], ...]
    """Checks that could not judge, each with what it could not read."""


def examine(facts: Facts, checks: Sequence[Check] = CHECKS) -> Examination:
    """Ask every check."""
    unread = {each.topic: each for each in facts.unread}
    findings: list[Finding[Phrase]] = []
    idle: list[tuple[Check, Unread]] = []
    for check in checks:
        found = list(check.look(facts))
        findings += [_finding(check, fault, facts) for fault in found]
        missing = next((unread[topic] for topic in check.reads if topic in unread), None)
        if not found and missing is not None:
            idle.append((check, missing))
    return Examination(facts, tuple(findings), tuple(idle))


def _finding(check: Check, fault: Fault, facts: Facts) -> Finding[Phrase]:
    versions = {each.name: each.version for name in _NAMED if (each := facts.package(name)) is not None}
    return Finding(
        code=check.code,
        cause=check.name,
        confidence=fault.confidence,
        title=check.phrase("title"),
        message=None,
        op=None,
        at=None,
        user_at=None,
        module=None,
        notes=fault.notes,
        reasons=(fault.reason,),
        cure=fault.repair,
        versions=versions,
    )
