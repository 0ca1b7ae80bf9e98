"""Changing a script as text, where its syntax tree says. The script is read and parsed, never run."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

from samedevice.events import Place

_LARGEST = 1_000_000
FACTORIES = frozenset(
    "arange as_tensor empty eye full linspace logspace ones rand randint randn randperm tensor zeros "
    "Generator".split()
)
"""Functions of torch that take `device=`."""
RANK_MAP = '{"": int(os.environ.get("LOCAL_RANK", "0"))}'
"""The map that puts the model of each rank on its own GPU."""


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
            script = cls(file, path.read_text("utf-8"))
            ast.parse(script.source)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return None
        return script

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.source)

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
        lines = self.source.splitlines()
        return 0 < place.line <= len(lines) and (
            not place.code or lines[place.line - 1].strip() == place.code
        )

    def text(self, node: ast.AST) -> str:
        """The source of a node."""
        return ast.get_source_segment(self.source, node) or ""

    def find(self, place: Place) -> Iterator[ast.Call]:
        """Calls that cover a place's line, the one that ran first, then inner before outer."""
        calls = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and node.lineno <= place.line <= (node.end_lineno or node.lineno)
        ]
        ran = " ".join((place.call or place.code).split())
        yield from sorted(
            calls, key=lambda call: (" ".join(self.text(call).split()) != ran, len(self.text(call)))
        )

    def expression(self, place: Place) -> ast.expr | None:
        """The very expression that ran at a place; the value of the statement where that is all that is
        known.
        """
        ran = " ".join((place.call or place.code).split())
        for node in ast.walk(self.tree):
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
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= place.line <= (node.end_lineno or node.lineno):
                if found is None or node.lineno >= found.lineno:
                    found = node
        return found

    def scope(self, line: int) -> ast.AST:
        """The innermost function around a line, or the module."""
        found: ast.AST = self.tree
        first = 0
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.body[0].lineno <= line <= (
                node.end_lineno or 0
            ):
                if node.lineno >= first:
                    found, first = node, node.lineno
        return found

    def class_of(self, function: ast.AST) -> ast.ClassDef | None:
        """The class whose own method this is."""
        return next(
            (
                node
                for node in ast.walk(self.tree)
                if isinstance(node, ast.ClassDef) and function in node.body
            ),
            None,
        )

    def bound(self, expression: str, scope: ast.AST, line: int, until: int) -> bool:
        """Whether a name, or the name that a chain begins with, is bound in `scope` before `line` and not
        again up to `until`.
        """
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
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        ]
        return found[0] if len(found) == 1 else None

    def swapped(self, node: ast.expr | ast.stmt, text: str) -> str:
        """The source with another text in the place of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        lines = [line.encode() for line in self.source.splitlines(keepends=True)]
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        whole = b"".join(lines)
        return (whole[:start] + text.encode() + whole[end:]).decode()

    def without(self, statement: ast.stmt) -> str:
        """The source without a statement's lines."""
        lines = self.source.splitlines(keepends=True)
        return "".join(lines[: statement.lineno - 1] + lines[statement.end_lineno :])

    def diff(self, changed: str) -> str | None:
        """A unified diff to another source; None when it would not parse or nothing changes."""
        try:
            ast.parse(changed)
        except (SyntaxError, ValueError):
            return None
        name = diff_name(Path(self.file))
        lines = difflib.unified_diff(
            self.source.splitlines(keepends=True),
            changed.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
            n=1,
        )
        return (
            "".join(
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
            )
            or None
        )


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


def diff_name(file: Path) -> str:
    """How a diff names a file, so that `patch -p1` finds it from the working folder; one that lies elsewhere
    has its own name alone.
    """
    try:
        return file.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (ValueError, OSError):  # elsewhere, or the working folder is gone
        return file.name


def relocated(script: Script, place: Place, target: str) -> str | None:
    """The source in which the tensor of `place` is made on, or moved to, the device that the expression
    `target` names.

    Only the expression that made the tensor is changed, and what is inside it; None when that is not to be
    found.
    """
    node = script.expression(place)
    if node is None:
        return None
    if not isinstance(node, ast.Call):
        simple = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        return script.swapped(
            node, f"{script.text(node) if simple else f'({script.text(node)})'}.to({target})"
        )
    if (changed := _on_device(script, node, target)) is not None:
        return changed
    inner = [each for each in ast.walk(node) if isinstance(each, ast.Call) and called(each) in FACTORIES]
    if len(inner) == 1 and script.text(node).startswith("torch."):  # `torch.tril(torch.ones(4, 4))`
        return _on_device(script, inner[0], target)
    return script.swapped(node, f"{script.text(node)}.to({target})")


def _on_device(script: Script, call: ast.Call, target: str) -> str | None:
    """The source in which a call that chooses a device chooses this one; None when it chooses none."""
    name = called(call)
    device = next((keyword for keyword in call.keywords if keyword.arg == "device"), None)
    if device is not None and name != "load":
        return script.swapped(device.value, target)
    if isinstance(call.func, ast.Attribute) and name in ("cuda", "cpu"):
        return script.swapped(call, f"{script.text(call.func.value)}.to({target})")
    if isinstance(call.func, ast.Attribute) and name == "to" and call.args and not _is_type(call.args[0]):
        return script.swapped(call.args[0], target)
    if name in FACTORIES:
        return script.swapped(call, with_keyword(script, call, "device", target))
    return None


def with_keyword(script: Script, call: ast.Call, name: str, value: str) -> str:
    """A call with one keyword argument more."""
    inside = script.text(call)[:-1].rstrip().removesuffix(",")
    return f"{inside}{', ' if call.args or call.keywords else ''}{name}={value})"


def with_import(source: str, module: str) -> str:
    """The source with an import, if it has none yet."""
    tree = ast.parse(source)
    for node in _at_top(tree.body):
        if isinstance(node, ast.Import) and any(
            alias.name == module and alias.asname is None for alias in node.names
        ):
            return source
    lines = source.splitlines(keepends=True)
    first = next(
        (
            node
            for node in tree.body
            if isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") != "__future__"
        ),
        None,
    )
    at = first.lineno - 1 if first is not None else 0
    return "".join([*lines[:at], f"import {module}\n", *lines[at:]])


def _at_top(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that bind names of the module itself: also those under `if` and `try`, none of a function or
    class.
    """
    for statement in statements:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            for block in ("body", "orelse", "finalbody"):
                yield from _at_top(getattr(statement, block, []))


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def first(node: ast.AST, wanted: Callable[[ast.AST], bool]) -> ast.AST | None:
    """The first node below that is wanted."""
    return next((each for each in ast.walk(node) if wanted(each)), None)


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in (
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "half",
        "float",
        "long",
        "int",
        "int64",
        "bool",
        "dtype",
    )
