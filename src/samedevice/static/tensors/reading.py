"""The device of every tensor expression of a function, read in the order in which its statements run.

Both ways of a condition are taken and what holds for both is kept; loops are read until their names settle;
functions of the project are entered with the values that they are given. Steps and depth are bounded: where
they end, nothing is claimed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeGuard

from samedevice.static.tensors.abstract import (
    CURRENT,
    EMPTY,
    NONE,
    NOWHERE,
    NUMBER,
    PLAIN,
    SIZE,
    UNTOLD_VALUE,
    ClassName,
    Device,
    Entries,
    Given,
    Items,
    Library,
    Listed,
    Local,
    Method,
    Module,
    Named,
    Object,
    Plain,
    Record,
    Spread,
    Tensor,
    Untold,
    Where,
    any_of,
    is_whole,
    joined,
    literal,
    same,
)
from samedevice.static.tensors.attributes import attribute_of, keeps_nothing, keeps_tensors, may_keep
from samedevice.static.tensors.knowledge import ATTRIBUTES, MAKERS, METHODS, MODULES, TRANSPARENT
from samedevice.static.tensors.library import (
    call_function,
    call_method,
    given_in_order,
    meeting_of_operator,
)
from samedevice.static.tensors.project import Project
from samedevice.static.tensors.signs import (
    absent_parameters,
    array_parameters,
    asked_names,
    device_parameters,
    list_parameters,
    number_parameters,
    output_parameters,
    tensor_parameters,
)
from samedevice.static.tensors.source import ClassText, Function, SourceText, called, nodes

Environment = dict[str, Any]
_MOST_STEPS = 60_000
_MOST_INSIDE = 150_000
"""Steps in all functions that one function enters; more of them are not told."""
_DEEPEST = 3
_LONGEST = 60
"""Lines of a method of a part that is read for what it makes."""
_DEEPEST_LOOP = 2
"""Loops in loops that are read twice; what one further inside gives is not told."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """An operator whose tensors must be on one device."""

    node: ast.expr | ast.stmt
    operands: tuple[tuple[ast.expr, Tensor], ...]
    indexed: bool = False
    """Whether all but the first are indices, which may be on the host."""
    strictly: bool = False
    """Whether tensors of no dimensions, too, must be there."""
    written: bool = False
    """Whether the first is written, so that it must be there, too, if it has no dimensions."""


@dataclass(frozen=True, slots=True)
class Entered:
    """What meets in a function that another one enters, as that one's values are."""

    meeting: Meeting
    function: Function
    source: SourceText
    """The file in which it meets."""


@dataclass(slots=True)
class Told:
    """What the reading of a function told."""

    meetings: list[Meeting] = field(default_factory=list)
    values: dict[int, Any] = field(default_factory=dict)
    """What each expression is, by the identity of its node."""
    returned: list[Any] = field(default_factory=list)
    entered: list[Entered] = field(default_factory=list)
    """What meets in the functions that it calls, where something that was made without a device does."""


class _End(Exception):
    """The path ends: return, raise, break."""


class _Exhausted(Exception):
    pass


class Reading:
    """Reads functions of one file; what is entered from them may stand in others."""

    def __init__(self, source: SourceText, project: Project) -> None:
        self.source, self.project = source, project
        self._told: dict[int, Told] = {}
        self._results: dict[Any, tuple[Any, Sequence[Entered]]] = {}
        self._globals: dict[int, Any] = {}
        self._names: dict[int, Environment] = {}
        self._makers: dict[int, tuple[ast.expr, SourceText]] = {}
        self._inside = 0
        """Steps in what was entered since the function or the file was begun that is read for itself."""
        self.lambdas: dict[int, ast.FunctionDef] = {}
        self.entered: dict[int, list[Meeting]] = {}
        """What meets in functions of the file with what other functions and statements give them."""

    def of(self, function: Function, owner: ClassText | None = None) -> Told:
        """What a function does for any arguments."""
        if id(function) not in self._told:
            self._inside = 0
            self._told[id(function)] = _Run(self, self.source, 0).whole(function, owner)
        return self._told[id(function)]

    def given_in(self, text: ClassText, function: Function, value: ast.expr) -> Any:
        """What an expression of a class's method is, for any arguments."""
        key = id(function)
        if key not in self._told:
            self._told[key] = Told()  # while it is read: it may ask for itself
            self._told[key] = _Run(self, text.source, 0).whole(function, text)
        return self._told[key].values.get(id(value), UNTOLD_VALUE)

    def of_module(self) -> Told:
        """What the statements of the file itself do."""
        if id(self.source.tree) not in self._told:
            self._inside = 0
            self._told[id(self.source.tree)] = _Run(self, self.source, 0).top(self.source.tree)
        return self._told[id(self.source.tree)]

    def unknown_names(self, function: Function) -> Environment:
        """The names of a function that has others inside, of which nothing is told."""
        if id(function) not in self._names:
            given = [each.arg for each in nodes(function.args) if isinstance(each, ast.arg)]
            self._names[id(function)] = dict.fromkeys((*_stored(function), *given), UNTOLD_VALUE)
        return self._names[id(function)]

    def given_to_global(self, source: SourceText, name: str, value: ast.expr) -> Any:
        """A name of a file that is given a tensor, or a function under another name, and never again."""
        key = id(value)
        if key not in self._globals:
            self._globals[key] = UNTOLD_VALUE
            if isinstance(value, ast.Attribute) and source.dotted(value).startswith("torch."):
                self._globals[key] = Library(source.dotted(value))
            elif isinstance(value, ast.Call) and source.dotted(value.func).startswith("torch."):
                if name not in source.reassigned and not self.project.sends_data(source):
                    made = _Run(self, source, 1).value(value, {})
                    self._globals[key] = made if isinstance(made, Tensor | Device) else UNTOLD_VALUE
        return self._globals[key]

    def made(self, node: ast.expr, source: SourceText) -> None:
        """Remember in which file an expression makes a tensor."""
        self._makers[id(node)] = (node, source)

    def maker_of(self, tensor: Tensor) -> SourceText | None:
        """The file in which a tensor was made."""
        return self._makers[id(tensor.made)][1] if id(tensor.made) in self._makers else None

    def result(
        self,
        local: Local,
        positional: Sequence[Any],
        keywords: dict[str, Any],
        depth: int,
        entered: list[Entered] | None = None,
    ) -> Any:
        """What a call of a function of the project gives; what meets in it is added to `entered`."""
        value, meetings = self._entering(local, positional, keywords, depth)
        if value is UNTOLD_VALUE and isinstance(local.node.returns, ast.Name | ast.Attribute):
            value = self._annotated(local)
        if entered is not None and len(entered) < _MOST_ENTERED:
            entered += meetings
        return value

    def _annotated(self, local: Local) -> Any:
        """What a function gives by its annotation, where that is a number, a text or a type of numbers."""
        node = local.node
        name = called(node.returns) if node.returns is not None else ""
        wrapped = any(_decorator(each) not in TRANSPARENT for each in node.decorator_list)
        if name not in _PLAIN_TYPES | {"dtype"} or wrapped or isinstance(node, ast.AsyncFunctionDef):
            return UNTOLD_VALUE
        return NUMBER if name == "int" else PLAIN

    def _entering(
        self, local: Local, positional: Sequence[Any], keywords: dict[str, Any], depth: int
    ) -> tuple[Any, Sequence[Entered]]:
        nothing: tuple[Any, Sequence[Entered]] = (UNTOLD_VALUE, ())
        if depth > _DEEPEST or self._inside > _MOST_INSIDE or local.home is not None:
            return nothing
        if self._gives_something_else(local):
            return nothing
        key = (id(local.node), local.owner, tuple(positional), tuple(sorted(keywords.items())))
        try:
            if key in self._results:
                return self._results[key]
        except TypeError:
            return nothing
        self._results[key] = nothing  # while it is read: it may call itself
        run = _Run(self, local.source, depth)
        value = run.called(local, positional, keywords)
        self._inside += run.steps
        if local.source is self.source:
            self.entered.setdefault(id(local.node), []).extend(run.told.meetings)
        own = [Entered(each, local.node, local.source) for each in run.told.meetings if _tells(each)]
        self._results[key] = value, (*own, *run.told.entered)
        return self._results[key]

    def _gives_something_else(self, local: Local) -> bool:
        """Whether a call of a function does not give what its statements return."""
        node = local.node
        if isinstance(node, ast.AsyncFunctionDef) or any(
            isinstance(each, ast.Yield | ast.YieldFrom) for each in nodes(node)
        ):
            return True
        return any(
            _decorator(each) not in TRANSPARENT and not self._passes_on(each, local.source)
            for each in node.decorator_list
        )

    def _passes_on(self, decorator: ast.expr, source: SourceText) -> bool:
        """Whether a decorator is a function of the project whose wrapper only calls what it wraps, with the
        arguments that it is given.
        """
        dotted = source.dotted(decorator)
        function = source.function_named(dotted)
        if function is None:
            found = self.project.find(source, dotted) if "." in dotted else None
            function = found.node if isinstance(found, Local) else None
        return isinstance(function, ast.FunctionDef) and _only_calls(function)


_MOST_ENTERED = 400


def _tells(meeting: Meeting) -> bool:
    """Whether a meeting says something of whoever entered its function: a stray is there, or two parts of a
    module are.
    """
    operands = [tensor for _, tensor in meeting.operands]
    strays = any(
        each.made is not None and (each.where.unplaced or CURRENT in each.where.of or each.where == _CURRENT)
        for each in operands
    )
    if strays:
        return True
    of_parts = any(of.startswith("self.") for each in operands for of in each.where.of)
    return of_parts and len({each.where.of for each in operands if each.where.of}) > 1


class _Run:
    """One reading of one function."""

    def __init__(self, reading: Reading, source: SourceText, depth: int) -> None:
        self.reader, self.source, self.depth = reading, source, depth
        self.project = reading.project
        self.told = Told()
        self.steps = 0
        self.loops = 0
        self.leaving: list[list[Environment]] = []
        """The names at each `break` and `continue` of the loops around, the innermost last."""
        self.broken: list[list[Environment]] = []
        """Those at each `break` alone."""
        self.choices: set[int] = set()
        """Each `elif` that was come to."""
        self.names: Environment | None = None
        """The names where a call stands that is read."""
        self.lists: frozenset[str] = frozenset()
        """Names of lists that nobody else can change."""
        self.body: Sequence[ast.stmt] = ()
        self.records: frozenset[str] | None = None
        """Names of objects that nobody else can give other parts, once somebody asked."""
        self.tables: frozenset[str] | None = None
        """Names of dictionaries that have no other name, once somebody asked."""
        self.function: Function | None = None
        """The function that is read."""
        self.sent: set[str] = set()
        """Attributes of attributes that were given other data: `self.part.weight`."""
        self.deep = False
        """Whether an attribute of an attribute was given another value."""
        self.elsewhere = source.changes_default
        """Whether what is made without a device may be made elsewhere than on the host."""

    def whole(self, function: Function, owner: ClassText | None) -> Told:
        """A function with arguments that nobody knows."""
        self.function = function
        outer = self.source.enclosing(function)
        if not outer:
            self._body(function.body, self.arguments(function, owner))
            return self.told
        environment: Environment = {}
        for each in outer:
            environment |= self.reader.unknown_names(each)
        first = outer[0].args.args
        if owner is not None and first and not _is_static(outer[0]):
            environment[first[0].arg] = Object(owner)
        self._body(function.body, environment | self.arguments(function, None))
        return self.told

    def top(self, module: ast.Module) -> Told:
        """The statements of a file."""
        self._body(module.body, {})
        return self.told

    def called(
        self,
        local: Local,
        positional: Sequence[Any],
        keywords: dict[str, Any],
        around: Environment | None = None,
    ) -> Any:
        """A function with the values that it is given, and the names of the function around it."""
        self.function = local.node
        environment = self._bound(local, positional, keywords)
        if environment is None:
            return UNTOLD_VALUE
        if around is not None:
            own = dict.fromkeys(_stored(local.node), UNTOLD_VALUE)
            environment = around | own | environment
        whole = self._body(local.node.body, environment)
        if not whole:
            return UNTOLD_VALUE
        return joined(self.told.returned) if self.told.returned else UNTOLD_VALUE

    def _body(self, body: Sequence[ast.stmt], environment: Environment) -> bool:
        """Whether it was read to its end."""
        self.lists = own_lists(body)
        self.body, self.records, self.tables = body, None, None
        try:
            self.block(body, environment)
        except _End:
            return True
        except (_Exhausted, RecursionError):
            self.told.meetings.clear()
            self.told.entered.clear()
            self.told.values.clear()
            return False
        self.told.returned.append(NONE)
        return True

    # Arguments

    def arguments(self, function: Function, owner: ClassText | None) -> Environment:
        """What the parameters of a function stand for when nobody says."""
        tensors, devices = tensor_parameters(function), device_parameters(function)
        outputs, arrays = output_parameters(function), array_parameters(function)
        lists, numbers = list_parameters(function), number_parameters(function)
        absent = absent_parameters(function) if tensors else set()
        given = function.args
        environment: Environment = {}
        for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            name = each.arg
            if name in devices:
                environment[name] = Device(same(name))
            elif name in tensors:
                environment[name] = Tensor(same(name), None, None, "argument", absent=name in absent)
            elif name in outputs:
                environment[name] = Tensor(Where("part", (name,)), None, None, "output")
            elif name in lists:
                environment[name] = lists[name]
            elif name in arrays:
                environment[name] = Given(name, array=True, asked=name in asked_names(function))
            elif name in numbers:
                environment[name] = NUMBER
            elif isinstance(each.annotation, ast.Name) and each.annotation.id in _PLAIN_TYPES:
                environment[name] = PLAIN
            else:
                environment[name] = self._module_of(each) or Given(name)
        if owner is not None and given.args and not _is_static(function):
            environment[given.args[0].arg] = Object(owner)
        if given.vararg is not None:
            environment[given.vararg.arg] = Listed(Given(given.vararg.arg))
        if given.kwarg is not None:
            environment[given.kwarg.arg] = UNTOLD_VALUE
        return environment

    def _module_of(self, parameter: ast.arg) -> Module | Object | None:
        """A parameter that is a module, or an object of another class of the project, by its annotation."""
        name = self.source.dotted(parameter.annotation) if parameter.annotation is not None else ""
        if not name:
            return None
        if name.startswith("torch.nn."):
            last = name.rpartition(".")[2]
            known = last in _PLACED or last in _FREE or last == "Module"
            return Module(parameter.arg, name) if known else None
        text = self.project.class_of(self.source, name)
        if text is None:
            return None
        if self.project.is_module(text):
            return Module(parameter.arg, name, text)
        lineage = self.project.lineage(text)
        kept = keeps_tensors(lineage) and not any(each.reached for each in lineage)
        return Object(text, parameter.arg) if kept else None

    def _bound(self, local: Local, positional: Sequence[Any], keywords: dict[str, Any]) -> Environment | None:
        given = local.node.args
        names = [each.arg for each in (*given.posonlyargs, *given.args)]
        given_values = map(_alone, positional)
        values = list(given_values) if local.owner is None else [local.owner, *given_values]
        keywords = {name: _alone(value) for name, value in keywords.items()}
        if len(values) > len(names) and given.vararg is None:
            return None
        every = [*names, *(each.arg for each in given.kwonlyargs)]
        environment: Environment = dict.fromkeys(every, UNTOLD_VALUE)
        for name, default in zip(reversed(names), reversed(given.defaults), strict=False):
            environment[name] = self.value(default, {})
        for each, default_node in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            if default_node is not None:
                environment[each.arg] = self.value(default_node, {})
        if "**" in keywords or "*" in keywords:
            environment = dict.fromkeys(every, UNTOLD_VALUE)
        environment |= dict(zip(names, values, strict=False))
        environment |= {name: value for name, value in keywords.items() if name in environment}
        tensors = tensor_parameters(local.node) if any(isinstance(x, Given) for x in values) else ()
        for name in tensors:
            value = environment[name]
            if isinstance(value, Given):
                environment[name] = Tensor(same(value.symbol), None, None, "argument")
        known = "**" not in keywords and "*" not in keywords
        if given.vararg is not None:
            environment[given.vararg.arg] = Items(tuple(values[len(names) :])) if known else UNTOLD_VALUE
        if given.kwarg is not None:
            rest = tuple((name, value) for name, value in keywords.items() if name not in every)
            known = known and _is_only_passed_on(local.node, given.kwarg.arg)
            environment[given.kwarg.arg] = Named(rest) if known else UNTOLD_VALUE
        return environment

    # Statements

    def block(self, statements: Iterable[ast.stmt], environment: Environment) -> None:
        """Statements in their order; the environment is changed."""
        for statement in statements:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise _Exhausted
            action = _STATEMENTS.get(type(statement))
            if action is not None:
                action(self, statement, environment)

    def _expr(self, node: ast.Expr, environment: Environment) -> None:
        value = self.value(node.value, environment)
        match node.value:  # a module is moved where it is; a tensor is not
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if isinstance(value, Module):
                if isinstance(environment.get(name), Module):
                    environment[name] = value

    def _assignment(self, node: ast.Assign, environment: Environment) -> None:
        value = self.value(node.value, environment)
        if isinstance(node.value, ast.List) and isinstance(value, Items):
            value = self._list(node, value)
        elif isinstance(value, Listed) and value.whole and not self._list_is_own(node):
            value = Listed(value.part if _is_of_torch(node.value, self.source) else UNTOLD_VALUE)
        for target in node.targets:
            self.assign(target, value, environment)
        if isinstance(node.value, ast.Name):
            _forget_entries(environment, [node.value.id])  # it has another name now

    def _list(self, node: ast.Assign, value: Items) -> Listed:
        """A list that is given a name: whoever has it may change its parts."""
        if not self._list_is_own(node):
            return Listed(UNTOLD_VALUE)
        return Listed(joined(value.parts) if value.parts else EMPTY, True)

    def _list_is_own(self, node: ast.Assign) -> bool:
        match node.targets:
            case [ast.Name(id=name)]:
                return name in self.lists
        return False

    def _annotated(self, node: ast.AnnAssign, environment: Environment) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value, environment), environment)

    def _augmented(self, node: ast.AugAssign, environment: Environment) -> None:
        left, right = self.value(node.target, environment), self.value(node.value, environment)
        result = self._operator(node, ((node.target, left), (node.value, right)))
        if isinstance(left, Tensor) and left.where.kind != "unknown":
            result = Tensor(left.where, left.scalar, left.made, left.role)  # in place
        self.assign(node.target, result, environment)

    def _return(self, node: ast.Return, environment: Environment) -> None:
        value = NONE if node.value is None else self.value(node.value, environment)
        self.told.returned.append(value)
        raise _End

    def _raise(self, node: ast.Raise, environment: Environment) -> None:
        raise _End

    def _leave(self, node: ast.Break | ast.Continue, environment: Environment) -> None:
        if self.leaving:
            self.leaving[-1].append(dict(environment))
            if isinstance(node, ast.Break):
                self.broken[-1].append(dict(environment))
        raise _End

    def _if(self, node: ast.If, environment: Environment) -> None:
        self.value(node.test, environment)
        truth = self._truth(node.test, environment)
        ways = [node.body, node.orelse] if truth is None else [node.body if truth else node.orelse]
        fallen = None
        if self.loops and node.orelse and _asks_flag(node.test) & _stored_in(node.body):
            # The first way sets the flag, so the other one comes after it, in a later turn.
            fallen = dict(environment) | dict.fromkeys(_stored_in(node.body), UNTOLD_VALUE)
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            self.choices.add(id(node.orelse[0]))
        elif truth is None and not node.orelse and id(node) in self.choices and _is_choice(node.test):
            # The last of several words: what none of them gives a value is not meant to be used.
            fallen = dict(environment) | dict.fromkeys(_stored(node), UNTOLD_VALUE)
        missing, denied_none = _asks_for_none(node.test)
        present = environment.get(missing)
        if isinstance(present, Tensor) and present.absent and not denied_none:
            fallen = dict(environment) if fallen is None else fallen
            if isinstance(fallen.get(missing), Tensor):
                fallen[missing] = replace(present, absent=False)
        asks = asks_for_device(node.test)
        before, self.elsewhere = self.elsewhere, self.elsewhere or (asks and truth is None)
        tensor, denied = _asks_for_tensor(node.test)
        if truth is None and denied and isinstance(environment.get(tensor), Given):
            fallen = dict(environment) if fallen is None else fallen
            fallen[tensor] = _as_tensor(environment[tensor])
        elif truth is None and node.orelse and isinstance(node.test, ast.Call) and not denied:
            known = environment.get(tensor)
            if isinstance(known, Given) or (isinstance(known, Tensor) and known.role == "argument"):
                fallen = dict(environment) if fallen is None else fallen
                fallen[tensor] = UNTOLD_VALUE  # it is none there
        try:  # what is made on one of the ways is where the answer says
            there = missing if denied_none and truth is None else ""
            self.ways(ways, environment, asks, fallen, _no_tensor(node.test), "" if denied else tensor, there)
        finally:
            self.elsewhere = before

    def _truth(self, test: ast.expr, environment: Environment) -> bool | None:
        """Of `x is None` and `isinstance(x, ...)` whether they hold, where that is told; there are GPUs."""
        match test:
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]) if self.depth:
                value = environment.get(name)
                if not isinstance(value, Tensor) or value.absent or value.role not in _SURE:
                    return None  # what a part of a module gave may be a tuple, or an object
                asked = ast.unparse(kind)
                return True if asked in ("torch.Tensor", "Tensor") else _may_be_tensor(asked)
            case ast.Call(func=ast.Attribute() as function) if (
                self.source.dotted(function) == "torch.cuda.is_available"
            ):
                return True
            case ast.Compare(
                left=left, ops=[ast.Is() | ast.IsNot() as how], comparators=[ast.Constant(None)]
            ):
                value = self.value(left, environment)
                if isinstance(value, Plain) and value.known:
                    return (value.value is None) is isinstance(how, ast.Is)
                if isinstance(value, Tensor) and value.absent:
                    return None
                if isinstance(value, Tensor | Module) and self.depth:
                    return isinstance(how, ast.IsNot)
        return None

    def ways(
        self,
        blocks: Sequence[Sequence[ast.stmt]],
        environment: Environment,
        by_device: bool = False,
        fallen: Environment | None = None,
        no_tensor: str = "",
        tensor: str = "",
        there: str = "",
    ) -> None:
        """Several ways to go on, each on its own copy of the names; then what holds after all of them.

        Where a question about devices decides, what is left on the host meets what is there, too. `fallen`
        are the names of the other ways, where they are not what they were; `no_tensor` is the name of what is
        none on the first way, `tensor` that of what is one there, and `there` of what is not None there.
        """
        before, outcomes = dict(environment), []
        for each in blocks:
            own = dict(before if fallen is None or each is blocks[0] else fallen)
            if each is blocks[0] and isinstance(own.get(no_tensor), Given):
                own[no_tensor] = UNTOLD_VALUE
            if each is blocks[0] and isinstance(own.get(tensor), Given):
                own[tensor] = _as_tensor(own[tensor])
            if each is blocks[0] and isinstance(own.get(there), Tensor):
                own[there] = replace(own[there], absent=False)
            try:
                self.block(each, own)
            except _End:
                continue
            outcomes.append(own)
        if not outcomes:
            raise _End
        environment.clear()
        environment |= self._merged(outcomes, by_device)

    def _merged(self, outcomes: Sequence[Environment], by_device: bool = False) -> Environment:
        """The names after one of several ways."""
        first, *others = outcomes
        if not others:
            return first
        names = {name for each in outcomes for name in each}
        merged = {
            name: [each[name] if name in each else self._before(name, each) for each in outcomes]
            for name in names
        }
        if by_device:
            merged = {name: _without_host(values) for name, values in merged.items()}
        return {name: joined(values) for name, values in merged.items()}

    def _before(self, name: str, environment: Environment) -> Any:
        """What a name stands for on a way that gives it nothing: for `self.x` what the object has."""
        owner, _, attribute = name.partition(".")
        value = environment.get(owner) if attribute else None
        return attribute_of(self, value, attribute) if isinstance(value, Object) else UNTOLD_VALUE

    def _for(self, node: ast.For | ast.AsyncFor, environment: Environment) -> None:
        item = _item(self.value(node.iter, environment))
        self._loop(node, environment, lambda own: self.assign(node.target, item, own))

    def _while(self, node: ast.While, environment: Environment) -> None:
        self._loop(node, environment, lambda own: self.value(node.test, own))

    def _loop(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        environment: Environment,
        begin: Callable[[Environment], Any],
    ) -> None:
        """A body that runs any number of times: names that it changes have what they had before, too."""
        kept, inside = len(self.told.meetings), len(self.told.entered)
        self.leaving.append([])
        self.broken.append([])
        self.loops += 1
        if self.loops > _DEEPEST_LOOP:
            for name in _stored(node):
                environment[name] = UNTOLD_VALUE
        else:
            for _ in range(2):
                merged = self._merged([environment, *self._turn(node, environment, begin)])
                environment.clear()
                environment |= merged
                del self.told.meetings[kept:]
                del self.told.entered[inside:]
        if self._merged([environment, *self._turn(node, environment, begin)]) != environment:
            for name in _stored(node):
                environment[name] = UNTOLD_VALUE
        self.loops -= 1
        self.leaving.pop()
        broken = self.broken.pop()
        if node.orelse:
            self._after_all_turns(node.orelse, environment, broken)

    def _after_all_turns(
        self, orelse: Sequence[ast.stmt], environment: Environment, broken: Sequence[Environment]
    ) -> None:
        """The `else` of a loop, which a `break` passes over."""
        own = dict(environment)
        try:
            self.block(orelse, own)
        except _End:
            if not broken:
                raise
            merged = self._merged([environment, *broken])
        else:
            merged = self._merged([own, *([environment] if broken else []), *broken])
        environment.clear()
        environment |= merged

    def _turn(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        environment: Environment,
        begin: Callable[[Environment], Any],
    ) -> list[Environment]:
        """The names after one turn: at its end, and wherever it is left."""
        own = dict(environment)
        self.leaving[-1].clear()
        self.broken[-1].clear()
        try:
            begin(own)
            self.block(node.body, own)
        except _End:
            return list(self.leaving[-1])
        return [own, *self.leaving[-1]]

    def _with(self, node: ast.With | ast.AsyncWith, environment: Environment) -> None:
        before = self.elsewhere
        for item in node.items:
            value = self.value(item.context_expr, environment)
            if isinstance(value, Device) or _may_change_default(item.context_expr):
                self.elsewhere = True
            if item.optional_vars is not None:
                self.assign(item.optional_vars, UNTOLD_VALUE, environment)
        try:
            self.block(node.body, environment)
        finally:
            self.elsewhere = before

    def _try(self, node: ast.Try | ast.TryStar, environment: Environment) -> None:
        before, outcomes = dict(environment), []
        own = dict(before)
        try:
            self.block([*node.body, *node.orelse], own)
            outcomes.append(own)
        except _End:
            pass
        for handler in node.handlers:  # it may begin after any statement of the body
            other = self._merged([before, own])
            for statement in node.body:
                for name in _stored(statement):
                    other[name] = UNTOLD_VALUE
            for name in _given_last(node.body):
                other[name] = before.get(name, UNTOLD_VALUE)
            try:
                self.block(handler.body, other)
                outcomes.append(other)
            except _End:
                pass
        if not outcomes:
            raise _End
        environment.clear()
        environment |= self._merged(outcomes)
        self.block(node.finalbody, environment)

    def _match(self, node: ast.Match, environment: Environment) -> None:
        self.value(node.subject, environment)
        for case in node.cases:
            for each in nodes(case.pattern):
                name = getattr(each, "name", None) or getattr(each, "rest", None)
                if isinstance(name, str):
                    environment[name] = UNTOLD_VALUE
        self.ways([*(case.body for case in node.cases), []], environment)

    def _define(self, node: Function, environment: Environment) -> None:
        """A function inside this one."""
        if self.source.function_named(node.name) is node:
            environment.pop(node.name, None)  # one of the file
            return
        environment[node.name] = UNTOLD_VALUE if node.decorator_list else Local(node, self.source, None, self)

    def _define_class(self, node: ast.ClassDef, environment: Environment) -> None:
        """A class; its own statements are not read."""
        if self.source.classes.get(node.name) is node:
            environment.pop(node.name, None)
            return
        environment[node.name] = UNTOLD_VALUE

    def _forget(self, node: ast.stmt, environment: Environment) -> None:
        """Names that a statement gives something that is not followed."""
        for name in _stored(node):
            environment[name] = UNTOLD_VALUE
        for each in getattr(node, "names", ()) if isinstance(node, ast.Global | ast.Nonlocal) else ():
            environment[each] = UNTOLD_VALUE

    def _import(self, node: ast.Import | ast.ImportFrom, environment: Environment) -> None:
        for alias in node.names:
            environment.pop((alias.asname or alias.name).partition(".")[0], None)

    # Assignment

    def assign(self, target: ast.expr, value: Any, environment: Environment) -> None:
        """Give a target its value."""
        match target:
            case ast.Name(id=name):
                kept = not isinstance(value, Record) or self._is_own_record(name)
                environment[name] = value if kept and not isinstance(value, Entries) else UNTOLD_VALUE
                for each in [other for other in environment if other.startswith((f"{name}.", f"{name}["))]:
                    del environment[each]  # it was of another object
                if type(value) is Untold and self.function is not None and name in asked_names(self.function):
                    line = target.lineno
                    environment[name] = Given(f"{name}:{line}", array=True, asked=True)
                if isinstance(value, Entries) and self._is_own_table(name):
                    environment |= {f"{name}[{key!r}]": part for key, part in value.parts}
            case ast.Attribute(value=owner_node, attr="data"):
                self._give_data(owner_node, value, environment)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                self._give_part(environment, owner, name, value)
            case ast.Attribute(value=ast.Attribute()) if whole := _dotted(target):
                self.deep = True
                _forget_parts(environment, whole)
                environment[whole] = _alone(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                starred = [number for number, each in enumerate(parts) if isinstance(each, ast.Starred)]
                if isinstance(value, Items) and len(starred) == 1 and len(value.parts) >= len(parts) - 1:
                    rest = len(parts) - 1 - starred[0]
                    ends = value.parts[len(value.parts) - rest :] if rest else ()
                    value = Items((*value.parts[: starred[0]], UNTOLD_VALUE, *ends))
                fits = isinstance(value, Items) and len(value.parts) == len(parts)
                fits = fits and len(starred) < 2
                for number, part in enumerate(parts):
                    own = value.parts[number] if fits else UNTOLD_VALUE
                    if isinstance(value, Spread) and not any(isinstance(x, ast.Starred) for x in parts):
                        own = _spread_part(value, number, len(parts))
                    if isinstance(value, Listed):
                        own = value.part
                    if value == SIZE and not isinstance(part, ast.Starred):
                        own = NUMBER
                    if isinstance(value, Tensor) and not isinstance(part, ast.Starred):
                        own = Tensor(value.where, None, value.made, value.role)
                    self.assign(part, own, environment)
            case ast.Starred(value=inner):
                self.assign(inner, UNTOLD_VALUE, environment)
            case ast.Subscript():
                owner, index = self.value(target.value, environment), self.value(target.slice, environment)
                if isinstance(owner, Tensor):
                    self._indexed(target, owner, index)
                    self._has_parts(target, owner, environment)
                    indices = index.parts if isinstance(index, Items) else (index,)
                    if isinstance(value, Tensor) and any(picks(each) for each in indices):
                        self.meet(target, ((target.value, owner), (target.slice, value)))
                if isinstance(target.value, ast.Name) and isinstance(
                    environment.get(target.value.id), Items | Plain
                ):
                    environment[target.value.id] = UNTOLD_VALUE
                if not isinstance(owner, Tensor):
                    self._give_entry(target, value, environment)

    # Expressions

    def value(self, node: ast.expr, environment: Environment) -> Any:
        """What an expression is."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _Exhausted
        action = _EXPRESSIONS.get(type(node))
        found = UNTOLD_VALUE if action is None else action(self, node, environment)
        if not self.depth:
            self.told.values[id(node)] = found
        return found

    def _constant(self, node: ast.Constant, environment: Environment) -> Any:
        return Plain(node.value, True)

    def _name(self, node: ast.Name, environment: Environment) -> Any:
        if node.id in environment:
            return environment[node.id]
        return self.global_name(node.id)

    def global_name(self, name: str) -> Any:
        """A name of the file: a function, a class, something imported, a constant."""
        source = self.source
        if (function := source.function_named(name)) is not None:
            return Local(function, source)
        if name in source.classes:
            return ClassName(source.class_text(source.classes[name]))
        if name in source.imports:
            dotted = source.imports[name]
            return self.project.find(source, dotted) if "." in dotted else Library(dotted)
        value = source.globals.get(name)
        if isinstance(value, ast.Constant):
            return Plain(value.value, True)
        if name in source.globals:
            return UNTOLD_VALUE if value is None else self.reader.given_to_global(source, name, value)
        if source.stars and (starred := self.project.starred(source, name)) is not None:
            return starred
        return Library(f"builtins.{name}")

    def _attribute(self, node: ast.Attribute, environment: Environment) -> Any:
        if isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in environment:
            return environment[f"{node.value.id}.{node.attr}"]
        if self.deep and (whole := _dotted(node)) in environment:
            return environment[whole]
        owner = self.value(node.value, environment)
        found = self.attribute(owner, node)
        if self.sent and isinstance(found, Tensor) and ast.unparse(node) in self.sent:
            return Tensor(NOWHERE)
        return found

    def attribute(self, owner: Any, node: ast.Attribute) -> Any:
        """`owner.name`."""
        name = node.attr
        match owner:
            case Library(name=whole):
                return self.project.find(self.source, f"{whole}.{name}")
            case ClassName(text=text) if (found := self._of_class(owner, text, name)) is not None:
                return found
            case Object():
                return attribute_of(self, owner, name)
            case Record() if (part := owner.part(name)) is not UNTOLD_VALUE:
                return part
            case Tensor() if name == "device":
                return Device(owner.where)
            case Tensor() if name in _NUMBERS:
                return SIZE if name == "shape" else PLAIN
            case Tensor() if name in _SAME:
                return owner
            case Tensor() if owner.where.kind == "part" and not _is_method(name):
                return owner  # a part of what a part of the module gave
            case Module(symbol=symbol) if name in ("weight", "bias"):
                return Tensor(same(f"{symbol}.{name}") if symbol else NOWHERE, False, None, "parameter")
            case Module(symbol=symbol) if name == "device" and symbol:
                return Device(same(symbol))
            case Module(symbol=symbol, text=ClassText() as text) if symbol:
                return self._of_part(owner, text, name)
            case Device() if name == "type":
                return Device(NOWHERE)  # the first of its kind
            case Plain() | Device():
                return PLAIN
        if name == "grad":  # beside whatever has it
            return Tensor(same(f"{ast.unparse(node)}:{node.lineno}"))
        if name == "device":
            return Device(same(f"{ast.unparse(node.value)}.device:{node.lineno}"))
        if name in ("dtype", "shape", "ndim") or name.endswith("dtype"):
            return SIZE if name == "shape" else PLAIN
        if name == "data" and isinstance(owner, Given):
            return owner
        return Method(owner, name)

    def _of_part(self, owner: Module, text: ClassText, name: str) -> Any:
        """What a part of the project keeps, as far as its class tells."""
        if not may_keep(self.project.lineage(text), name):
            return Method(owner, name)
        found = attribute_of(self, Object(text, owner.symbol), name)
        match found:
            case Tensor() if not (self.source.gives(name) or text.source.gives(name)):
                return found
            case Module() | Plain() | Device() | Listed():
                return found
        return Method(owner, name)

    def _of_class(self, owner: ClassName, text: ClassText, name: str) -> Local | None:
        """A method that is asked of its class; one of the class itself is bound to it."""
        for each in self.project.lineage(text):
            if name in each.methods:
                function = each.methods[name]
                bound = any(_decorator(decorator) == "classmethod" for decorator in function.decorator_list)
                return Local(function, each.source, owner if bound else None)
        return None

    def _call(self, node: ast.Call, environment: Environment) -> Any:
        self.names = environment
        function = self.value(node.func, environment)
        positional: list[Any] = []
        starred = False
        for each in node.args:
            if isinstance(each, ast.Starred):
                several = self.value(each.value, environment)
                if isinstance(several, Items) and isinstance(each.value, ast.Name) and not starred:
                    positional += several.parts
                else:
                    starred = True
            else:
                positional.append(self.value(each, environment))
        if starred and isinstance(function, Local):
            positional = []  # which of its parameters they are is not told
        keywords: dict[str, Any] = {"*": UNTOLD_VALUE} if starred else {}
        for keyword in node.keywords:
            value = self.value(keyword.value, environment)
            if keyword.arg is None and isinstance(value, Named):
                keywords |= dict(value.parts)
            else:
                keywords[keyword.arg or "**"] = value
        self.names = environment
        self._grown(node, positional, environment)
        result = self.call(node, function, positional, keywords)
        if isinstance(result, Tensor) and result.made is node:
            self.reader.made(node, self.source)
        if not isinstance(function, ClassName):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            for each in (owner, *node.args, *(keyword.value for keyword in node.keywords)):
                _forget_record(environment, each)  # whoever has it may give it other parts
            _forget_entries(environment, _handed_on(node))
            self._forget_changed(node, function, environment)
        return result

    def _forget_changed(self, node: ast.Call, function: Any, environment: Environment) -> None:
        """What a call may have changed of the objects that it is given."""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        names = {each.id for each in given if isinstance(each, ast.Name)}
        if isinstance(function, Local) and sends_given(function.node):
            for name in names:
                if isinstance(value := environment.get(name), Tensor):
                    _forget_place(environment, value.where)
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            names.add(node.func.value.id)
        for name in [each for each in environment if "." in each and each.partition(".")[0] in names]:
            owner, _, attribute = name.partition(".")
            of = environment.get(owner)
            if not isinstance(of, Object) or self._may_give(node, function, of, attribute):
                environment[name] = UNTOLD_VALUE

    def _may_give(self, node: ast.Call, function: Any, owner: Object, name: str) -> bool:
        """Whether a call may give an object another attribute: a method of its own, or who is handed it."""
        handed = isinstance(function, Local) and function.owner == owner
        if not handed and isinstance(node.func, ast.Attribute):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            handed = any(isinstance(each, ast.Name) and each.id == owner.symbol for each in given)
        lineage = self.project.lineage(owner.text)
        return handed and any(
            attribute.function is not self.function
            for each in lineage
            for attribute in each.attributes.get(name, ())
        )

    def _grown(self, node: ast.Call, positional: Sequence[Any], environment: Environment) -> None:
        """`items.append(x)` of a list that only this function has."""
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" as how):
                items = environment.get(name)
                if not isinstance(items, Listed):
                    return
                added = positional[0] if len(positional) == 1 and not node.keywords else UNTOLD_VALUE
                whole = items.whole
                if how == "extend":
                    whole = whole and isinstance(added, Listed) and added.whole
                    added = added.part if isinstance(added, Listed) else UNTOLD_VALUE
                environment[name] = Listed(joined([items.part, added]), whole)

    def call(self, node: ast.Call, function: Any, positional: list[Any], keywords: dict[str, Any]) -> Any:
        """What a call gives."""
        match function:
            case Library():
                return call_function(self, function, node, positional, keywords)
            case Method(owner=Module(symbol=symbol, text=ClassText() as text) as owner) if symbol:
                given = call_method(self, owner, function.name, node, positional, keywords)
                return self._made_by_part(owner, text, function.name, positional, keywords) or given
            case Method(owner=owner):
                return call_method(self, owner, function.name, node, positional, keywords)
            case Local(home=home) if home is not None:
                return self._inner_called(function, positional, keywords)
            case Local():
                if self.elsewhere and not function.source.changes_default:
                    return UNTOLD_VALUE
                return self.reader.result(function, positional, keywords, self.depth + 1, self.told.entered)
            case ClassName(text=text) if self.project.is_module(text):
                return Module("", text.name, text)
            case ClassName(text=text):
                return self._record(text, positional, keywords)
            case Module():
                return self._module_called(function, node, positional, keywords)
            case Tensor(where=where) if where.kind == "part":
                return Tensor(where, None, None, "output")  # what a method of a part gave is a part of it
        return UNTOLD_VALUE

    def _record(self, text: ClassText, positional: list[Any], keywords: dict[str, Any]) -> Any:
        """An object of a dataclass that makes nothing else of what it is given."""
        data = [each for each in self.project.lineage(text) if _is_dataclass(each.node)]
        makes = any(name in each.methods for each in data for name in _MAKING)
        if text not in data or makes or "*" in keywords or "**" in keywords:
            return UNTOLD_VALUE
        fields = [each.target.id for each in text.node.body if _is_field(each)] if len(data) == 1 else []
        if len(positional) > len(fields):
            return UNTOLD_VALUE
        given = {name: _alone(value) for name, value in keywords.items()}
        return Record((*zip(fields, map(_alone, positional), strict=False), *given.items()))

    def _inner_called(self, function: Local, positional: list[Any], keywords: dict[str, Any]) -> Any:
        """A function that is defined inside this one: it reads the names as they are now."""
        simple = not any(isinstance(each, ast.Nonlocal | ast.Global) for each in nodes(function.node))
        if function.home is not self or self.depth >= _DEEPEST or "*" in keywords or not simple:
            return UNTOLD_VALUE
        if _makes_generator(function.node) or self.elsewhere or self.names is None:
            return UNTOLD_VALUE
        run = _Run(self.reader, self.source, self.depth + 1)
        run.steps = self.steps
        run.told.meetings, run.told.entered = self.told.meetings, self.told.entered
        result = run.called(function, positional, keywords, self.names)
        self.steps = min(run.steps, _MOST_STEPS)
        return result

    def _module_called(
        self, module: Module, node: ast.Call, positional: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """A module with parameters gives what is where they are; one without, where its input is."""
        tensors = [
            (each, value)
            for each, value in zip(given_in_order(node, positional), positional, strict=False)
            if isinstance(value, Tensor)
        ]
        last = module.kind.rpartition(".")[2]
        if last in _FREE and module.text is None:
            return Tensor(tensors[0][1].where, None, None, "output") if tensors else UNTOLD_VALUE
        if last in _PLACED and module.text is None and module.symbol:
            own = Tensor(same(f"{module.symbol}.weight"), False, None, "parameter")
            self.meet(node, (*tensors, (node.func, own)))
            return Tensor(own.where, False, None, "output")
        if last.endswith("Loss") and module.kind.startswith("torch.nn."):
            if last in _LENIENT or not tensors:
                return UNTOLD_VALUE
            self.meet(node, tensors)
            return Tensor(tensors[0][1].where, None, None, "output")
        placed = module.symbol or module.where.kind == "literal"  # else it was made here, and never moved
        if placed and any(_is_stray(each) for each in (*positional, *keywords.values())):
            self._enter(module, positional, keywords)
        if module.where.kind == "literal":
            return self._placed_called(module, node, positional, keywords)
        if module.symbol and keeps_nothing(self, module.kind):
            given = self._enter(module, positional, keywords)
            inner = (module.symbol, "self")
            if isinstance(given, Tensor) and not any(each.startswith(inner) for each in given.where.of):
                return given
            if any(_on_host(value) for _, value in tensors):
                return UNTOLD_VALUE
        if not module.symbol:
            return UNTOLD_VALUE
        given = Tensor(Where("part", (module.symbol,)), None, None, "output")
        # What else a part is given may be lengths or flags, which it reads on the host.
        first = [pair for pair in tensors if pair[0] is node.args[0]]
        self.meet(node, (*first, (node.func, given)))
        return given

    def _made_by_part(
        self, owner: Module, text: ClassText, name: str, positional: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """What a method of a part makes on the host; None where it makes nothing there."""
        found = attribute_of(self, Object(text, owner.symbol), name)
        if not isinstance(found, Local) or (self.elsewhere and not found.source.changes_default):
            return None
        strays = any(_is_stray(each) for each in (*positional, *keywords.values()))
        if not (strays or makes_something(found.node)) or _lines(found.node) > _LONGEST:
            return None
        given = self.reader.result(found, positional, keywords, self.depth + 1, self.told.entered)
        parts = given.parts if isinstance(given, Items) else (given,)
        return given if any(_is_stray(each) for each in parts) else None

    def _enter(self, module: Module, positional: list[Any], keywords: dict[str, Any]) -> Any:
        """Read what a part of the project does with what it is given."""
        if module.text is None or module.text.reached:
            return UNTOLD_VALUE
        lineage = self.project.lineage(module.text)
        home = next((each for each in lineage if "forward" in each.methods), None)
        if home is None or (self.elsewhere and not home.source.changes_default):
            return UNTOLD_VALUE
        forward = Local(home.methods["forward"], home.source, Object(module.text, module.symbol or "self"))
        return self.reader.result(forward, positional, keywords, self.depth + 1, self.told.entered)

    def _placed_called(
        self, module: Module, node: ast.Call, positional: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """A module that was sent to a written device: what it gives is there, where it keeps something."""
        last = module.kind.rpartition(".")[2]
        given = Tensor(module.where, False, None, "output")
        if last in _PLACED and module.text is None:
            at = given_in_order(node, positional)
            tensors = [(each, x) for each, x in zip(at, positional, strict=False) if isinstance(x, Tensor)]
            self.meet(node, (*tensors, (node.func, given)), True)
            return given
        if module.text is None or module.where.of[0] in ("cpu", "meta"):
            return UNTOLD_VALUE
        result = self._enter(module, positional, keywords)
        own = f"{module.symbol or 'self'}."
        follows = isinstance(result, Tensor) and all(each.startswith(own) for each in result.where.of)
        return (
            replace(given, scalar=None) if follows and result.where.kind in ("same", "part") else UNTOLD_VALUE
        )

    def _binary(self, node: ast.BinOp, environment: Environment) -> Any:
        left, right = self.value(node.left, environment), self.value(node.right, environment)
        result = self._operator(node, ((node.left, left), (node.right, right)))
        masks = isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor)
        if masks and any(isinstance(each, Tensor) and each.role == "mask" for each in (left, right)):
            return _as_mask(result)
        return result

    def _compare(self, node: ast.Compare, environment: Environment) -> Any:
        parts = [(each, self.value(each, environment)) for each in (node.left, *node.comparators)]
        if len(parts) == 2 and not isinstance(node.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot):
            return _as_mask(self._operator(node, parts))
        return PLAIN

    def _operator(self, node: ast.expr | ast.stmt, parts: Sequence[tuple[ast.expr, Any]]) -> Any:
        return meeting_of_operator(self, node, parts)

    def meet(
        self,
        node: ast.expr | ast.stmt,
        operands: Sequence[tuple[ast.expr, Tensor]],
        strictly: bool = False,
        written: bool = False,
    ) -> None:
        """Tensors of one operator, which must be together."""
        if len(operands) > 1:
            self.told.meetings.append(Meeting(node, tuple(operands), False, strictly, written))

    def _unary(self, node: ast.UnaryOp, environment: Environment) -> Any:
        value = self.value(node.operand, environment)
        if isinstance(node.op, ast.Not):
            return PLAIN
        if is_whole(value) and isinstance(node.op, ast.USub | ast.UAdd):
            return NUMBER
        return value if isinstance(value, Tensor) else PLAIN if isinstance(value, Plain) else UNTOLD_VALUE

    def _either(self, node: ast.IfExp, environment: Environment) -> Any:
        self.value(node.test, environment)
        truth = self._truth(node.test, environment)
        if truth is not None:
            return self.value(node.body if truth else node.orelse, environment)
        ways = [environment, environment]
        tensor, denied = _asks_for_tensor(node.test)
        if isinstance(environment.get(tensor), Given):
            ways[denied] = environment | {tensor: _as_tensor(environment[tensor])}
        return joined([self.value(node.body, ways[0]), self.value(node.orelse, ways[1])])

    def _bool(self, node: ast.BoolOp, environment: Environment) -> Any:
        values = [self.value(each, environment) for each in node.values]
        devices = [each.where for each in values if isinstance(each, Device)]
        if devices and isinstance(node.op, ast.Or):
            return Device(any_of([*devices, *([NOWHERE] if len(devices) < len(values) else [])]))
        return PLAIN if all(isinstance(each, Plain) for each in values) else UNTOLD_VALUE

    def _give_part(self, environment: Environment, owner: str, name: str, value: Any) -> None:
        """`owner.name = value`; objects of named attributes, and what parts of the module gave, keep it."""
        before = environment.get(owner)
        part = isinstance(before, Tensor) and before.where.kind == "part"
        if (part or isinstance(before, Record)) and self._is_own_record(owner):
            record = before if isinstance(before, Record) else Record((), before)
            environment[owner] = record.given(name, _alone(value))
        elif isinstance(before, Record):
            environment[owner] = UNTOLD_VALUE
        else:
            if self.deep:
                _forget_parts(environment, f"{owner}.{name}")
            environment[f"{owner}.{name}"] = _alone(value)

    def _give_data(self, owner: ast.expr, value: Any, environment: Environment) -> None:
        """`owner.data = value` sends a tensor elsewhere, under all its names."""
        before = self.value(owner, environment)
        if not isinstance(before, Tensor):
            _forget_aliases(environment, before)
            return
        if before.where.kind not in ("literal", "default", "same") or len(before.where.of) > 1:
            _forget_aliases(environment, None)  # one of several, and nobody knows which
        _forget_place(environment, before.where)
        match owner:
            case ast.Name(id=name):
                key = name
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                key = f"{name}.{attr}"
            case _:
                self.sent.add(ast.unparse(owner))
                return
        where = value.where if isinstance(value, Tensor) else NOWHERE
        environment[key] = replace(before, where=where, made=None, scalar=None, sized=False, rank=0)

    def _give_entry(self, target: ast.Subscript, value: Any, environment: Environment) -> None:
        """`owner["name"] = value`, of a dictionary that no function inside this one has."""
        entry, owner = _entry(target), target.value
        if not isinstance(owner, ast.Name):
            return
        if not entry:  # any of them
            _forget_entries(environment, [owner.id])
        else:
            environment[entry] = _alone(value) if self._is_own_table(owner.id) else UNTOLD_VALUE

    def _is_own_table(self, name: str) -> bool:
        if self.tables is None:
            self.tables = own_tables(self.body)
        return name in self.tables

    def _is_own_record(self, name: str) -> bool:
        if self.records is None:
            self.records = own_records(self.body)
        return name in self.records

    def _items(self, node: ast.Tuple | ast.List, environment: Environment) -> Any:
        starred = [number for number, each in enumerate(node.elts) if isinstance(each, ast.Starred)]
        if starred:
            values = [
                _alone(self.value(each.value if isinstance(each, ast.Starred) else each, environment))
                for each in node.elts
            ]
            return Spread(tuple(values[: starred[0]]), tuple(values[starred[-1] + 1 :]))
        return Items(tuple(_alone(self.value(each, environment)) for each in node.elts))

    def _dict(self, node: ast.Dict, environment: Environment) -> Any:
        parts: dict[str, Any] = {}
        told = True
        for key, each in zip(node.keys, node.values, strict=True):
            value = self.value(each, environment)
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                parts[key.value] = _alone(value)
            else:
                told = False
                if key is not None:
                    self.value(key, environment)
        return Entries(tuple(parts.items())) if told else UNTOLD_VALUE

    def _subscript(self, node: ast.Subscript, environment: Environment) -> Any:
        owner, index = self.value(node.value, environment), self.value(node.slice, environment)
        if (entry := _entry(node)) in environment:
            return environment[entry]
        if isinstance(owner, Tensor):
            self._indexed(node, owner, index)
            self._has_parts(node, owner, environment)
            left = owner.rank - _taken(node.slice)
            kept = left > 0 or _keeps_dimensions(node.slice, owner.scalar is False)
            return Tensor(owner.where, False if kept else None, owner.made, owner.role)
        if isinstance(owner, Entries):
            known = isinstance(index, Plain) and index.known
            return dict(owner.parts).get(index.value, UNTOLD_VALUE) if known else UNTOLD_VALUE
        if isinstance(owner, Listed) and isinstance(node.slice, ast.Slice):
            return owner
        if isinstance(owner, Listed) and isinstance(index, Plain):
            return owner.part
        if isinstance(owner, Given):
            return owner
        if isinstance(owner, Items) and isinstance(index, Plain) and isinstance(index.value, int):
            if index.known and -len(owner.parts) <= index.value < len(owner.parts):
                return owner.parts[index.value]
        if owner == SIZE and not isinstance(node.slice, ast.Slice):
            return NUMBER
        if owner == SIZE and _leaves_some(node.slice):
            return SIZE
        return PLAIN if isinstance(owner, Plain) and not owner.known else UNTOLD_VALUE

    def _has_parts(self, node: ast.Subscript, owner: Tensor, environment: Environment) -> None:
        """A tensor that is indexed by a number or a slice has dimensions."""
        if owner.scalar is None and isinstance(node.value, ast.Name) and _takes_part(node.slice):
            environment[node.value.id] = replace(owner, scalar=False)

    def _indexed(self, node: ast.Subscript, owner: Tensor, index: Any) -> None:
        parts = index.parts if isinstance(index, Items) else (index,)
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        found = [(each, part) for each, part in zip(nodes, parts, strict=False) if isinstance(part, Tensor)]
        if found:
            self.told.meetings.append(Meeting(node, ((node.value, owner), *found), True))

    def _walrus(self, node: ast.NamedExpr, environment: Environment) -> Any:
        value = self.value(node.value, environment)
        self.assign(node.target, value, environment)
        return value

    def _plain(self, node: ast.expr, environment: Environment) -> Any:
        return PLAIN

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, environment: Environment
    ) -> Any:
        own = dict(environment)
        for generator in node.generators:
            items = self.value(generator.iter, own)
            self.assign(generator.target, _item(items), own)
            for test in generator.ifs:
                self.value(test, own)
        return Listed(_alone(self.value(node.elt, own)), True)

    def _lambda(self, node: ast.Lambda, environment: Environment) -> Any:
        """A function without a name, as one that returns its expression."""
        if id(node) not in self.reader.lambdas:
            body = ast.copy_location(ast.Return(node.body), node)
            made = ast.FunctionDef("<lambda>", node.args, [body], [])
            self.reader.lambdas[id(node)] = ast.copy_location(made, node)
        return Local(self.reader.lambdas[id(node)], self.source, None, self)

    def _starred(self, node: ast.Starred, environment: Environment) -> Any:
        self.value(node.value, environment)
        return UNTOLD_VALUE


@lru_cache(maxsize=4096)
def _is_only_passed_on(function: Function, name: str) -> bool:
    """Whether a function does nothing else with its `**name` than give it to others."""
    inside = nodes(function)
    used = sum(isinstance(each, ast.Name) and each.id == name for each in inside)
    passed = sum(
        isinstance(each, ast.keyword)
        and each.arg is None
        and isinstance(each.value, ast.Name)
        and each.value.id == name
        for each in inside
    )
    return used == passed


@lru_cache(maxsize=4096)
def makes_something(function: Function) -> bool:
    """Whether a function makes a tensor without a device and gives one back."""
    inside = nodes(function)
    gives = any(isinstance(each, ast.Return) and each.value is not None for each in inside)
    return gives and any(
        isinstance(each, ast.Call)
        and called(each) in MAKERS
        and all(keyword.arg != "device" for keyword in each.keywords)
        for each in inside
    )


def _lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno


def _given_last(body: Sequence[ast.stmt]) -> set[str]:
    """The names that only the last of some statements gives a value, when nothing of it can fail any more."""
    match body[-1]:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return {name} - _stored_in(body[:-1]) - _stored(value)
    return set()


def _asks_flag(test: ast.expr) -> set[str]:
    """The name that a condition is, or denies."""
    match test:
        case ast.Name(id=name) | ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return {name}
    return set()


def _stored_in(body: Sequence[ast.stmt]) -> set[str]:
    return {name for each in body for name in _stored(each)}


def _no_tensor(test: ast.expr) -> str:
    """The name of what is no tensor where a condition holds, by its class."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
            return name if "Tensor" not in ast.unparse(kind) else ""
        case ast.UnaryOp(
            op=ast.Not(), operand=ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind])
        ):
            return name if "Tensor" in ast.unparse(kind) else ""
    return ""


def _asks_for_tensor(test: ast.expr) -> tuple[str, bool]:
    """The name of what is a tensor where a condition holds; or, the second, where it does not hold."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
            return (name, False) if ast.unparse(kind) in ("Tensor", "torch.Tensor") else ("", False)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="is_tensor"), args=[ast.Name(id=name)]
        ):
            return name, False
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            name, denied = _asks_for_tensor(inner)
            return (name, not denied) if name else ("", False)
        case ast.BoolOp(op=ast.And(), values=values):
            asked = [_asks_for_tensor(each) for each in values]
            return next(((name, False) for name, denied in asked if name and not denied), ("", False))
    return "", False


def _may_be_tensor(kind: str) -> bool | None:
    """Whether a tensor is of a class by its name; None where that is not told."""
    names = {each.strip(" ()").rpartition(".")[2] for each in kind.replace("|", ",").split(",")} - {""}
    return False if names <= _NO_TENSORS else None


_SURE = ("made", "parameter", "buffer", "attribute")
_NO_TENSORS = frozenset(
    "ndarray dict list tuple str int float bool bytes set Mapping Sequence Module Path PathLike".split()
)


def _asks_for_none(test: ast.expr) -> tuple[str, bool]:
    """The name that a condition compares with None, and whether it asks that it is something else."""
    match test:
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as how], comparators=[ast.Constant(None)]
        ):
            return name, isinstance(how, ast.IsNot)
    return "", False


def _as_tensor(given: Given) -> Tensor:
    return Tensor(same(given.symbol), None, None, "argument")


def _is_choice(test: ast.expr) -> bool:
    """Whether a condition compares something with a word."""
    match test:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=str())]):
            return True
    return False


def _is_stray(value: Any) -> bool:
    return isinstance(value, Tensor) and value.made is not None and value.where.unplaced


def _on_host(tensor: Tensor) -> bool:
    return tensor.where.unplaced


def _item(items: Any) -> Any:
    """What a loop gets of what it goes through."""
    match items:
        case Tensor():
            return Tensor(items.where, None, items.made, items.role)
        case Items(parts=parts) if parts:
            return joined(parts)
        case Listed(part=part) if part is not EMPTY:
            return part
        case Given():
            return items
    return UNTOLD_VALUE


def _as_mask(value: Any) -> Any:
    """The same as a mask; what was made here stays known for that."""
    if isinstance(value, Tensor) and value.role not in ("made", "attribute"):
        return Tensor(value.where, value.scalar, value.made, "mask")
    return value


def _spread_part(value: Spread, number: int, count: int) -> Any:
    """What a target gets of a tuple of unknown length that is taken apart into so many."""
    if number < len(value.before):
        return value.before[number]
    late = number - (count - len(value.after))
    return value.after[late] if late >= 0 else UNTOLD_VALUE


def _without_host(values: list[Any]) -> list[Any]:
    """Values that differ, without telling of the ones on the host."""
    if all(each is values[0] or each == values[0] for each in values):
        return values
    return [UNTOLD_VALUE if isinstance(each, Tensor) and each.where.unplaced else each for each in values]


def _stored(node: ast.AST) -> set[str]:
    """The names that a statement gives a value, wherever in it."""
    found: set[str] = set()
    for each in nodes(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store | ast.Del):
            found.add(each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            if isinstance(each.value, ast.Name):
                found.add(f"{each.value.id}.{each.attr}")
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            found |= {_entry(each)} - {""}
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(each.name)
    return found


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(_decorator(each) == "dataclass" for each in node.decorator_list)


_MAKING = ("__init__", "__post_init__", "__getattr__", "__getattribute__", "__setattr__")
"""Methods by which a dataclass makes something else of what it is given."""


def _is_field(node: ast.stmt) -> TypeGuard[Any]:
    """Whether a statement of a class is a field of a dataclass."""
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


def _forget_record(environment: Environment, node: ast.expr) -> None:
    """What a name stands for that is handed on, where it is an object of named attributes."""
    inner = node.value if isinstance(node, ast.Starred) else node
    if isinstance(inner, ast.Name) and isinstance(environment.get(inner.id), Record):
        environment[inner.id] = UNTOLD_VALUE


def _entry(node: ast.Subscript) -> str:
    """What an entry of a dictionary is called among the names: `state["sum"]`; empty for anything else."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key)):
            return f"{name}[{key!r}]"
    return ""


_ASK_ENTRIES = frozenset(("get", "keys", "items", "values", "len", "isinstance"))
"""Methods and functions that leave a dictionary as it is."""


def _handed_on(node: ast.Call) -> list[str]:
    """The names whose entries a call may change."""
    if called(node) in _ASK_ENTRIES:
        return []
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    given = (owner, *node.args, *(each.value for each in node.keywords))
    return [each.id for each in given if isinstance(each, ast.Name)]


def _forget_aliases(environment: Environment, sent: Any) -> None:
    """What may be another name of something that is sent elsewhere: that argument, or else every tensor and
    argument.
    """
    if isinstance(sent, Given):
        environment[sent.symbol] = UNTOLD_VALUE
    for name, value in environment.items():
        if value == sent or (not isinstance(sent, Given) and isinstance(value, Tensor | Given)):
            environment[name] = Tensor(NOWHERE) if isinstance(value, Tensor) else UNTOLD_VALUE


def _forget_place(environment: Environment, where: Where) -> None:
    """Tensors of a place that may be one which is sent elsewhere."""
    for name, value in environment.items():
        if isinstance(value, Tensor) and value.where == where:
            environment[name] = Tensor(NOWHERE)


@lru_cache(maxsize=4096)
def sends_given(function: Function) -> bool:
    """Whether a function gives tensors other data, so that they may be elsewhere after it."""
    return any(
        isinstance(each, ast.Attribute) and each.attr == "data" and isinstance(each.ctx, ast.Store)
        for each in nodes(function)
    )


def _alone(value: Any) -> Any:
    """What something is where others may get at it, too: of a dictionary nothing is told any more."""
    return UNTOLD_VALUE if isinstance(value, Entries) else value


def own_tables(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Names of a function's dictionaries that are only asked for entries and methods, given entries, handed
    on in calls and given back: no other name stands for them, and nothing holds them.
    """
    used = {node.id: 0 for each in body for node in nodes(each) if isinstance(node, ast.Name)}
    fine: dict[str, int] = {}
    for node in (each for statement in body for each in nodes(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used[node.id] += 1
        for name in _uses_of_a_table(node):
            fine[name] = fine.get(name, 0) + 1
    return frozenset(name for name in used if used[name] == fine.get(name, 0)) - _inner_names(body)


_HOLDERS = frozenset("append extend insert add setdefault update appendleft put push setattr partial".split())
"""Methods and functions that keep what they are given."""


def _uses_of_a_table(node: ast.AST) -> list[str]:
    match node:
        case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)):
            return [name]
        case ast.Return(value=ast.Name(id=name)) | ast.For(iter=ast.Name(id=name)):
            return [name]
        case ast.Call() if called(node) not in _HOLDERS and not called(node)[:1].isupper():
            given = [*node.args, *(each.value for each in node.keywords)]
            return [each.id for each in given if isinstance(each, ast.Name)]
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]):
            return [name]
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()]):
            return [name]
    return []


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as it is written; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _forget_parts(environment: Environment, name: str) -> None:
    """The parts of what a name stood for before."""
    for each in [other for other in environment if other.startswith(f"{name}.")]:
        del environment[each]


def _forget_entries(environment: Environment, names: Iterable[str]) -> None:
    for name in names:
        for each in [other for other in environment if other.startswith(f"{name}[")]:
            environment[each] = UNTOLD_VALUE


def _makes_generator(node: Function) -> bool:
    decorated = any(_decorator(each) not in TRANSPARENT for each in node.decorator_list)
    return (
        decorated
        or isinstance(node, ast.AsyncFunctionDef)
        or any(isinstance(each, ast.Yield | ast.YieldFrom) for each in nodes(node))
    )


def _only_calls(decorator: ast.FunctionDef) -> bool:
    """Whether a decorator gives a function that gives what the decorated one gives for the same arguments."""
    given = [each.arg for each in decorator.args.args]
    inner = {each.name: each for each in decorator.body if isinstance(each, ast.FunctionDef)}
    last = decorator.body[-1]
    if len(given) != 1 or not (isinstance(last, ast.Return) and isinstance(last.value, ast.Name)):
        return False
    wrapper = inner.get(last.value.id)
    if wrapper is None:
        return False
    stored = _stored(wrapper)
    names = [each.arg for each in (*wrapper.args.posonlyargs, *wrapper.args.args)]
    names += [wrapper.args.vararg.arg] if wrapper.args.vararg is not None else []
    returned = [each.value for each in nodes(wrapper) if isinstance(each, ast.Return)]
    return bool(returned) and all(
        isinstance(each, ast.Call) and called(each) == given[0] and _hands_on(each, names, stored)
        for each in returned
    )


def _hands_on(call: ast.Call, names: Sequence[str], stored: set[str]) -> bool:
    """Whether a call is given the parameters of the function around it, in their order and as they came."""
    parts = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
    handed = [each.id if isinstance(each, ast.Name) else "" for each in parts]
    named = [each for each in call.keywords if each.arg is not None]
    return (
        handed == list(names[: len(handed)])
        and stored.isdisjoint(handed)
        and all(
            isinstance(each.value, ast.Name) and each.value.id == each.arg and each.arg not in stored
            for each in named
        )
    )


def _decorator(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]


def _keeps_dimensions(index: ast.expr, large: bool) -> bool:
    """Whether what an index gives has dimensions: a slice leaves one, `None` adds one."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(
        isinstance(each, ast.Slice) or (isinstance(each, ast.Constant) and each.value is None)
        for each in parts
    ):
        return True
    return large and all(isinstance(each, ast.Constant) and each.value is ... for each in parts)


def _taken(index: ast.expr) -> int:
    """How many dimensions an index may take away."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    kept = [
        each
        for each in parts
        if isinstance(each, ast.Slice) or (isinstance(each, ast.Constant) and each.value in (None, ...))
    ]
    return len(parts) - len(kept)


def _takes_part(index: ast.expr) -> bool:
    """Whether an index is one that only a tensor with dimensions has: it has a number or a slice in it."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(
        isinstance(each, ast.Slice) or (isinstance(each, ast.Constant) and type(each.value) is int)
        for each in parts
    )


def _leaves_some(index: ast.expr) -> bool:
    """Whether an index is `:n` or `-n:`, of a written number that is not 0, or of all."""
    match index:
        case ast.Slice(
            lower=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as count)),
            upper=None,
            step=None,
        ):
            return count > 0
        case ast.Slice(lower=None, upper=ast.Constant(value=int() as count), step=None):
            return count > 0
    return False


def picks(index: Any) -> bool:
    """Whether an index is a tensor that picks several parts, and no number."""
    return isinstance(index, Tensor) and (index.scalar is False or index.role == "mask")


def _is_method(name: str) -> bool:
    return any(name in row for row in METHODS.values()) or name in ("to", "cuda", "cpu", "type_as")


def _is_static(function: Function) -> bool:
    return any(_decorator(each) in ("staticmethod", "classmethod") for each in function.decorator_list)


def asks_for_device(test: ast.expr) -> bool:
    """Whether a condition is about devices, by the attributes and functions that it names."""
    match test:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(None)]):
            return False
    named = (
        each.attr if isinstance(each, ast.Attribute) else each.id if isinstance(each, ast.Name) else ""
        for each in nodes(test)
    )
    return any(
        name in _OTHER_QUESTIONS or any(word in name for word in ("device", "cuda", "gpu")) for name in named
    )


_OTHER_QUESTIONS = frozenset(("is_available", "is_cpu", "is_mps"))


def own_lists(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Names of a function's lists that are only appended to, gone through, joined and given back: nobody
    else can put anything into them while the function runs.
    """
    given: set[str] = set()
    used: dict[str, int] = {}
    fine: dict[str, int] = {}
    for node in (each for statement in body for each in nodes(statement)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used[name] = used.get(name, 0) + 1
                continue
            case ast.Assign(targets=[ast.Name(id=name)]):
                given.add(name)
                continue
            case ast.AugAssign(target=ast.Name(id=name)):
                used[name] = used.get(name, 0) + 1
        for name in _uses_that_add_nothing(node):
            fine[name] = fine.get(name, 0) + 1
    return frozenset(name for name in given if used.get(name, 0) == fine.get(name, 0))


def _is_of_torch(node: ast.expr, source: SourceText) -> bool:
    """Whether an expression is a call of torch's that gives a tuple, which nobody can change."""
    return isinstance(node, ast.Call) and source.dotted(node.func).startswith("torch.")


_JOINERS = frozenset(
    "cat stack concat concatenate hstack vstack tensor as_tensor len zip enumerate tuple".split()
)


def _inner_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """The names in functions, classes and lambdas of a body."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    inner = (node for each in body for node in nodes(each) if isinstance(node, kinds))
    return frozenset(each.id for node in inner for each in nodes(node) if isinstance(each, ast.Name))


def own_records(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Names of a function's objects that are only asked for attributes, given ones, handed on in calls, and
    given back: nobody else can change their attributes unseen.
    """
    used = {name: 0 for statement in body for name in _stored(statement)}
    fine: dict[str, int] = {}
    for node in (each for statement in body for each in nodes(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used[node.id] = used.get(node.id, 0) + 1
        for name in _plain_uses(node):
            fine[name] = fine.get(name, 0) + 1
    return frozenset(name for name in used if used[name] == fine.get(name, 0)) - _inner_names(body)


def _plain_uses(node: ast.AST) -> list[str]:
    """The names that a node uses as `name.part`, hands on in a call or gives back."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=part):
            return [] if part.startswith("__") else [name]
        case ast.Call():
            given = [*node.args, *(each.value for each in node.keywords)]
            return [each.id for each in given if isinstance(each, ast.Name)]
        case ast.Return(value=ast.Name(id=name)):
            return [name]
    return []


def _uses_that_add_nothing(node: ast.AST) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend")):
            return [name]
        case ast.Call(func=called_, args=args) if called(called_) in _JOINERS:
            return [each.id for each in args if isinstance(each, ast.Name)]
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Load()):
            return [name]
        case ast.For(iter=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)):
            return [name]
        case ast.Return(value=ast.Name(id=name)):
            return [name]
    return []


def _may_change_default(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return ("device" in text and "cuda.device" not in text) or "init_empty" in text


_PLAIN_TYPES = frozenset(("int", "float", "bool", "str"))
_LENIENT = frozenset(("CTCLoss",))
"""Losses that move their targets themselves."""
_CURRENT = literal("cuda")
_NUMBERS, _SAME = ATTRIBUTES["numbers"], ATTRIBUTES["same"]
_FREE, _PLACED = MODULES["free"], MODULES["placed"]
_STATEMENTS: dict[type, Callable[[_Run, Any, Environment], None]] = {
    ast.Expr: _Run._expr,
    ast.Assign: _Run._assignment,
    ast.AnnAssign: _Run._annotated,
    ast.AugAssign: _Run._augmented,
    ast.Return: _Run._return,
    ast.Raise: _Run._raise,
    ast.Break: _Run._leave,
    ast.Continue: _Run._leave,
    ast.If: _Run._if,
    ast.For: _Run._for,
    ast.AsyncFor: _Run._for,
    ast.While: _Run._while,
    ast.With: _Run._with,
    ast.AsyncWith: _Run._with,
    ast.Try: _Run._try,
    ast.TryStar: _Run._try,
    ast.Match: _Run._match,
    ast.FunctionDef: _Run._define,
    ast.AsyncFunctionDef: _Run._forget,
    ast.ClassDef: _Run._define_class,
    ast.Global: _Run._forget,
    ast.Nonlocal: _Run._forget,
    ast.Delete: _Run._forget,
    ast.Import: _Run._import,
    ast.ImportFrom: _Run._import,
}
_EXPRESSIONS: dict[type, Callable[[_Run, Any, Environment], Any]] = {
    ast.Constant: _Run._constant,
    ast.Name: _Run._name,
    ast.Attribute: _Run._attribute,
    ast.Call: _Run._call,
    ast.BinOp: _Run._binary,
    ast.Compare: _Run._compare,
    ast.UnaryOp: _Run._unary,
    ast.IfExp: _Run._either,
    ast.BoolOp: _Run._bool,
    ast.Tuple: _Run._items,
    ast.List: _Run._items,
    ast.Dict: _Run._dict,
    ast.Subscript: _Run._subscript,
    ast.NamedExpr: _Run._walrus,
    ast.JoinedStr: _Run._plain,
    ast.ListComp: _Run._comprehension,
    ast.SetComp: _Run._comprehension,
    ast.GeneratorExp: _Run._comprehension,
    ast.Starred: _Run._starred,
    ast.Lambda: _Run._lambda,
}
