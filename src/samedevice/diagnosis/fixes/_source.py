"""Reading a script: its source, its syntax tree, and where in it something ran.

The script is parsed, never run.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeGuard

from samedevice.edited import content
from samedevice.events import Place
from samedevice.provenance.syntax import segment, tree_of

_LARGEST = 1_000_000


@dataclass(frozen=True)
class Script:
    """A script's source."""

    file: str
    source: str

    @classmethod
    def read(cls, file: str) -> Script | None:
        """The script of that name, if it can be read and parsed."""
        path = Path(file)
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST:
                return None
            return _parsed(file, content(file).decode("utf-8"))  # line ends as they are
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return tree_of(self.source)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree, outer before inner."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        """The lines, with their ends."""
        return lines_of(self.source)

    def imports(self, module: str) -> bool:
        """Whether the script binds a module's own name at its top."""
        return any(
            isinstance(node, ast.Import)
            and any(each.name == module and not each.asname for each in node.names)
            for node in self.tree.body
        )

    @cached_property
    def rank_name(self) -> str | None:
        """The name to which the script, at its top, gives the launcher's `LOCAL_RANK`."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if any(
                    isinstance(part, ast.Constant) and part.value == "LOCAL_RANK"
                    for part in ast.walk(node.value)
                ):
                    return node.targets[0].id
        return None

    def holds(self, place: Place | None) -> TypeGuard[Place]:
        """Whether a place is a line of this script as it stands now."""
        if place is None or place.file != self.file:
            return False
        lines = self.lines
        return 0 < place.line <= len(lines) and (
            not place.code or lines[place.line - 1].strip() == place.code
        )

    def text(self, node: ast.AST) -> str:
        """The source of a node."""
        return segment(self.lines, node)

    def find(self, place: Place) -> Iterator[ast.Call]:
        """Calls that cover a place's line, the one that ran first, then inner before outer."""
        calls = [
            node
            for node in self.nodes
            if isinstance(node, ast.Call) and node.lineno <= place.line <= (node.end_lineno or node.lineno)
        ]
        ran = " ".join((place.call or place.code).split())
        yield from sorted(
            calls, key=lambda call: (" ".join(self.text(call).split()) != ran, len(self.text(call)))
        )

    def expression(self, place: Place) -> ast.expr | None:
        """The very expression that ran at a place.

        The value of the statement where that is all that is known.
        """
        ran = " ".join((place.call or place.code).split())
        for node in self.nodes:
            if isinstance(node, ast.expr) and node.lineno <= place.line <= (node.end_lineno or node.lineno):
                if " ".join(self.text(node).split()) == ran:
                    return node
        statement = self.statement(place)
        if place.call or not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
            return None
        return statement.value if isinstance(statement.value, ast.Call) else None

    def statement(self, place: Place) -> ast.stmt | None:
        """The innermost simple statement that covers a place."""
        found = None
        for node in self.nodes:
            if isinstance(node, ast.stmt) and node.lineno <= place.line <= (node.end_lineno or node.lineno):
                if found is None or node.lineno >= found.lineno:
                    found = node
        return found

    def around(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement around a node, which may be of another tree of the same source."""
        start, end = _ends(node)
        found: ast.stmt | None = None
        for each in self.nodes:  # outer before inner
            if isinstance(each, ast.stmt) and _ends(each)[0] <= start and _ends(each)[1] >= end:
                found = each
        return found

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """All lists of statements."""
        for node in self.nodes:
            for name in ("body", "orelse", "finalbody"):
                if isinstance(block := getattr(node, name, None), list):
                    yield block

    def beside(self, early: ast.stmt, late: ast.stmt) -> bool:
        """Whether one statement stands below the other in the same block."""
        return any(early in block and late in block for block in self.blocks()) and early.lineno < late.lineno

    def scope(self, line: int) -> ast.AST:
        """The innermost function around a line, or the module."""
        found: ast.AST = self.tree
        first = 0
        for node in self.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.body[0].lineno <= line <= (
                node.end_lineno or 0
            ):
                if node.lineno >= first:
                    found, first = node, node.lineno
        return found

    def class_of(self, function: ast.AST) -> ast.ClassDef | None:
        """The class whose own method this is."""
        return next(
            (node for node in self.nodes if isinstance(node, ast.ClassDef) and function in node.body),
            None,
        )

    def classes_of(self, name: str) -> list[ast.ClassDef]:
        """A class and those of its bases that the script defines, the nearest first."""
        classes = {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}
        found: list[ast.ClassDef] = []
        waiting = [name]
        while waiting:
            node = classes.get(waiting.pop(0))
            if node is not None and node not in found:
                found.append(node)
                waiting += [each.id for each in node.bases if isinstance(each, ast.Name)]
        return found

    def bound(self, expression: str, scope: ast.AST, line: int, until: int) -> bool:
        """Whether what an expression begins with is bound before `line` and not again up to `until`."""
        name = re.match(r"[A-Za-z_]\w*", expression)
        if name is None:
            return False
        given = [number for node in _of_scope(scope) for number in _binds(node, name[0])]
        if expression != name[0] and any(
            line <= number < until for node in _of_scope(scope) for number in _writes(node, expression)
        ):
            return False
        if any(line <= number < until for number in given):
            return False
        if any(number < line for number in given) or name[0] in _arguments(scope):
            return True
        if scope is self.tree:
            return False
        return not given and any(number for node in _of_scope(self.tree) for number in _binds(node, name[0]))

    def assignment(self, name: str) -> ast.Assign | None:
        """The only assignment to a name; None when there are several or none."""
        found = [
            node
            for node in self.nodes
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        ]
        return found[0] if len(found) == 1 else None


def _of_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of functions and classes in it."""
    waiting = list(getattr(scope, "body", []))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _binds(node: ast.AST, name: str) -> Iterator[int]:
    """The lines at whose end a node gives a name its value."""
    if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.lineno
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
        yield node.lineno
    elif isinstance(node, (ast.Import, ast.ImportFrom)) and any(
        (each.asname or each.name.partition(".")[0]) == name for each in node.names
    ):
        yield node.lineno


def _writes(node: ast.AST, expression: str) -> Iterator[int]:
    if (
        isinstance(node, (ast.Attribute, ast.Subscript))
        and isinstance(node.ctx, (ast.Store, ast.Del))
        and ast.unparse(node) == expression
    ):
        yield node.lineno


def _arguments(scope: ast.AST) -> set[str]:
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    given = scope.args
    names = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return {each.arg for each in names}


def same_span(one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes are of the same piece of source."""
    return _ends(one) == _ends(other)


def same_place(node: ast.AST, other: ast.AST) -> bool:
    """Whether a node is what another one was in a text that has changed inside of it or behind it alone:
    of the same kind and start, and of the same end where it is no statement.
    """
    if type(node) is not type(other):
        return False
    return same_span(node, other) or (isinstance(node, ast.stmt) and _ends(node)[0] == _ends(other)[0])


def _ends(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    """Line and column of a node's start and end."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return (line, column), (getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column))


@lru_cache(maxsize=4)
def _parsed(file: str, source: str) -> Script:
    """A script with its tree; several findings of a run lie in one file."""
    script = Script(file, source)
    _ = script.tree
    return script


def lines_of(source: str) -> list[str]:
    """The lines of a source as Python counts them, with their ends."""
    return list(io.StringIO(source, newline=""))


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""
