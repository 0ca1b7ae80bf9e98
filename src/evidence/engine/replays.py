"""A recording, or the table's own predictions, replayed on a virtual machine; for `replay-rules`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence.engine import rule_cases, statement_cases
from evidence.engine.recording_worker import machine, run_virtual
from evidence.engine.recordings import ASKED, KINDS, Recording
from evidence.places import ROOT

RECORDINGS = ROOT / "measurements" / "rules"


@dataclass
class Agreement:
    """Of one family."""

    cases: int = 0
    outcome: int = 0
    """Cases that end alike: accepted, refused, or not checked."""
    refused: int = 0
    """Cases that both refuse."""
    message: int = 0
    """Of those, with the same text."""
    devices: int = 0
    """Accepted by both, with results on the same devices."""
    accepted: int = 0
    different: list[str] = field(default_factory=list)

    def add(self, key: str, real: dict[str, Any], ours: dict[str, Any]) -> None:
        """Compare one case; `real` ran, whatever came of it."""
        self.cases += 1
        note = ""
        if real["outcome"] != ours["outcome"]:
            note = f"{told(real)}; the virtual machine: {told(ours)}"
        else:
            self.outcome += 1
        if real["outcome"] == ours["outcome"] == "error":
            self.refused += 1
            if essence(real["message"]) == essence(ours["message"]):
                self.message += 1
            else:
                note = f"{told(real)}; the virtual machine: {told(ours)}"
        if real["outcome"] == ours["outcome"] == "ok":
            self.accepted += 1
            if real["devices"] == ours["devices"]:
                self.devices += 1
            else:
                note = f"results on {real['devices']}; the virtual machine: {ours['devices']}"
        if note:
            self.different.append(f"{key}: {note}")


_REWORDED = {
    "and float32/64, and optimizer states that can be bfloat16 for mixed-precision training": (
        "and float32/64 notwithstanding"
    )
}
"""What a later release says, and what the recorded one says to the same tensors: the machine speaks as the
torch that is installed here.
"""
_OF_A_BUILD = re.compile(r"(?<=for possible resolutions\.) '.*")
"""The backends of one build of torch."""


def essence(message: str) -> str:
    """A message in the words of the recorded release, without what differs between builds."""
    for later, recorded in _REWORDED.items():
        message = message.replace(later, recorded)
    return _OF_A_BUILD.sub("", message)


def told(result: dict[str, Any]) -> str:
    """One outcome in words."""
    if result["outcome"] == "ok":
        return f"ok {result['devices']}"
    return f"{result['outcome']} {result['type']}: {result['message']}"


FAMILIES = ("nn.functional", "nn", "optim", "linalg", "fft", "special", "masked")


def family_of(name: str) -> str:
    """The module that a function lives in; what is in none of them is `torch`, or a statement."""
    if name in statement_cases.statements():
        return "statements"
    return next((family for family in FAMILIES if name.startswith(f"{family}.")), "torch")


@dataclass
class Comparison:
    """Of a recording with a virtual machine here."""

    families: dict[str, Agreement] = field(default_factory=lambda: defaultdict(Agreement))
    unknown: Counter[str] = field(default_factory=Counter)
    """Recorded cases of operators that torch's database does not have here."""
    other_sample: Counter[str] = field(default_factory=Counter)
    """Recorded cases of an operator whose sample is another here."""

    def left_out(self) -> str:
        """What was recorded and not compared."""
        return (
            f"not compared: {self.unknown.total()} cases of {len(self.unknown)} operators unknown here, "
            f"{self.other_sample.total()} cases of {len(self.other_sample)} operators with other samples here"
        )


def replay(name: str, recorded: Recording | None = None) -> dict[str, dict[str, Any]]:
    """Outcomes of an operator's cases on a virtual machine; those that were recorded, of the same samples."""
    found: dict[str, dict[str, Any]] = {}
    todo = [
        (case, call)
        for case, call in rule_cases.cases(name, KINDS if recorded is None else (*KINDS, *ASKED))
        if recorded is None
        or (
            recorded.results.get(case.key, {"outcome": "skip"})["outcome"] != "skip"
            and recorded.samples.get(case.sample_key) == rule_cases.digest(call)
        )
    ]
    if not todo:
        return found
    with machine() as virtual:
        for case, call in todo:
            found[case.key] = run_virtual(virtual, case, call)
    return found


def compare(recorded: Recording | None, names: list[str], only: str = "") -> Comparison:
    """A recording with what happens here; without one, the virtual machine with itself."""
    found = Comparison()
    by_operator: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for key, result in recorded.results.items() if recorded else ():
        if result["outcome"] != "skip":
            by_operator[key.partition("|")[0]][key] = result
    for name in names:
        real = by_operator[name] if recorded else replay(name)
        ours = replay(name, recorded)
        for key in sorted(real):
            if key not in ours:
                found.other_sample[name] += 1
            elif real[key]["outcome"] != "skip":
                found.families[family_of(name)].add(key, real[key], ours[key])
    for name in by_operator.keys() - {*rule_cases.names((*KINDS, *ASKED))}:
        if only in name:
            found.unknown[name] = len(by_operator[name])
    return found


def broken(recorded: Recording | None, families: dict[str, Agreement]) -> list[str]:
    """Cases in which the virtual machine failed for a reason of its own."""
    if recorded is not None:
        return []
    return [line for each in families.values() for line in each.different]


def newest() -> list[Path]:
    """The recordings of the repository."""
    return sorted(RECORDINGS.glob("*.json.gz"))


def show(families: dict[str, Agreement], most: int) -> None:
    """The table, and the first disagreements."""
    print(f"{'family':24}{'cases':>7}{'outcome':>12}{'message':>18}{'devices':>18}")
    total = Agreement()
    for name, each in sorted(families.items()):
        line(name, each)
        for part in ("cases", "outcome", "refused", "message", "devices", "accepted"):
            setattr(total, part, getattr(total, part) + getattr(each, part))
        total.different += each.different
    line("all", total)
    for text in total.different[:most]:
        print(f"  {text}")
    if len(total.different) > most:
        print(f"  and {len(total.different) - most} more")


def line(name: str, each: Agreement) -> None:
    """One row of the table."""
    share = f"{each.outcome / each.cases:.2%}" if each.cases else "-"
    message = f"{each.message} of {each.refused}"
    print(f"{name:24}{each.cases:7}{share:>12}{message:>18}{f'{each.devices} of {each.accepted}':>18}")


def rows_consulted(names: list[str]) -> Counter[str]:
    """How many operators that the database reaches were judged by a row by hand, by torch's file, or by the
    default.
    """
    from samedevice.device_rules import row_for, rows_by_hand
    from samedevice.runtime.engine import mismatches as engine_mismatches

    mismatches: Any = engine_mismatches  # `row_for` is put back below

    seen: set[str] = set()

    def noting(op: str) -> Any:
        seen.add(op)
        return row_for(op)

    mismatches.row_for = noting
    try:
        for name in names:
            replay(name)
    finally:
        mismatches.row_for = row_for
    counts: Counter[str] = Counter()
    for op in seen:
        row = row_for(op)
        source = "default" if row.by_default else "by hand" if row.op in rows_by_hand() else "declarations"
        counts[source] += 1
        if source == "default":
            print(f"  by default: {op} ({row.source})")
    return counts
