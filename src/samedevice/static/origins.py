"""Where the operands of one statement come from, as its function and its class are written.

Nothing is imported or run. What cannot be told is `unknown`; an origin is never a guess: each is one
expression of the source, which is given with it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

from samedevice.errors import UsageError
from samedevice.events import Origin, Written
from samedevice.provenance.syntax import tree_of
from samedevice.static.files import read_text
from samedevice.static.tensors.knowledge import FACTORIES, FUNCTIONS, METHODS

_LONGEST_TEXT = 60_000
_DEEPEST = 8
"""Assignments that are followed from a name back to where its tensor was made."""
_LIKE, _NEW = FUNCTIONS["like"], METHODS["new"]
_OF_TENSORS = frozenset(
    "view reshape unsqueeze squeeze expand expand_as repeat repeat_interleave transpose permute flatten "
    "contiguous clone detach float long int bool half bfloat16 double type sum mean max min cumsum argmax "
    "masked_fill t chunk split gather index_select clamp pow sqrt rsqrt exp log softmax flip roll add sub "
    "mul div eq ne lt gt le ge logical_not logical_and logical_or any all nonzero diff tril triu".split()
)
"""Methods whose result is where their tensor is."""
_REGISTERS: Mapping[str, Origin] = {"register_buffer": "buffer", "register_parameter": "parameter"}
_HOST = frozenset("from_numpy frombuffer".split())
_WORD = re.compile(r"[A-Za-z_]\w*")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def written_origins(file: str, function: str | None, line: int | None, code: str) -> tuple[Written, ...]:
    """The origins of the operands of a failing statement; nothing where its source is not here.

    The frame names `file` as installed, `function`, a line of whatever version it was, and its `code`.
    """
    path = _installed(file) if code and function else None
    tree = _parsed(path) if path is not None else None
    return _origins(tree, function, line, code)


def shown_origins(text: str, function: str | None, code: str) -> tuple[Written, ...]:
    """The same where a person shows the source as text."""
    tree = _tree(textwrap.dedent(text)) if code and function and len(text) <= _LONGEST_TEXT else None
    return _origins(tree, function, None, code)


def _origins(
    tree: ast.Module | None, function: str | None, line: int | None, code: str
) -> tuple[Written, ...]:
    found = _statement(tree, function.rpartition(".")[2], line, code) if tree and function else None
    return () if found is None else tuple(found.origins())


def _installed(file: str) -> Path | None:
    """The file of an installed package, found without importing it."""
    parts = [part for part in file.replace("\\", "/").split("/") if part]
    if not file.endswith(".py") or len(parts) < 2 or file.startswith(("/", "~", "<", ".")) or ".." in parts:
        return None
    try:
        spec = PathFinder.find_spec(parts[0])
    except (ImportError, ValueError, AttributeError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder).joinpath(*parts[1:])
        if path.is_file():
            return path
    return None


@lru_cache(maxsize=8)
def _parsed(path: Path) -> ast.Module | None:
    try:
        return _tree(read_text(path))
    except UsageError:
        return None


def _tree(text: str) -> ast.Module | None:
    try:
        return tree_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True, slots=True)
class _Found:
    """A statement with the function and the class that it stands in."""

    node: ast.stmt
    function: _Function
    owner: ast.ClassDef | None

    def origins(self) -> Iterator[Written]:
        """The origin of each operand, in the order of the statement."""
        told = set()
        for operand in _operands(self.node):
            name = ast.unparse(operand)
            if name not in told:
                told.add(name)
                yield self.trace(operand, name, self.node.lineno, _DEEPEST)

    def trace(self, node: ast.expr, name: str, before: int, deep: int) -> Written:
        """Where the tensor of an expression comes from that is read on line `before`."""
        if deep == 0:
            return Written(name, "unknown")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return self._attribute(node, name, deep)
        if isinstance(node, ast.Name):
            return self._local(node, name, before, deep)
        if isinstance(node, ast.Call):
            return self._call(node, name, before, deep)
        if isinstance(node, ast.Subscript | ast.Attribute):
            return self.trace(node.value, name, before, deep - 1)
        if isinstance(node, ast.UnaryOp):
            return self.trace(node.operand, name, before, deep - 1)
        if isinstance(node, ast.BinOp):
            return self._first((node.left, node.right), name, before, deep)
        return Written(name, "unknown")

    def _first(self, nodes: Sequence[ast.expr], name: str, before: int, deep: int) -> Written:
        """The origin of the first part that has one: the parts are on one device where the expression ran."""
        for node in nodes:
            found = self.trace(node, name, before, deep - 1)
            if found.origin != "unknown":
                return found
        return Written(name, "unknown")

    def _local(self, node: ast.Name, name: str, before: int, deep: int) -> Written:
        last: ast.expr | None = None
        for each in ast.walk(self.function):
            value = _assigned(each, node.id)
            if value is not None and getattr(each, "lineno", before) < before:
                last = value if last is None or value.lineno > last.lineno else last
        if last is not None:
            return self.trace(last, name, last.lineno, deep - 1)
        arguments = self.function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if any(each.arg == node.id for each in every):
            return Written(name, "argument", node.id, self.function.lineno)
        return Written(name, "unknown")

    def _attribute(self, node: ast.Attribute, name: str, deep: int) -> Written:
        if self.owner is None:
            return Written(name, "unknown")
        for each in ast.walk(self.owner):
            if isinstance(each, ast.Call) and _called(each) == "register_buffer" and _names(each, node.attr):
                return Written(name, "buffer", _text(each), each.lineno)
            if (
                isinstance(each, ast.Call)
                and _called(each) == "register_parameter"
                and _names(each, node.attr)
            ):
                return Written(name, "parameter", _text(each), each.lineno)
        for each in ast.walk(self.owner):
            value = _assigned_attribute(each, node.attr)
            if value is None:
                continue
            if isinstance(value, ast.Call) and _called(value) == "Parameter":
                return Written(name, "parameter", _text(value), value.lineno)
            made = self.trace(value, name, value.lineno, deep - 1)
            if made.origin in ("made", "host"):
                return Written(name, "attribute", made.text, made.line)
            return made if made.origin in ("literal", "like") else Written(name, "unknown")
        return Written(name, "unknown")

    def _call(self, node: ast.Call, name: str, before: int, deep: int) -> Written:
        called = _called(node)
        device = next((each.value for each in node.keywords if each.arg == "device"), None)
        if called in FACTORIES | _HOST and not _method(node):
            return _made(node, name, device, called in _HOST)
        if called in _LIKE and node.args:
            return (
                _placed(node, name, device)
                if device is not None
                else self.trace(node.args[0], name, before, deep - 1)
            )
        if called in ("to", "cuda", "cpu") and isinstance(node.func, ast.Attribute):
            target = device or (node.args[0] if node.args else None)
            if called != "to":
                return Written(
                    name, "literal", _text(node), node.lineno, device="cpu" if called == "cpu" else "cuda"
                )
            return self._moved(node, name, target, before, deep)
        if called in _NEW and device is not None:
            return _placed(node, name, device)
        if isinstance(node.func, ast.Attribute) and not _module(node.func.value):
            return self.trace(node.func.value, name, before, deep - 1)
        return self._first(
            [each for each in node.args if not isinstance(each, ast.Starred)], name, before, deep
        )

    def _moved(self, node: ast.Call, name: str, target: ast.expr | None, before: int, deep: int) -> Written:
        """`x.to(...)`: a device that is written, that of another tensor, or only another kind of number."""
        placed = _placed(node, name, target) if target is not None else Written(name, "unknown")
        if placed.origin != "unknown" or not isinstance(node.func, ast.Attribute):
            return placed
        return self.trace(node.func.value, name, before, deep - 1)


def _statement(tree: ast.Module, function: str, line: int | None, code: str) -> _Found | None:
    """The statement that the printed code is; on the printed line, or else the only one that fits best."""
    wanted = set(_WORD.findall(code))
    best: list[tuple[tuple[int, int], _Found]] = []
    for owner, each in _functions(tree):
        if each.name != function:
            continue
        for node in ast.walk(each):
            if isinstance(node, ast.stmt) and not isinstance(node, _BLOCKS):
                words = set(_WORD.findall(ast.unparse(node)))
                if len(wanted) > 1 and wanted <= words:
                    near = int(line is not None and node.lineno <= line <= (node.end_lineno or node.lineno))
                    best.append(((near, -len(words - wanted)), _Found(node, each, owner)))
    if not best:
        return None
    top = max(rank for rank, _ in best)
    chosen = [found for rank, found in best if rank == top]
    same = len({ast.unparse(found.node) for found in chosen}) == 1
    return chosen[0] if len(chosen) == 1 or same else None


_BLOCKS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.While,
    ast.With,
    ast.Try,
)


def _functions(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | None, _Function]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, _Function):
                    yield node, each
    for each in tree.body:
        if isinstance(each, _Function):
            yield None, each
    top = [each for each in tree.body if not isinstance(each, _Function | ast.ClassDef)]
    if top:
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        yield None, ast.FunctionDef("<module>", nothing, top, [], lineno=0)


def _operands(node: ast.stmt) -> Iterator[ast.expr]:
    """The names and attributes of `self` that a statement reads, without what it calls."""
    called = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    for each in ast.walk(node):
        if id(each) in called:
            continue
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id != "self":
            if not _module(each):
                yield each
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
            yield each


def _assigned(node: ast.AST, name: str) -> ast.expr | None:
    """What a node assigns to a name; a part of a tuple only where the value is a tuple as well."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id == name:
                return node.value
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for part, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(part, ast.Name) and part.id == name:
                        return value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
        return node.value
    return None


def _assigned_attribute(node: ast.AST, name: str) -> ast.expr | None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == name and _text(target.value) == "self":
                return node.value
    return None


def _made(node: ast.Call, name: str, device: ast.expr | None, numpy: bool) -> Written:
    """A tensor that a factory makes; one of a single number may be anywhere."""
    if _called(node) in ("tensor", "as_tensor", "asarray") and not isinstance(
        node.args[0] if node.args else None, ast.List | ast.Tuple | ast.ListComp
    ):
        return Written(name, "unknown") if device is None else _placed(node, name, device)
    if device is None or (isinstance(device, ast.Constant) and device.value is None):
        return Written(name, "host" if numpy else "made", _text(node), node.lineno)
    return _placed(node, name, device)


def _placed(node: ast.Call, name: str, device: ast.expr) -> Written:
    """A tensor whose device an expression says."""
    text = _text(device)
    if isinstance(device, ast.Constant) and isinstance(device.value, str | int):
        return Written(name, "literal", _text(node), node.lineno, device=str(device.value))
    if text.endswith(".device") or text == "device":
        return Written(name, "like", _text(node), node.lineno, device=text)
    return Written(name, "unknown")


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _method(node: ast.Call) -> bool:
    """Whether it is a method of a value, not a function of a module."""
    return isinstance(node.func, ast.Attribute) and not _module(node.func.value)


def _module(node: ast.expr) -> bool:
    """Whether an expression is a module that offers functions on tensors."""
    return _text(node) in ("torch", "np", "numpy", "F", "nn", "nn.functional", "torch.nn.functional", "math")


def _names(node: ast.Call, name: str) -> bool:
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and first.value == name


def _text(node: ast.AST) -> str:
    return ast.unparse(node)[:120]
