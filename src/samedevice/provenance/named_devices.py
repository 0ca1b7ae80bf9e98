"""What names the device in a line of source: a literal, nothing at all, another tensor, the launcher's rank.

Read from the text alone: nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from samedevice.events import DeviceSource, Place
from samedevice.provenance.assignments import names_in
from samedevice.provenance.syntax import function_at, module_of, names_called, parsed

Told = tuple[DeviceSource, str | None]
"""What names a device, and the expression that does."""

_KEYWORDS = ("device", "map_location", "device_map")
WRITES_ANEW = frozenset(("one_hot",))
"""Functions of torch that write what a tensor says into new memory beside it."""
_DEEPEST = 6
"""Assignments that are followed from a name to what it stands for."""
_OF_CONTAINERS = frozenset(
    name for kind in (dict, list, tuple, set, str, OrderedDict, deque) for name in dir(kind)
)
"""Methods that tell nothing of whose they are."""
_NOTHING = ast.Module([], [])
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


def by_table(place: Place) -> bool:
    """Whether the call at a place takes the device out of a table: `plan[name]`, or a loop over its items."""
    call = _call(place)
    named = _named(call) if call is not None else None
    if isinstance(named, ast.expr) and looked_up(named):
        return True
    scope = function_at(place.file, place.line) or module_of(place.file)
    return isinstance(named, ast.expr) and scope is not None and _from_table(named, scope, 0)


def writes_gpu(place: Place) -> bool:
    """Whether the function around a place, or one of the same file that it calls, writes `cuda` without a
    number, or takes the type of a device and leaves its number away; or what gave the attribute of its object
    that names the device there its value.
    """
    function = function_at(place.file, place.line)
    module = module_of(place.file)
    names = names_called(_nodes(function) if function is not None else ())
    helpers = [
        each
        for each in (_nodes(module) if module is not None else ())
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name in names
    ]
    inside = [
        node
        for each in (function, *helpers)
        if each is not None
        for part in each.body
        for node in _nodes(part)
    ]
    call = _call(place)
    named = _named(call) if call is not None else None
    for each in _nodes(named) if isinstance(named, ast.expr) else ():
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self":
            inside += _nodes(_attribute_given(each.attr, place) or _NOTHING)
    called = {id(node.func) for node in inside if isinstance(node, ast.Call)}
    return any(id(node) not in called and _without_number(node) for node in inside)


def _without_number(node: ast.AST) -> bool:
    """Whether a node says `cuda` alone, or takes from a device what stands before its number."""
    match node:
        case ast.Constant(value="cuda") | ast.Attribute(attr="type", ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Attribute(attr="split" | "partition"), args=[ast.Constant(value=":"), *_]):
            return True
    return False


def _from_table(device: ast.expr, scope: ast.AST, depth: int) -> bool:
    """Whether a name in the expression for a device stands for a value of a table, or what was looked up."""
    for node in ast.walk(device):
        if isinstance(node, ast.comprehension) and any(
            _names_item(node, each) for each in names_in(node.target)
        ):
            return True
        if not isinstance(node, ast.Name):
            continue
        if any(_names_item(each, node.id) for each in _nodes(scope)):
            return True
        given = [each for each in _assigned(node.id, scope) if each is not None] if depth < _DEEPEST else []
        if any(looked_up(each) or _from_table(each, scope, depth + 1) for each in given):
            return True
    return False


def looked_up(device: ast.expr) -> bool:
    """Whether an expression looks a device up in a table, by a name or a number that is not written there."""
    match device:
        case ast.Subscript(slice=index):
            return not isinstance(index, ast.Constant)
        case ast.Call(func=ast.Attribute(attr="get"), args=[first, *_]):
            return not isinstance(first, ast.Constant)
    return False


def _names_item(node: ast.AST, name: str) -> bool:
    """Whether a loop over the items of a mapping gives a name their values."""
    match node:
        case ast.For(target=target, iter=iterable) | ast.comprehension(target=target, iter=iterable):
            match iterable, target:
                case (
                    ast.Call(func=ast.Attribute(attr="items")) | ast.Name() | ast.Attribute(),
                    ast.Tuple(elts=[_, ast.Name(id=value)]),
                ):
                    return value == name
    return False


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
    if (name.endswith("_like") or name in WRITES_ANEW) and call.args:
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
        case ast.Call(func=ast.Name(id="device") | ast.Attribute(attr="device"), args=[*_, last]):
            return _told(last, place, depth)[0], text  # the number, where there is one
        case ast.Attribute(attr="device", value=of):
            own = ast.unparse(of) in ("self", "cls") and depth < _DEEPEST
            given = _attribute_given("device", place) if own else None
            picked = _property_picks("device", place, depth)
            if given is not None:
                there = replace(place, line=given.lineno)
                picked = picked or _told(given, there, depth + 1)[0] == "unordered"
            return ("unordered", text) if picked else ("tensor", ast.unparse(of))
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
        case ast.Call() if depth < _DEEPEST:
            return _returned(node, place, depth), text
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute) if depth < _DEEPEST:
            given = _attribute_given(attribute, place)
            there = place if given is None else replace(place, line=given.lineno)
            if given is not None and _told(given, there, depth + 1)[0] == "unordered":
                return "unordered", text
    return ("unordered" if _picks_from_set(node, place, depth) else "computed"), text


def _returned(call: ast.Call, place: Place, depth: int) -> DeviceSource:
    """Whether a call takes an element of a set itself, or calls a function of the same file that returns one.

    Everything else that a function may return is `computed`.
    """
    if _picks_from_set(call, place, depth):
        return "unordered"
    for each, inside in _returns_of(call, place):
        if _told(each, inside, depth + 1)[0] == "unordered":
            return "unordered"
    return "computed"


def _returns_of(call: ast.Call, place: Place) -> Iterator[tuple[ast.expr, Place]]:
    """What the functions of the same file that a call can mean return, and where.

    The method of an object that is not `self` is known by its name alone: only where one function has that
    name, and no container a method of it.
    """
    match call.func:
        case ast.Name(id=name):
            own = True
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            own = True
        case ast.Attribute(attr=name) if name not in _OF_CONTAINERS:
            own = False
        case _:
            return
    module = module_of(place.file)
    functions = [
        each
        for each in (_nodes(module) if module is not None else ())
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == name
    ]
    for function in functions if own or len(functions) == 1 else ():
        inside = replace(place, line=function.body[-1].end_lineno or function.lineno)
        for node in _nodes(function):
            if isinstance(node, ast.Return) and node.value is not None:
                yield node.value, inside


def _taken_from_set(name: str, place: Place, depth: int) -> bool:
    """Whether a loop over a set gives a name its value, in the function around a place."""
    scope = function_at(place.file, place.line) or module_of(place.file)
    return any(
        isinstance(node, ast.For)
        and isinstance(node.target, ast.Name)
        and node.target.id == name
        and _is_set(node.iter, place, depth)
        for node in (_nodes(scope) if scope is not None else ())
    )


def _property_picks(name: str, place: Place, depth: int) -> bool:
    """Whether a property of that name, in the same file, takes an element of a set."""
    module = module_of(place.file) if depth < _DEEPEST else None
    for function in _nodes(module) if module is not None else ():
        if isinstance(function, ast.FunctionDef) and function.name == name:
            inside = replace(place, line=function.body[-1].end_lineno or function.lineno)
            returns = [node.value for node in _nodes(function) if isinstance(node, ast.Return) and node.value]
            if function.decorator_list and any(
                _told(each, inside, depth + 1)[0] == "unordered" for each in returns
            ):
                return True
    return False


def _unpacked(name: str, scope: ast.AST, place: Place, depth: int) -> bool:
    """Whether an assignment gives a name one element of a set and other names the others."""
    return any(
        isinstance(target, (ast.Tuple, ast.List))
        and any(isinstance(each, ast.Name) and each.id == name for each in target.elts)
        and _is_set(node.value, place, depth)
        for node in _nodes(scope)
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


def _attribute_given(name: str, place: Place) -> ast.expr | None:
    """The only value that the class around a place gives to an attribute of its object, in a statement."""
    for node in _nodes(module_of(place.file) or _NOTHING):
        if isinstance(node, ast.ClassDef) and node.lineno <= place.line <= (node.end_lineno or 0):
            given = [
                each.value
                for each in ast.walk(node)
                if isinstance(each, ast.Assign)
                and any(ast.unparse(target) == f"self.{name}" for target in each.targets)
            ]
            return given[0] if len(given) == 1 else None
    return None


def _picks_from_set(node: ast.expr, place: Place, depth: int) -> bool:
    """Whether an expression takes one element out of a set, whose order nobody chose."""
    match node:
        case ast.Call(func=ast.Attribute(attr="pop", value=of), args=[]):
            return _is_set(of, place, depth)
        case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[of]), *_]):
            return _is_set(of, place, depth)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="list" | "tuple"), args=[of])):
            return _is_set(of, place, depth)
        case ast.Subscript(value=ast.List(elts=[ast.Starred(value=of)])):
            return _is_set(of, place, depth)
        case ast.Subscript(value=ast.Name(id=name)):
            given = _given_to(name, place)
            match given:
                case ast.Call(func=ast.Name(id="list" | "tuple"), args=[of]):
                    return _is_set(of, place, depth)
    return False


def _is_set(node: ast.expr, place: Place, depth: int) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Name(id=name) if depth < _DEEPEST:
            given = _given_to(name, place)
            return given is not None and _is_set(given, place, depth + 1)
        case ast.Call() if depth < _DEEPEST:
            returned = list(_returns_of(node, place))
            return bool(returned) and all(_is_set(each, inside, depth + 1) for each, inside in returned)
    return False


def _given_to(name: str, place: Place) -> ast.expr | None:
    """The only value that the function around a place, or else the module, gives to a name."""
    for scope in (function_at(place.file, place.line), module_of(place.file)):
        values = _assigned(name, scope) if scope is not None else ()
        if values:
            return values[0] if len(values) == 1 else None
    return None


def _of_name(name: str, place: Place, depth: int) -> Told:
    """The only assignment to a name in its function, or else in the module, tells what it stands for."""
    module, function = module_of(place.file), function_at(place.file, place.line)
    for scope in (function, module):
        if scope is None:
            continue
        values = _assigned(name, scope)
        if len(values) == 1 and values[0] is not None:
            source, said = _told(values[0], place, depth + 1)
            return source, said if source == "tensor" else name
        if values and all(each is not None for each in values):
            sources = {_told(each, place, depth + 1)[0] for each in values if each is not None}
            if sources == {"literal"}:
                return "literal", name  # `if x.is_cuda: device = "cuda"`, `else: device = "cpu"`
        if values:
            taken = _unpacked(name, scope, place, depth) or _taken_from_set(name, place, depth)
            return "unordered" if taken else "computed", name
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


def has_default(place: Place, name: str) -> bool:
    """Whether the innermost function around a line has a parameter of that name which need not be given."""
    function = function_at(place.file, place.line)
    given = None if function is None else function.args
    if given is None:
        return False
    positional = [*given.posonlyargs, *given.args]
    optional = positional[len(positional) - len(given.defaults) :]
    named = [
        each for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None
    ]
    return any(each.arg == name for each in (*optional, *named))


def given_once(place: Place, name: str) -> bool:
    """Whether the innermost function around a line gets a name as an argument and gives it no other value."""
    function = function_at(place.file, place.line)
    if function is None or name not in _arguments(function):
        return False
    return not any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in _nodes(function)
    )


def moves_others(place: Place) -> bool:
    """Whether the innermost function around a line puts something else on a device, in another line."""
    function = function_at(place.file, place.line)
    for node in _nodes(function) if function is not None else ():
        match node:
            case (
                ast.Call(func=ast.Attribute(attr="cuda"))
                | ast.Call(
                    func=ast.Attribute(attr="to"),
                    args=[ast.Name() | ast.Constant() | ast.Attribute(attr="device")],
                )
                | ast.Call(keywords=[*_, ast.keyword(arg="device")])
            ) if node.lineno != place.line:
                return True
    return False


def reads_a_size(place: Place) -> bool:
    """Whether a line reads how large something is that the innermost function around it was given."""
    function = function_at(place.file, place.line)
    for node in _nodes(function) if function is not None else ():
        match node:
            case (
                ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])
                | ast.Attribute(value=ast.Name(id=name), attr="shape" | "size")
            ) if node.lineno == place.line and name in _arguments(function):
                return True
    return False


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> set[str]:
    if function is None:
        return set()
    given = function.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _assigned(name: str, scope: ast.AST) -> tuple[ast.expr | None, ...]:
    """What a scope, without the functions in it, assigns to a name; None where that is no expression."""
    return _assignments(scope).get(name, ())


@lru_cache(maxsize=256)
def _assignments(scope: ast.AST) -> dict[str, tuple[ast.expr | None, ...]]:
    found: dict[str, list[ast.expr | None]] = {}
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        children = ast.iter_child_nodes(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append(None)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            plain = [target for target in _targets(node) if isinstance(target, ast.Name)]
            if len(plain) == 1:
                found.setdefault(plain[0].id, []).append(node.value)
                children = (each for each in children if each is not plain[0])
        waiting += children
    return {name: tuple(values) for name, values in found.items()}


@lru_cache(maxsize=256)
def _nodes(scope: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a scope: the same few are asked for again and again."""
    return tuple(ast.walk(scope))


def _targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
