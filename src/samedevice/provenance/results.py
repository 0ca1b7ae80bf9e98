"""What a function does with the result of one of its statements, read from source."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from samedevice.provenance.assignments import expressions_of, names_in, statements, statements_around

Outcome = Literal["called", "returned", "lost"]
NUMBERS = frozenset(
    (
        *("shape", "device", "dtype", "ndim", "size", "dim", "numel", "item", "tolist", "stride"),
        *("itemsize", "element_size", "is_cuda", "get_device"),
    )
)
"""What a tensor answers with something that is no tensor."""


def follow(scope: ast.AST, statement: ast.stmt, methods: frozenset[str]) -> Outcome:
    """What a scope does with the result of one of its statements."""
    if _calls(statement, methods, None):
        return "called"
    return _followed(scope, statement, lambda each, held: _calls(each, methods, held))


def added(scope: ast.AST, statement: ast.stmt, call: ast.expr) -> Outcome:
    """Whether a scope adds the result of a call in one of its statements to something, or joins the two."""
    if any(sum_ is call or _has(operands, _given_to_calls(call)) for sum_, operands in _sums(statement)):
        return "called"
    return _followed(
        scope,
        statement,
        lambda each, held: any(_has(operands, _one_of(held)) for _, operands in _sums(each)),
    )


def _sums(statement: ast.stmt) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """The parts of a statement that add or join tensors, with what they add; none that adds a constant."""
    match statement:
        case ast.AugAssign(op=ast.Add(), value=value):
            yield statement, [value]
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add"))):
            return  # into a container: a sum that nobody reads is none
    for node in expressions_of(statement):
        match node:
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                if not isinstance(left, ast.Constant) and not isinstance(right, ast.Constant):
                    yield node, [left, right]
            case ast.Call(func=ast.Attribute(attr="add" | "add_" | "cat" | "concat", value=owner)):
                yield node, [owner, *node.args, *(each.value for each in node.keywords)]


def _has(operands: Iterable[ast.expr], wanted: Callable[[ast.expr], bool]) -> bool:
    """Whether an operand is the wanted value, an item of it, arithmetic with it, or a list with it."""
    waiting = list(operands)
    while waiting:
        node = waiting.pop()
        if wanted(node):
            return True
        match node:
            case ast.BinOp(left=left, right=right):
                waiting += [left, right]
            case ast.Subscript(value=value) | ast.Starred(value=value):
                waiting.append(value)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                waiting += items
    return False


def _one_of(held: set[str]) -> Callable[[ast.expr], bool]:
    return lambda node: isinstance(node, ast.Name) and node.id in held


def _given_to_calls(call: ast.expr) -> Callable[[ast.expr], bool]:
    """Whether an expression is the call, or gives its result to a layer: `up(down(x))`, no `str(down(x))`."""

    def wanted(node: ast.expr) -> bool:
        if node is call:
            return True
        match node:
            case ast.Call(func=ast.Name(id=name)) if hasattr(builtins, name):
                return False
            case ast.Call(func=ast.Attribute(value=owner, attr=method), args=given) if method not in NUMBERS:
                return _has([owner, *given], wanted)
            case ast.Call(func=ast.Name(), args=given):
                return _has(given, wanted)
        return False

    return wanted


def _followed(scope: ast.AST, statement: ast.stmt, reached: Callable[[ast.stmt, set[str]], bool]) -> Outcome:
    """Follow the result of a statement through the names of its scope."""
    if isinstance(statement, ast.Return) or _yields(statement):
        return "returned"
    held = set(_targets_of(statement))
    ordered = list(statements(scope))
    loops = [each for each in statements_around(scope, statement) if isinstance(each, (ast.For, ast.While))]
    later = [
        each
        for each in ordered
        if each.lineno >= statement.lineno or any(loop in statements_around(scope, each) for loop in loops)
    ]
    outcome: Outcome = "lost"
    for each in (*later, *later):  # the second time for what a loop does before the statement
        if not _tensors_in(each) & held:
            continue
        if reached(each, held):
            return "called"
        if isinstance(each, ast.Return) or _yields(each):
            outcome = "returned"
        held |= set(_targets_of(each))
    return outcome


def _tensors_in(statement: ast.stmt) -> set[str]:
    """The names in a statement of which it reads more than a shape or another number."""
    numbers = {
        id(node.value)
        for node in expressions_of(statement)
        if isinstance(node, ast.Attribute) and node.attr in NUMBERS
    }
    return {
        node.id
        for node in expressions_of(statement)
        if isinstance(node, ast.Name) and id(node) not in numbers
    }


def _yields(statement: ast.stmt) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in expressions_of(statement))


def _calls(statement: ast.stmt, methods: frozenset[str], held: set[str] | None) -> bool:
    """Whether it calls one of the methods with what one of the names holds; with None, with anything."""
    for node in expressions_of(statement):
        match node:
            case ast.Call(func=ast.Attribute(attr=method)) if method in methods:
                if held is None or held & set(names_in(node)):
                    return True
    return False


def _targets_of(statement: ast.stmt) -> Iterator[str]:
    """The names that hold something of the statement's result."""
    match statement:
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _bases(target)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _bases(target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            yield from _bases(owner)


def _bases(target: ast.expr) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _bases(each)
    elif (first := _first(target)) is not None and first not in ("self", "cls"):
        yield first


def _first(node: ast.expr) -> str | None:
    """The name that a chain of attributes, subscripts and calls begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def attribute_written(statement: ast.stmt) -> str | None:
    """`self.total` of `self.total += x` and of `self.total.index_add_(0, i, x)`."""
    targets: list[ast.expr] = []
    match statement:
        case ast.Assign(targets=several):
            targets = several
        case ast.AugAssign(target=target):
            targets = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method))):
            if method.endswith("_") and not method.endswith("__"):
                targets = [owner]
    for each in targets:
        written: ast.expr = each
        while isinstance(written, ast.Subscript):
            written = written.value
        if isinstance(written, ast.Attribute):
            return ast.unparse(written)
    return None
