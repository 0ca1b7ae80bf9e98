"""One statement of a function, and where each tensor that it reads comes from inside of that function.

What cannot be told is `unknown`; each origin is one expression of the source, which is given with it. A name
that several assignments may have set has an origin where they agree; a function or a method that nothing is
known of gives `unknown`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from samedevice.events import Written
from samedevice.provenance.syntax import Function, parsed
from samedevice.static.names import (
    ANY,
    OF_TENSORS,
    OWN,
    Binding,
    called_name,
    facts_of,
    is_none,
    kept_by,
    of_self,
    parameters_of,
    text_of,
    use_of,
    use_of_kept,
)
from samedevice.static.tensors.knowledge import FACTORIES, FUNCTIONS, METHODS

_DEEPEST = 8
"""Assignments that are followed from a name back to where its tensor was made."""
_MOST_STEPS = 2000
"""Expressions that are looked at for one statement."""
_LIKE, _NEW = FUNCTIONS["like"], METHODS["new"]
_JOINS = frozenset("cat concat concatenate stack hstack vstack".split())
_FUNCTIONAL = ("F", "nn.functional", "torch.nn.functional")
_MODULES = ("torch", "np", "numpy", "nn", "math", *_FUNCTIONAL)
_OF_PYTHON = frozenset(
    "len int float bool str range isinstance print getattr hasattr enumerate zip list tuple dict set type id "
    "super checkpoint".split()
)
"""Functions that run no module and hand on no tensor, and torch's own that takes a module first."""
_NUMBERS = frozenset(
    "item tolist size dim numel stride get_device numpy data_ptr element_size nelement".split()
)
"""Methods of tensors that give no tensor."""
_NO_TENSORS = frozenset("device dtype shape ndim is_cuda requires_grad layout".split())
_NO_OPERANDS = frozenset("device dtype dim layout generator".split())
_HOST = frozenset("from_numpy frombuffer".split())
_REDUCES = frozenset("sum mean max min prod norm any all std var".split())
"""Methods that leave a single number, which meets any device."""
_ALONE = ("made", "host", "attribute")
_CONTEXT = re.compile(r"\bdevice\(")
_KEYWORDS = frozenset("if elif while async for with as in return await yield".split())
"""What a printed statement may lack."""
_WORD = re.compile(r"(?<!\w)[A-Za-z_]\w*")


def _open(_: str) -> None:
    """Of a method that is not on the stack nothing is known of what it was given."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with the function and the class that it stands in."""

    node: ast.stmt
    function: Function
    owner: ast.ClassDef | None
    given: Callable[[str], bool | None] = _open
    """Whether the caller hands over a parameter; None where that is not known."""
    shown: bool = False
    """Whether a text shows it, whose lines are not those of the file."""
    spent: list[int] = field(default_factory=lambda: [0])

    def origins(self, marked: str = "") -> Iterator[Written]:
        """The origin of each operand, in the order of the statement; of those of the `marked` part alone."""
        told = set()
        failing = _part_of(self.node, marked) or self.node
        joined = [(each, "") for each in self._joined_layers(failing)]
        within = {id(part) for each, _ in joined for part in ast.walk(each)} | _elements(
            failing, self.function
        )
        for operand, part in (*((e, p) for e, p in operands_of(failing) if id(e) not in within), *joined):
            name = ast.unparse(operand)
            if name in told:
                continue
            told.add(name)
            found = self.traced(operand, name)
            if found.origin != "module" or part in ("weight", "bias", "data"):
                yield found
        indices = list(_indices_of(failing))
        if len(indices) == 1 and isinstance(indices[0], (ast.Name, ast.Attribute)):
            found = self.traced(indices[0], ast.unparse(indices[0]))
            if found.origin != "unknown":
                yield replace(found, use="index")

    def traced(self, node: ast.expr, name: str) -> Written:
        """Where the tensor of an expression of the statement comes from."""
        return self._trace(node, name, self.node.lineno, _DEEPEST)

    def _joined_layers(self, failing: ast.AST) -> Iterator[ast.expr]:
        """Calls of layers whose results a part of the statement itself adds or multiplies."""
        for node in ast.walk(failing):
            for side in (node.left, node.right) if isinstance(node, ast.BinOp) else ():
                if isinstance(side, ast.Call) and self._runs_layer(side.func):
                    yield side

    def _trace(self, node: ast.expr, name: str, before: int, deep: int) -> Written:
        """Where the tensor of an expression comes from that is read on line `before`."""
        self.spent[0] += 1
        if deep == 0 or self.spent[0] > _MOST_STEPS:
            return Written(name, "unknown")
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                return self._attribute(attribute, name, deep)
            case ast.Attribute(attr=attribute) if attribute in _NO_TENSORS:
                return Written(name, "unknown")
            case ast.Name():
                return self._local(node, name, before, deep)
            case ast.Call():
                return self._call(node, name, before, deep)
            case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=int())):
                return Written(name, "unknown")  # it may have no dimension left
            case ast.Subscript(value=inner) | ast.Attribute(value=inner) | ast.UnaryOp(operand=inner):
                return self._trace(inner, name, before, deep - 1)
            case ast.BinOp(left=left, right=right):
                return self._first((left, right), name, before, deep)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._first(parts, name, before, deep)
            case ast.ListComp(elt=inner):
                return self._trace(inner, name, before, deep - 1)
        return Written(name, "unknown")

    def _first(self, nodes: Sequence[ast.expr], name: str, before: int, deep: int) -> Written:
        """The origin of the first part that has one: the parts are on one device where the expression ran."""
        for node in nodes:
            found = self._trace(node, name, before, deep - 1)
            if found.origin != "unknown":
                return found
        return Written(name, "unknown")

    def _local(self, node: ast.Name, name: str, before: int, deep: int) -> Written:
        """A local name: what the assignments say that may have set it, where they say one thing."""
        facts = facts_of(self.function)
        if node.id in facts.clouded:
            return Written(name, "unknown")
        own = facts.branches.get(id(self.node), ())
        told: list[Written] = []
        for each in self._bindings(node.id, before):
            if each.value is not None and not (each.default and self.given(node.id) is not False):
                told.append(self._trace(each.value, name, each.line, deep - 1))
            elif not each.default:
                told.append(Written(name, "unknown"))
            elif self.given(node.id) is None:
                return Written(name, "unknown")
            if not each.default and each.branch == own[: len(each.branch)]:
                break
        else:
            if node.id in parameters_of(self.function) and not told:
                told.append(Written(name, "argument", node.id, self.function.lineno))
            elif node.id in parameters_of(self.function) and self.given(node.id) is not False:
                told.append(Written(name, "unknown"))
        return told[0] if len({each.origin for each in told}) == 1 else Written(name, "unknown")

    def _bindings(self, name: str, before: int) -> list[Binding]:
        """The assignments above a line that may have given a name its value, the last first.

        None is no value of an operand; of an `if` only the part counts that the statement is in, and none
        that leaves the function.
        """
        facts = facts_of(self.function)
        own = dict(facts.branches.get(id(self.node), ()))
        found = [
            each
            for each in facts.bindings.get(name, ())
            if each.line < before
            and not is_none(each.value)
            and all(own.get(test, part) == part for test, part in each.branch)
            and not any((test, part) in facts.leaves and test not in own for test, part in each.branch)
        ]
        return sorted(found, key=lambda each: -each.line)

    def _attribute(self, attribute: str, name: str, deep: int) -> Written:
        if self.owner is None:
            return Written(name, "unknown")
        kept, registered = kept_by(self.owner)
        if attribute in registered:
            return replace(
                registered[attribute], name=name, use=use_of_kept(self.owner, registered[attribute])
            )
        if ANY in registered:
            return Written(name, "unknown")
        values = [each for each in kept.get(attribute, ()) if not is_none(each)]
        told = [
            Written(name, "unknown") if each is None else self._kept(each, attribute, name, deep)
            for each in values[:_DEEPEST]
        ]
        return told[0] if len({each.origin for each in told}) == 1 else Written(name, "unknown")

    def _kept(self, value: ast.expr, attribute: str, name: str, deep: int) -> Written:
        """What a class keeps under a name, by the value that it assigns."""
        if isinstance(value, ast.Call) and called_name(value) == "Parameter":
            own = Written(name, "parameter", text_of(value), value.lineno)
            return own if self.owner is None else replace(own, use=use_of_kept(self.owner, own))
        if isinstance(value, ast.Call) and called_name(value)[:1].isupper():
            return Written(name, "module", text_of(value.func), value.lineno)
        made = self._in_its_method(value)._trace(value, name, value.lineno, deep - 1)
        if made.origin in ("made", "host") and self.owner is not None:
            return replace(made, origin="attribute", use=use_of(self.owner, attribute, self.function))
        return made if made.origin in ("literal", "like", "loaded") else Written(name, "unknown")

    def _decided_around(self, value: ast.expr) -> bool:
        """Whether a block or a decorator around an expression may say where it makes its tensors."""
        around = self.owner or self.function
        decorated = any(_CONTEXT.search(ast.unparse(each)) for each in self.function.decorator_list)
        blocks = (each for each in ast.walk(around) if isinstance(each, (ast.With, ast.AsyncWith)))
        return decorated or any(
            each.lineno <= value.lineno <= (each.end_lineno or 0)
            and any(_CONTEXT.search(ast.unparse(item)) for item in each.items)
            for each in blocks
        )

    def _in_its_method(self, value: ast.expr) -> Statement:
        """The statement that assigns an attribute, in the method that does so."""
        for method in self.owner.body if self.owner is not None else ():
            if isinstance(method, Function) and method.lineno <= value.lineno <= (method.end_lineno or 0):
                return replace(
                    self, node=ast.copy_location(ast.Expr(value), value), function=method, given=_open
                )
        return self

    def _runs_layer(self, function: ast.expr) -> bool:
        """Whether what is called is an attribute that the class assigns, or one of a list of them."""
        match function:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute) if self.owner is not None:
                return bool(kept_by(self.owner)[0].get(attribute))
            case ast.Subscript(value=inner):
                return self._runs_layer(inner)
            case ast.Name(id=name):
                return name in facts_of(self.function).layers
        return False

    def _call(self, node: ast.Call, name: str, before: int, deep: int) -> Written:
        called = called_name(node)
        if self._runs_layer(node.func):
            return Written(name, "layer", text_of(node.func), node.lineno)
        if not isinstance(node.func, ast.Attribute) or any(each.arg is None for each in node.keywords):
            return Written(name, "unknown")
        device = next((each.value for each in node.keywords if each.arg == "device"), None)
        if not _module(node.func.value):
            return self._method(node, device, name, before, deep)
        library = text_of(node.func.value)
        if library == "torch" and called in FACTORIES | _HOST:
            found = _made(node, name, device, called in _HOST)
            around = found.origin == "made" and self._decided_around(node)
            return Written(name, "unknown") if around else found
        if library == "torch" and called in _LIKE and node.args:
            like = self._trace(node.args[0], name, before, deep - 1)
            return like if device is None else _placed(node, name, device)
        if library == "torch" and called == "load":
            told = len(node.args) > 1 or any(each.arg == "map_location" for each in node.keywords)
            return Written(name, "unknown") if told else Written(name, "loaded", text_of(node), node.lineno)
        if library in _FUNCTIONAL or (library == "torch" and called in OF_TENSORS | _JOINS):
            parts = [each for each in node.args if not isinstance(each, ast.Starred)]
            return self._first(parts[:1] if library == "torch" else parts, name, before, deep)
        return Written(name, "unknown")

    def _method(self, node: ast.Call, device: ast.expr | None, name: str, before: int, deep: int) -> Written:
        """The result of a method of a tensor."""
        assert isinstance(node.func, ast.Attribute)
        called, of = node.func.attr, node.func.value
        if called in ("cuda", "cpu"):
            number = node.args[0] if node.args else None
            known = number is None or isinstance(number, ast.Constant)
            ordinal = f":{number.value!r}" if isinstance(number, ast.Constant) else ""
            written = Written(name, "literal", text_of(node), node.lineno, device=f"{called}{ordinal}")
            return written if known else Written(name, "unknown")
        if called == "to":
            target = device or (node.args[0] if node.args else None)
            if target is not None and not _kind_of_number(target):
                return _placed(node, name, target)
            return self._trace(of, name, before, deep - 1)
        if called in _NEW and device is not None:
            return _placed(node, name, device)
        if called in OF_TENSORS | _NEW:
            found = self._trace(of, name, before, deep - 1)
            alone = called in _REDUCES and not node.args and not node.keywords
            return Written(name, "unknown") if alone and found.origin in _ALONE else found
        return Written(name, "unknown")


@lru_cache(maxsize=64)
def _statements(tree: ast.Module, function: str) -> list[tuple[Statement, frozenset[str]]]:
    """The statements of all functions of a name, with their words."""
    return [
        (Statement(part, each, owner), frozenset(_WORD.findall(text)))
        for owner, each in _functions(tree)
        if each.name == function
        for node in ast.walk(each)
        if isinstance(node, ast.stmt)
        for part, text in _simple(node)
    ]


def _has_lines(node: ast.stmt) -> bool:
    return node.end_lineno != node.lineno


def _simple(node: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    """A statement with its text; of one with a block what stands in its head, as a statement of its own."""
    match node:
        case ast.If(test=head) | ast.While(test=head):
            yield _alone(head), f"if elif while {ast.unparse(head)}"
        case ast.For(target=target, iter=head) | ast.AsyncFor(target=target, iter=head):
            yield _alone(head), f"async for {ast.unparse(target)} in {ast.unparse(head)}"
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for each in items:
                yield _alone(each.context_expr), f"async with as {ast.unparse(each)}"
        case _ if not isinstance(node, _BLOCKS):
            yield node, ast.unparse(node)


def _alone(head: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(head), head)


def find_statement(tree: ast.Module, function: str, line: int | None, code: str) -> Statement | None:
    """The statement that the printed code is: on the printed line, or else the only one that fits best."""
    wanted = set(_WORD.findall(code))
    if len(wanted) < 2:
        return None
    whole = parsed(code) is not None  # else it is cut off, or the first line of several
    fitting = [
        (each, len(words - wanted))
        for each, words in _statements(tree, function)
        if wanted <= words and (not whole or words <= wanted | _KEYWORDS or _has_lines(each.node))
    ]
    there = [
        (each, more)
        for each, more in fitting
        if line is not None and each.node.lineno <= line <= (each.node.end_lineno or each.node.lineno)
    ]
    chosen = there or fitting
    least = min((more for _, more in chosen), default=0)
    best = [each for each, more in chosen if more == least]
    return replace(best[0], spent=[0]) if len(best) == 1 else None


_BLOCKS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
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
        yield None, without_parameters("<module>", top)


def without_parameters(name: str, body: list[ast.stmt]) -> ast.FunctionDef:
    """A function around statements that stand in none."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.FunctionDef(name, nothing, body, [], lineno=0)


def _part_of(statement: ast.stmt, marked: str) -> ast.expr | None:
    """The expression of a statement that marks point to; None where that is not told, or is no whole one."""
    tree = parsed(marked) if marked else None
    match tree:
        case ast.Module(body=[ast.Expr(value=wanted)]):
            text = ast.unparse(wanted)
            parts = (each for each in ast.walk(statement) if isinstance(each, ast.expr))
            return next((each for each in parts if ast.unparse(each) == text), None)
    return None


def operands_of(node: ast.AST, part: str = "") -> Iterator[tuple[ast.expr, str]]:
    """The names and attributes of `self` that a statement reads as tensors, each with the part of it that is
    read: what it calls, its indices and what only a device, a type or a size is taken of are none.
    """
    match node:
        case ast.Name(id=name):
            if name not in OWN and not _module(node) and isinstance(node.ctx, ast.Load):
                yield node, part
        case ast.Attribute(value=ast.Name(id="self")):
            yield node, part
        case ast.Attribute(value=inner, attr=attribute):
            if attribute not in _NO_TENSORS:
                yield from operands_of(inner, attribute)
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=int())):
            return  # it may have no dimension left, and then meets any device
        case ast.Subscript(value=inner):
            yield from operands_of(inner)
        case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
            return
        case ast.Call(func=function):
            yield from _operands_of_call(node, function)
        case ast.Assign(targets=targets, value=value):
            yield from operands_of(value)
            for target in targets:
                if isinstance(target, ast.Subscript):
                    yield from operands_of(target)
        case _:
            for each in ast.iter_child_nodes(node):
                yield from operands_of(each)


def _indices_of(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions by which a statement picks elements, that may be tensors."""
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript):
            parts = each.slice.elts if isinstance(each.slice, ast.Tuple) else [each.slice]
            yield from (
                part for part in parts if not isinstance(part, (ast.Slice, ast.Constant, ast.UnaryOp))
            )


def _operands_of_call(node: ast.Call, function: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(function, ast.Name) and function.id in _OF_PYTHON:
        return
    if isinstance(function, ast.Attribute) and (function.attr in _NUMBERS or _moves(node, function.attr)):
        return
    if isinstance(function, ast.Attribute) and not isinstance(function.value, ast.Name):
        yield from operands_of(function.value, function.attr if of_self(function.value) else "")
    elif isinstance(function, ast.Attribute):
        yield from operands_of(function.value)
    for each in (*node.args, *(each.value for each in node.keywords if each.arg not in _NO_OPERANDS)):
        yield from operands_of(each)


def _elements(node: ast.AST, function: Function) -> set[int]:
    """Of a statement the ids of what is read at a counter of a loop: that may be a number."""
    counters = set()
    for each in ast.walk(function):
        match each:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
                counters.add(name)
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=ast.Name(id="enumerate"))
            ):
                counters.add(name)
    return {
        id(each.value)
        for each in ast.walk(node)
        if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Name) and each.slice.id in counters
    }


def _moves(call: ast.Call, method: str) -> bool:
    """Whether a method brings its tensor somewhere in the statement itself."""
    if method == "to":
        given = (*call.args[:1], *(each.value for each in call.keywords if each.arg == "device"))
        return any(not _kind_of_number(each) for each in given)
    return method in ("cuda", "cpu", "type_as")


def _made(node: ast.Call, name: str, device: ast.expr | None, numpy: bool) -> Written:
    """A tensor that a factory makes; one of a single number may be anywhere."""
    bare = any(isinstance(each, (ast.Tuple, ast.List)) and not each.elts for each in node.args[:1])
    if bare or any(each.arg == "out" for each in node.keywords):
        return Written(name, "unknown")
    if called_name(node) in ("tensor", "as_tensor", "asarray") and not isinstance(
        node.args[0] if node.args else None, ast.List | ast.Tuple | ast.ListComp
    ):
        return Written(name, "unknown") if device is None else _placed(node, name, device)
    if device is None or is_none(device):
        return Written(name, "host" if numpy else "made", text_of(node), node.lineno)
    return _placed(node, name, device)


def _placed(node: ast.Call, name: str, device: ast.expr) -> Written:
    """A tensor whose device an expression says."""
    text = text_of(device)
    if isinstance(device, ast.Call) and text.startswith("torch.device(") and len(device.args) == 1:
        device = device.args[0]
    if isinstance(device, ast.Constant) and isinstance(device.value, str):
        return Written(name, "literal", text_of(node), node.lineno, device=device.value)
    if isinstance(device, ast.Constant) and isinstance(device.value, int):
        return Written(name, "literal", text_of(node), node.lineno, device=f"cuda:{device.value}")
    if text.endswith(".device") or text == "device":
        return Written(name, "like", text_of(node), node.lineno, device=text)
    return Written(name, "unknown")


def _kind_of_number(target: ast.expr) -> bool:
    """Whether what `.to` is given is a type of numbers, and no device."""
    text = text_of(target)
    return (
        text.endswith("dtype")
        or text.startswith(("torch.float", "torch.bfloat", "torch.int", "torch.long"))
        or (text in ("torch.half", "torch.double", "torch.bool", "torch.uint8", "float", "int", "bool"))
    )


def _module(node: ast.expr) -> bool:
    """Whether an expression is a module that offers functions on tensors."""
    return isinstance(node, ast.Name | ast.Attribute) and text_of(node) in _MODULES


def runs_a_module(call: ast.Call) -> bool:
    """Whether a call may run a module's `forward`: no function of torch, and no method of a tensor."""
    name = called_name(call)
    if isinstance(call.func, ast.Attribute) and _module(call.func.value):
        return False
    known = FACTORIES | OF_TENSORS | _OF_PYTHON | _NUMBERS | {"to", "cuda", "cpu"}
    return name not in known and not name[:1].isupper()
