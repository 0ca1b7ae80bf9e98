"""A baseline: the findings that a project had when it began to look, so that a check fails on new ones only.

A finding is known by its identity, without line numbers, and by how often one program has it: three equal
statements where two are known are one new finding. Programs share a file and do not touch each other's
entries. Must guarantee: a file of ours is written whole or not at all.
"""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.suppression._identity import Identity

_SCHEMA = 1
_TEXTS = ("program", "code", "file", "statement", "operator")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """So many findings of one identity that a program is known to have."""

    program: str
    """`run train.py`, `preflight launch.sh`."""
    identity: Identity
    count: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """The known findings of a file."""

    path: Path
    entries: tuple[Entry, ...] = ()

    @property
    def root(self) -> Path:
        """The folder from which the files of its entries are named."""
        return self.path.absolute().parent

    def known(self, program: str) -> Counter[Identity]:
        """What is known of a program, with its counts."""
        return Counter({entry.identity: entry.count for entry in self.entries if entry.program == program})


def baseline_to_use(path: Path, *, write: bool, option: str) -> Baseline:
    """The baseline to hold findings against, or to `write` later, which is what `option` asks for.

    Raises `UsageError` for one that cannot be read or, where it has to be, written.
    """
    if not write:
        return read_baseline(path, option)
    folder = path.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        reason = os.strerror(errno.EACCES if folder.is_dir() else errno.ENOENT)
        raise UsageError(Phrase("baseline.unwritable", path=str(path), reason=reason))
    return read_baseline(path, option) if path.exists() else Baseline(path)


def read_baseline(path: Path, option: str) -> Baseline:
    """The baseline in a file; raises `UsageError` for one that cannot be read or is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(Phrase("baseline.missing", path=str(path), option=option)) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(Phrase("baseline.unreadable", path=str(path), reason=reason)) from None
    if not isinstance(content, dict) or not isinstance(content.get("findings"), list):
        raise UsageError(Phrase("baseline.none", path=str(path)))
    if content.get("schema") != _SCHEMA:
        raise UsageError(Phrase("baseline.schema", path=str(path), given=str(content.get("schema"))))
    return Baseline(path, tuple(_entry(path, each) for each in content["findings"]))


def updated(baseline: Baseline, program: str, found: Iterable[Identity], *, whole: bool) -> Baseline:
    """The baseline with what a program was found to have; with `whole` the rest that it had goes."""
    counts = Counter(found)
    if not whole:
        counts |= baseline.known(program)
    others = [entry for entry in baseline.entries if entry.program != program]
    own = [Entry(program, identity, count) for identity, count in counts.items()]
    return Baseline(baseline.path, tuple(sorted([*others, *own])))


def write_baseline(baseline: Baseline) -> None:
    """Write the file, sorted and one entry a line, so that a change of it is easy to read."""
    rows = ",\n".join(f"  {json.dumps(_row(entry), ensure_ascii=False)}" for entry in baseline.entries)
    text = f'{{"schema": {_SCHEMA}, "findings": [\n{rows}\n]}}\n'
    part = baseline.path.with_name(f"{baseline.path.name}.part")
    try:
        part.write_text(text, "utf-8", errors="backslashreplace")
        part.replace(baseline.path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(
            Phrase("baseline.unwritable", path=str(baseline.path), reason=error.strerror or str(error))
        ) from None


def _row(entry: Entry) -> dict[str, Any]:
    own = entry.identity
    return {
        "program": entry.program,
        "code": own.code,
        "file": own.file,
        "statement": own.statement,
        "operator": own.operator,
        "count": entry.count,
    }


def _entry(path: Path, row: Any) -> Entry:
    if (
        not isinstance(row, dict)
        or not all(isinstance(row.get(name), str) for name in _TEXTS)
        or type(row.get("count")) is not int
        or row["count"] < 1
    ):
        raise UsageError(Phrase("baseline.entry", path=str(path), entry=json.dumps(row)[:200]))
    identity = Identity(row["code"], row["file"], row["statement"], row["operator"])
    return Entry(row["program"], identity, row["count"])
