"""The types of the device-rule table: `Check`, `Demand`, `Argument` and `Row`."""

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
    SCALARS_MOVE = "scalars-move"
    """0-dim tensors move by themselves, from the host and from other GPUs; all others share a device."""
    INDEX = "index"
    """Reading by index: indices on the host or with the indexed tensor."""
    INDEX_PUT = "index-put"
    """Writing by index: indices move by themselves; a value with dimensions must be with the indexed tensor.
    """
    PARTS = "parts"
    """The kernel is made of other operators, and those look at devices."""
    FREE = "free"
    """Devices may differ: copies, and kernels that read some arguments on the host."""
    UNCHECKED = "unchecked"
    """Nothing is checked: tensors of other devices give wrong results or an illegal access."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A check that a kernel makes itself, in words of its own."""

    reference: str
    """The argument that the others are compared with; empty when the others must be on the host."""
    others: tuple[str, ...]
    text: str
    """What it raises: `{self}` is the device of `self`, `{self_type}` its legacy type name, `{0}` the
    reference's device, `{1}`, `{dim}` and `{position}` the offender's device, dimensions and position in its
    list;
    `{kind}` and `{other_kind}` are the kinds of the two devices.
    """
    kinds: bool = False
    """Compare kinds of device only: two GPUs pass."""
    on: str | None = None
    """Only when the reference is on this kind of device."""
    host_passes: bool = False
    """What is on the host passes."""
    beside: str | None = None
    """Only when this argument was given, too."""
    missing: bool = False
    """It is the dispatcher that refuses, which has no kernel: a NotImplementedError."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operator's entry in the table."""

    op: str
    """`mul.Tensor`, as torch's declarations spell it; operators of other libraries with their namespace."""
    check: Check
    method: str | None = None
    """Name of the generated wrapper, as its error text prints it."""
    deep_method: str | None = None
    """The wrapper that is reached instead when the first argument, on a GPU, has three dimensions or more."""
    deep_needs: frozenset[str] = frozenset()
    """Arguments without which it is not."""
    names: tuple[tuple[str, str], ...] = ()
    """Argument names that differ in the text, when another operator does the work: (ours, printed)."""
    order: tuple[str, ...] = ()
    """The arguments that are looked at, in that order; empty for all in the order of the schema."""
    free: frozenset[str] = frozenset()
    """Arguments that may be anywhere."""
    host: frozenset[tuple[str, str]] = frozenset()
    """Arguments that may be on the host when they have this type: (argument, type)."""
    result: str | None = None
    """The argument on whose device a result is made before the iterator is: it counts as written."""
    scalars: tuple[tuple[str, str], ...] = ()
    """What the kernel says to a CPU scalar that the iterator let by: (argument, text with `{place}`)."""
    demands: tuple[Demand, ...] = ()
    """What the kernel checks before `check`."""
    then: Row | None = None
    """What is checked when all this was fine."""
    source: str = "native_functions.yaml"
    """Where it says so: file and function below torch's own tree, or `default: ...` when nothing says it."""

    @property
    def by_default(self) -> bool:
        """Whether nothing speaks of this operator, so that the default decided."""
        return self.source.startswith("default")


@dataclass(frozen=True, slots=True)
class Argument:
    """What the table needs to know of one tensor argument."""

    name: str
    """As in the schema; members of a list have their position: `tensors[1]`."""
    device: str
    dim: int
    written: bool = False
    """True for an output or an argument that is changed in place."""
    dtype: str = "float32"
    numel: int = 0

    @property
    def bare(self) -> str:
        """The name without the position in a list."""
        return self.name.partition("[")[0]
