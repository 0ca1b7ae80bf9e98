"""`samedevice explain` names the right cause of the labelled errors that people pasted.

Time: seconds.
Needs: nothing beside samedevice.

    python -m evidence corpus              # the table
    python -m evidence corpus --misses     # and what was not right
    python -m evidence corpus --unscored   # also the entries without a paste, rendered as plain tracebacks

The errors are in `corpus/`. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evidence.commands import command_parser
from evidence.places import ROOT
from samedevice.diagnosis import UNDETERMINED, explain_text
from samedevice.findings import Finding

CORPUS = ROOT / "corpus"
KNOWABLE = ("message", "message+frames", "message+frames+context")
FROM_FRAMES = ("message", "message+frames")
TARGETS = {"frames": 0.9, "three": 0.8, "certain": 0.02}


@dataclass(slots=True)
class Tally:
    """Counts over some entries."""

    entries: int = 0
    top: dict[str, list[int]] = field(default_factory=dict)
    """By `identifiable_from`: right and all."""
    three: int = 0
    """Right cause among the cause and the first two candidates."""
    withheld: int = 0
    """Of those not identifiable: `undetermined` or `guess`."""
    wrong_certain: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def add(self, entry: dict[str, Any], finding: Finding[Any]) -> None:
        """Count one entry."""
        right = {entry["root_cause"], *entry["also_acceptable"]}
        kind = entry["identifiable_from"]
        top, named = finding.cause in right, [finding.cause, *finding.candidates[:2]]
        counts = self.top.setdefault(kind, [0, 0])
        counts[0] += top
        counts[1] += 1
        self.entries += 1
        self.three += bool(right & set(named))
        if kind not in KNOWABLE:
            self.withheld += finding.cause == UNDETERMINED or finding.confidence == "guess"
        if not top and finding.confidence == "certain":
            self.wrong_certain.append(entry["id"])
        if not top:
            self.misses.append(
                f"{kind:24} {entry['id']}: {', '.join(sorted(right))} | {finding.confidence}: "
                f"{', '.join(named)}"
            )

    def share(self, kinds: Sequence[str]) -> tuple[int, int]:
        """Right and all of several kinds together."""
        counts = [self.top[kind] for kind in kinds if kind in self.top]
        return sum(right for right, _ in counts), sum(every for _, every in counts)


def entries(*, unscored: bool = False) -> list[dict[str, Any]]:
    """The entries that count; with `unscored` those that do not."""
    everything: list[dict[str, Any]] = json.loads((CORPUS / "corpus.json").read_text("utf-8"))
    return [
        entry
        for entry in everything
        if entry["scored"] is not unscored and entry["root_cause"] != UNDETERMINED
    ]


def paste_of(entry: dict[str, Any]) -> str:
    """What a user would paste; for an entry without such a file, its frames as a plain traceback."""
    file = CORPUS / "pasted" / f"{entry['id']}.txt"
    if file.exists():
        return file.read_text("utf-8")
    lines = ["Traceback (most recent call last):"] if entry["frames"] else []
    for frame in entry["frames"]:
        if frame["file"] or frame["function"]:
            home = (
                ""
                if (frame["file"] or "script.py") == "script.py"
                else "/home/user/venv/lib/python3.11/site-packages/"
            )
            lines.append(
                f'  File "{home}{frame["file"] or "?"}", line {frame["line"] or 1}, in '
                f"{frame['function'] or '?'}"
            )
        if calls := frame["calls"]:
            lines.append(f"    {calls[0]}({', '.join(calls[1:])})")
    exception, text = entry["message"]["exception"], entry["text"] or ""
    return "\n".join([*lines, f"{exception}: {text}" if exception and text else text])


def tally(chosen: Sequence[dict[str, Any]]) -> Tally:
    """Explain and count."""
    counts = Tally()
    for entry in chosen:
        counts.add(entry, explain_text(paste_of(entry))[0])
    return counts


def half(entry: dict[str, Any]) -> int:
    """0 or 1, by the name of the entry alone."""
    return hashlib.sha256(entry["id"].encode()).digest()[0] % 2


def show(name: str, counts: Tally) -> None:
    """One block of the table."""
    print(f"{name}: {counts.entries} entries")
    for kind in (*KNOWABLE, "not identifiable"):
        if kind in counts.top:
            right, every = counts.top[kind]
            print(f"  top cause right, {kind:24} {right:3} of {every:3}  {right / every:6.1%}")
    right, every = counts.share(FROM_FRAMES)
    print(f"  top cause right, from message or frames  {right:3} of {every:3}  {right / every:6.1%}")
    print(
        f"  right within cause and two candidates    {counts.three:3} of {counts.entries:3}  "
        f"{counts.three / counts.entries:6.1%}"
    )
    if hidden := counts.top.get("not identifiable"):
        print(
            f"  undetermined or guess, not identifiable  {counts.withheld:3} of {hidden[1]:3}  "
            f"{counts.withheld / hidden[1]:6.1%}"
        )
    print(f"  wrong and called certain                 {len(counts.wrong_certain):3} of {counts.entries:3}")


def met(counts: Tally) -> bool:
    """Whether the targets are reached."""
    right, every = counts.share(FROM_FRAMES)
    return (
        right >= TARGETS["frames"] * every
        and counts.three >= TARGETS["three"] * counts.entries
        and len(counts.wrong_certain) <= TARGETS["certain"] * counts.entries
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--misses", action="store_true", help="list what was not right")
    parser.add_argument("--unscored", action="store_true", help="also the entries without a paste")
    options = parser.parse_args(arguments)
    scored = entries()
    whole = tally(scored)
    show("scored", whole)
    for number in (0, 1):
        show(
            f"half {number} by hash of the name", tally([entry for entry in scored if half(entry) == number])
        )
    if options.unscored:
        show("unscored (labels inferred)", tally(entries(unscored=True)))
    if options.misses:
        print(*whole.misses, sep="\n")
    return 0 if met(whole) else 1
