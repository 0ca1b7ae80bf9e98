"""One statement of a function, and where each tensor that it reads comes from inside of that function.

What cannot be told is `unknown`; an origin is never a guess: each is one expression of the source, which is
given with it. A name that several assignments may have set has an origin where they agree.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from samedevice.events import Origin, Use, Written
from samedevice.provenance.syntax import Function
from samedevice.static.tensors.knowledge import FACTORIES, FUNCTIONS, METHODS

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
OWN = frozenset("self cls".split())
"""How a method calls its object, or its class."""
_HOST = frozenset("from_numpy frombuffer".split())
_WORD = re.compile(r"[A-Za-z_]\w*")
_Branch = tuple[tuple[int, str], ...]
"""The `if` statements that a statement stands in, and in which part of each."""


@dataclass(frozen=True, slots=True)
class _Binding:
    """A statement that gives a local name its value."""

    line: int
    value: ast.expr | None
    """None where the expression is not the name's own: a target of a loop, a part of what a call returns."""
    branch: _Branch = ()
    default: bool = False
    """Whether it runs only where the name holds None."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with the function and the class that it stands in."""

    node: ast.stmt
    function: Function
    owner: ast.ClassDef | None
    given: Callable[[str], bool | None] = lambda _: None
    """Whether the caller hands over a parameter; None where that is not known."""
    shown: bool = False
    """Whether a text shows it, whose lines are not those of the file."""

    def origins(self) -> Iterator[Written]:
        """The origin of each operand, in the order of the statement."""
        told = set()
        joined = list(self._joined_layers())
        within = {id(part) for each in joined for part in ast.walk(each)}
        for operand in (*(each for each in operands_of(self.node) if id(each) not in within), *joined):
            name = ast.unparse(operand)
            if name not in told:
                told.add(name)
                yield self.trace(operand, name, self.node.lineno, _DEEPEST)

    def _joined_layers(self) -> Iterator[ast.expr]:
        """Calls of layers whose results the statement itself adds or multiplies."""
        for node in ast.walk(self.node):
            for side in (node.left, node.right) if isinstance(node, ast.BinOp) else ():
                if isinstance(side, ast.Call) and self._runs_layer(side.func):
                    yield side

    def traced(self, node: ast.expr, name: str) -> Written:
        """Where the tensor of an expression of the statement comes from."""
        return self.trace(node, name, self.node.lineno, _DEEPEST)

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
        if isinstance(node, ast.ListComp):
            return self.trace(node.elt, name, before, deep - 1)
        return Written(name, "unknown")

    def _first(self, nodes: Sequence[ast.expr], name: str, before: int, deep: int) -> Written:
        """The origin of the first part that has one: the parts are on one device where the expression ran."""
        for node in nodes:
            found = self.trace(node, name, before, deep - 1)
            if found.origin != "unknown":
                return found
        return Written(name, "unknown")

    def _local(self, node: ast.Name, name: str, before: int, deep: int) -> Written:
        """A local name: what the assignments say that may have set it, where they say one thing."""
        told: list[Written] = []
        for each in self._bindings(node.id, before):
            if each.value is not None and not (each.default and self.given(node.id) is not False):
                told.append(self.trace(each.value, name, each.line, deep - 1))
            elif not each.default:
                told.append(Written(name, "unknown"))
            elif self.given(node.id) is None:
                return Written(name, "unknown")
            if not each.default and each.branch == self._branch[: len(each.branch)]:
                break
        else:
            if node.id in parameters_of(self.function) and not told:
                told.append(Written(name, "argument", node.id, self.function.lineno))
            elif node.id in parameters_of(self.function) and self.given(node.id) is not False:
                told.append(Written(name, "unknown"))
        return told[0] if len({each.origin for each in told}) == 1 else Written(name, "unknown")

    def _bindings(self, name: str, before: int) -> list[_Binding]:
        """The assignments above a line that may have given a name its value, the last first.

        None is no value of an operand, and of an `if` only the part counts that the statement is in.
        """
        own = dict(self._branch)
        found = [
            each
            for each in _all_bindings(self.function.body, name)
            if each.line < before
            and not (each.value is not None and _none(each.value))
            and all(own.get(test, part) == part for test, part in each.branch)
        ]
        return sorted(found, key=lambda each: -each.line)

    @property
    def _branch(self) -> _Branch:
        return next((branch for each, branch in _branches(self.function.body) if each is self.node), ())

    def _attribute(self, node: ast.Attribute, name: str, deep: int) -> Written:
        if self.owner is None:
            return Written(name, "unknown")
        for each in ast.walk(self.owner):
            if (
                isinstance(each, ast.Call)
                and called_name(each) == "register_buffer"
                and _names(each, node.attr)
            ):
                return Written(name, "buffer", _text(each), each.lineno)
            if (
                isinstance(each, ast.Call)
                and called_name(each) == "register_parameter"
                and _names(each, node.attr)
            ):
                return Written(name, "parameter", _text(each), each.lineno)
        values = [_assigned_attribute(each, node.attr) for each in ast.walk(self.owner)]
        told = [self._kept(each, name, deep) for each in values if each is not None and not _none(each)]
        return told[0] if len({each.origin for each in told}) == 1 else Written(name, "unknown")

    def _kept(self, value: ast.expr, name: str, deep: int) -> Written:
        """What a class keeps under a name, by the value that it assigns."""
        if isinstance(value, ast.Call) and called_name(value) == "Parameter":
            return Written(name, "parameter", _text(value), value.lineno)
        if isinstance(value, ast.Call) and called_name(value)[:1].isupper():
            return Written(name, "module", _text(value.func), value.lineno)
        made = self.trace(value, name, value.lineno, deep - 1)
        if made.origin in ("made", "host") and self.owner is not None:
            attribute = name.removeprefix("self.").partition(".")[0].partition("[")[0]
            return replace(made, origin="attribute", use=_use(self.owner, attribute))
        return made if made.origin in ("literal", "like", "loaded") else Written(name, "unknown")

    def _runs_layer(self, function: ast.expr) -> bool:
        """Whether what is called is an attribute that the class assigns, or one of a list of them."""
        match function:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute) if self.owner is not None:
                return any(_assigned_attribute(each, attribute) for each in ast.walk(self.owner))
            case ast.Subscript(value=inner):
                return self._runs_layer(inner)
            case ast.Name(id=name):
                loops = [each for each, _ in _branches(self.function.body) if isinstance(each, ast.For)]
                return any(
                    name in {part.id for part in ast.walk(each.target) if isinstance(part, ast.Name)}
                    and any(
                        isinstance(part, ast.Attribute) and _text(part.value) == "self"
                        for part in ast.walk(each.iter)
                    )
                    for each in loops
                )
        return False

    def _call(self, node: ast.Call, name: str, before: int, deep: int) -> Written:
        called = called_name(node)
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
        if called == "load" and _text(node.func) == "torch.load":
            return Written(name, "loaded", _text(node), node.lineno)
        if self._runs_layer(node.func):
            return Written(name, "layer", _text(node.func), node.lineno)
        if isinstance(node.func, ast.Attribute) and not _module(node.func.value):
            own = isinstance(node.func.value, ast.Name) and node.func.value.id in OWN
            return Written(name, "unknown") if own else self.trace(node.func.value, name, before, deep - 1)
        return self._first(
            [each for each in node.args if not isinstance(each, ast.Starred)], name, before, deep
        )

    def _moved(self, node: ast.Call, name: str, target: ast.expr | None, before: int, deep: int) -> Written:
        """`x.to(...)`: a device that is written, that of another tensor, or only another kind of number."""
        placed = _placed(node, name, target) if target is not None else Written(name, "unknown")
        if placed.origin != "unknown" or not isinstance(node.func, ast.Attribute):
            return placed
        return self.trace(node.func.value, name, before, deep - 1)


def find_statement(tree: ast.Module, function: str, line: int | None, code: str) -> Statement | None:
    """The statement that the printed code is; on the printed line, or else the only one that fits best."""
    wanted = set(_WORD.findall(code))
    best: list[tuple[tuple[int, int], Statement]] = []
    for owner, each in _functions(tree):
        if each.name != function:
            continue
        for node in ast.walk(each):
            if isinstance(node, ast.stmt) and not isinstance(node, _BLOCKS):
                words = set(_WORD.findall(ast.unparse(node)))
                if len(wanted) > 1 and wanted <= words:
                    near = int(line is not None and node.lineno <= line <= (node.end_lineno or node.lineno))
                    best.append(((near, -len(words - wanted)), Statement(node, each, owner)))
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


def _functions(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | None, Function]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, Function):
                    yield node, each
    for each in tree.body:
        if isinstance(each, Function):
            yield None, each
    top = [each for each in tree.body if not isinstance(each, Function | ast.ClassDef)]
    if top:
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        yield None, ast.FunctionDef("<module>", nothing, top, [], lineno=0)


def operands_of(node: ast.stmt) -> Iterator[ast.expr]:
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


def _use(owner: ast.ClassDef, attribute: str) -> Use | None:
    """What a class does with an attribute beside reading it."""
    calls = {called_name(each) for each in ast.walk(owner) if isinstance(each, ast.Call)}
    if {"cos", "sin"} <= calls or "polar" in calls:
        return "angles"
    own = f"self.{attribute}"
    later = (each for each in owner.body if getattr(each, "name", "") != "__init__")
    for node in (part for each in later for part in ast.walk(each)):
        match node:
            case ast.AugAssign(target=ast.Attribute() as target) if _text(target) == own:
                return "sum"
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.BinOp(left=left)):
                if _text(target) == own == _text(left):
                    return "sum"
            case ast.Assign(targets=[ast.Subscript(value=inner)]) if _text(inner).startswith(own):
                return "state"
            case ast.Call(func=ast.Attribute(value=inner, attr="add_" | "index_add_" | "scatter_add_")):
                if _text(inner).startswith(own):
                    return "sum"
            case ast.Call(func=ast.Attribute(value=inner, attr="copy_" | "index_copy_" | "scatter_")):
                if _text(inner).startswith(own):
                    return "state"
    return None


def _none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _assigned_attribute(node: ast.AST, name: str) -> ast.expr | None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == name and _text(target.value) == "self":
                return node.value
    return None


def _made(node: ast.Call, name: str, device: ast.expr | None, numpy: bool) -> Written:
    """A tensor that a factory makes; one of a single number may be anywhere."""
    if called_name(node) in ("tensor", "as_tensor", "asarray") and not isinstance(
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


def called_name(node: ast.Call) -> str:
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


def parameters_of(function: Function) -> list[str]:
    """The names of a function's parameters, in their order, without those that collect the rest."""
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _branches(body: Sequence[ast.stmt], branch: _Branch = ()) -> Iterator[tuple[ast.stmt, _Branch]]:
    """The statements of a body with those inside of them, not those of functions and classes in it."""
    for each in body:
        yield each, branch
        if isinstance(each, ast.If):
            yield from _branches(each.body, (*branch, (id(each), "body")))
            yield from _branches(each.orelse, (*branch, (id(each), "orelse")))
        elif isinstance(each, ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try):
            handlers = [part for handler in getattr(each, "handlers", ()) for part in handler.body]
            rest = (*getattr(each, "orelse", ()), *getattr(each, "finalbody", ()))
            yield from _branches((*each.body, *handlers, *rest), branch)


def _all_bindings(body: Sequence[ast.stmt], name: str) -> Iterator[_Binding]:
    tests = {id(node): node.test for node, _ in _branches(body) if isinstance(node, ast.If)}
    for node, branch in _branches(body):
        default = any(part == "body" and _is_none(tests[test], name) for test, part in branch)
        for value in _values(node, name):
            yield _Binding(node.lineno, value, branch, default)


def _values(node: ast.stmt, name: str) -> Iterator[ast.expr | None]:
    """What a statement gives a name; None for a value that no expression of its own writes."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _in_target(target, value, name)
        case ast.AnnAssign(target=ast.Name(id=found), value=value) if value is not None and found == name:
            yield value
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield from _in_target(target, None, name)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _in_target(item.optional_vars, None, name)


def _in_target(target: ast.expr, value: ast.expr | None, name: str) -> Iterator[ast.expr | None]:
    match target:
        case ast.Name(id=found) if found == name:
            yield value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            values: list[ast.expr | None] = [_part_of(value)] * len(parts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts):
                values = [*value.elts]
            for part, own in zip(parts, values, strict=True):
                yield from _in_target(part, own, name)
        case ast.Starred(value=inner):
            yield from _in_target(inner, None, name)


def _part_of(value: ast.expr | None) -> ast.expr | None:
    """A value that is taken apart, where each part is on its device."""
    if isinstance(value, ast.Call) and _method(value):
        own = isinstance(value.func, ast.Attribute) and _text(value.func.value) == "self"
        return value if own or called_name(value) in _OF_TENSORS | {"unbind"} else None
    return None


def _is_none(test: ast.expr, name: str) -> bool:
    """Whether a test asks if a name holds None."""
    match test:
        case ast.Compare(left=ast.Name(id=found), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return found == name
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=found)):
            return found == name
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_none(each, name) for each in values)
    return False


def runs_a_module(call: ast.Call) -> bool:
    """Whether a call may run a module's `forward`: no function of torch, and no method of a tensor."""
    name = called_name(call)
    if isinstance(call.func, ast.Attribute) and _module(call.func.value):
        return False
    return name not in FACTORIES | _OF_TENSORS | _OF_PYTHON and not name[:1].isupper()


_OF_PYTHON = frozenset(
    "to cuda cpu len range isinstance getattr int float list tuple dict zip enumerate print super".split()
)
