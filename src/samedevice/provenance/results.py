"""What a function does with the result of one of its statements, read from source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Literal

from samedevice.provenance.assignments import expressions_of, names_in, statements, statements_around

Outcome = Literal["called", "returned", "lost"]


def follow(scope: ast.AST, statement: ast.stmt, methods: frozenset[str]) -> Outcome:
    """What a scope does with the result of one of its statements."""
    if _calls(statement, methods, None):
        return "called"
    return _followed(scope, statement, lambda each, held: _calls(each, methods, held))


def added(scope: ast.AST, statement: ast.stmt, call: ast.expr) -> Outcome:
    """Whether a scope adds the result of a call in one of its statements to something, or joins the two."""
    if any(node is call for sum_ in _sums(statement) for node in ast.walk(sum_)):
        return "called"
    return _followed(
        scope, statement, lambda each, held: any(held & set(names_in(sum_)) for sum_ in _sums(each))
    )


def _sums(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that add or join tensors."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        yield statement.value
    for node in expressions_of(statement):
        match node:
            case (
                ast.BinOp(op=ast.Add()) | ast.Call(func=ast.Attribute(attr="add" | "add_" | "cat" | "concat"))
            ):
                yield node


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
        read = {node.id for node in expressions_of(each) if isinstance(node, ast.Name)}
        if not read & held:
            continue
        if reached(each, held):
            return "called"
        if isinstance(each, ast.Return) or _yields(each):
            outcome = "returned"
        held |= set(_targets_of(each))
    return outcome


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
