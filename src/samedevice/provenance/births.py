"""Where the source says that a tensor was made and last moved, for a run that kept no record of it.

Must guarantee: nothing is told that another statement could have undone. A name counts where one assignment
alone reaches the line, an attribute where the class of its object gives it one value alone; and the value
must be a call of one of torch's factories, or a move of one.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from samedevice.events import Place
from samedevice.provenance._frames import call_at
from samedevice.provenance._variables import variables_of
from samedevice.provenance.assignments import reaching, replaces, statement_at
from samedevice.provenance.syntax import Function, function_at, module_of, parsed

FACTORIES = frozenset(
    (
        *("arange", "as_tensor", "asarray", "empty", "eye", "from_numpy", "full", "hann_window", "linspace"),
        *("logspace", "ones", "rand", "randint", "randn", "randperm", "tensor", "tril_indices"),
        *("triu_indices", "zeros", "LongTensor", "FloatTensor", "BoolTensor", "Tensor"),
    )
)
"""Functions of torch that make a tensor from nothing, or from Python values."""
_KEEPS = frozenset(("unsqueeze", "view", "reshape", "float", "long", "half", "bool", "repeat", "expand", "t"))
"""Methods whose result is where the tensor is."""
_MOVES = frozenset(("to", "cuda", "cpu"))
_DEEPEST = 8
Standing = tuple[FrameType, int, int]
"""A frame, and the offset and line of the instruction at which it stands."""
Birth = tuple[Place | None, Place | None]
"""Where it was made and where it was moved."""
_UNKNOWN: Birth = (None, None)


def birth(spelling: str, frames: Sequence[Standing]) -> Birth:
    """Of the tensor that the first of `frames` spells `name` or `self.name`.

    The other frames are its callers, the nearest first: a parameter is followed to what was passed for it.
    """
    node = parsed(spelling)
    statement = node.body[0] if node is not None and node.body else None
    if not isinstance(statement, ast.Expr) or not frames:
        return _UNKNOWN
    return _Search(list(frames)).of_expression(statement.value, frames[0][2])


class _Search:
    """From a line of the innermost frame to the value that was made."""

    def __init__(self, frames: list[Standing]) -> None:
        self.frames = frames
        self.steps = 0

    def of_expression(self, node: ast.expr, line: int) -> Birth:
        """Of a value as the innermost frame writes it, at one of its lines."""
        self.steps += 1
        if self.steps > _DEEPEST:
            return _UNKNOWN
        frame = self.frames[0][0]
        (made, moved), begin = _called(node, frame.f_code.co_filename, frame.f_code.co_name)
        earlier: Place | None = None
        if isinstance(begin, ast.Name):
            made, earlier = self._of_name(begin.id, line)
        elif isinstance(begin, ast.Attribute):
            made, earlier = _of_attribute(_reached(begin.value, variables_of(frame)), begin.attr)
        return made, moved or earlier

    def _of_name(self, name: str, line: int) -> Birth:
        frame = self.frames[0][0]
        file = frame.f_code.co_filename
        function = function_at(file, line)
        scope: ast.AST | None = function or module_of(file)
        at = None if scope is None else statement_at(scope, line)
        if scope is None or at is None:
            return _UNKNOWN
        known = list(reaching(name, scope, at))
        if not known and function is not None and name in _parameters(function):
            return self._of_argument(name, function)
        if len(known) != 1 or not known[0].replaces or known[0].item is not None:
            return _UNKNOWN
        if function is not None and name in _parameters(function) and not replaces(name, function, at):
            return _UNKNOWN
        return self.of_expression(known[0].value, known[0].statement.lineno)

    def _of_argument(self, name: str, function: Function) -> Birth:
        """Of what the caller passed for a parameter, where its call says so plainly."""
        if len(self.frames) < 2:
            return _UNKNOWN
        caller, offset, line = self.frames[1]
        value = variables_of(self.frames[0][0]).get(name)
        text = linecache.getline(caller.f_code.co_filename, line).strip()
        tree = parsed(call_at(caller.f_code, offset, text) or text)
        calls = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        passed = _passed(calls[0], function, name) if calls else None
        if passed is None:
            return _UNKNOWN
        if isinstance(passed, ast.Name) and variables_of(caller).get(passed.id) is not value:
            return _UNKNOWN
        self.frames = self.frames[1:]
        return self.of_expression(passed, line)


def _parameters(function: Function) -> set[str]:
    arguments = function.args
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _passed(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """What a call gives to a parameter of the function that it reaches; methods have one parameter more."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if names[:1] in (["self"], ["cls"], ["ctx"]) else names
    place = names.index(name) if name in names else len(call.args)
    return call.args[place] if place < len(call.args) else None


def _reached(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The object that names and attributes reach; nothing of the program is run."""
    match node:
        case ast.Name(id=name):
            return variables.get(name)
        case ast.Attribute(value=value, attr=name):
            owner = _reached(value, variables)
            held = getattr(owner, "__dict__", None)
            if not isinstance(held, dict):
                return None
            modules = held.get("_modules")
            return held.get(name, modules.get(name) if isinstance(modules, dict) else None)
    return None


def _of_attribute(owner: Any, name: str) -> Birth:
    """Of what the classes of an object give to its attribute, where they do so once."""
    found: list[tuple[ast.expr, str, str]] = []
    for kind in type(owner).__mro__:
        home = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if kind is object or kind.__module__.partition(".")[0] == "torch" or not isinstance(home, str):
            continue
        for node in ast.walk(module_of(home) or ast.Module([], [])):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                found += [(value, home, function) for value, function in _given(node, name)]
    if len(found) != 1:
        return _UNKNOWN
    return _called(*found[0])[0]


def _called(node: ast.expr, file: str, function: str) -> tuple[Birth, ast.expr | None]:
    """What a chain of calls says, the outermost first, and what it begins with where it makes no tensor."""
    moved: Place | None = None
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in FACTORIES and ast.unparse(node.func.value) == "torch":
            return (_place(node, file, function), moved), None
        if node.func.attr in _MOVES:
            moved = moved or _place(node, file, function)
        elif node.func.attr not in _KEEPS:
            return _UNKNOWN, None
        node = node.func.value
    return (None, moved), node


def _given(kind: ast.ClassDef, name: str) -> list[tuple[ast.expr, str]]:
    return [
        (each.value, function.name)
        for function in ast.walk(kind)
        if isinstance(function, ast.FunctionDef)
        for each in ast.walk(function)
        if isinstance(each, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and each.value is not None
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if any(ast.unparse(part) == f"self.{name}" for part in ast.walk(target) if isinstance(part, ast.expr))
    ]


def _place(call: ast.expr, file: str, function: str) -> Place:
    text = linecache.getline(file, call.lineno).strip()
    code = ast.unparse(call)
    return Place(file, call.lineno, function, text, "" if code == text else code)
