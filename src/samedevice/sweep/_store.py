"""What a sweep found, in a file that survives whatever happens to the sweep.

Must guarantee: a target is in the file whole or not at all, so that a sweep that was killed goes on with the
targets that are missing; a target whose source, libraries or questions changed counts as missing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.sweep._causes import mark_of

_LAYOUT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS tried (
    name TEXT NOT NULL, environment TEXT NOT NULL, print TEXT NOT NULL, how TEXT NOT NULL,
    seconds REAL NOT NULL, peak INTEGER NOT NULL, told TEXT NOT NULL, PRIMARY KEY (name, environment)
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A target with everything that its process told."""

    name: str
    environment: str
    """The versions under which it ran, as one text."""
    how: str
    """`ended`, or what ended it."""
    seconds: float
    """Of the processor."""
    peak: int
    """Bytes of memory that its process had at most."""
    told: tuple[Mapping[str, Any], ...] = field(default=())

    def of_kind(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """What it told of one kind."""
        return (each for each in self.told if each.get("kind") == kind)


class Store:
    """The results of sweeps in a SQLite file."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path)
            self._connection.execute("PRAGMA journal_mode=WAL")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _LAYOUT):
                raise UsageError(Phrase("sweep.other-layout", path=str(path)))
            self._connection.executescript(_TABLES)
            self._connection.execute(f"PRAGMA user_version={_LAYOUT}")
        except (OSError, sqlite3.Error) as error:
            raise UsageError(Phrase("sweep.no-store", path=str(path), reason=str(error))) from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def keep(self, target: Target, fingerprint: str) -> None:
        """Write one target; it is on the disk when this returns."""
        row = (
            *(target.name, target.environment, fingerprint, target.how, target.seconds, target.peak),
            json.dumps(list(target.told), ensure_ascii=False),
        )
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO tried VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def done(self, environment: str) -> dict[str, str]:
        """Fingerprints of the targets that are there, by name."""
        rows = self._connection.execute("SELECT name, print FROM tried WHERE environment = ?", (environment,))
        return dict(rows)

    def findings(self, environment: str) -> dict[str, Mapping[str, Any]]:
        """What was told of each statement and root cause; keys are their marks.

        Of several targets that told it the first by name counts, whichever ended first.
        """
        rows = self._connection.execute(
            "SELECT told FROM tried WHERE environment = ? ORDER BY name", (environment,)
        )
        found: dict[str, Mapping[str, Any]] = {}
        for (told,) in rows:
            for each in json.loads(told):
                if each.get("kind") == "finding":
                    found.setdefault(mark_of(each["statement"], each["root"]), each)
        return found

    def targets(self, environment: str, names: Iterable[str]) -> Iterator[Target]:
        """The targets of those names, in their order."""
        for name in names:
            row = self._connection.execute(
                "SELECT how, seconds, peak, told FROM tried WHERE name = ? AND environment = ?",
                (name, environment),
            ).fetchone()
            if row is not None:
                how, seconds, peak, told = row
                yield Target(name, environment, how, seconds, peak, tuple(json.loads(told)))
