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
TAKE_TENSORS = frozenset().union(
    *(FUNCTIONS[kind] for kind in ("first", "like", "first_several", "listed", "meet_strictly"))
) - {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "einsum"}
"""Functions whose first argument is a tensor."""
TENSOR_METHODS = frozenset(
    "unsqueeze size dim permute contiguous masked_fill numel new_zeros new_ones new_full "
    "new_tensor type_as expand expand_as masked_fill_ scatter_ index_select detach unsqueeze_ "
    "to_dense".split()
)
"""Methods of tensors that neither arrays of NumPy nor modules have in the same way."""
FACTORIES = FUNCTIONS["factories"] | FUNCTIONS["of_values"]
"""Functions that make a tensor from nothing, or from Python values."""
MAKERS = FACTORIES | FUNCTIONS["constructors"] | FUNCTIONS["host"]
"""Functions that make a tensor from nothing, or from what is no tensor."""
