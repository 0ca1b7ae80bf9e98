"""The statements of a function or a module, and what they give to its names.

Branches and loops are taken as if each of their assignments could hold.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

ADDS = frozenset("append extend insert add appendleft update setdefault".split())
"""Methods by which a container takes something in."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an assignment gives to a name."""

    name: str
    statement: ast.stmt
    value: ast.expr
    item: str | None = None
    """Of a loop: what is taken from where."""
    replaces: bool = True
    """False where the name keeps what it had as well."""


@lru_cache(maxsize=256)
def assignments(scope: ast.AST) -> tuple[Given, ...]:
    """The assignments in a scope, without those of functions in it."""
    return tuple(each for statement in statements(scope) for each in _assigned(statement))


def _assigned(statement: ast.stmt) -> Iterator[Given]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _of_target(target, value, statement)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _of_target(target, value, statement)
        case ast.AugAssign(target=target, value=value):
            yield from (Given(name, statement, value, replaces=False) for name in names_in(target))
        case ast.For(target=target, iter=iterable) | ast.AsyncFor(target=target, iter=iterable):
            for name in names_in(target):
                item = f"{name} of {ast.unparse(iterable)}" if _opaque(iterable) else None
                yield Given(name, statement, _part(target, iterable, name), item)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for each in items:
                if each.optional_vars is not None:
                    yield from _of_target(each.optional_vars, each.context_expr, statement)
    for node in expressions_of(statement):
        match node:
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield Given(name, statement, value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=[*_, last]):
                if method in ADDS:
                    yield Given(name, statement, last, replaces=False)


def _opaque(iterable: ast.expr) -> bool:
    """Whether the source does not show what a loop's items are: those of a loader, of a queue."""
    match iterable:
        case ast.Call(func=ast.Name(id="zip" | "enumerate" | "reversed" | "sorted")):
            return False
        case ast.List() | ast.Tuple():
            return False
    return True


def _part(target: ast.expr, iterable: ast.expr, name: str) -> ast.expr:
    """Of `for a, b in zip(x, y)` what stands for one name."""
    match iterable, target:
        case ast.Call(func=ast.Name(id="enumerate" | "reversed" | "sorted"), args=[first, *_]), _:
            return first
        case ast.Call(func=ast.Name(id="zip"), args=given), ast.Tuple(elts=names):
            pairs = zip(names, given, strict=False)
            return next((each for element, each in pairs if name in names_in(element)), iterable)
    return iterable


def _of_target(target: ast.expr, value: ast.expr, statement: ast.stmt) -> Iterator[Given]:
    match target:
        case ast.Tuple(elts=names) | ast.List(elts=names):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            for number, name in enumerate(names):
                yield from _of_target(name, parts[number] if len(parts) == len(names) else value, statement)
        case ast.Starred(value=inner):
            yield from _of_target(inner, value, statement)
        case ast.Name(id=name):
            yield Given(name, statement, value)
        case ast.Subscript(value=ast.Name(id=name)):
            yield Given(name, statement, value, replaces=False)


def reaching(name: str, scope: ast.AST, at: ast.stmt | None) -> Iterator[Given]:
    """What a name may stand for at a statement; with None, at the end of the scope."""
    known = [each for each in assignments(scope) if each.name == name]
    around = [] if at is None else statements_around(scope, at)
    loops = [each for each in around if each is not at and isinstance(each, (ast.For, ast.While))]
    before = [
        each for each in known if at is None or each.statement in loops or each.statement.lineno < at.lineno
    ]
    for each in reversed(before):
        yield each
        parent = _parents(scope).get(id(each.statement), scope)
        if at is not None and each.replaces and (parent is scope or parent in around):
            inside = statements_around(scope, each.statement)
            loops = [loop for loop in loops if loop not in inside]  # each turn gives the name a value anew
            break
    for each in known:
        if each not in before and any(loop in statements_around(scope, each.statement) for loop in loops):
            yield each


def replaces(name: str, scope: ast.AST, at: ast.stmt | None) -> bool:
    """Whether a parameter surely has another value than the caller's at a statement."""
    return any(
        each.name == name and each.replaces and _parents(scope).get(id(each.statement)) is scope
        for each in assignments(scope)
        if at is None or each.statement.lineno < at.lineno
    )


@lru_cache(maxsize=256)
def _parents(scope: ast.AST) -> dict[int, ast.AST]:
    return {id(child): node for node in ast.walk(scope) for child in ast.iter_child_nodes(node)}


def statement_at(scope: ast.AST, line: int) -> ast.stmt | None:
    """The innermost statement around a line."""
    found: ast.stmt | None = None
    for node in statements(scope):
        if node.lineno <= line <= (node.end_lineno or 0) and (found is None or node.lineno >= found.lineno):
            found = node
    return found


def statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a scope in their order, without those of functions and classes in it."""
    for node in getattr(scope, "body", []):
        yield from _within(node)


def statements_around(scope: ast.AST, statement: ast.stmt) -> list[ast.stmt]:
    """A statement of a scope and those that it stands in, the innermost first."""
    found: list[ast.stmt] = []
    node: ast.AST | None = statement
    while node is not None and node is not scope:
        if isinstance(node, ast.stmt):
            found.append(node)
        node = _parents(scope).get(id(node))
    return found


def _within(statement: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    yield statement
    for part in ("body", "orelse", "finalbody"):
        for inner in getattr(statement, part, []):
            yield from _within(inner)
    for handler in getattr(statement, "handlers", []):
        for inner in handler.body:
            yield from _within(inner)


def expressions_of(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, without those of statements in it."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(statement))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.stmt, ast.ExceptHandler)):
            yield node
            waiting += ast.iter_child_nodes(node)


def names_in(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id
