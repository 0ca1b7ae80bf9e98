"""The table of packages whose models are made by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from samedevice.sweep._tables import read_table


@dataclass(frozen=True, slots=True)
class BuiltPackage:
    """How the models of a package are made."""

    name: str
    imports: Sequence[str]
    list: str
    """`module:function` that gives the names of all models."""
    maker: str
    """`module:function` that gives the function of a name."""
    arguments: Mapping[str, Any]
    """What that function is given, where it takes it; the text `none` is None."""
    forms: Sequence[Sequence[int]]
    """Shapes of the input, tried in their order."""
    size: Sequence[str] = field(default=())
    """The attribute of a model, and the key in it, that has the shape of one input."""


@cache
def _rows() -> Mapping[str, BuiltPackage]:
    return {
        row["name"]: BuiltPackage(
            row["name"],
            row["import"],
            row["list"],
            row["maker"],
            {name: None if value == "none" else value for name, value in row["arguments"].items()},
            row["forms"],
            row.get("size", ()),
        )
        for row in read_table("packages.toml")["package"]
    }


def built_packages() -> tuple[str, ...]:
    """Their names."""
    return tuple(_rows())


def built_package(name: str) -> BuiltPackage:
    """The row of a package."""
    return _rows()[name]
