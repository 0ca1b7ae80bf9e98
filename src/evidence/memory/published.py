"""Memory that others measured on real GPUs and published, with the configuration of each run.

The rows of `published.json` were collected from the files that each row's `source` names (repository, path,
section, commit, date); numbers and configurations are facts, the texts of the rows are remarks on them. A row
is one value of one run: `kind` is `memory`, or `oom` for a run that did not fit. `complete` says that the
source gives everything that is needed to run it again, `unit_basis` what one GB means, `measured` what was
read. [The README](README.md) explains the fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Half = Literal["first", "second"]
_FILE = Path(__file__).with_name("published.json")
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20}
_BASES = {"2^30": 1 << 30, "2^20": 1 << 20, "1e9": 10**9}


@dataclass(frozen=True, slots=True)
class Row:
    """One published value."""

    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """A field; None where the source does not say."""
        return self.values.get(name)

    @property
    def run(self) -> str:
        """The measured run; several rows can share it."""
        return str(self.values["run"])

    @property
    def source(self) -> str:
        """Short name of the source."""
        return str(self.values["source_key"])

    @property
    def complete(self) -> bool:
        """Whether the source tells the whole configuration."""
        return bool(self.values.get("complete"))

    @property
    def half(self) -> Half:
        """Choices of a model are made in view of the first half only; the second one counts."""
        return half_of(self.run)

    @property
    def nbytes(self) -> int | None:
        """The published value in bytes; None for a run that did not fit.

        Where the source does not say what its GB is, GiB and MiB are powers of 2 and GB is 10^9 bytes.
        """
        value = self["value"]
        if value is None:
            return None
        basis = str(self["unit_basis"]).partition(" ")[0]
        unit = _BASES.get(basis) or _UNITS.get(str(self["unit"]), 10**9)
        return round(float(value) * unit)


def half_of(run: str) -> Half:
    """The half of a run: the last bit of its name's SHA-256."""
    return "second" if hashlib.sha256(run.encode()).digest()[-1] & 1 else "first"


def read_rows(path: Path = _FILE) -> tuple[Row, ...]:
    """All rows, in the order of the file."""
    return tuple(Row(values) for values in json.loads(path.read_text(encoding="utf-8"))["rows"])
