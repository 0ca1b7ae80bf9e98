"""What names the device in a line of source: a literal, nothing at all, another tensor, the launcher's rank.

Read from the text alone: nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.events import DeviceSource, Place
from samedevice.provenance.syntax import function_at, module_of, parsed

Told = tuple[DeviceSource, str | None]
"""What names a device, and the expression that does."""

_KEYWORDS = ("device", "map_location", "device_map")
_DEEPEST = 6
"""Assignments that are followed from a name to what it stands for."""
_RANKS = frozenset(("LOCAL_RANK", "RANK", "local_rank", "get_rank", "local_process_index", "process_index"))
"""How programs ask the launcher for their rank: its variables, torch's function, accelerate's attributes."""


def device_source(place: Place) -> Told | None:
    """What names the device in the call at a place; None when no call can be read there."""
    call = _call(place)
    if call is None:
        return None
    named = _named(call)
    if isinstance(named, ast.expr):
        return _told(named, place, 0)
    return named


def _call(place: Place) -> ast.Call | None:
    for text in (place.call, place.code, place.code.removeprefix("return "), place.code.partition("=")[2]):
        tree = parsed(text)
        found = next((node for node in ast.walk(tree) if isinstance(node, ast.Call)), None) if tree else None
        if found is not None:
            return found
    return None


def _named(call: ast.Call) -> ast.expr | Told:
    """The expression that names the device of a call, or what a call without one means."""
    for keyword in call.keywords:
        if keyword.arg in _KEYWORDS:
            return keyword.value
    if not isinstance(call.func, ast.Attribute):
        return "default", None
    name, of = call.func.attr, call.func.value
    if name == "to" and call.args:
        return call.args[0]
    if name == "cuda":
        return call.args[0] if call.args else ("current-gpu", ast.unparse(call))
    if name == "cpu":
        return "literal", ast.unparse(call)
    if name == "type_as" and call.args:
        return "tensor", ast.unparse(call.args[0])
    if name.startswith("new_"):
        return "tensor", ast.unparse(of)
    if name.endswith("_like") and call.args:
        return "tensor", ast.unparse(call.args[0])
    return "default", None


def _told(node: ast.expr, place: Place, depth: int) -> Told:
    """What an expression that names a device says; names are followed to what was assigned to them."""
    text = ast.unparse(node)
    if _asks_rank(node):
        return "launcher", text
    match node:
        case ast.Constant(value=str() | int()):
            return "literal", text
        case ast.Constant():
            return "default", None
        case ast.Call(func=ast.Name(id="device") | ast.Attribute(attr="device"), args=[first, *_]):
            return _told(first, place, depth)[0], text
        case ast.Attribute(attr="device", value=of):
            return "tensor", ast.unparse(of)
        case ast.Call(func=ast.Attribute(attr="get_device", value=of)):
            return "tensor", ast.unparse(of)
        case ast.IfExp(body=one, orelse=other):
            sources = {_told(each, place, depth)[0] for each in (one, other)}
            return (sources.pop() if len(sources) == 1 else "computed"), text
        case ast.Dict(values=values) if values:
            sources = {_told(each, place, depth)[0] for each in values}
            return (sources.pop() if len(sources) == 1 else "computed"), text
        case ast.Name(id=name) if depth < _DEEPEST:
            return _of_name(name, place, depth)
    return "computed", text


def _of_name(name: str, place: Place, depth: int) -> Told:
    """The only assignment to a name in its function, or else in the module, tells what it stands for."""
    module, function = module_of(place.file), function_at(place.file, place.line)
    for scope in (function, module):
        if scope is None:
            continue
        values = list(_assigned(name, scope))
        if len(values) == 1 and values[0] is not None:
            source, _ = _told(values[0], place, depth + 1)
            return source, name
        if values:
            return "computed", name
        if scope is function and name in _arguments(function):
            return "argument", name
    return "computed", name


def _asks_rank(node: ast.expr) -> bool:
    for each in ast.walk(node):
        match each:
            case ast.Constant(value=str(text)) if text in _RANKS:
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in _RANKS:
                return True
    return False


def takes_arguments(place: Place) -> bool:
    """Whether the innermost function around a line has parameters other than `self`."""
    function = function_at(place.file, place.line)
    return bool(_arguments(function) - {"self", "cls"})


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> set[str]:
    if function is None:
        return set()
    given = function.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _assigned(name: str, scope: ast.AST) -> Iterator[ast.expr | None]:
    """What a scope, without the functions in it, assigns to a name; None where that is no expression."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            yield None
        elif (
            isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
            and node.value is not None
            and [name] == [target.id for target in _targets(node) if isinstance(target, ast.Name)]
        ):
            yield node.value
            waiting.append(node.value)
        else:
            waiting += ast.iter_child_nodes(node)


def _targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
