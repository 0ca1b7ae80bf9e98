"""What a function makes without a device, and which of it the function gives back, part by part."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from samedevice.lint._meetings import handles_data
from samedevice.lint._source import CALLERS_DECIDE, Around, Call, Function, LintedFile, nodes
from samedevice.static.tensors import MAKERS, Tensor


@dataclass(frozen=True, slots=True)
class Given:
    """A tensor that is given back, and at which place of the result."""

    place: object
    node: ast.expr
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Stray:
    """One that was made without a device and has dimensions."""

    call: Call
    given: Given


@dataclass(frozen=True, slots=True)
class Results:
    """What a function gives back that makes something without a device."""

    function: Function
    makers: tuple[Call, ...]
    """All calls of the function that make a tensor."""
    every: tuple[Given, ...]
    strays: tuple[Stray, ...]
    """Each maker once."""
    kept: tuple[Call, ...]
    """The makers of what is sent nowhere, read by nobody, put into no other tensor, and no index."""


def results(file: LintedFile) -> Iterator[Results]:
    """The functions of a file that give back what they made without a device."""
    if file.is_test or file.source.changes_default:
        return
    makers: dict[int, list[Call]] = {}
    for call in file.calls(*MAKERS):
        if call.around.function is not None and file.dotted(call).startswith("torch."):
            makers.setdefault(id(call.around.function), []).append(call)
    for made in makers.values():
        around = made[0].around
        if any(call.keyword("device") is None for call in made) and not _is_left_out(file, around):
            yield _results(file, around, made)


def _is_left_out(file: LintedFile, around: Around) -> bool:
    name = file.function_name(around)
    return name in CALLERS_DECIDE or file.runs_on_host(around) or handles_data(file, around)


def _results(file: LintedFile, around: Around, made: list[Call]) -> Results:
    assert around.function is not None
    own = {id(call.node): call for call in made if call.keyword("device") is None}
    every = tuple(_given_back(around.function, file.told(around).values))
    strays: dict[int, Stray] = {}
    for each in every:
        call = own.get(id(each.tensor.made))
        if call is not None and _is_stray(each.tensor):
            strays.setdefault(id(call.node), Stray(call, each))
    kept = _kept(around.function, own, file.told(around).values)
    return Results(around.function, tuple(made), every, tuple(strays.values()), kept)


_LEAVE = frozenset("to cuda cpu type_as item tolist numpy".split())
"""Methods by which a tensor goes elsewhere, or is read."""


def _kept(function: Function, own: Mapping[int, Call], values: Mapping[int, object]) -> tuple[Call, ...]:
    left: set[int] = set()
    for node in nodes(function):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _LEAVE:
                used: list[ast.AST] = nodes(owner)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _READERS or name == function.name:
                used = [inner for each in args for inner in nodes(each)]
            case ast.Subscript(slice=index):
                used = nodes(index)
            case ast.Assign(targets=[ast.Subscript(value=owner)], value=given) if isinstance(
                values.get(id(owner)), Tensor
            ):
                used = nodes(given)  # a copy between devices
            case _:
                continue
        told = [getattr(values.get(id(each)), "made", None) for each in used]
        left |= {id(made) for made in told if made is not None}
    found = []
    for key, call in own.items():
        value = values.get(key)
        if (
            key not in left
            and isinstance(value, Tensor)
            and value.where.kind == "default"
            and _is_stray(value)
        ):
            found.append(call)
    return tuple(found)


_READERS = frozenset("int float bool len list".split())


def _is_stray(tensor: Tensor) -> bool:
    return tensor.role == "made" and tensor.where.unplaced and (tensor.scalar is False or tensor.sized)


def _given_back(function: Function, values: Mapping[int, object]) -> Iterator[Given]:
    for node in _own_returns(function):
        for place, part in _parts(node):
            value = values.get(id(part))
            if isinstance(value, Tensor):
                yield Given(place, part, value)


def _own_returns(function: Function) -> Iterator[ast.expr]:
    """What a function's own `return` statements give, in their order."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.expr
        ):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def _parts(node: ast.expr) -> Iterator[tuple[object, ast.expr]]:
    match node:
        case ast.Tuple(elts=parts):
            yield from enumerate(parts)
        case ast.Dict(keys=keys, values=parts):
            for key, part in zip(keys, parts, strict=True):
                if isinstance(key, ast.Constant):
                    yield key.value, part
        case _:
            yield None, node
