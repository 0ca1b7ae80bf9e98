"""Findings: events that were judged, in the words of the public contract.

A finding is made with phrases, `Finding[Phrase]`, which no language has touched; people and programs get
`Finding[str]` from `report.render_finding`. `as_json` of that is what `run --json` and `explain --json`
write; field names and meanings are a contract that other programs rely on. Fields that a pasted text cannot
tell are None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args

from samedevice.events import DeviceMemory, Operand, Place, SilentResult, Written
from samedevice.messages import Phrase

SCHEMA = 1
"""Version of the JSON documents; raised when a field changes its meaning."""

Confidence = Literal["certain", "likely", "guess"]
Safety = Literal["safe", "check", "unsafe"]
Verdict = Literal["device-error", "not-a-device-error", "cannot-tell"]
Status = Literal["completed", "script-error", "out-of-memory", "interrupted"]
Detail = Literal["quiet", "normal", "verbose"]
IgnoredBy = Literal["comment", "settings", "baseline"]
OutputFormat = Literal["text", "json", "github", "sarif"]
OUTPUT_FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)

Text_co = TypeVar("Text_co", bound=str | Phrase, covariant=True)


@dataclass(frozen=True, slots=True)
class Fix(Generic[Text_co]):
    """A change that repairs the finding; `diff` is a unified diff where it can be shown as one."""

    title: Text_co
    safety: Safety
    diff: str | None = None
    file: str | None = None
    """The file that the diff changes, by its path."""
    tried: Text_co | None = None
    """What came out when the program ran again with the change: `clean` where its finding is gone and nothing
    new was found, `fails`, or why it was not tried; None where nobody asked for it.
    """


@dataclass(frozen=True, slots=True)
class Finding(Generic[Text_co]):
    """A rule that fired on one distinct statement."""

    code: str
    """Stable catalog code, such as `SD101`."""
    cause: str
    """Slug of the root cause in the taxonomy; `undetermined` when it cannot be told."""
    confidence: Confidence
    title: Text_co
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
    ranks: tuple[int, ...] = ()
    """Ranks of a launch that met it; empty where there is one process."""
    fixes: tuple[Fix[Text_co], ...] = ()
    memory: Mapping[str, DeviceMemory] = field(default_factory=dict)
    """Ledger per device at that moment; only for out-of-memory findings."""
    notes: tuple[Text_co, ...] = ()
    guilty: str | None = None
    """Name of the operand that is in the wrong place, where the evidence says which."""
    reasons: tuple[Text_co, ...] = ()
    """Why this cause, the best reason first."""
    cure: Text_co | None = None
    """What to do in general, also when no fix can be shown."""
    exception: str | None = None
    """Class of the exception that a text shows."""
    kind: str | None = None
    """Kind of the message that a text shows."""
    stack: tuple[Place, ...] = ()
    """Frames that a text shows, or that led to the statement outside torch, oldest first."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of libraries that a text names, or that were loaded."""
    verdict: Verdict = "device-error"
    """Whether it is about devices at all; what a run finds is."""
    topic: str | None = None
    """What an error is about that is not about devices, such as `shape` or `out-of-memory`."""
    amounts: Mapping[str, int] = field(default_factory=dict)
    """Bytes that an error about memory names: `asked`, `total`, `free`, `allocated`, `reserved`, `others`."""
    written: tuple[Written, ...] = ()
    """Where the operands of the failing statement come from, as its source says, where that is at hand."""
    ask: Text_co | None = None
    """The one command that would decide what could not be told; None where nothing is open."""
    silent_result: SilentResult | None = None
    """What an operator that met a tensor on meta gives where real hardware raises nothing: memory that nobody
    filled, or a tensor on meta; None for every other finding.
    """

    def as_json(self: Finding[str]) -> dict[str, Any]:
        """The finding as the contract's JSON object; what is not known is null."""
        document = asdict(self)
        document["memory"] = {device: asdict(memory) for device, memory in self.memory.items()}
        document["versions"] = dict(self.versions)
        document["amounts"] = dict(self.amounts)
        for place in (document["at"], document["user_at"], *document["stack"]):
            _null_unknown(place)
        for operand in document["operands"]:
            for step in operand["lineage"]:
                each: Any = step
                while each is not None:
                    for name in ("at", "user_at", "device_at"):
                        _null_unknown(each[name])
                    each = each["taken"]
            if not operand["dtype"]:
                operand["shape"] = operand["dtype"] = None
        return document


@dataclass(frozen=True, slots=True)
class IgnoredCode:
    """A code whose findings the settings of a project leave out, with the reason."""

    code: str
    reason: str
    file: str
    """The file that says so."""


@dataclass(frozen=True, slots=True)
class Ignored(Generic[Text_co]):
    """A finding that somebody decided not to be told again."""

    finding: Finding[Text_co]
    by: IgnoredBy
    reason: str | None
    file: str | None
    """The file with the decision: a source file, the settings, the baseline."""
    line: int | None = None

    def as_json(self: Ignored[str]) -> dict[str, Any]:
        """An object of `ignored` in the contract's JSON."""
        return {
            "by": self.by,
            "reason": self.reason,
            "file": self.file,
            "line": self.line,
            "finding": self.finding.as_json(),
        }


class Renderer(Protocol):
    """Gives what was found a language: handed to those that must speak while a program runs."""

    def text(self, phrase: Phrase) -> str:
        """A phrase as text."""

    def finding(self, finding: Finding[str | Phrase]) -> Finding[str]:
        """A finding with its texts, as a program gets it."""

    def block(self, finding: Finding[str]) -> str:
        """A finding as a person reads it."""


def _null_unknown(place: dict[str, Any] | None) -> None:
    if place is not None:
        place.update({key: place[key] or None for key in ("file", "line", "function")})


def explain_document(findings: Sequence[Finding[str]]) -> dict[str, Any]:
    """The document that `explain --json` writes."""
    return {"schema": SCHEMA, "findings": [finding.as_json() for finding in findings]}


def run_document(
    machine: Mapping[str, Any],
    status: Status,
    findings: Sequence[Finding[str]],
    memory: Mapping[str, DeviceMemory],
    ranks: Sequence[tuple[int | None, str, Mapping[str, DeviceMemory]]] = (),
    asked: Sequence[Place] = (),
    ignored: Sequence[Ignored[str]] = (),
    fixing: Mapping[str, Any] | None = None,
    copies: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The document that `run --json` writes.

    `machine` describes the virtual machine; `memory` holds bytes per device, and only peaks and totals are
    written. `ranks` holds the rank (None for another process), the status and the memory of each process,
    where there was more than one; devices there are as that process numbers them. `asked` are the statements
    that asked for values which nobody computed; `ignored` what was found and is known.
    `fixing` says how often the program ran again with fixes, on which machines, which files were changed, and
    how many findings are left with the fixes of the project's own files, and with patches of libraries, too;
    None where no fix was to be tried. `copies` says what went from device to device, and how much of it went
    again though nothing of it had changed; None where nobody counted.
    """
    places = [asdict(place) for place in asked]
    for place in places:
        _null_unknown(place)
    return {
        "schema": SCHEMA,
        "machine": dict(machine),
        "status": status,
        "findings": [finding.as_json() for finding in findings],
        "memory": _peaks(memory),
        "ranks": [{"rank": rank, "status": ended, "memory": _peaks(own)} for rank, ended, own in ranks],
        "assumed_values": places,
        "ignored": [each.as_json() for each in ignored],
        "fixing": None if fixing is None else dict(fixing),
        "copies": None if copies is None else dict(copies),
    }


def _peaks(memory: Mapping[str, DeviceMemory]) -> dict[str, dict[str, int]]:
    return {
        device: {
            "peak_allocated": ledger.peak_allocated,
            "peak_reserved": ledger.peak_reserved,
            "total": ledger.total,
        }
        for device, ledger in memory.items()
    }
