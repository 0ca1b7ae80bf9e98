"""Where functions of the same name in one package use the same expression, and only some send a part of it.

Must guarantee: what is compared is equal as text, but for what sends something to a device.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

from samedevice.lint._source import CALLERS_DECIDE, Function, LintedFile, called, nodes
from samedevice.static.tensors import MAKERS, Project

_LARGEST = 40
"""Nodes of an expression that is compared: a larger one is hardly written twice."""
_LEAST = 12
"""Letters of one: a shorter one says nothing."""
_CROSSES = "copy_"
"""What takes a tensor of another device."""
_USERS = (ast.Call, ast.BinOp, ast.Compare, ast.Subscript)


@dataclass(frozen=True, slots=True)
class Sent:
    """What a function sends to a device, or makes on one."""

    text: str
    """The expression that is sent, or the call that makes it, without the device."""
    made: bool
    path: Path
    line: int
    begins: int
    """The line of the function."""


@dataclass(slots=True)
class Siblings:
    """What the functions of a package send, by their names."""

    used: dict[tuple[str, str], list[Sent]] = field(default_factory=dict)
    """By the expression or statement that it is used in."""
    between: dict[tuple[str, str, str], list[Sent]] = field(default_factory=dict)
    """What a statement of its own sends, by the statements before and after it."""
    names: set[str] = field(default_factory=set)
    kinds: set[tuple[str, str]] = field(default_factory=set)
    """Of what kind the keys of `used` are, for each name of a function."""

    def find(self, name: str, used: str, between: tuple[str, str]) -> list[Sent]:
        """What functions of a name send that is used so, or that stands between two statements."""
        return self.used.get((name, used), []) if used else self.between.get((name, *between), [])


def alike(file: LintedFile, function: Function) -> Iterator[tuple[ast.expr | ast.stmt, list[Sent]]]:
    """What a function of a file writes as others do, without sending it, and what these send."""
    package, own = siblings_of(file)
    name, here = function.name, file.path.absolute()
    if name not in package.names | own.names:
        return
    kinds = package.kinds | own.kinds if own.kinds else package.kinds
    for node, used, between in _written(function, kinds):
        sent = [each for each in package.find(name, used, between) if each.path != here]
        sent += [each for each in own.find(name, used, between) if each.begins != function.lineno]
        if sent:
            yield node, sent


def _written(
    function: Function, kinds: set[tuple[str, str]]
) -> Iterator[tuple[ast.expr | ast.stmt, str, tuple[str, str]]]:
    """The statements of a function with those before them, and its expressions of some kinds as text."""
    for block in _blocks(function):
        before = ""
        for statement in block:
            head = _bare(statement)
            yield statement, "", (before, head)
            before = head
            for node in _compared(statement):
                if (function.name, _kind(node)) in kinds:
                    yield node, ast.unparse(node), ("", "")


def _kind(node: ast.expr | ast.stmt) -> str:
    """What is the same of two expressions that are the same: cheaper than their text."""
    match node:
        case ast.Assign(targets=[target, *_]):
            return ast.unparse(target)
        case ast.BinOp(op=op):
            return type(op).__name__
        case ast.Call():
            return called(node)
    return type(node).__name__


_KEPT: WeakKeyDictionary[Project, dict[Path, Siblings]] = WeakKeyDictionary()


def siblings_of(file: LintedFile) -> tuple[Siblings, Siblings]:
    """Those of the package of a file, as it is stored, and those of the file itself, as it is given."""
    kept = _KEPT.setdefault(file.project, {})
    folder, pattern = file.project.around(file.source)
    if folder not in kept:
        kept[folder] = Siblings()
        for path in folder.glob(pattern):
            try:
                _add_text(kept[folder], path.read_text("utf-8"), path)
            except (OSError, UnicodeDecodeError):
                continue
    own = Siblings()
    _add_text(own, file.source.text, file.path)
    return kept[folder], own


_SENDS = re.compile(r"\.to\(|\.cuda\(|\bdevice\s*=")
_DEFINED = re.compile(r"^([ \t]*)(?:async )?def (\w+)\(", re.MULTILINE)
_BEGINS = re.compile(r"^([ \t]*)[^\s)\]}#]", re.MULTILINE)


def _add_text(found: Siblings, text: str, path: Path) -> None:
    if _SENDS.search(text):
        for begins, function in _functions(text):
            _add(found, function, path, begins)


def _functions(text: str) -> Iterator[tuple[int, Function]]:
    """The functions of a text that send something, each parsed alone, and the lines at which they begin."""
    for head in _DEFINED.finditer(text):
        inner = (each for each in _BEGINS.finditer(text, head.end()) if len(each[1]) <= len(head[1]))
        after = next(inner, None)
        body = text[head.start() : after.start() if after is not None else len(text)]
        if head[2] in CALLERS_DECIDE or not _SENDS.search(body):
            continue
        try:
            (function,) = ast.parse(textwrap.dedent(body)).body
        except (SyntaxError, ValueError, RecursionError):
            continue
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield text.count("\n", 0, head.start()) + 1, function


def _add(found: Siblings, function: Function, path: Path, begins: int) -> None:
    for block in _blocks(function):
        for number, statement in enumerate(block):
            for user, text, made in _sent_in(statement):
                sent = Sent(text, made, path, begins + getattr(user, "lineno", 1) - 1, begins)
                if isinstance(user, ast.Assign) and ast.unparse(user.targets[0]) == text:
                    if 0 < number < len(block) - 1:
                        around = _bare(block[number - 1]), _bare(block[number + 1])
                        found.between.setdefault((function.name, *around), []).append(sent)
                        found.names.add(function.name)
                elif len(used := _bare(user)) >= _LEAST and len(nodes(user)) <= 2 * _LARGEST:
                    found.used.setdefault((function.name, used), []).append(sent)
                    found.kinds.add((function.name, _kind(user)))
                    found.names.add(function.name)


def _blocks(function: Function) -> Iterator[list[ast.stmt]]:
    for node in nodes(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions right below a node, and what stands between them."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.expr | ast.keyword | ast.comprehension):
            yield each


def _sent_in(statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str, bool]]:
    """What a statement's own expressions send or make, with the smallest expression that uses it."""
    waiting: list[tuple[ast.AST, ast.expr | ast.stmt]] = [(each, statement) for each in _own(statement)]
    while waiting:
        node, user = waiting.pop()
        if isinstance(node, ast.Call) and called(node) == _CROSSES:
            continue
        if (operand := sent_by(node)) is not None:
            yield user, _bare(operand), False
        elif isinstance(node, ast.Call) and called(node) in MAKERS:
            if any(each.arg == "device" for each in node.keywords):
                yield node, _bare(node), True
        inside = node if isinstance(node, _USERS) else user
        waiting += [(each, inside) for each in _own(node)]


def _compared(statement: ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    """What may be written in another function as well: a statement, and its expressions."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        yield statement
    waiting = list(_own(statement))
    while waiting:
        node = waiting.pop()
        operand = sent_by(node)
        if operand is None and isinstance(node, _USERS) and len(nodes(node)) <= _LARGEST:
            yield node
        waiting += _own(node if operand is None else operand)


def sent_by(node: ast.AST) -> ast.expr | None:
    """What a call sends to a device; None for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(value=operand, attr="cuda"), args=[]):
            return operand
        case ast.Call(func=ast.Attribute(value=operand, attr="to"), args=args, keywords=keywords):
            told = [*args[:1], *(each.value for each in keywords if each.arg == "device")]
            return operand if any("device" in ast.unparse(each) for each in told) else None
    return None


class _Bare(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (operand := sent_by(node)) is not None:
            bare: ast.AST = self.visit(operand)
            return bare
        self.generic_visit(node)
        if called(node) in MAKERS:
            node.keywords = [each for each in node.keywords if each.arg != "device"]
        return node


def _bare(node: ast.expr | ast.stmt) -> str:
    """A text without what sends anything to a device; of a statement with others in it the first line."""
    text = ast.unparse(node)
    if hasattr(node, "body") and isinstance(node, ast.stmt):
        return text.partition("\n")[0]
    if not _SENDS.search(text):
        return text
    return ast.unparse(_Bare().visit(ast.parse(text)))
