"""What a pipeline is called with, by the names of the arguments of its `__call__`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from samedevice.sweep._case import Given
from samedevice.sweep._inputs import Sizes, make
from samedevice.sweep._tables import read_table

TABLE = "inputs-diffusers.toml"


@dataclass(frozen=True, slots=True)
class _Row:
    names: tuple[str, ...]
    form: Mapping[str, Any]
    needed: bool
    """Whether it is given only where there is no default, or nothing else helps."""


@dataclass(frozen=True, slots=True)
class _Calls:
    sizes: Mapping[str, Sequence[int]]
    rows: tuple[_Row, ...]


@cache
def _calls() -> _Calls:
    data = read_table(TABLE)
    rows = tuple(_Row(tuple(r["names"]), r["form"], r.get("needed", False)) for r in data["call"])
    return _Calls(data["call-sizes"], rows)


def choices() -> dict[str, int]:
    """The sizes of inputs that are tried, and how many there are of each."""
    return {name: len(each) for name, each in _calls().sizes.items()}


def optional(call: Any) -> list[str]:
    """Arguments that a row gives and the call may do without."""
    return [name for name, parameter, _ in _known(call) if parameter.default is not parameter.empty]


def inputs(call: Any, chosen: Mapping[str, int], otherwise: frozenset[str]) -> Given:
    """What it is given with these sizes; of some optional arguments the opposite of what is usual."""
    sizes = {name: each[chosen.get(name, 0)] for name, each in _calls().sizes.items()}
    return {
        name: _made(row.form, sizes)
        for name, parameter, row in _known(call)
        if (row.needed and parameter.default is not parameter.empty) == (name in otherwise)
    }


def _known(call: Any) -> list[tuple[str, inspect.Parameter, _Row]]:
    parameters = inspect.signature(call).parameters
    return [
        (name, parameters[name], row) for row in _calls().rows for name in row.names if name in parameters
    ]


def _made(form: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    if "size" in form:
        return sizes[form["size"]]
    if "picture" in form:
        return _picture(form["picture"], sizes["side"])
    if "film" in form:
        return [_picture(form["film"], sizes["side"]) for _ in range(sizes["frames"])]
    return make(form, Sizes(SimpleNamespace(), "", TABLE))


def _picture(mode: str, side: int) -> Any:
    """Grey values that differ from place to place; of a mask the right half."""
    from PIL import Image

    picture = Image.new("L", (side, side))
    picture.putdata([
        255 * (place % side >= side // 2) if mode == "L" else place * 7 % 251 for place in range(side * side)
    ])  # fmt: skip
    return picture.convert(mode)
