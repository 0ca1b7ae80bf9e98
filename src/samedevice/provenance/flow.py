"""Where the values of a running statement come from and where its result goes, read from source.

Follows names through assignments, and arguments through the calls on the stack. Nothing is imported or run.
What it says is an approximation: branches and loops are taken as if each of their assignments could hold.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from samedevice.events import Place
from samedevice.provenance.assignments import (
    Given,
    assignments,
    expressions_of,
    names_in,
    reaching,
    replaces,
    statement_at,
    statements,
    statements_around,
)
from samedevice.provenance.named_devices import looked_up
from samedevice.provenance.results import NUMBERS, added, attribute_written, follow
from samedevice.provenance.syntax import (
    Function,
    function_around,
    function_at,
    module_of,
    names_called,
    parsed,
    segment,
)
from samedevice.provenance.written import written

RootKind = Literal["argument", "item", "made", "attribute", "again"]
CHOSEN = frozenset(("argmax", "multinomial", "topk", "sort", "sample"))
"""How one of several is chosen by their scores."""
_PUTS = frozenset(
    "masked_scatter where index_put scatter index_copy masked_fill index_add scatter_add".split()
)
"""How something is put into some places of a tensor."""
_OF_MODULES = frozenset(
    ("to", "cuda", "cpu", "float", "half", "double", "bfloat16", "type", "to_empty", "forward")
)
"""Methods of a module that convert its weights, or run it."""


@dataclass(frozen=True, slots=True)
class Root:
    """Where following a value back ends."""

    kind: RootKind
    """`argument`: of the outermost function that can be followed. `item`: a target of a loop. `made`: a call
    that gets no tensor. `attribute`: of an object, given its value elsewhere. `again`: a name that is being
    followed already.
    """
    text: str
    file: str
    line: int
    depth: int
    """The frame in which it stands, 0 for the failing one."""
    column: int = 0
    """Where in its line: two calls of one line are two roots."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """A statement on the stack with the function around it."""

    place: Place
    function: Function | None
    scope: ast.AST
    statement: ast.stmt
    call: ast.expr


@dataclass(frozen=True, slots=True)
class _At:
    """From where a name is looked up."""

    depth: int
    statement: ast.stmt | None
    """None is the end of a module."""
    file: str

    def root(self, kind: RootKind, node: ast.AST, text: str | None = None) -> Root:
        """A root at a node."""
        said = ast.unparse(node) if text is None else text
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        return Root(kind, said, self.file, line, self.depth, column)


class Flow:
    """The values of the statements on a stack, the innermost first."""

    def __init__(self, stack: Sequence[Place]) -> None:
        self._frames = _frames(stack)
        self._roots: dict[str, frozenset[Root]] = {}
        """What was followed already: most questions are about the same few operands."""

    def imported(self, depth: int) -> frozenset[str]:
        """The names that the file of a function on the stack imports: they hold no tensor."""
        return _imported(self._frames[depth].place.file)

    def filled(self) -> frozenset[str]:
        """What the failing function writes into by an index, as it is written."""
        function = self._frames[0].function if self._frames else None
        return frozenset(map(ast.unparse, _parts_written(function)))

    def is_local(self, name: str) -> bool:
        """Whether the failing function gives a name its value, or gets it as an argument."""
        function = self._frames[0].function if self._frames else None
        return function is not None and any(
            (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
            or (isinstance(node, ast.arg) and node.arg == name)
            for node in ast.walk(function)
        )

    def is_argument(self, name: str) -> bool:
        """Whether the failing function gets a name as an argument, and gives it no other value."""
        frame = self._frames[0] if self._frames else None
        function = None if frame is None else frame.function
        if function is None or name not in {each.arg for each in function.args.args}:
            return False
        return not any(
            isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
            for node in ast.walk(function)
        )

    def is_further_argument(self, name: str) -> bool:
        """Whether the failing function was given a name, behind another one."""
        function = self._frames[0].function if self._frames else None
        if function is None:
            return False
        given = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        return name in given[2 if given[:1] == ["self"] else 1 :] + [
            each.arg for each in function.args.kwonlyargs
        ]

    def is_enclosed(self, name: str) -> bool:
        """Whether the failing function reads a name of the function around it."""
        frame = self._frames[0] if self._frames else None
        if frame is None or frame.function is None or not name.isidentifier() or self.is_local(name):
            return False
        module = module_of(frame.place.file)
        around = [
            node
            for node in (ast.walk(module) if module is not None else ())
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and any(each is not node and _same_function(each, frame.function) for each in ast.walk(node))
        ]
        return any(
            (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
            or (isinstance(node, ast.arg) and node.arg == name)
            for function in around
            for node in ast.walk(function)
        )

    @property
    def readable(self) -> bool:
        """Whether the failing statement's source is at hand."""
        return bool(self._frames)

    def operands(self) -> list[ast.expr]:
        """The tensors that the failing expression is written with, in their order."""
        return _written(self._frames[0].call) if self._frames else []

    @property
    def calls(self) -> bool:
        """Whether the failing expression is a call: what stands before its dot may be no tensor."""
        return bool(self._frames) and isinstance(self._frames[0].call, ast.Call)

    def written(self, op: str, operands: Sequence[str]) -> dict[str, str]:
        """How the failing expression writes the operands of its operator, by their names."""
        if not self._frames:
            return {}
        first = self._frames[0]
        found = written(first.call, op, operands, _imported(first.place.file))
        if op == "index_put_" and isinstance(first.statement, ast.Assign):
            found["values"] = first.statement.value
        return {name: ast.unparse(node) for name, node in found.items()}

    def as_written(self, container: str) -> str | None:
        """How the failing expression writes a container, or the item of it that it reads."""
        call = self._frames[0].call if self._frames else None
        nodes = list(ast.walk(call)) if call is not None else []
        for node in nodes:
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == container:
                return ast.unparse(node)
        named = (node for node in nodes if isinstance(node, (ast.Name, ast.Attribute)))
        return container if any(ast.unparse(node) == container for node in named) else None

    def called_object(self, runs: bool = False) -> str | None:
        """The object, and no function or method, that the failing expression calls or converts: a variable,
        an attribute of the method's object, or an item of one; any attribute where `runs` says that a module
        is called.
        """
        call = self._frames[0].call if self._frames else None
        if not isinstance(call, ast.Call):
            return None
        whole = call.func
        if isinstance(whole, ast.Attribute) and whole.attr in _OF_MODULES:
            whole, runs = whole.value, True
        of = whole
        while isinstance(of, ast.Subscript):
            of = of.value
        imported = _imported(self._frames[0].place.file)
        if isinstance(of, ast.Attribute):
            named = runs and _begins_with(of) not in (None, *imported) and not _has_calls(of)
            return ast.unparse(whole) if _of_self(of) or named else None
        if not isinstance(of, ast.Name) or of.id in imported:
            return None
        function = self._frames[0].function
        return ast.unparse(whole) if function is None or function.name != of.id else None

    def reads_weight(self, parameter: str) -> str | None:
        """The only attribute in the failing expression that ends as the qualified name of a weight does."""
        parts = parameter.split(".")
        found = set()
        for node in ast.walk(self._frames[0].call) if self._frames else ():
            if isinstance(node, ast.Attribute) and not _has_calls(node):
                chain = ast.unparse(node).split(".")[1:]
                if chain == parts[-len(chain) :]:
                    found.add(ast.unparse(node))
        return found.pop() if len(found) == 1 else None

    def arguments(self) -> list[str]:
        """What the failing call is given, as it is written."""
        call = self._frames[0].call if self._frames else None
        return [ast.unparse(each) for each in call.args] if isinstance(call, ast.Call) else []

    def roots(self, expression: ast.expr | str) -> frozenset[Root]:
        """What an expression of the failing statement comes from, followed to the outermost call."""
        if not isinstance(expression, str):
            return self._followed(expression)
        if expression not in self._roots:
            self._roots[expression] = self._followed(_expression(expression))
        return self._roots[expression]

    def _followed(self, node: ast.expr | None) -> frozenset[Root]:
        if node is None or not self._frames:
            return frozenset()
        found = _Walk(self).of(node, self.at(0))
        return frozenset(each for each in found if each.kind != "again")

    def carried(self, expression: str) -> bool:
        """Whether an expression of the failing statement has something of an earlier turn of a loop."""
        node = _expression(expression)
        if node is None or not self._frames:
            return False
        walk = _Walk(self)
        walk.of(node, self.at(0))
        return walk.turned

    @property
    def model_depth(self) -> int | None:
        """The outermost frame that runs a `forward`; None where none does."""
        depths = [n for n, frame in enumerate(self._frames) if frame.place.function == "forward"]
        return max(depths, default=None)

    def made_within(self, expression: str, depth: int) -> bool:
        """Whether all that an expression comes from was made in the frames up to `depth`."""
        roots = self.roots(expression)
        kept = _expression(expression)
        while isinstance(kept, ast.Subscript):
            kept = kept.value
        if isinstance(kept, ast.Attribute) and _of_self(kept):
            return False
        return bool(roots) and all(
            root.depth <= depth and root.kind in ("made", "attribute") for root in roots
        )

    def multiplies_matrices(self, expression: str | None) -> bool:
        """Whether an expression of the failing statement, or what its name was given, multiplies matrices."""
        return any(
            (isinstance(each, ast.BinOp) and isinstance(each.op, ast.MatMult))
            or (isinstance(each, ast.Attribute) and each.attr in ("mm", "matmul", "bmm"))
            for each in self._read_by(expression)
        )

    def reads_attribute(self, expression: str, attribute: str) -> bool:
        """Whether an expression of the failing statement, or what its name was given, reads an attribute, and
        does not call it: `torch.autograd.grad(...)` reads none.
        """
        nodes = list(self._read_by(expression))
        called = _called(nodes)
        return any(
            isinstance(each, ast.Attribute) and each.attr == attribute and id(each) not in called
            for each in nodes
        )

    def comes_from_attribute(self, expression: str, attribute: str, called: bool = False) -> bool:
        """Whether an expression of the failing statement reads an attribute, or with `called` calls it, or a
        name that it comes from in the failing function was given what does.
        """
        node = _expression(expression) if self._frames else None
        frame = self._frames[0] if node is not None else None
        waiting, seen = [node] if node is not None else [], set[str]()
        while waiting and frame is not None:
            each = waiting.pop()
            nodes = list(ast.walk(each))
            calls = _called(nodes)
            if any(
                isinstance(part, ast.Attribute) and part.attr == attribute and (id(part) in calls) == called
                for part in nodes
            ):
                return True
            for name in {*names_in(each)} - seen:
                seen.add(name)
                waiting += [given.value for given in reaching(name, frame.scope, frame.statement)]
        return False

    def given_by(self, expression: str) -> frozenset[str]:
        """What was called to give the names in an expression of the failing statement their values."""
        node = _expression(expression)
        if node is None or not self._frames:
            return frozenset()
        frame = self._frames[0]
        return frozenset(
            ast.unparse(found.value.func)
            for name in names_in(node)
            for found in reaching(name, frame.scope, frame.statement)
            if isinstance(found.value, ast.Call)
        )

    def _read_by(self, expression: str | None) -> Iterator[ast.AST]:
        """The nodes of an expression of the failing statement, and of what its terms were given."""
        node = _expression(expression) if expression is not None else None
        if node is None or not self._frames:
            return
        frame = self._frames[0]
        yield from ast.walk(node)
        for term in _terms(node):
            if isinstance(term, ast.Name):
                for found in reaching(term.id, frame.scope, frame.statement):
                    yield from ast.walk(found.value)

    def sends_to_itself(self) -> bool:
        """Whether the failing expression sends something to the device of the method's own object."""
        for node in ast.walk(self._frames[0].call) if self._frames else ():
            match node:
                case ast.Call(func=ast.Attribute(attr="to"), args=args, keywords=keywords):
                    given = [*args, *(each.value for each in keywords)]
                    if any(ast.unparse(each) == "self.device" for each in given):
                        return True
        return False

    def attributes_set(self) -> frozenset[str]:
        """The attributes of its object that the failing function gives a value."""
        function = self._frames[0].function if self._frames else None
        return frozenset(
            ast.unparse(node)
            for node in (ast.walk(function) if function is not None and function.name != "__init__" else ())
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        )

    @property
    def only_observes(self) -> bool:
        """Whether the failing function was called back, as a hook is, and returns nothing."""
        function = self._frames[0].function if self._frames else None
        gives = any(
            isinstance(node, (ast.Yield, ast.YieldFrom)) or (isinstance(node, ast.Return) and node.value)
            for node in (ast.walk(function) if function is not None else ())
        )
        return not gives and self._called_back(0)

    @property
    def within_hook(self) -> bool:
        """Whether a function that the model does not call itself, as a hook is, was called back and runs."""
        return any(map(self._called_back, range(self.model_depth or 0)))

    def _called_back(self, depth: int) -> bool:
        """Whether the statement that runs above a function does not name it."""
        if len(self._frames) < depth + 2 or (function := self._frames[depth].function) is None:
            return False
        called = {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(self._frames[depth + 1].statement)
            if isinstance(node, (ast.Name, ast.Attribute))
        }
        return function.name not in (*called, "forward", "__call__")

    def replaced_by_call(self, root: Root) -> bool:
        """Whether a caller's statement hands an attribute on and gives it a new value from the same call."""
        if root.depth == 0 or root.depth >= len(self._frames):
            return False
        return any(
            isinstance(node, ast.Attribute) and ast.unparse(node) == root.text
            for target in _targets(self._frames[root.depth].statement)
            for node in ast.walk(target)
        )

    def handed_back(self, expression: str) -> bool:
        """Whether an argument's name, here or in a caller, gets its next value from the call that it is given
        to: `y, state = step(x, state)`, or `state = y.state` after it.
        """
        node = _expression(expression)
        depth = 0
        while node is not None and depth < len(self._frames):
            frame, names = self._frames[depth], set(names_in(node))
            results = {name for each in _targets(frame.statement) for name in names_in(each)}
            later = {
                each.name
                for each in assignments(frame.scope)
                if _begins_with(each.value) in results and each.statement is not frame.statement
            }
            if names & (results | later) - _imported(frame.place.file):
                return True
            above = [given for name in sorted(names) if (given := self.given(name, depth)) is not None]
            if not above:
                return False
            node, depth = above[0]
        return False

    def chooses_within(self, name: str) -> bool:
        """Whether a function of that name, or one that it called and that still runs, chooses by scores."""
        depths = [n for n, frame in enumerate(self._frames) if frame.place.function == name]
        inside = self._frames[: max(depths) + 1] if depths else []
        return any(
            isinstance(node, ast.Attribute) and node.attr in CHOSEN
            for frame in inside
            for node in (ast.walk(frame.function) if frame.function is not None else ())
        )

    def puts_into_places(self) -> bool:
        """Whether the failing statement puts its result into some places of a tensor: `x[mask] += y`, or in a
        call that does so.
        """
        if not self._frames:
            return False
        match self._frames[0].statement:
            case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
                return True
        return any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr.rstrip("_") in _PUTS
            and any(each is self._frames[0].call for each in ast.walk(node))
            for node in expressions_of(self._frames[0].statement)
        )

    def rules_out(self) -> bool:
        """Whether a function on the stack puts minus infinity somewhere, which no softmax ever chooses."""
        return any(
            (isinstance(node, ast.Constant) and node.value in ("inf", "-inf"))
            or (isinstance(node, ast.Attribute) and node.attr == "inf")
            for frame in self._frames
            if frame.function is not None
            for node in ast.walk(frame.function)
        )

    def returned_calls(self) -> frozenset[str]:
        """The names of the functions whose results the failing function gives back as they are."""
        function = self._frames[0].function if self._frames else None
        return frozenset(
            node.value.func.attr if isinstance(node.value.func, ast.Attribute) else node.value.func.id
            for node in ast.walk(function or ast.Module([], []))
            if isinstance(node, ast.Return)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute | ast.Name)
        )

    def given_by_functions(self, name: str) -> frozenset[str]:
        """The functions, called by their names, whose results the failing function gives to a local name."""
        function = self._frames[0].function if self._frames else None
        found = set()
        for node in ast.walk(function) if function is not None else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(func=ast.Name(id=called))):
                    found |= {called} if target == name else set()
        return frozenset(found)

    def gave_a_layer(self, name: str, depth: int = 0) -> bool:
        """Whether a function on the stack, the failing one unless another is told, called an attribute of its
        object with this name before.
        """
        if len(self._frames) <= depth or not name:
            return False
        frame = self._frames[depth]
        for statement in statements(frame.scope):
            for node in expressions_of(statement) if statement.lineno < frame.statement.lineno else ():
                match node:
                    case ast.Call(func=ast.Attribute() as called, args=[ast.Name(id=given), *_]):
                        if given == name and _of_self(called):
                            return True
        return False

    def moves_a_copy(self, name: str) -> bool:
        """Whether the function that fails moves this name, or one that was made with it, for other use."""
        if not self._frames:
            return False
        frame = self._frames[0]
        made_by = [id(each.value) for each in reaching(name, frame.scope, frame.statement)]
        together = {name} | {each.name for each in assignments(frame.scope) if id(each.value) in made_by}
        moved = {
            node.func.value.id
            for statement in statements(frame.scope)
            for node in expressions_of(statement)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("to", "cuda")
            and isinstance(node.func.value, ast.Name)
        }
        return bool(together & moved)

    def moved_by_table(self, name: str) -> str | None:
        """The `.to(table[...])` that gave a name of the failing statement its value, here or in a caller."""
        for depth, frame in enumerate(self._frames):
            values = [each.value for each in reaching(name, frame.scope, frame.statement)]
            for node in values:
                match node:
                    case ast.Call(func=ast.Attribute(attr="to"), args=[device, *_]) if looked_up(device):
                        return ast.unparse(node)
            above = self.given(name, depth) if not values else None
            if above is None or above[1] != depth + 1 or not isinstance(above[0], ast.Name):
                return None
            name = above[0].id
        return None

    def given(self, name: str, depth: int) -> tuple[ast.expr, int] | None:
        """What a caller gave for a parameter of the function at `depth`, and at which depth it stands."""
        if depth + 1 >= len(self._frames):
            return None
        function, caller = self._frames[depth].function, self._frames[depth + 1]
        while (given := _given(name, function, caller.call)) is None or _is_all_given(given, caller):
            if not _passes_on(caller) or depth + 2 >= len(self._frames):
                return None if given is None else (given, depth + 1)
            depth += 1  # a wrapper, which hands on whatever it got
            caller = self._frames[depth + 1]
        return given, depth + 1

    def at(self, depth: int) -> _At:
        """The statement at a depth of the stack as a point to look back from."""
        frame = self._frames[depth]
        return _At(depth, frame.statement, frame.place.file)

    def frame(self, depth: int) -> _Frame:
        """The statement at a depth of the stack, 0 for the failing one."""
        return self._frames[depth]

    def feeds(self, methods: frozenset[str]) -> bool:
        """Whether the result of the failing statement goes into what one of these methods is called on."""
        for frame in self._frames:
            outcome = follow(frame.scope, frame.statement, methods)
            if outcome != "returned":
                return outcome == "called"
        return False

    def adds(self) -> bool:
        """Whether the running model adds the failing statement's result to something, or joins them."""
        inside = self.model_depth
        for frame in self._frames if inside is None else self._frames[: inside + 1]:
            outcome = added(frame.scope, frame.statement, frame.call)
            if outcome != "returned":
                return outcome == "called"
        return False

    def runs_within(self, methods: frozenset[str]) -> bool:
        """Whether a caller's expression calls one of the methods: the failing statement is part of it."""
        return any(
            isinstance(frame.call, ast.Call)
            and isinstance(frame.call.func, ast.Attribute)
            and frame.call.func.attr in methods
            for frame in self._frames[1:]
        )

    def stepped(self) -> str | None:
        """The object whose `step`, without an argument, the failing expression calls."""
        match self._frames[0].call if self._frames else None:
            case ast.Call(func=ast.Attribute(value=of, attr="step"), args=[], keywords=[]):
                return ast.unparse(of)
        return None

    def only_reported(self, attribute: str) -> bool:
        """Whether the other methods that read an attribute, one at least, are given nothing: no input of
        theirs is combined with it.
        """
        readers = [each for each in self._other_methods() if _reads(each, attribute)]
        return bool(readers) and not any(_required(each) for each in readers)

    def combined(self, attribute: str) -> bool:
        """Whether another method computes with an attribute and with what it is given."""
        return any(
            isinstance(node, ast.BinOp)
            and _reads(node, attribute)
            and not _parameters(method).isdisjoint({*names_in(node)} - {"self"})
            for method in self._other_methods()
            for node in ast.walk(method)
        )

    def rounds(self, attribute: str) -> bool:
        """Whether another method that reads an attribute rounds something."""
        return any(
            isinstance(node, ast.Attribute) and node.attr in ("round", "round_")
            for method in self._other_methods()
            if _reads(method, attribute)
            for node in ast.walk(method)
        )

    def _other_methods(self) -> list[Function]:
        """The methods beside the failing one, in its class."""
        frame = self._frames[0] if self._frames else None
        module = module_of(frame.place.file) if frame is not None and frame.function is not None else None
        for node in ast.walk(module) if module is not None else ():
            if isinstance(node, ast.ClassDef) and frame is not None and frame.function in node.body:
                return [
                    each
                    for each in node.body
                    if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
                    and each is not frame.function
                ]
        return []

    def only_adds_up(self) -> bool:
        """Whether the failing statement gives an attribute of an object a new value that its function does
        not read any more.
        """
        kept = self.kept_as()
        frame = self._frames[0] if kept is not None else None
        if frame is None or frame.function is None:
            return False
        last = frame.statement.end_lineno or frame.statement.lineno
        return not any(
            isinstance(node, ast.Attribute) and node.lineno > last and ast.unparse(node) == kept
            for node in ast.walk(frame.function)
        )

    def kept_as(self) -> str | None:
        """The attribute of an object into which the failing statement writes its result, or whose method that
        writes it is all of the statement: `self.hits.index_add_(0, at, ones)`.
        """
        match self._frames[0].statement if self._frames else None:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute() as of, attr=method))):
                return ast.unparse(of) if method.endswith("_") and not method.startswith("_") else None
            case ast.stmt() as statement:
                return attribute_written(statement)
        return None


def _same_function(node: ast.AST, function: Function) -> bool:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return (node.lineno, node.col_offset) == (function.lineno, function.col_offset)


class _Walk:
    """Follows values back through the functions on the stack; each name at each statement once."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.seen: set[tuple[int, str, int]] = set()
        self.known: dict[tuple[int, str, int], set[Root]] = {}
        """What a name was found to come from: a second time it comes from the same."""
        self.turned = False
        """Whether a name had its value from an earlier turn of a loop."""

    def of(self, node: ast.AST, here: _At, bound: frozenset[str] = frozenset()) -> set[Root]:
        """Where the tensors of an expression come from."""
        match node:
            case ast.Name(id=name):
                return set() if name in bound else self.of_name(name, here)
            case ast.Constant() | ast.Lambda() | ast.JoinedStr():
                return set()
            case ast.Subscript(value=value):
                return self.of(value, here, bound)
            case ast.Attribute(value=value, attr=attr):
                if attr in NUMBERS:
                    return set()
                return {here.root("attribute", node)} if _of_self(value) else self.of(value, here, bound)
            case ast.Call():
                return self.of_call(node, here, bound)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = bound | {name for each in node.generators for name in names_in(each.target)}
                parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                found = self.of_all([each.iter for each in node.generators], here, bound)
                return found | self.of_all(parts, here, inner)
            case ast.IfExp(body=one, orelse=other):
                return self.of_all([one, other], here, bound)
        return self.of_all(list(ast.iter_child_nodes(node)), here, bound)

    def of_all(self, nodes: Sequence[ast.AST], here: _At, bound: frozenset[str]) -> set[Root]:
        """The roots of several expressions."""
        found: set[Root] = set()
        for node in nodes:
            found |= self.of(node, here, bound)
        return found

    def of_call(self, call: ast.Call, here: _At, bound: frozenset[str]) -> set[Root]:
        """A call passes on what it is given, and what its method belongs to unless that is the object."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in NUMBERS:
            return set()
        found = self.of_all([*call.args, *(each.value for each in call.keywords)], here, bound)
        if isinstance(call.func, ast.Attribute):
            owner = call.func.value
            if not _of_self(owner) or (isinstance(owner, ast.Attribute) and not found):
                found |= self.of(owner, here, bound)
        elif not isinstance(call.func, ast.Name) and not (found and isinstance(call.func, ast.Call)):
            found |= self.of(call.func, here, bound)  # no tensor is what `self.layer()(x)` calls
        return found or {here.root("made", call)}

    def of_name(self, name: str, here: _At) -> set[Root]:
        """What the assignments to a name give it, or the caller where it is a parameter."""
        frame = self.flow.frame(here.depth)
        if name in _imported(frame.place.file):
            return set()
        key = (here.depth, name, id(here.statement))
        if key in self.known:
            return self.known[key]
        if key in self.seen:
            return {here.root("again", frame.statement, name)}
        self.seen.add(key)
        found = self.known[key] = self.looked_up(name, here, frame)
        return found

    def looked_up(self, name: str, here: _At, frame: _Frame) -> set[Root]:
        """What a name of a frame comes from, asked for the first time."""
        given = list(reaching(name, frame.scope, here.statement))
        start = getattr(here.statement, "lineno", None)
        if start is not None and any(
            each.statement.lineno >= start and each.item is None and not _by_each_in_turn(each, frame.scope)
            for each in given
        ):
            self.turned = True
        found = self.of_given(given, here)
        for loop in () if here.statement is None else _comprehensions(here.statement):
            if name in set(names_in(loop.target)):
                found |= self.of(loop.iter, here)
        if frame.function is not None and name in _parameters(frame.function):
            if not replaces(name, frame.scope, here.statement):
                found |= self.of_parameter(name, here)
        elif not given and frame.function is not None:
            module = module_of(frame.place.file)
            assert module is not None  # the frame was read from it
            found = self.of_given(list(reaching(name, module, None)), replace(here, statement=None))
        return found

    def of_given(self, given: Sequence[Given], here: _At) -> set[Root]:
        """The roots of what assignments give, each seen from its own statement."""
        found: set[Root] = set()
        for each in given:
            if each.item is not None:
                found.add(here.root("item", each.value, each.item))
            else:
                found |= self.of(each.value, replace(here, statement=each.statement))
        return found

    def of_parameter(self, name: str, here: _At) -> set[Root]:
        """What the caller gave, seen from its statement."""
        above = self.flow.given(name, here.depth)
        if above is None:
            function = self.flow.frame(here.depth).function
            assert function is not None  # it has the parameter
            return {here.root("argument", function, name)}
        value, depth = above
        return self.of(value, self.flow.at(depth))


@lru_cache(maxsize=1024)
def _comprehensions(statement: ast.stmt) -> tuple[ast.comprehension, ...]:
    return tuple(each for each in expressions_of(statement) if isinstance(each, ast.comprehension))


# -- frames


def _frames(stack: Sequence[Place]) -> list[_Frame]:
    """The frames whose source is at hand, up to the first one where it is not."""
    found: list[_Frame] = []
    for place in stack:
        module = module_of(place.file)
        if module is None:
            break
        function = function_around(module, place.line)
        if function is not None and place.function != function.name and place.function[:1] != "<":
            break
        scope: ast.AST = function if function is not None else module
        statement = statement_at(scope, place.line)
        if statement is None:
            break
        if found and found[-1].place.function[:1] == "<" and found[-1].scope is scope:
            continue  # a comprehension runs in a frame of its own
        found.append(_Frame(place, function, scope, statement, _call(statement, place)))
    return found


def _call(statement: ast.stmt, place: Place) -> ast.expr:
    """The expression that runs: the one whose text the place names, or else the statement's whole value."""
    wanted = _flat(place.call)
    if wanted:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr) and _flat(_segment(place.file, node)) == wanted:
                return node
    for part in ("value", "iter", "test"):
        if isinstance(value := getattr(statement, part, None), ast.expr):
            return value
    return ast.Constant(None)


def _segment(file: str, node: ast.expr) -> str:
    return segment(linecache.getlines(file), node)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _given(name: str, function: Function | None, call: ast.expr) -> ast.expr | None:
    """What a call gives for a parameter; None where that cannot be told."""
    while isinstance(call, (ast.Attribute, ast.Subscript, ast.Await, ast.Starred)):
        call = call.value
    if function is None or not isinstance(call, ast.Call):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positions = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    first = call.args[0] if call.args else None
    whole = isinstance(first, ast.Name) and [first.id] == positions[:1]
    if positions[:1] in (["self"], ["cls"]) and not whole:  # else a function, which gets its object as well
        positions = positions[1:]
    if name not in positions:
        return None
    before = call.args[: positions.index(name) + 1]
    starred = [each for each in before if isinstance(each, ast.Starred)]
    if starred:
        return starred[0].value
    return before[-1] if len(before) == positions.index(name) + 1 else None


def _passes_on(frame: _Frame) -> bool:
    """Whether a frame hands on its own `*args` or `**kwargs`."""
    own = frame.function.args if frame.function is not None else None
    if own is None or not isinstance(frame.call, ast.Call):
        return False
    starred = [each.value for each in frame.call.args if isinstance(each, ast.Starred)]
    doubled = [each.value for each in frame.call.keywords if each.arg is None]
    given = {each.id for each in (*starred, *doubled) if isinstance(each, ast.Name)}
    return bool(given & {each.arg for each in (own.vararg, own.kwarg) if each is not None})


def _is_all_given(given: ast.expr, frame: _Frame) -> bool:
    """Whether it stands for all that a function was called with: `args` of `*args`."""
    own = frame.function.args.vararg if frame.function is not None else None
    return own is not None and isinstance(given, ast.Name) and given.id == own.arg


def _parameters(function: Function) -> set[str]:
    given = function.args
    named = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    return named | {each.arg for each in (given.vararg, given.kwarg) if each is not None}


@lru_cache(maxsize=64)
def _imported(file: str) -> frozenset[str]:
    """The names that a file imports: they hold no tensor."""
    found: set[str] = set()
    for node in ast.walk(module_of(file) or ast.Module([], [])):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    return frozenset(found)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to."""
    return statement.targets if isinstance(statement, ast.Assign) else []


def _begins_with(node: ast.expr) -> str | None:
    """The name of what an expression is a part, or a method's result, of."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _called(nodes: Iterable[ast.AST]) -> set[int]:
    """What the calls among nodes call."""
    return {id(each.func) for each in nodes if isinstance(each, ast.Call)}


def _of_self(node: ast.expr) -> bool:
    """Whether it is the method's object, or an attribute of it."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _reads(code: ast.AST, attribute: str) -> bool:
    """Whether code reads an attribute of an object."""
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) == attribute
        for node in ast.walk(code)
    )


def _required(function: Function) -> int:
    """How many arguments a method needs beside its object."""
    given = function.args
    named = len(given.posonlyargs) + len(given.args) - len(given.defaults) - 1
    return max(named, 0) + sum(each is None for each in given.kw_defaults) + (given.vararg is not None)


def _has_calls(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """What an arithmetic expression is made of; anything else is its own only term."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from _terms(left)
            yield from _terms(right)
        case ast.UnaryOp(operand=operand):
            yield from _terms(operand)
        case _:
            yield node


def _expression(text: str) -> ast.expr | None:
    match parsed(text):
        case ast.Module(body=[ast.Expr(value=value)]):
            return value
    return None


def _written(call: ast.expr) -> list[ast.expr]:
    match call:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Subscript(value=value, slice=index):
            return [value, *(index.elts if isinstance(index, ast.Tuple) else [index])]
        case ast.Call(func=function, args=args, keywords=keywords):
            found = [function.value] if isinstance(function, ast.Attribute) else []
            for given in (*args, *(each.value for each in keywords)):
                found += given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
            return found
    return []


def calls_in_function(place: Place) -> frozenset[str]:
    """The names of the functions and methods that the function around a place calls."""
    function = function_at(place.file, place.line)
    return names_called(ast.walk(function)) if function is not None else frozenset()


def called_in_file(place: Place, name: str) -> bool:
    """Whether any line of the file around a place calls something of that name."""
    module = module_of(place.file)
    return module is not None and name in names_called(ast.walk(module))


def filled_in_file(place: Place, attribute: str) -> bool:
    """Whether a line of the file around a place writes into a part of an object's own attribute of that name:
    `self.queue[:, a:b] = keys`.
    """
    module = module_of(place.file)
    return any(
        isinstance(part.value, ast.Attribute) and part.value.attr == attribute and _of_self(part.value)
        for part in _parts_written(module)
    )


def _parts_written(code: ast.AST | None) -> Iterator[ast.Subscript]:
    """What code writes into by an index."""
    for node in ast.walk(code) if code is not None else ():
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield node


def returns_both(place: Place, one: str, other: str) -> bool:
    """Whether the function around a place calls two methods and does not join their results in one call."""
    function = function_at(place.file, place.line)
    if function is None or not {one, other} <= calls_in_function(place):
        return False
    for node in ast.walk(function):
        match node:
            case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]):
                called = {
                    each.func.attr
                    for part in parts
                    for each in ast.walk(part)
                    if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
                }
                if {one, other} <= called:
                    return False
    return True


def _by_each_in_turn(given: Given, scope: ast.AST) -> bool:
    """Whether what a loop goes over is called for the value, as layers are: its turns are no steps."""
    loops = [each for each in statements_around(scope, given.statement) if isinstance(each, ast.For)]
    turns = {name for loop in loops for name in names_in(loop.target)}
    return any(
        isinstance(node, ast.Call) and not turns.isdisjoint(names_in(node.func))
        for node in ast.walk(given.value)
    )
