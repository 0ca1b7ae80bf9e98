"""The words of the device-rule table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Check(Enum):
    """How an operator's CUDA kernel looks at the devices of its tensor arguments."""

    WRAPPER = "wrapper"
    """The generated wrapper wants every tensor on one device; a 0-dim CPU tensor is no exception."""
    ITERATOR = "iterator"
    """TensorIterator: one device, except that one 0-dim CPU input may stay behind."""
    ITERATOR_STRICT = "iterator-strict"
    """TensorIterator without that exception."""
    INDEX = "index"
    """Reading by index: indices on the host or with the indexed tensor."""
    INDEX_PUT = "index-put"
    """Writing by index: indices move by themselves; a value with dimensions must be with the indexed tensor."""
    MASKED_FILL = "masked-fill"
    """Mask with the tensor; a 0-dim CPU value may stay behind."""
    FREE = "free"
    """Devices may differ: copies, and kernels that want some arguments on the host."""
    UNCHECKED = "unchecked"
    """Nothing is checked: tensors of other devices give wrong results or an illegal access."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operator's entry in the table."""

    op: str
    """`aten::mul.Tensor`, as torch's declarations spell it, without `aten::`."""
    check: Check
    method: str | None = None
    """Name of the generated wrapper, as its error text prints it."""
    names: tuple[tuple[str, str], ...] = ()
    """Argument names that differ in the text, when another operator does the work: (ours, printed)."""
    free: frozenset[str] = frozenset()
    """Arguments that may be anywhere."""
    source: str = "native_functions.yaml"


@dataclass(frozen=True, slots=True)
class Argument:
    """What the table needs to know of one tensor argument."""

    name: str
    device: str
    dim: int
    written: bool = False
    """True for an output or an argument that is changed in place."""
