"""The tables of the sweep, which lie beside its code; each is read once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Kind = Literal[
    "count", "depth", "derived", "first", "keep", "levels", "most", "picture", "places", "split", "token",
    "vocabulary", "width",
]  # fmt: skip


@cache
def read_table(file: str) -> Mapping[str, Any]:
    """What a table says, by its file's name."""
    found: Mapping[str, Any] = tomllib.loads(files("samedevice.sweep").joinpath(file).read_text("utf-8"))
    return found


@dataclass(frozen=True, slots=True)
class FieldRow:
    """What happens to some fields of a configuration."""

    pattern: re.Pattern[str]
    kind: Kind
    most: int
    missing: Any
    """What stands in for None."""


@cache
def field_row(file: str, name: str) -> FieldRow | None:
    """The first row of a table that is for a field of this name."""
    return next((row for row in _field_rows(file) if row.pattern.fullmatch(name)), None)


@cache
def _field_rows(file: str) -> tuple[FieldRow, ...]:
    return tuple(
        FieldRow(re.compile("|".join(row["names"])), row["kind"], row.get("most", 0), row.get("missing"))
        for row in read_table(file)["field"]
    )
