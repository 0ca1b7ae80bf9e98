"""What an expression can be, as far as devices go: the values of the static reading of tensors.

Must guarantee: a place that is not `unknown` is a claim. It holds in every run that reaches the expression
with a default device of the host, unless the default was changed by a caller.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from samedevice.static.tensors.source import ClassText, SourceText

Role = Literal["made", "argument", "parameter", "buffer", "attribute", "output", "mask", "other"]
Kind = Literal["default", "literal", "same", "likely", "part", "maybe", "unknown"]


@dataclass(frozen=True, slots=True)
class Where:
    """The device of a tensor."""

    kind: Kind
    """`default`: it was made without a device, so on the host. `literal`: it is written. `same`: that of one
    of the things that `of` names. `likely`: the same, unless these have no dimensions and met something that
    cannot be told; no claim. `part`: what a part of the module gave; no claim, as it may give it anywhere.
    `maybe`: one of several of these, by the way that was taken; no claim either. `unknown`: it cannot be
    told.
    """
    of: tuple[str, ...] = ()
    """The written device; or arguments (`x`), attributes (`self.weight`), parts of the module
    (`self.proj`). Of `maybe` also `HOST`, for what is made without a device, `CURRENT`, for what is sent to
    the GPU that is the current one, and `OTHER`.
    """

    def __str__(self) -> str:
        return self.kind if not self.of else f"{self.kind} {' or '.join(self.of)}"

    @property
    def unplaced(self) -> bool:
        """Whether nothing brings it from the host, or nothing does on one of several ways."""
        return self.kind == "default" or HOST in self.of

    @property
    def follows(self) -> bool:
        """Whether it is where one of the things is that `of` names."""
        return self.kind in ("same", "likely")


_DEVICE = re.compile(r"(cpu|cuda|mps|xpu)(:\d+)?$")
HOST, CURRENT, OTHER = "<host>", "<cuda>", "<other>"
NOWHERE = Where("unknown")
DEFAULT = Where("default")


def literal(device: str) -> Where:
    """A device that is written."""
    return Where("literal", (device,))


def same(*symbols: str) -> Where:
    """The device of one of these."""
    return Where("same", tuple(sorted(set(symbols))))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor; one of no dimensions (`scalar`) may be on the host beside others."""

    where: Where
    scalar: bool | None = None
    made: ast.expr | None = None
    """The expression that made it, or that sent it where it is."""
    role: Role = "other"
    sized: bool = False
    """Whether it has dimensions unless another tensor, or the array, that it was made with has none."""
    rank: int = 0
    """So many dimensions it has at least, as far as the sizes that it was made with are written."""
    absent: bool = False
    """Whether it may be no tensor, but something that is not told, such as None."""


@dataclass(frozen=True, slots=True)
class Device:
    """A `torch.device`, or what stands for one."""

    where: Where


@dataclass(frozen=True, slots=True)
class Module:
    """An object of a module's class: `symbol` names it, `kind` its class where that can be told."""

    symbol: str
    kind: str
    text: ClassText | None = None
    where: Where = NOWHERE


@dataclass(frozen=True, slots=True)
class Library:
    """A name of a library: `torch.nn.functional.linear`."""

    name: str

    @property
    def last(self) -> str:
        """Its last part."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Local:
    """A function of the files that are read, with the object that it is bound to."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    source: SourceText
    owner: Any = None
    home: Any = None
    """The reading of the function inside which it is defined; None where it is defined in none."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a class that is read, with its name: `self`, an argument, a part of one of these."""

    text: ClassText
    symbol: str = "self"


@dataclass(frozen=True, slots=True)
class ClassName:
    """A class that is read."""

    text: ClassText


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a value."""

    owner: Any
    name: str


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple or a list whose parts can be told."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list or an iterable of unknown length, with what each of its parts is."""

    part: Any
    whole: bool = False
    """Whether nobody else can have put something else into it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A tuple or a list with some parts that can be told at its beginning and at its end."""

    before: tuple[Any, ...]
    after: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """What is no tensor; with its value where it is written."""

    value: Any = None
    known: bool = False


class Untold:
    """What may be anything."""

    def __repr__(self) -> str:
        return "untold"


UNTOLD_VALUE = Untold()


@dataclass(frozen=True)
class Given(Untold):
    """An argument, or a part of one, of which nothing is told but that; a tensor where it is used as one."""

    symbol: str
    array: bool = False
    """Whether it is used as an array is, or may be a tensor by its annotation."""
    number: bool = False
    """Whether it was given a type of numbers, as tensors and modules can be."""
    asked: bool = False
    """Whether the function asks for its device, as of tensors and modules."""


@dataclass(frozen=True, slots=True)
class Record:
    """An object of named attributes, as of a dataclass; `rest` is what each of its others is."""

    parts: tuple[tuple[str, Any], ...]
    rest: Any = UNTOLD_VALUE

    def part(self, name: str) -> Any:
        """One attribute."""
        return dict(self.parts).get(name, self.rest)

    def given(self, name: str, value: Any) -> Record:
        """The same with another value of one attribute."""
        return Record(tuple((dict(self.parts) | {name: value}).items()), self.rest)


@dataclass(frozen=True, slots=True)
class Entries:
    """A dictionary that is written down here, so that nobody else has it, with what its names stand for."""

    parts: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Named:
    """Arguments that a function was given by names that it does not have: `**kwargs`."""

    parts: tuple[tuple[str, Any], ...]


PLAIN = Plain()
NUMBER = Plain(int)
"""A whole number that is not told."""
SIZE = Plain(tuple)
"""All of a tensor's size."""
NONE = Plain(None, True)
EMPTY = Plain("<no part yet>", True)
"""The part of a list that nothing was put into."""


def is_whole(value: Any) -> bool:
    """Whether something is a whole number, told or not."""
    return isinstance(value, Plain) and (value == NUMBER or (value.known and type(value.value) is int))


def joined(values: Sequence[Any]) -> Any:
    """What holds for all of several values that one expression may have."""
    values = [each for each in values if each is not EMPTY] or [EMPTY]
    first, *others = values
    if all(each is first or each == first for each in others):
        return first
    tensors = [each for each in values if isinstance(each, Tensor)]
    if tensors and all(isinstance(each, Tensor | Plain | Untold) for each in values):
        others = [each for each in values if not isinstance(each, Tensor)]
        return _joined_tensors(tensors, bool(others), all(is_whole(each) for each in others))
    if all(isinstance(each, Listed) for each in values):
        return Listed(joined([each.part for each in values]), all(each.whole for each in values))
    if all(isinstance(each, Device) for each in values):
        return Device(any_of([each.where for each in values]))
    if all(is_whole(each) for each in values):
        return NUMBER
    if all(isinstance(each, Plain) for each in values):
        named = [each.value for each in values if isinstance(each.value, str) and _DEVICE.match(each.value)]
        return Device(any_of([literal(each) for each in named])) if len(named) == len(values) else PLAIN
    if all(isinstance(each, Items) and len(each.parts) == len(first.parts) for each in values):
        return Items(tuple(joined(parts) for parts in zip(*(each.parts for each in values), strict=True)))
    if all(isinstance(each, Entries) for each in values):
        names = [name for name, _ in first.parts if all(name in dict(each.parts) for each in values)]
        tables = [dict(each.parts) for each in values]
        return Entries(tuple((name, joined([each[name] for each in tables])) for name in names))
    if all(isinstance(each, Record) for each in values):
        names = [name for name, _ in first.parts if all(name in dict(each.parts) for each in values)]
        parts = tuple((name, joined([each.part(name) for each in values])) for name in names)
        return Record(parts, joined([each.rest for each in values]))
    return UNTOLD_VALUE


def _joined_tensors(tensors: Sequence[Tensor], others: bool, numbers: bool) -> Tensor:
    """One of several tensors, or something that cannot be told; `numbers` where that is a number."""
    first = tensors[0]
    scalar = first.scalar if all(each.scalar == first.scalar for each in tensors) else None
    strays = [each for each in tensors if each.where.unplaced]
    strays = strays or [each for each in tensors if each.where == literal("cuda") or CURRENT in each.where.of]
    named = next((each for each in strays if each.role in ("made", "attribute")), (strays or [first])[0])
    where = any_of([*(each.where for each in tensors), *([NOWHERE] if others and not numbers else [])])
    if others and numbers and where.kind != "unknown":
        where = Where("maybe", _named(where))  # no claim, as it may be no tensor
    alike = all(each.made is first.made and each.role == first.role for each in tensors)
    absent = others or any(each.absent for each in tensors)
    if strays or alike:
        scalar = named.scalar if strays else scalar
        return Tensor(where, scalar, named.made, named.role, named.sized, absent=absent)
    return Tensor(where, scalar, absent=absent)


def any_of(places: Sequence[Where]) -> Where:
    """One of several places."""
    if len(set(places)) == 1:
        return places[0]
    if all(place.kind == "same" for place in places):
        return same(*(symbol for place in places for symbol in place.of))
    named = {symbol for place in places for symbol in _named(place)}
    return NOWHERE if named <= {OTHER} else Where("maybe", tuple(sorted(named)))


def _named(place: Where) -> tuple[str, ...]:
    """What a place is called among several."""
    match place.kind:
        case "default":
            return (HOST,)
        case "literal" if place.of == ("cuda",):
            return (CURRENT,)
        case "unknown" | "literal":
            return (OTHER,)
    return place.of


def likely(tensors: Sequence[Tensor]) -> Where | None:
    """Where the result of an operator is whose other operands cannot be told, unless all of these have no
    dimensions.
    """
    places = [each.where for each in tensors if each.scalar is not True]
    symbols = {symbol for place in places if place.follows for symbol in place.of}
    return Where("likely", tuple(sorted(symbols))) if symbols else None


def met(tensors: Sequence[Tensor], strictly: bool = False) -> Where:
    """Where the result of an operator is whose operands must be together: it ran, so they were."""
    if len(tensors) == 1:
        return tensors[0].where
    # One of the host that may have no dimensions says nothing of the others.
    follows = [each for each in tensors if strictly or each.scalar is False or HOST not in each.where.of]
    tensors = follows or tensors
    large = [each for each in tensors if strictly or each.scalar is False]
    told = [each.where for each in large if each.where.kind in ("literal", "same")]
    if told:
        return told[0]
    if all(each.where.kind == "default" for each in tensors) and tensors:
        return DEFAULT
    places = [each.where for each in tensors if each.scalar is not True] or [each.where for each in tensors]
    if places[0].kind == "part" and len(set(places)) == 1:
        return places[0]
    others = [place for place in places if place.kind not in ("default", "part")]
    # One that was made on the host and is not of no dimensions met the others there, if at all.
    if any(place.kind not in ("same", "literal") for place in others):
        apart = [place for place in others if HOST not in place.of and place.kind != "literal"]
        return likely(tensors) or any_of(apart or others)
    return any_of(others) if others else NOWHERE
