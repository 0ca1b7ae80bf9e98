"""What torch's functions, methods and modules do with devices: sets of names out of `knowledge.toml`."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def _table() -> dict[str, dict[str, frozenset[str]]]:
    text = files("samedevice.static.tensors").joinpath("knowledge.toml").read_text("utf-8")
    document: dict[str, Any] = tomllib.loads(text)
    return {part: {name: frozenset(row) for name, row in rows.items()} for part, rows in document.items()}


_TABLE = _table()
FUNCTIONS, METHODS, ATTRIBUTES = _TABLE["functions"], _TABLE["methods"], _TABLE["attributes"]
MODULES = _TABLE["modules"]
OPTIMIZERS = _TABLE["optimizers"]["names"]
TRANSPARENT = _TABLE["decorators"]["transparent"]
FACTORIES = FUNCTIONS["factories"] | FUNCTIONS["of_values"]
"""Functions that make a tensor from nothing, or from Python values."""
MAKERS = FACTORIES | FUNCTIONS["constructors"] | FUNCTIONS["host"]
"""Functions that make a tensor from nothing, or from what is no tensor."""
