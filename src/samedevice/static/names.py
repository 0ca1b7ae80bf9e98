"""What a function and a class do with their names: what is assigned, registered and kept, and where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from samedevice.events import Origin, Use, Written
from samedevice.provenance.syntax import Function

OF_TENSORS = frozenset(
    "view reshape unsqueeze squeeze expand expand_as repeat repeat_interleave transpose permute flatten "
    "contiguous clone detach float long int bool half bfloat16 double sum mean max min cumsum argmax "
    "masked_fill t chunk split gather index_select clamp pow sqrt rsqrt exp log softmax flip roll add sub "
    "mul div eq ne lt gt le ge logical_not logical_and logical_or any all diff tril triu square abs "
    "neg sin cos tanh sigmoid relu unbind requires_grad_".split()
)
"""Methods, and functions of torch, whose result is where their tensor is."""
OWN = frozenset("self cls ctx".split())
"""How a method calls its object, its class, or what autograd gives it."""
_LONGEST = 120
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_Branch = tuple[tuple[int, str], ...]
"""The statements with parts, such as `if`, that a statement stands in, and in which part of each."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A statement that gives a local name its value."""

    line: int
    value: ast.expr | None
    """None where the expression is not the name's own: a target of a loop, a part of what a call returns."""
    branch: _Branch = ()
    default: bool = False
    """Whether it runs only where the name holds None."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a function does with its names."""

    branches: dict[int, _Branch]
    bindings: dict[str, list[Binding]]
    clouded: frozenset[str]
    """Names that get values in other ways than by an assignment of their own."""
    leaves: frozenset[tuple[int, str]]
    """Parts of statements that end by leaving the function, or the turn of a loop."""
    layers: frozenset[str]
    """Targets of loops over what the object keeps."""


def without_receiver(function: Function, *, method: bool) -> list[str]:
    """The parameters of a function that a call hands over: of a `method` the first one is its object."""
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list)
    names = parameters_of(function)
    return [each for each in names[1 if method and not static else 0 :] if each not in OWN]


@lru_cache(maxsize=256)
def facts_of(function: Function) -> _Facts:
    """What a function does with its names, read once."""
    branches: dict[int, _Branch] = {}
    bindings: dict[str, list[Binding]] = {}
    tests: dict[int, ast.expr] = {}
    leaves: set[tuple[int, str]] = set()
    layers: set[str] = set()
    waiting: list[tuple[Sequence[ast.stmt], _Branch]] = [(function.body, ())]
    while waiting:
        body, branch = waiting.pop()
        if branch and body and isinstance(body[-1], _ENDS):
            leaves.add(branch[-1])
        for node in body:
            branches[id(node)] = branch
            if isinstance(node, ast.If):
                tests[id(node)] = node.test
            if isinstance(node, ast.For) and any(map(of_self, _expressions(node.iter))):
                layers |= {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
            for name, value in _values(node):
                default = any(
                    part == "body" and test in tests and asks_for_none(tests[test], name)
                    for test, part in branch
                )
                bindings.setdefault(name, []).append(Binding(node.lineno, value, branch, default))
            waiting += _parts(node, branch)
    return _Facts(branches, bindings, _clouded(function), frozenset(leaves), frozenset(layers))


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    return (each for each in ast.walk(node) if isinstance(each, ast.expr))


def _parts(node: ast.stmt, branch: _Branch) -> Iterator[tuple[Sequence[ast.stmt], _Branch]]:
    """The bodies inside of a statement; those of functions and classes in it are their own."""
    match node:
        case ast.If(body=body, orelse=orelse):
            yield body, (*branch, (id(node), "body"))
            yield orelse, (*branch, (id(node), "orelse"))
        case ast.Try() | ast.TryStar():
            yield [*node.body, *node.orelse], (*branch, (id(node), "body"))
            for number, handler in enumerate(node.handlers):
                yield handler.body, (*branch, (id(node), f"handler {number}"))
            yield node.finalbody, branch
        case ast.Match(cases=cases):
            for number, case in enumerate(cases):
                yield case.body, (*branch, (id(node), f"case {number}"))
        case ast.For() | ast.AsyncFor() | ast.While():
            yield [*node.body, *node.orelse], branch
        case ast.With(body=body) | ast.AsyncWith(body=body):
            yield body, branch


def _clouded(function: Function) -> frozenset[str]:
    """Names that are set in a way that is not followed, or whose entries or attributes are."""
    names: set[str] = set()
    for node in ast.walk(function):
        match node:
            case (
                ast.NamedExpr(target=ast.Name(id=name))
                | ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name)))
            ):
                names.add(name)
            case ast.Global(names=told) | ast.Nonlocal(names=told):
                names.update(told)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update((each.asname or each.name).partition(".")[0] for each in aliases)
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
            ):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.update(() if node is function else {name})
            case ast.comprehension(target=target):
                names.update(each.id for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.Assign(targets=targets):
                names.update(filter(None, map(_changed_within, targets)))
            case ast.Delete(targets=targets):
                names.update(each.id for each in targets if isinstance(each, ast.Name))
    return frozenset(names)


def _changed_within(target: ast.expr) -> str | None:
    """The name whose entry or attribute an assignment sets: `d["x"] = ...`, `m.data = ...`."""
    match target:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str())):
            return name
        case ast.Attribute(value=ast.Name(id=name)) if name not in OWN:
            return name
    return None


def _values(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement sets, each with its value; None where no expression of its own writes it."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _in_target(target, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            yield name, value
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield from _in_target(target, None)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _in_target(item.optional_vars, None)


def _in_target(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    match target:
        case ast.Name(id=name):
            yield name, value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            values: list[ast.expr | None] = [_part_of(value)] * len(parts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts):
                values = [*value.elts]
            for part, own in zip(parts, values, strict=True):
                yield from _in_target(part, own)
        case ast.Starred(value=inner):
            yield from _in_target(inner, None)


def _part_of(value: ast.expr | None) -> ast.expr | None:
    """A value that is taken apart, where each part is on its device."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        own = text_of(value.func.value) == "self"
        return value if own or value.func.attr in OF_TENSORS else None
    return None


def asks_for_none(test: ast.expr, name: str) -> bool:
    """Whether a test asks if a name holds None."""
    match test:
        case ast.Compare(left=ast.Name(id=found), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return found == name
        case ast.BoolOp(op=ast.And(), values=values):
            return any(asks_for_none(each, name) for each in values)
    return False


def hands_on(function: Function, name: str) -> bool:
    """Whether a function leaves a name as it got it."""
    facts = facts_of(function)
    return name not in facts.clouded and name not in facts.bindings


def parameters_of(function: Function) -> list[str]:
    """The names of a function's parameters, in their order, without those that collect the rest."""
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


@lru_cache(maxsize=64)
def kept_by(owner: ast.ClassDef) -> tuple[dict[str, list[ast.expr | None]], dict[str, Written]]:
    """By attribute, the values that a class assigns to it, None for one that is no expression of its own; and
    the parameters and buffers that it registers.
    """
    kept: dict[str, list[ast.expr | None]] = {}
    registered: dict[str, Written] = {}
    registers: dict[str, Origin] = {"register_buffer": "buffer", "register_parameter": "parameter"}
    for node in _within(owner):
        match node:
            case ast.Call() if called_name(node) in registers:
                named = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "name")]
                if named and isinstance(named[0], ast.Constant):
                    origin = registers[called_name(node)]
                    registered[str(named[0].value)] = Written("", origin, text_of(node), node.lineno)
                elif named:
                    registered[ANY] = Written("", "unknown")
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id="self"), *_]):
                registered[ANY] = Written("", "unknown")
            case ast.Assign(targets=[ast.Attribute(value=ast.Attribute() as of, attr="data")]) if of_self(of):
                kept.setdefault(of.attr, []).append(None)
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Attribute() as of)], value=ast.Call() as moved
            ) if of_self(of) and called_name(moved) in ("to", "cuda"):
                kept.setdefault(of.attr, []).append(None)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    plain = isinstance(target, ast.Attribute) and of_self(target)
                    for each in ast.walk(target):
                        if (
                            isinstance(each, ast.Attribute)
                            and of_self(each)
                            and isinstance(each.ctx, ast.Store)
                        ):
                            kept.setdefault(each.attr, []).append(value if plain else None)
            case ast.AnnAssign(target=ast.Attribute() as target, value=value) if of_self(target):
                kept.setdefault(target.attr, []).append(value)
    return kept, registered


ANY = "*"
"""Stands for every attribute, where a class sets or registers some by names that it computes."""


def _within(owner: ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes of a class, without those of classes in it."""
    waiting: list[ast.AST] = [*owner.body]
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, ast.ClassDef):
            yield node
            waiting += ast.iter_child_nodes(node)


def use_of(owner: ast.ClassDef, attribute: str, function: Function) -> Use | None:
    """What a class does with an attribute beside reading it."""
    calls = {called_name(each) for each in ast.walk(function) if isinstance(each, ast.Call)}
    if {"cos", "sin"} <= calls or "polar" in calls:
        return "angles"
    own = f"self.{attribute}"
    later = (each for each in owner.body if getattr(each, "name", "") != "__init__")
    for node in (part for each in later for part in ast.walk(each)):
        match node:
            case ast.AugAssign(target=ast.Attribute() as target) if text_of(target) == own:
                return "sum"
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.BinOp(left=left)):
                if text_of(target) == own == text_of(left):
                    return "sum"
            case ast.Assign(targets=[ast.Subscript(value=inner)]) if _is_of(inner, own):
                return "state"
            case ast.Call(func=ast.Attribute(value=inner, attr="add_" | "index_add_" | "scatter_add_")):
                if _is_of(inner, own):
                    return "sum"
            case ast.Call(func=ast.Attribute(value=inner, attr="copy_" | "index_copy_" | "scatter_")):
                if _is_of(inner, own):
                    return "state"
    return None


def use_of_kept(owner: ast.ClassDef, own: Written) -> Use | None:
    """What a class does with a parameter or a buffer: keeps numbers of eight bits, or adds weights to a layer
    that its constructor was handed: of the sizes of that layer, or in a product that is added to its result.
    """
    if _EIGHT_BITS.search(own.text):
        return "codes"
    built = next((each for each in owner.body if getattr(each, "name", "") == "__init__"), None)
    if not isinstance(built, ast.FunctionDef) or own.origin != "parameter":
        return None
    given = [each for each in parameters_of(built) if each not in OWN]
    if any(
        re.search(rf"\b{re.escape(each)}\.(?:weight|in_features|out_features|config)\b", own.text)
        for each in given
    ):
        return "adapter"
    kept, _ = kept_by(owner)
    handed = {
        f"self.{attribute}"
        for attribute, values in kept.items()
        if any(isinstance(each, ast.Name) and each.id in given for each in values)
    }
    sums = (node for node in ast.walk(owner) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add))
    return "adapter" if any(_adds_a_product(node, handed) for node in sums) else None


def _adds_a_product(total: ast.BinOp, layers: set[str]) -> bool:
    """Whether a sum has the result of one of these layers on one side, and a product on the other."""
    sides = (total.left, total.right)
    for one, other in (sides, sides[::-1]):
        runs = any(isinstance(each, ast.Call) and text_of(each.func) in layers for each in ast.walk(one))
        if runs and any(map(_multiplies, ast.walk(other))):
            return True
    return False


def _multiplies(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and called_name(node) in ("linear", "matmul", "mm", "bmm", "addmm")


_EIGHT_BITS = re.compile(r"\bu?int8\b")


def _is_of(node: ast.expr, own: str) -> bool:
    """Whether an expression is an attribute, or an element of it."""
    return text_of(node) == own or text_of(node).startswith((f"{own}[", f"{own}."))


def of_self(node: ast.expr) -> bool:
    """Whether an expression is an attribute of the object itself."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def is_none(node: ast.expr | None) -> bool:
    """Whether an expression is None itself."""
    return isinstance(node, ast.Constant) and node.value is None


def called_name(node: ast.Call) -> str:
    """The name that a call calls, without what stands before it."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def text_of(node: ast.AST) -> str:
    """The source of an expression; the end of a long one is left out, with a mark."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
