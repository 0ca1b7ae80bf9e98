"""Findings: events that were judged, in the words of the public contract.

`Finding.as_json` is what `run --json` and `explain --json` write; field names and meanings are a contract that other programs
rely on. Fields that a pasted text cannot tell are None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from samedevice.events import DeviceMemory, Operand, Place

SCHEMA = 1
"""Version of the JSON documents; raised when a field changes its meaning."""

Confidence = Literal["certain", "likely", "guess"]
Safety = Literal["safe", "check", "unsafe"]
Status = Literal["completed", "script-error", "out-of-memory", "interrupted"]


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that repairs the finding; `diff` is a unified diff where it can be shown as one."""

    title: str
    safety: Safety
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired on one distinct statement."""

    code: str
    """Stable catalog code, such as `SD101`."""
    cause: str
    """Slug of the root cause in the taxonomy; `undetermined` when it cannot be told."""
    confidence: Confidence
    title: str
    """One line for people."""
    message: str | None
    """The very text that CUDA would raise."""
    op: str | None
    at: Place | None
    user_at: Place | None
    module: str | None
    operands: tuple[Operand, ...] = ()
    candidates: tuple[str, ...] = ()
    """Other causes, likeliest first."""
    count: int = 1
    """How often the same statement failed in this run."""
    fixes: tuple[Fix, ...] = ()
    memory: Mapping[str, DeviceMemory] = field(default_factory=dict)
    """Ledger per device at that moment; only for out-of-memory findings."""
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The finding as the contract's JSON object."""
        document = asdict(self)
        document["memory"] = {device: asdict(memory) for device, memory in self.memory.items()}
        return document


def run_document(
    machine: Mapping[str, Any],
    status: Status,
    findings: Sequence[Finding],
    memory: Mapping[str, DeviceMemory],
) -> dict[str, Any]:
    """The document that `run --json` writes.

    `machine` describes the virtual machine; `memory` holds bytes per device, and only peaks and totals are written.
    """
    return {
        "schema": SCHEMA,
        "machine": dict(machine),
        "status": status,
        "findings": [finding.as_json() for finding in findings],
        "memory": {
            device: {
                "peak_allocated": ledger.peak_allocated,
                "peak_reserved": ledger.peak_reserved,
                "total": ledger.total,
            }
            for device, ledger in memory.items()
        },
    }
