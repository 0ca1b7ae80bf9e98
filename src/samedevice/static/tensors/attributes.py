"""What an attribute of `self` is, by how the methods of its class give it a value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeGuard

from samedevice.static.tensors.abstract import (
    HOST,
    OTHER,
    UNTOLD_VALUE,
    Device,
    Listed,
    Local,
    Method,
    Module,
    Object,
    Tensor,
    Where,
    joined,
    same,
)
from samedevice.static.tensors.asking import Asking
from samedevice.static.tensors.knowledge import MODULES
from samedevice.static.tensors.source import Attribute, ClassText, Function, called, nodes

_MOVERS = frozenset(("to", "cuda", "_apply", "to_device", "cpu"))
"""Methods by which a class moves its attributes itself."""


def attribute_of_self(run: Asking, text: ClassText, name: str) -> Any:
    """The attribute as a method of the class reads it."""
    lineage = run.project.lineage(text)
    if name == "get_input_embeddings":
        return Method(Object(text), name)
    for each in lineage:
        if name in each.methods:
            return _method(run, each, each.methods[name], text)
    if name == "device":
        return Device(same("self.device"))
    given = [(each, attribute) for each in lineage for attribute in each.attributes.get(name, ())]
    if not given and name.endswith("_device"):
        return Device(same(f"self.{name}"))
    if not given:
        return Method(Object(text), name)
    symbol = f"self.{name}"
    module = run.project.is_module(text)
    for kind in ("parameter", "buffer"):
        if module and any(attribute.kind == kind for _, attribute in given):
            return Tensor(same(symbol), None, None, "parameter" if kind == "parameter" else "buffer")
    if any(attribute.several or attribute.kind != "assigned" for _, attribute in given):
        return UNTOLD_VALUE
    if module and any(_is_module_list(attribute.value) for _, attribute in given):
        return _of_list(run, symbol, given)
    for each, attribute in given if module else ():
        if _is_made(attribute.value):
            kind = each.source.dotted(attribute.value.func) or called(attribute.value)
            return Module(symbol, kind, run.project.class_of(each.source, kind))
    value = joined([_assigned(run, each, attribute) for each, attribute in given])
    match value:
        case Module():
            return Module(symbol, value.kind, value.text)
        case Tensor(role="parameter"):
            return Tensor(same(symbol), None, None, "parameter")
        case Tensor(where=where) if _stays(where, given) and not _moved(lineage):
            return Tensor(where, value.scalar, value.made, "attribute")
    return UNTOLD_VALUE


def _method(run: Asking, home: ClassText, function: Function, text: ClassText) -> Any:
    decorators = {getattr(each, "id", getattr(each, "attr", "")) for each in function.decorator_list}
    local = Local(function, home.source, None if "staticmethod" in decorators else Object(text))
    if decorators & {"property", "cached_property"}:
        if function.name == "device":
            return Device(same("self.device"))
        return run.reader.result(local, [], {}, run.depth + 1)
    return local


def _assigned(run: Asking, text: ClassText, attribute: Attribute) -> Any:
    return (
        UNTOLD_VALUE
        if attribute.value is None
        else run.reader.given_in(text, attribute.function, attribute.value)
    )


def _is_module_list(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and called(value) == "ModuleList"


def _of_list(run: Asking, symbol: str, given: Sequence[tuple[ClassText, Attribute]]) -> Any:
    """The modules of a list: each may be elsewhere than the others, so they are parts of one name."""
    (text, attribute), *others = given
    made = [node for node in nodes(attribute.value) if isinstance(node, ast.Call)] if attribute.value else []
    kinds = {text.source.dotted(each.func) or called(each) for each in made if called(each)[:1].isupper()}
    kinds = {kind for kind in kinds if kind.rpartition(".")[2] not in _LISTS}
    weighted = [kind for kind in kinds if kind.rpartition(".")[2] not in MODULES["free"]]
    if others or not weighted or any(keeps_nothing(run, kind) for kind in weighted):
        return UNTOLD_VALUE
    own = run.project.class_of(text.source, weighted[0]) if len(weighted) == 1 else None
    return Listed(Module(symbol, "", own), True)


_LISTS = ("ModuleList", "Sequential")


def _is_made(value: ast.expr | None) -> TypeGuard[ast.Call]:
    """Whether an attribute is given an object of a class that is not in the table, by its name."""
    if not isinstance(value, ast.Call):
        return False
    name = called(value)
    known = name in MODULES["placed"] | MODULES["free"] or name in ("Parameter", "Tensor")
    makes = name[:1].isupper() or name in ("from_config", "_from_config")
    return makes and not known and not name.endswith(_NO_MODULES)


_NO_MODULES = ("Tensor", "Config", "List", "Dict", "Lock", "Queue", "Processor", "Tokenizer")


def _stays(where: Where, given: Sequence[tuple[ClassText, Attribute]]) -> bool:
    """Whether a tensor is where its maker put it, on one way of the constructor at least."""
    if where.kind in ("default", "literal"):
        return True
    alone = all(attribute.function.name == "__init__" for _, attribute in given)
    return alone and HOST in where.of and set(where.of) <= {HOST, OTHER}


def keeps_nothing(run: Asking, name: str) -> bool:
    """Whether the objects of a class of modules have no parameters, buffers and parts, by all of its text."""
    text = run.project.class_of(run.source, name)
    if text is None or not run.project.is_module(text):
        return False
    given = [each for own in run.project.lineage(text) for each in own.attributes.values()]
    return not any(
        attribute.kind != "assigned" or _may_keep(attribute.value) for each in given for attribute in each
    )


def _may_keep(value: ast.expr | None) -> bool:
    made = [node for node in nodes(value) if isinstance(node, ast.Call)] if value is not None else []
    return any(called(node)[:1].isupper() and called(node) not in MODULES["free"] for node in made)


def _moved(lineage: list[ClassText]) -> bool:
    return any(each.reached or not _MOVERS.isdisjoint(each.methods) for each in lineage)
