"""What an attribute of `self` is, by how the methods of its class give it a value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from samedevice.static.tensors.abstract import (
    HOST,
    NUMBER,
    OTHER,
    PLAIN,
    UNTOLD_VALUE,
    Device,
    Given,
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
from samedevice.static.tensors.signs import annotated
from samedevice.static.tensors.source import Attribute, ClassText, Function, called, nodes

_MOVERS = frozenset(("to", "cuda", "_apply", "to_device", "cpu"))
"""Methods by which a class moves its attributes itself."""


def attribute_of(run: Asking, owner: Object, name: str) -> Any:
    """The attribute of an object as its class's methods, or whoever has it, read it."""
    text, symbol = owner.text, f"{owner.symbol}.{name}"
    lineage = run.project.lineage(text)
    if name == "get_input_embeddings":
        return Method(owner, name)
    for each in lineage:
        if name in each.methods:
            return _method(run, each, each.methods[name], owner)
    if name == "device":
        return Device(same(symbol))
    given = [(each, attribute) for each in lineage for attribute in each.attributes.get(name, ())]
    if not given and name.endswith("_device"):
        return Device(same(symbol))
    if not given or owner.symbol.isidentifier():
        field = next((each.fields[name] for each in lineage if name in each.fields), None)
        if field is not None and (value := annotated(field, symbol)) is not None:
            return value
        if isinstance(field, ast.Name) and field.id == "int":
            return NUMBER
    if not given:
        return Method(owner, name)
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
        case _ if module and (part := _part(run, given)) is not None:
            return Module(symbol, "", part.text)
        case Tensor(role="parameter"):
            return Tensor(same(symbol), None, None, "parameter")
        case Tensor(where=where) if _stays(where, given, lineage) and not _moved(lineage):
            if run.project.given_below(text, name):
                return UNTOLD_VALUE
            return Tensor(where, value.scalar, value.made, "attribute")
        case Given() | Method() if any(name in each.sizes for each in lineage):
            return PLAIN
    return UNTOLD_VALUE if _moved(lineage) else _at_first(run, lineage, given, name)


def keeps_tensors(lineage: list[ClassText]) -> bool:
    """Whether the objects of a class have tensors, by its annotations or by what its constructor makes."""
    return any(
        each.source.kept_names
        or any(annotated(field, name) is not None for name, field in each.fields.items())
        for each in lineage
    )


def may_keep(lineage: list[ClassText], name: str) -> bool:
    """Whether an attribute may be a tensor that a class makes or registers, a part, or a number."""
    if any(name in each.source.kept_names or name in each.methods for each in lineage):
        return True
    given = [attribute for each in lineage for attribute in each.attributes.get(name, ())]
    return any(each.kind != "assigned" or _is_made(each.value) for each in given)


def _method(run: Asking, home: ClassText, function: Function, owner: Object) -> Any:
    decorators = {getattr(each, "id", getattr(each, "attr", "")) for each in function.decorator_list}
    local = Local(function, home.source, None if "staticmethod" in decorators else owner)
    if decorators & {"property", "cached_property"}:
        if function.name == "device":
            return Device(same(f"{owner.symbol}.device"))
        if run.elsewhere and not local.source.changes_default:
            return UNTOLD_VALUE
        return run.reader.result(local, [], {}, run.depth + 1)
    return local


Assignments = Sequence[tuple[ClassText, Attribute]]


def _part(run: Asking, given: Assignments) -> Module | None:
    """The module that the constructor makes an attribute of, where others are only given to the class."""
    own = [each for each in given if each[1].function.name == "__init__"]
    made = {value for each in own if isinstance(value := _assigned(run, *each), Module)} if own else set()
    handed = all(
        isinstance(attribute.value, ast.Name)
        and attribute.value.id in {each.arg for each in attribute.function.args.args}
        for _, attribute in given
        if attribute.function.name != "__init__"
    )
    return made.pop() if len(made) == 1 and len(own) == 1 and handed else None


def _at_first(run: Asking, lineage: list[ClassText], given: Assignments, name: str) -> Any:
    """What an attribute is when a method begins that nobody called before, where the constructor leaves it on
    the host, and what gives it another value later is made beside it, or this method itself.
    """
    if not any(name in each.source.kept_names for each in lineage):
        return UNTOLD_VALUE
    making = _making(lineage)
    later = [each for each in given if id(each[1].function) not in making]
    other = [each for _, each in later if not _is_beside_itself(each.value, name)]
    if not other and not later:
        return UNTOLD_VALUE
    if run.function is None or any(
        each.function is not run.function or _may_come_first(each, run.function) for each in other
    ):
        return UNTOLD_VALUE
    if other and (run.function.name.startswith("_") or run.function.name in _mentioned(lineage)):
        return UNTOLD_VALUE
    first = joined([_assigned(run, *each) for each in given if id(each[1].function) in making])
    if isinstance(first, Tensor) and HOST in _places(first.where) and set(_places(first.where)) <= _EITHER:
        return Tensor(Where("maybe", (HOST, OTHER)), first.scalar, first.made, "attribute")
    return UNTOLD_VALUE


_EITHER = {HOST, OTHER}


def _places(where: Where) -> tuple[str, ...]:
    return (HOST,) if where.kind == "default" else where.of


def _making(lineage: list[ClassText]) -> frozenset[int]:
    """The constructors of a class, and the private methods that only these call, as nodes."""
    return _making_of(tuple(lineage))


@lru_cache(maxsize=256)
def _making_of(lineage: tuple[ClassText, ...]) -> frozenset[int]:
    every = [(name, node) for each in lineage for name, node in each.methods.items()]
    found = {id(node) for name, node in every if name == "__init__"}
    callers: dict[str, set[int]] = {}
    for each in lineage:
        for function, called_there, read in each.mentions:
            for name in called_there:
                callers.setdefault(name, set()).add(id(function))
            for name in read:
                callers.setdefault(name, set()).add(0)  # whoever gets it may call it
    for _ in range(_DEEPEST):
        found |= {
            id(node)
            for name, node in every
            if name.startswith("_") and not name.startswith("__") and callers.get(name, _NOBODY) <= found
        }
    return frozenset(found)


_DEEPEST = 3
_NOBODY = frozenset((0,))


def _mentioned(lineage: list[ClassText]) -> set[str]:
    """The attributes and methods of `self` that the methods of a class name."""
    return {name for each in lineage for _, *names in each.mentions for name in frozenset().union(*names)}


def _is_beside_itself(value: ast.expr | None, name: str) -> bool:
    """Whether what an attribute is given is computed of itself, and sent nowhere."""
    if value is None:
        return False
    inside = nodes(value)
    if not any(_is_own(each, name) for each in inside):
        return False
    calls = [each for each in inside if isinstance(each, ast.Call)]
    return all(
        called(each) not in _SENDERS
        and all(_is_own_device(key.value, name) for key in each.keywords if key.arg in ("device", None))
        and (_is_of_torch(each) or len(each.args) < 2)
        for each in calls
    )


_SENDERS = frozenset("to cuda cpu type_as new_tensor xpu npu".split())


def _is_of_torch(node: ast.Call) -> bool:
    """Whether a function of torch is called, or a method that sends nothing."""
    match node.func:
        case ast.Attribute(value=ast.Name(id=name)):
            return name in ("torch", "F")
        case ast.Attribute(value=ast.Call() | ast.Attribute()):
            return True
    return False


def _is_own(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return attr == name
    return False


def _is_own_device(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "device" and _is_own(node.value, name)


def _may_come_first(attribute: Attribute, function: Function) -> bool:
    """Whether an attribute is given another value on a way of a method that is not told: in a loop, or by a
    question about more than whether an argument was given.
    """
    names = {each.arg for each in nodes(function.args) if isinstance(each, ast.arg)} - {"self"}
    around = [
        each
        for each in nodes(function)
        if isinstance(each, _PARTING) and any(inner is attribute.node for inner in nodes(each))
    ]
    return any(not isinstance(each, ast.If) or not _asks_only(each.test, names) for each in around)


_PARTING = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match)


def _asks_only(test: ast.expr, names: set[str]) -> bool:
    inside = nodes(test)
    named = {each.id for each in inside if isinstance(each, ast.Name)}
    return named <= names and any(isinstance(each, ast.Constant) and each.value is None for each in inside)


def _assigned(run: Asking, text: ClassText, attribute: Attribute) -> Any:
    return (
        UNTOLD_VALUE
        if attribute.value is None
        else run.reader.given_in(text, attribute.function, attribute.value)
    )


def _is_module_list(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and called(value) == "ModuleList"


def _of_list(run: Asking, symbol: str, given: Assignments) -> Any:
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


def _stays(where: Where, given: Assignments, lineage: list[ClassText]) -> bool:
    """Whether a tensor is where its maker put it, on one way of the constructor at least."""
    if where.kind in ("default", "literal"):
        return True
    if HOST not in where.of or not set(where.of) <= _EITHER:
        return False
    making = _making(lineage)
    return all(id(attribute.function) in making for _, attribute in given)


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
