"""`samedevice explain` names the right cause of what people paste, or says that it is no device error.

Time: seconds.
Needs: nothing beside samedevice.

    python -m evidence corpus              # the table
    python -m evidence corpus --misses     # and what was not right, of what rules may be written in view of
    python -m evidence corpus --unscored   # also the entries without a paste, rendered as plain tracebacks

The texts are in `corpus/`, in five collections, three of them in halves by a hash of the name: rules are
written in view of one half, the figure of the other one counts. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.places import ROOT
from samedevice.diagnosis import UNDETERMINED, explain_text
from samedevice.findings import Finding

CORPUS = ROOT / "corpus"
KNOWABLE = ("message", "message+frames", "message+frames+context")
FROM_FRAMES = ("message", "message+frames")
ELSEWHERE = "not-a-device-error"
DRAWN = "2026-11-22"
"""The halves were drawn with this word; another word draws others."""
TARGETS = {"frames": 0.9, "elsewhere": 0.95, "certain": 0.0}


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
    elsewhere: list[int] = field(default_factory=lambda: [0, 0])
    """Of those that are no device error: named so, and all."""
    dismissed: list[str] = field(default_factory=list)
    """Device errors that were called none."""
    wrong_certain: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def add(self, entry: dict[str, Any], findings: Sequence[Finding[Any]]) -> None:
        """Count one entry."""
        finding = findings[0]
        right = {entry["root_cause"], *entry["also_acceptable"]}
        kind = entry["identifiable_from"]
        top, named = finding.cause in right, [finding.cause, *finding.candidates[:2]]
        self.entries += 1
        if entry["root_cause"] == ELSEWHERE:
            self.elsewhere[0] += top
            self.elsewhere[1] += 1
        else:
            counts = self.top.setdefault(kind, [0, 0])
            counts[0] += top
            counts[1] += 1
            self.three += bool(right & set(named))
            if finding.cause == ELSEWHERE:
                self.dismissed.append(entry["id"])
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


@dataclass(frozen=True, slots=True)
class Collection:
    """Labelled texts in a folder of the corpus."""

    folder: str
    title: str
    halved: bool = True
    """Whether it has a half that no rule was written in view of."""

    @property
    def path(self) -> Path:
        """Where it is."""
        return CORPUS / self.folder

    def entries(self, *, unscored: bool = False) -> list[dict[str, Any]]:
        """The entries that count; with `unscored` those that do not."""
        everything: list[dict[str, Any]] = json.loads((self.path / "corpus.json").read_text("utf-8"))
        return [
            entry
            for entry in everything
            if entry["scored"] is not unscored and entry["root_cause"] != UNDETERMINED
        ]

    def parts(self) -> Iterator[tuple[str, bool, list[dict[str, Any]]]]:
        """Its halves, or the whole: a name, whether rules may be written in view of it, its entries."""
        every = self.entries()
        if not self.halved:
            yield self.title, True, every
            return
        yield f"{self.title}, half in view", True, [entry for entry in every if in_view(entry)]
        yield f"{self.title}, half not in view", False, [entry for entry in every if not in_view(entry)]

    def tally(self, chosen: Sequence[dict[str, Any]]) -> Tally:
        """Explain and count."""
        counts = Tally()
        for entry in chosen:
            counts.add(entry, explain_text(self.paste_of(entry)))
        return counts

    def paste_of(self, entry: dict[str, Any]) -> str:
        """What a user would paste; for an entry without such a file, its frames as a plain traceback."""
        file = self.path / "pasted" / f"{entry['id']}.txt"
        return file.read_text("utf-8") if file.exists() else rendered(entry)


COLLECTIONS = (
    Collection("", "first collection", halved=False),
    Collection("second", "second collection"),
    Collection("third", "third collection", halved=False),
    Collection("elsewhere", "no device errors"),
    Collection("stories", "stories"),
)


def in_view(entry: dict[str, Any]) -> bool:
    """Whether rules may be written in view of an entry, by its name alone."""
    return hashlib.sha256(f"{DRAWN} {entry['id']}".encode()).digest()[0] % 2 == 0


def rendered(entry: dict[str, Any]) -> str:
    """An entry's frames as a plain traceback."""
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


def show(name: str, counts: Tally) -> None:
    """One block of the table."""
    print(f"{name}: {counts.entries} entries")
    for kind in (*KNOWABLE, "not identifiable"):
        if kind in counts.top:
            right, every = counts.top[kind]
            print(f"  top cause right, {kind:24} {right:3} of {every:3}  {right / every:6.1%}")
    right, every = counts.share(FROM_FRAMES)
    if every:
        print(f"  top cause right, from message or frames  {right:3} of {every:3}  {right / every:6.1%}")
        devices = counts.entries - counts.elsewhere[1]
        print(
            f"  right within cause and two candidates    {counts.three:3} of {devices:3}  "
            f"{counts.three / devices:6.1%}"
        )
        print(f"  device errors called none                {len(counts.dismissed):3} of {devices:3}")
    if hidden := counts.top.get("not identifiable"):
        print(
            f"  undetermined or guess, not identifiable  {counts.withheld:3} of {hidden[1]:3}  "
            f"{counts.withheld / hidden[1]:6.1%}"
        )
    if counts.elsewhere[1]:
        named, every = counts.elsewhere
        print(f"  no device errors, named so               {named:3} of {every:3}  {named / every:6.1%}")
    print(f"  wrong and called certain                 {len(counts.wrong_certain):3} of {counts.entries:3}")


def met(counts: Tally) -> bool:
    """Whether the targets are reached."""
    right, every = counts.share(FROM_FRAMES)
    named, others = counts.elsewhere
    return (
        right >= TARGETS["frames"] * every
        and named >= TARGETS["elsewhere"] * others
        and len(counts.wrong_certain) <= TARGETS["certain"] * counts.entries
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--misses", action="store_true", help="list what was not right, of what is in view")
    parser.add_argument("--unscored", action="store_true", help="also the entries without a paste")
    options = parser.parse_args(arguments)
    misses, reached = [], True
    for collection in COLLECTIONS:
        for name, seen, chosen in collection.parts():
            counts = collection.tally(chosen)
            show(name, counts)
            reached = reached and met(counts)
            if seen:
                misses += counts.misses
    if options.unscored:
        first = COLLECTIONS[0]
        show("unscored (labels inferred)", first.tally(first.entries(unscored=True)))
    if options.misses:
        print(*misses, sep="\n")
    return 0 if reached else 1
