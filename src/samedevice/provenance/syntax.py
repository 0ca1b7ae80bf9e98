"""Reading source files by line: their syntax trees, and what stands around a line in them."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import RLock

_parsing = RLock()
"""CPython counts the depths of trees that two threads make at once in one place, and raises SystemError. What
runs while one is made (a finalizer, a handler of warnings) may ask for another.
"""
if hasattr(os, "register_at_fork"):  # another thread of the parent may hold it for ever
    os.register_at_fork(after_in_child=_parsing._at_fork_reinit)  # type: ignore[attr-defined] # as `threading` does

Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(file: str) -> ast.Module | None:
    """The syntax tree of a file; None where it cannot be read."""
    try:
        return _module("".join(linecache.getlines(file)))
    except SystemError:
        return None


@lru_cache(maxsize=32)
def _module(source: str) -> ast.Module | None:
    return _parsed(source)


def parsed(source: str) -> ast.Module | None:
    """The syntax tree of a source, or of one statement of it, indented or not; None for what is no Python."""
    try:
        return _parsed(source)
    except SystemError:
        return None


def _parsed(source: str) -> ast.Module | None:
    try:
        return tree_of(source.lstrip(" \t"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tree_of(source: str) -> ast.Module:
    """The syntax tree of a source, as `ast.parse` gives it, and raising what that raises.

    All that may run inside of a program's call comes here: of two threads, each waits for the other.
    """
    with _parsing:
        return ast.parse(source)


def names_of(expression: str) -> frozenset[str]:
    """The names that an expression reads."""
    tree = parsed(expression)
    return frozenset(
        node.id for node in (ast.walk(tree) if tree is not None else ()) if isinstance(node, ast.Name)
    )


def methods_called(statement: str) -> frozenset[str]:
    """The names of the methods and of the functions of modules that a statement calls."""
    tree = parsed(statement)
    return frozenset(
        node.func.attr
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )


def functions_called(statement: str) -> frozenset[str]:
    """The names of the functions and methods that a statement calls."""
    tree = parsed(statement)
    return names_called(ast.walk(tree)) if tree is not None else frozenset()


def given_by_name(call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives as the argument of that name, where it writes the name."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def parts_of(expression: ast.AST) -> frozenset[str]:
    """An expression and all that it is made of, as Python writes them."""
    return frozenset(ast.unparse(each) for each in ast.walk(expression) if isinstance(each, ast.expr))


def names_called(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names of the functions and methods that the calls among nodes call."""
    return frozenset(
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name))
    )


def function_at(file: str, line: int) -> Function | None:
    """The innermost function around a line of a file."""
    module = module_of(file)
    return function_around(module, line) if module is not None else None


def function_around(module: ast.Module, line: int) -> Function | None:
    """The innermost function around a line."""
    found: Function | None = None
    pending: list[ast.AST] = [module]
    while pending:  # down the statements that cover the line, and no others: a library's file has thousands
        for node in ast.iter_child_nodes(pending.pop()):
            if not isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
                continue
            if not isinstance(node, ast.match_case) and not node.lineno <= line <= (node.end_lineno or 0):
                continue
            if isinstance(node, Function) and (found is None or node.lineno >= found.lineno):
                found = node
            pending.append(node)
    return found


def runs_at_calls(file: str, function: str) -> bool:
    """Whether a file registers a function as a hook of a module's calls, or one that calls it."""
    module = module_of(file)
    nodes = list(ast.walk(module)) if module is not None else []
    hooks = {
        given.attr if isinstance(given, ast.Attribute) else given.id
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _HOOKS
        for given in node.args[:1]
        if isinstance(given, (ast.Attribute, ast.Name))
    }
    inside = [
        node
        for each in nodes
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name in hooks
        for node in ast.walk(each)
    ]
    return function in hooks | names_called(inside)


_HOOKS = frozenset(("register_forward_hook", "register_forward_pre_hook"))
"""How torch takes a function that runs at each call of a module."""


def segment(lines: Sequence[str], node: ast.AST) -> str:
    """The source of a node in a file's lines, as `ast.get_source_segment` has it; that one splits the whole
    file anew for each node. Empty for a node without a place of its own.
    """
    if not isinstance(
        node, (ast.expr, ast.stmt, ast.keyword, ast.arg, ast.alias, ast.excepthandler, ast.pattern)
    ):
        return ""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    if last >= len(lines) or node.end_col_offset is None:
        return ""
    start, end = node.col_offset, node.end_col_offset  # in bytes of UTF-8
    if first == last:
        return lines[first].encode()[start:end].decode()
    between = lines[first + 1 : last]
    return "".join([lines[first].encode()[start:].decode(), *between, lines[last].encode()[:end].decode()])
