"""What a name of a script can stand for, as far as placement needs it.

Text, numbers, lists and dictionaries are Python's own. The rest is a handful of small classes; `UNKNOWN` is
everything else and swallows what is done to it. Text and maps remember where they were written, so that a
repair can change that very place.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPREADING = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
"""Maps of accelerate that use every visible GPU."""


UNTOLD = "\ufffd"
"""Stands in text for what only a run would tell."""


class Unknown:
    """Anything that reading alone cannot tell."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: a node of a Python file, or a line of another one."""

    file: Path
    line: int
    node: ast.expr | None = None
    kind: str = "python"
    """`python`, `default` (of an option or a field), `call` (computed), `shell`, `argument`, `config`."""


class Text(str):
    """Text that knows where it was written."""

    origin: Origin | None

    def __new__(cls, value: str, origin: Origin | None = None) -> Text:
        """The same text, with its origin."""
        made = super().__new__(cls, value)
        made.origin = origin
        return made


class Table(dict[Any, Any]):
    """A dictionary that knows where it was written."""

    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A `torch.device`; without an index, the current one of its type."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model's weights are: `host`, `device`, `split` over several GPUs, or `unknown`."""

    kind: str
    devices: tuple[str, ...] = ()
    spread: bool = False
    """Whether accelerate chose the split, so that hooks move the inputs."""


HOST = Placement("host", ("cpu",))
ANYWHERE = Placement("unknown")


@dataclass(frozen=True, slots=True)
class External:
    """A name of a library: `torch.cuda.set_device`."""

    name: str

    @property
    def last(self) -> str:
        """`set_device` of `torch.cuda.set_device`."""
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Function:
    """A function of the user's own files."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: LocalModule
    closure: tuple[dict[str, Any], ...]
    owner: Any = None
    """The instance or class that it is bound to."""
    home: Class | None = None


@dataclass(eq=False, slots=True)
class Class:
    """A class of the user's own files."""

    node: ast.ClassDef
    module: LocalModule
    bases: list[Any]
    attributes: dict[str, Any]

    def find(self, name: str) -> Any:
        """An attribute, also of local base classes; None when there is none."""
        if name in self.attributes:
            return self.attributes[name]
        for base in self.bases:
            if isinstance(base, Class) and (found := base.find(name)) is not None:
                return found
        return None

    def lineage(self) -> list[Any]:
        """The class and all its bases, libraries' included."""
        found: list[Any] = [self]
        for base in self.bases:
            found += base.lineage() if isinstance(base, Class) else [base]
        return found

    def derives(self, ending: str) -> bool:
        """Whether a base in a library has such an ending."""
        return any(isinstance(base, External) and base.last.endswith(ending) for base in self.lineage())


@dataclass(eq=False, slots=True)
class Instance:
    """An object of a local class, or of a library's class whose attributes matter."""

    kind: Class | External
    attributes: dict[str, Any] = field(default_factory=dict)
    placement: Placement = HOST
    """For a module: where its own weights are."""
    moved: bool = False


@dataclass(eq=False, slots=True)
class Model:
    """A model that a library loaded or built."""

    placement: Placement
    file: Path
    node: ast.Call
    map: Any = None
    bits: int = 0
    """4 or 8 when bitsandbytes quantized it, 1 for another quantization."""
    wrapped: str = ""
    sharded: bool = False
    """Tensor parallel: each rank holds a part by design."""


@dataclass(eq=False, slots=True)
class Parameters:
    """`model.parameters()` and what is picked from it."""

    model: Any


@dataclass(eq=False, slots=True)
class Optimizer:
    """An optimizer and the model whose parameters it has."""

    name: str
    model: Any
    file: Path
    node: ast.Call
    placement: Placement
    loaded: ast.Call | None = None
    stepped: bool = False


@dataclass(eq=False, slots=True)
class Checkpoint:
    """What `torch.load` gave, or a part of it."""

    file: Path
    node: ast.Call
    mapped: bool


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor; its device may be unknown."""

    device: Device | None
    name: str = ""


@dataclass(eq=False, slots=True)
class Bound:
    """A method of something that is modelled."""

    owner: Any
    name: str


@dataclass(eq=False, slots=True)
class LocalModule:
    """A file of the user's own."""

    name: str
    file: Path
    source: str
    tree: ast.Module
    scope: dict[str, Any] = field(default_factory=dict)
    package: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that the script does and that matters to placement, in the order of its doing."""

    kind: str
    file: Path
    node: ast.AST
    values: dict[str, Any]
    maybe: bool = False
    """It stands under a condition that could not be told."""

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)


def known(value: Any) -> bool:
    """Whether a value is one of Python's own, all through."""
    if isinstance(value, dict):
        return all(known(key) and known(each) for key, each in value.items())
    if isinstance(value, (list, tuple, set)):
        return all(known(each) for each in value)
    return isinstance(value, (str, int, float, bool, type(None), bytes, Device))


def device_of(value: Any) -> Device | None:
    """A device from what `.to()` and friends accept; None when it cannot be told."""
    if isinstance(value, Device):
        return value
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return Device("cuda", value)
    if isinstance(value, str):
        kind, _, index = value.partition(":")
        if kind in ("cuda", "cpu", "meta", "xpu", "npu", "mps", "hpu"):
            return Device(kind, int(index) if index.isdigit() else None)
    return None
