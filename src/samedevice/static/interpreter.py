"""Reading a script as one rank would run it, without running it.

Statements are taken in order with the values that can be told: constants, options, the launch's environment.
A condition that can be told takes one branch; one that cannot takes both, and what happens there is marked
`maybe`. Loops are read once, functions of the user's own files are entered, libraries are a table
(`_library`). Steps and depth are bounded, so every input ends.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from samedevice.provenance.syntax import tree_of
from samedevice.static.arguments import fill_dataclass
from samedevice.static.files import LARGEST
from samedevice.static.library import call_library, library_attribute, placement_of
from samedevice.static.process import Process
from samedevice.static.python import (
    binary,
    call_builtin,
    compare,
    subscript,
    truth,
)
from samedevice.static.reader import Frame, Stopped
from samedevice.static.start import Start
from samedevice.static.values import (
    UNKNOWN,
    Bound,
    Checkpoint,
    Class,
    Device,
    External,
    Fact,
    Function,
    Instance,
    LocalModule,
    Model,
    Optimizer,
    Origin,
    Parameters,
    Table,
    Tensor,
    Text,
    device_of,
)

_MOST_STEPS = 250_000
_DEEPEST = 24
_MOST_FILES = 200
_ENTRIES = ("main", "train", "run", "cli_main", "training_function", "finetune", "sft", "run_exp")


class Exhausted(Exception):
    """More steps than any sensible script has."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Break(Exception):
    pass


def facts_of(start: Start, script: Path, package_root: Path | None = None) -> list[Fact]:
    """Every fact of a program that starts so, in order."""
    return Interpreter(Process(start)).run(script, package_root)


class Interpreter:
    """One rank's reading of a program."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.modules: dict[Path, LocalModule] = {}
        self.facts: list[Fact] = []
        self.roots: list[Path] = []
        self.entered: set[int] = set()
        self._steps = 0
        self._depth = 0
        self._maybe = 0

    # Programs and files

    def run(self, script: Path, package_root: Path | None = None) -> list[Fact]:
        """Every fact of a program, in order."""
        self.roots = _roots(script, package_root)
        module = self.load(script, "__main__")
        if module is None:
            return self.facts
        try:
            self._block(module.tree.body, Frame(module, module.scope))
            if not any(fact.kind in ("load", "wrap", "trainer", "prepare") for fact in self.facts):
                self._enter_uncalled(module)
        except (Stopped, Exhausted, _Return, _Break, RecursionError):
            pass
        return self.facts

    def load(self, file: Path, name: str) -> LocalModule | None:
        """A file parsed once; None when it cannot be."""
        path = file.resolve()
        if path in self.modules:
            return self.modules[path]
        if len(self.modules) >= _MOST_FILES:
            return None
        try:
            found = path.stat()
        except OSError:
            return None
        parsed = _parsed(path, found.st_size, found.st_mtime_ns)
        if parsed is None:
            return None
        module = LocalModule(name, file, *parsed)
        module.package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        module.scope["__name__"] = name
        module.scope["__file__"] = str(file)
        self.modules[path] = module
        return module

    def _enter_uncalled(self, module: LocalModule) -> None:
        """When the entry is hidden from reading, its likely functions are read as called.

        A decorator or a command-line library hides it.
        """
        functions = [
            each
            for each in module.scope.values()
            if isinstance(each, Function)
            and isinstance(each.node, ast.FunctionDef)
            and id(each.node) not in self.entered
        ]
        named = [
            each
            for each in functions
            if isinstance(each.node, ast.FunctionDef) and each.node.name in _ENTRIES
        ]
        for function in named or functions:
            if id(function.node) in self.entered:
                continue
            self._guarded(
                lambda function=function: self.call(
                    function, [], {}, function.node, Frame(module, module.scope)
                )
            )

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except (Stopped, _Return, _Break):
            return UNKNOWN

    # Facts

    def note(self, kind: str, node: ast.AST, frame: Frame, **values: Any) -> None:
        """Something happened."""
        process = self.process
        placed = values.get("placement") if kind == "load" else None
        device = (
            values.get("device")
            if kind in ("move", "use")
            else device_of(placed.devices[0])
            if placed and placed.kind == "device"
            else None
        )
        values["world"] = process.world
        values["spawned"] = process.spawned
        values["gpus"] = process.gpus
        if isinstance(device, Device) and device.type == "cuda" and process.world > 1:
            values["own"], values["gpu"] = process.own(device.index), process.gpu(device.index)
        if kind == "trainer":
            values["placement"] = placement_of(values.get("model"))
        self.facts.append(Fact(kind, frame.module.file, node, values, self._maybe > 0))

    # Statements

    def _block(self, statements: Iterable[ast.stmt], frame: Frame) -> None:
        for statement in statements:
            self._statement(statement, frame)

    # Long, as Python has so many kinds of statements and each needs its line or two.
    def _statement(self, node: ast.stmt, frame: Frame) -> None:
        # Long: a case for each kind of statement.
        self._step()
        match node:
            case ast.Expr():
                self.value(node.value, frame)
            case ast.Assign():
                value = self.value(node.value, frame)
                for target in node.targets:
                    self._assign(target, value, frame)
            case ast.AnnAssign():
                if node.value is not None:
                    self._assign(node.target, self.value(node.value, frame), frame)
            case ast.AugAssign():
                left = self.value(node.target, frame)
                self._assign(node.target, binary(node.op, left, self.value(node.value, frame)), frame)
            case ast.If():
                self._if(node, frame)
            case ast.For() | ast.AsyncFor():
                self._for(node, frame)
            case ast.While():
                self._loop(node.body, frame)
            case ast.With() | ast.AsyncWith():
                self._with(node, frame)
            case ast.Try() | ast.TryStar():
                self._try(node, frame)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                frame.locals[node.name] = self._decorated(node, frame)
            case ast.ClassDef():
                frame.locals[node.name] = self._class(node, frame)
            case ast.Return():
                raise _Return(self.value(node.value, frame) if node.value is not None else None)
            case ast.Raise():
                raise Stopped
            case ast.Import() | ast.ImportFrom():
                self._import(node, frame)
            case ast.Global():
                for name in node.names:
                    frame.locals.pop(name, None)
                    frame.locals.setdefault("__globals__", set()).add(name)
            case ast.Break() | ast.Continue():
                raise _Break
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        frame.locals.pop(target.id, None)
            case ast.Match():
                self.value(node.subject, frame)
                self._either([case.body for case in node.cases], frame)
            case _:
                pass

    def _if(self, node: ast.If, frame: Frame) -> None:
        verdict = truth(self.value(node.test, frame))
        if verdict is not None:
            self._block(node.body if verdict else node.orelse, frame)
            return
        self._either([node.body, node.orelse], frame)

    def _either(self, blocks: list[list[ast.stmt]], frame: Frame) -> None:
        """Each block on its own copy of the names, then both outcomes together."""
        before = dict(frame.locals)
        outcomes: list[dict[str, Any]] = []
        endings: list[Exception] = []
        for block in blocks:
            frame.locals.clear()
            frame.locals.update(before)
            self._maybe += 1
            try:
                self._block(block, frame)
            except (_Return, _Break, Stopped) as ending:
                endings.append(ending)
            else:
                outcomes.append(dict(frame.locals))
            finally:
                self._maybe -= 1
        returned = [ending.value for ending in endings if isinstance(ending, _Return)]
        if not outcomes:
            if returned:
                raise _Return(_same(returned))
            raise endings[0]
        frame.returned += returned
        frame.locals.clear()
        for name in {name for outcome in outcomes for name in outcome}:
            values = [outcome[name] for outcome in outcomes if name in outcome]
            frame.locals[name] = _same(values) if len(values) == len(outcomes) else _partial(values)

    def _for(self, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
        items = self.value(node.iter, frame)
        if isinstance(items, dict):
            items = list(items)
        if isinstance(items, (list, tuple)) and len(items) <= 16:
            for item in items:
                self._assign(node.target, item, frame)
                try:
                    self._block(node.body, frame)
                except _Break:
                    continue
            return
        item = UNKNOWN
        if isinstance(items, Parameters):
            item = items
        self._assign(
            node.target,
            (UNKNOWN, item) if isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2 else item,
            frame,
        )
        self._loop(node.body, frame)

    def _loop(self, body: list[ast.stmt], frame: Frame) -> None:
        try:
            self._block(body, frame)
        except _Break:
            pass

    def _with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> None:
        before = self.process.current
        for item in node.items:
            value = self.value(item.context_expr, frame)
            if isinstance(value, Bound) and value.name == "device-context" and isinstance(value.owner, int):
                self.process.current = value.owner
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value, frame)
        self._block(node.body, frame)
        if any("cuda.device" in ast.unparse(item.context_expr) for item in node.items):
            self.process.current = before

    def _try(self, node: ast.Try | ast.TryStar, frame: Frame) -> None:
        stopped = False
        try:
            self._block(node.body, frame)
        except Stopped:
            stopped = True
        if stopped and node.handlers:
            self._block(node.handlers[0].body, frame)
        elif stopped:
            self._block(node.finalbody, frame)
            raise Stopped
        else:
            self._block(node.orelse, frame)
        self._block(node.finalbody, frame)

    def _class(self, node: ast.ClassDef, frame: Frame) -> Class:
        bases = [self.value(base, frame) for base in node.bases]
        body: dict[str, Any] = {}
        inner = Frame(
            frame.module,
            body,
            (*frame.outer, frame.locals) if frame.locals is not frame.module.scope else frame.outer,
        )
        found = Class(node, frame.module, bases, body)
        try:
            self._block(node.body, inner)
        except (_Return, _Break, Stopped):
            pass
        for value in body.values():
            if isinstance(value, Function):
                value.home = found
        return found

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> Any:
        at_top = frame.locals is frame.module.scope
        function = Function(node, frame.module, frame.outer if at_top else (*frame.outer, frame.locals))
        for decorator in node.decorator_list:
            name = ast.unparse(decorator).partition("(")[0].rpartition(".")[2]
            if name in ("staticmethod", "classmethod", "property", "cached_property"):
                return Bound(function, name)
        return function

    # Imports

    def _import(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = self._module(alias.name)
                if alias.asname:
                    frame.locals[alias.asname] = module if module is not None else External(alias.name)
                    continue
                head = alias.name.partition(".")[0]
                top = self._module(head)
                frame.locals[head] = top if top is not None else External(head)
            return
        base = node.module or ""
        if node.level:
            package = frame.module.package.split(".") if frame.module.package else []
            kept = package[: len(package) - (node.level - 1)]
            base = ".".join([*kept, base] if base else kept)
        module = self._module(base)
        for alias in node.names:
            if alias.name == "*":
                if module is not None:
                    frame.locals.update(
                        {name: value for name, value in module.scope.items() if not name.startswith("__")}
                    )
                continue
            name = alias.asname or alias.name
            if module is not None and alias.name in module.scope:
                frame.locals[name] = module.scope[alias.name]
                continue
            inner = self._module(f"{base}.{alias.name}" if base else alias.name)
            frame.locals[name] = (
                inner
                if inner is not None
                else External(f"{base}.{alias.name}")
                if module is None
                else UNKNOWN
            )

    def _module(self, dotted: str) -> LocalModule | None:
        """A module of the user's own, read when it is first imported."""
        if not dotted:
            return None
        for root in self.roots:
            stem = root.joinpath(*dotted.split("."))
            for file in (stem.with_suffix(".py"), stem / "__init__.py"):
                if not file.is_file() or "site-packages" in file.parts:
                    continue
                known = file.resolve() in self.modules
                module = self.load(file, dotted)
                if module is not None and not known:
                    self._guarded(
                        lambda module=module: self._block(module.tree.body, Frame(module, module.scope))
                    )
                return module
        return None

    # Assignment

    def _assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        match target:
            case ast.Name():
                if target.id in frame.locals.get("__globals__", ()):
                    frame.module.scope[target.id] = value
                else:
                    frame.locals[target.id] = value
            case ast.Tuple() | ast.List():
                values = (
                    list(value)
                    if isinstance(value, (list, tuple)) and len(value) == len(target.elts)
                    else None
                )
                for index, each in enumerate(target.elts):
                    item = (
                        values[index]
                        if values is not None
                        else value
                        if isinstance(value, (Tensor, Checkpoint))
                        else UNKNOWN
                    )
                    self._assign(each.value if isinstance(each, ast.Starred) else each, item, frame)
            case ast.Attribute():
                owner = self.value(target.value, frame)
                if isinstance(owner, Instance):
                    owner.attributes[target.attr] = value
                elif isinstance(owner, LocalModule):
                    owner.scope[target.attr] = value
                elif isinstance(owner, Class):
                    owner.attributes[target.attr] = value
                elif isinstance(owner, Model):
                    self.process.model_attribute(owner, target.attr, value)
            case ast.Subscript():
                owner, key = self.value(target.value, frame), self.value(target.slice, frame)
                if isinstance(owner, dict) and isinstance(key, (str, int, bool)):
                    owner[key] = value
                elif isinstance(owner, External) and owner.name == "os.environ" and isinstance(key, str):
                    self.process.set_variable(key, value)
                elif isinstance(owner, list) and isinstance(key, int) and -len(owner) <= key < len(owner):
                    owner[key] = value
            case _:
                pass

    # Expressions

    # Long, as Python has so many kinds of expressions and each needs its line or two.
    def value(self, node: ast.expr, frame: Frame) -> Any:
        """What an expression stands for."""
        # Long: a case for each kind of expression.
        self._step()
        match node:
            case ast.Constant():
                if isinstance(node.value, str):
                    return Text(node.value, Origin(frame.module.file, node.lineno, node))
                return node.value
            case ast.Name():
                return frame.find(node.id)
            case ast.Attribute():
                return self.attribute(self.value(node.value, frame), node.attr, node, frame)
            case ast.Call():
                return self._call(node, frame)
            case ast.Dict():
                return self._dict(node, frame)
            case ast.Tuple():
                return tuple(self._elements(node.elts, frame))
            case ast.List() | ast.Set():
                return self._elements(node.elts, frame)
            case ast.BoolOp():
                return self._bool(node, frame)
            case ast.UnaryOp():
                return self._unary(node, frame)
            case ast.BinOp():
                left, right = self.value(node.left, frame), self.value(node.right, frame)
                self.meet([left, right], node, frame)
                return binary(node.op, left, right)
            case ast.Compare():
                left = self.value(node.left, frame)
                result: Any = True
                for operator, right_node in zip(node.ops, node.comparators, strict=True):
                    right = self.value(right_node, frame)
                    result = compare(operator, left, right, self.process)
                    if result is not True:
                        return result
                    left = right
                return result
            case ast.IfExp():
                verdict = truth(self.value(node.test, frame))
                if verdict is None:
                    return _same([self.value(node.body, frame), self.value(node.orelse, frame)])
                return self.value(node.body if verdict else node.orelse, frame)
            case ast.JoinedStr():
                return self._joined(node, frame)
            case ast.Subscript():
                return subscript(self.value(node.value, frame), self._slice(node.slice, frame), self.process)
            case ast.NamedExpr():
                value = self.value(node.value, frame)
                self._assign(node.target, value, frame)
                return value
            case ast.Lambda():
                return Function(node, frame.module, (*frame.outer, frame.locals))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(node, frame)
            case ast.DictComp():
                return self._dict_comprehension(node, frame)
            case ast.Await() | ast.Starred():
                return self.value(node.value, frame)
            case ast.Yield() | ast.YieldFrom():
                if node.value is not None:
                    self.value(node.value, frame)
                return UNKNOWN
            case _:
                return UNKNOWN

    def _slice(self, node: ast.expr, frame: Frame) -> Any:
        if isinstance(node, ast.Slice):
            parts = [
                None if each is None else self.value(each, frame)
                for each in (node.lower, node.upper, node.step)
            ]
            return slice(*parts) if all(part is None or isinstance(part, int) for part in parts) else UNKNOWN
        return self.value(node, frame)

    def _elements(self, nodes: list[ast.expr], frame: Frame) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            value = self.value(node, frame)
            if isinstance(node, ast.Starred) and isinstance(value, (list, tuple)):
                found += value
            else:
                found.append(value)
        return found

    def _dict(self, node: ast.Dict, frame: Frame) -> Any:
        found = Table()
        found.origin = Origin(frame.module.file, node.lineno, node)
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node, frame)
            if key_node is None:
                if isinstance(value, dict):
                    found.update(value)
                continue
            key = self.value(key_node, frame)
            if isinstance(key, (str, int, float, bool, type(None))):
                found[key] = value
            else:
                found[id(key_node)] = UNKNOWN if isinstance(key, type(UNKNOWN)) else value
        return found

    def _bool(self, node: ast.BoolOp, frame: Frame) -> Any:
        last: Any = UNKNOWN
        untold = False
        for each in node.values:
            last = self.value(each, frame)
            verdict = truth(last)
            if verdict is None:
                untold = True
            elif verdict is isinstance(node.op, ast.Or):
                return UNKNOWN if untold and verdict is True and not isinstance(last, bool) else last
        return UNKNOWN if untold else last

    def _unary(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            verdict = truth(value)
            return UNKNOWN if verdict is None else not verdict
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return value if isinstance(value, Tensor) else UNKNOWN

    def _joined(self, node: ast.JoinedStr, frame: Frame) -> Any:
        parts: list[str] = []
        for part in node.values:
            value = self.value(part.value if isinstance(part, ast.FormattedValue) else part, frame)
            if not isinstance(value, (str, int, float, bool)):
                return UNKNOWN
            parts.append(str(value))
        return Text("".join(parts), Origin(frame.module.file, node.lineno, node))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Any:
        if len(node.generators) != 1:
            return UNKNOWN
        generator = node.generators[0]
        items = self.value(generator.iter, frame)
        inner = Frame(frame.module, {}, (*frame.outer, frame.locals))
        if isinstance(items, Parameters):
            return items
        if not isinstance(items, (list, tuple)) or len(items) > 64:
            self._assign(generator.target, UNKNOWN, inner)
            item = self.value(node.elt, inner)
            return item if isinstance(item, Parameters) else UNKNOWN
        found = []
        for item in items:
            self._assign(generator.target, item, inner)
            verdicts = [truth(self.value(test, inner)) for test in generator.ifs]
            if any(verdict is None for verdict in verdicts):
                return UNKNOWN
            if all(verdicts):
                found.append(self.value(node.elt, inner))
        return found

    def _dict_comprehension(self, node: ast.DictComp, frame: Frame) -> Any:
        items = self.value(node.generators[0].iter, frame)
        if (
            len(node.generators) != 1
            or node.generators[0].ifs
            or not isinstance(items, (list, tuple))
            or len(items) > 64
        ):
            return UNKNOWN
        found = Table()
        found.origin = Origin(frame.module.file, node.lineno, node)
        inner = Frame(frame.module, {}, (*frame.outer, frame.locals))
        for item in items:
            self._assign(node.generators[0].target, item, inner)
            key = self.value(node.key, inner)
            if not isinstance(key, (str, int, bool)):
                return UNKNOWN
            found[key] = self.value(node.value, inner)
        return found

    # Attributes and calls

    def attribute(self, owner: Any, name: str, node: ast.expr, frame: Frame) -> Any:
        """`owner.name`."""
        if isinstance(owner, External):
            return library_attribute(self, owner, name)
        if isinstance(owner, LocalModule):
            if name in owner.scope:
                return owner.scope[name]
            inner = self._module(f"{owner.name}.{name}")
            return inner if inner is not None else UNKNOWN
        if isinstance(owner, Instance):
            return self._instance_attribute(owner, name, node, frame)
        if isinstance(owner, Class):
            found = owner.find(name)
            if isinstance(found, Bound) and isinstance(found.owner, Function):
                found = Function(
                    found.owner.node,
                    found.owner.module,
                    found.owner.closure,
                    owner if found.name == "classmethod" else None,
                    owner,
                )
            return found if found is not None else Bound(owner, name)
        if isinstance(owner, type(UNKNOWN)):
            return UNKNOWN
        return Bound(owner, name)

    def _instance_attribute(self, owner: Instance, name: str, node: ast.expr, frame: Frame) -> Any:
        if name in owner.attributes:
            return owner.attributes[name]
        if isinstance(owner.kind, Class):
            found = owner.kind.find(name)
            if isinstance(found, Function):
                return Function(found.node, found.module, found.closure, owner, found.home)
            if isinstance(found, Bound) and isinstance(found.owner, Function):
                function = found.owner
                bound = Function(function.node, function.module, function.closure, owner, function.home)
                if found.name in ("property", "cached_property"):
                    return self.call(bound, [], {}, node, frame)
                if found.name == "classmethod":
                    return Function(
                        function.node, function.module, function.closure, owner.kind, function.home
                    )
                return Function(function.node, function.module, function.closure)
            if found is not None:
                return found
        given = self.process.instance_attribute(owner, name)
        return given if given is not None else Bound(owner, name)

    def _call(self, node: ast.Call, frame: Frame) -> Any:
        function = self.value(node.func, frame)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            owner = frame.function.owner if isinstance(frame.function, Function) else None
            home = frame.function.home if isinstance(frame.function, Function) else None
            return Bound((owner, home), "super") if owner is not None else UNKNOWN
        positional = self._elements(node.args, frame)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, frame)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords |= {str(key): each for key, each in value.items() if isinstance(key, str)}
            elif isinstance(value, type(UNKNOWN)):
                keywords["**"] = UNKNOWN
        return self.call(function, positional, keywords, node, frame)

    def call(
        self, function: Any, positional: list[Any], keywords: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """What a call gives; notes what it does."""
        self._step()
        if isinstance(function, Function):
            return self._enter(function, positional, keywords)
        if isinstance(function, Class):
            return self._construct(function, positional, keywords, node, frame)
        if isinstance(function, External) and function.name.startswith("builtins."):
            return call_builtin(self, function.last, positional, keywords, node, frame)
        if isinstance(function, Instance) and isinstance(function.kind, Class):
            forward = function.kind.find("forward") or function.kind.find("__call__")
            if isinstance(forward, Function):
                bound = Function(forward.node, forward.module, forward.closure, function, forward.home)
                return self._enter(bound, positional, keywords)
        if (
            isinstance(function, Bound)
            and isinstance(function.owner, tuple)
            and len(function.owner) == 2
            and function.name == "super"
        ):
            return UNKNOWN
        return call_library(self, function, positional, keywords, node, frame)

    def super_call(
        self, owner: Any, home: Any, name: str, positional: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """`super().name(...)`."""
        if isinstance(home, Class):
            for base in home.bases:
                found = base.find(name) if isinstance(base, Class) else None
                if isinstance(found, Function):
                    return self._enter(
                        Function(found.node, found.module, found.closure, owner, found.home),
                        positional,
                        keywords,
                    )
        return UNKNOWN

    def _construct(
        self, kind: Class, positional: list[Any], keywords: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        made = Instance(kind)
        special = call_library(self, kind, positional, keywords, node, frame)
        if special is not UNKNOWN:
            return special
        initial = kind.find("__init__")
        if isinstance(initial, Function):
            self._enter(
                Function(initial.node, initial.module, initial.closure, made, initial.home),
                positional,
                keywords,
            )
        else:
            fill_dataclass(made, kind, positional, keywords)
        later = kind.find("__post_init__")
        if isinstance(later, Function):
            self._guarded(
                lambda: self._enter(
                    Function(later.node, later.module, later.closure, made, later.home), [], {}
                )
            )
        return made

    def _enter(self, function: Function, positional: list[Any], keywords: dict[str, Any]) -> Any:
        """A local function, entered."""
        if self._depth >= _DEEPEST:
            return UNKNOWN
        self.entered.add(id(function.node))
        scope = self._bind(function, positional, keywords)
        frame = Frame(function.module, scope, function.closure, function)
        self._depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, frame)
            self._block(function.node.body, frame)
        except _Return as ending:
            return _same([*frame.returned, ending.value])
        except _Break:
            return UNKNOWN
        finally:
            self._depth -= 1
        return _same([*frame.returned, None])

    def _bind(self, function: Function, positional: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
        arguments = function.node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        given = [function.owner, *positional] if function.owner is not None else list(positional)
        frame = Frame(function.module, {}, function.closure)
        scope: dict[str, Any] = dict.fromkeys((*names, *(each.arg for each in arguments.kwonlyargs)), UNKNOWN)
        for name, default in zip(reversed(names), reversed(arguments.defaults), strict=False):
            scope[name] = self.value(default, frame)
        for each, default_node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default_node is not None:
                scope[each.arg] = self.value(default_node, frame)
        scope.update(zip(names, given, strict=False))
        if arguments.vararg is not None:
            scope[arguments.vararg.arg] = tuple(given[len(names) :])
        rest = Table()
        for name, value in keywords.items():
            if name in scope:
                scope[name] = value
            else:
                rest[name] = value
        if arguments.kwarg is not None:
            scope[arguments.kwarg.arg] = rest
        return scope

    # Tensors that meet

    def meet(self, values: list[Any], node: ast.AST, frame: Frame, what: str = "operands") -> None:
        """Tensors of one operation: those whose GPUs are known must be together."""
        devices = {
            str(each.device)
            for each in values
            if isinstance(each, Tensor) and each.device is not None and each.device.index is not None
        }
        if len(devices) > 1:
            self.note(
                "mismatch",
                node,
                frame,
                devices=tuple(sorted(devices)),
                what=what,
                tensors=[each for each in values if isinstance(each, Tensor)],
            )

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise Exhausted


@cache
def _parsed(path: Path, size: int, changed: int) -> tuple[str, ast.Module] | None:
    """A file's source and tree, once for all ranks; None when it cannot be read.

    Size and time of change tell a new version.
    """
    try:
        if size > LARGEST:
            return None
        source = path.read_text("utf-8-sig")
        return source, tree_of(source)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _same(values: list[Any]) -> Any:
    """The one value that all have, or nothing that can be told."""
    first, *others = values
    if all(each is first for each in others):
        return first
    if isinstance(first, (str, int, float, bool, type(None), dict, list, tuple)):
        try:
            return (
                first
                if all(type(each) is type(first) and each == first for each in others)
                else _richest(values)
            )
        except (TypeError, RecursionError):
            return UNKNOWN
    return _richest(values)


def _richest(values: list[Any]) -> Any:
    """A model, optimizer or class is worth following even when the other branch has none.

    Of two maps, neither.
    """
    objects = [each for each in values if isinstance(each, (Model, Optimizer, Instance, Checkpoint))]
    plain = [
        each
        for each in values
        if not isinstance(each, (type(None), Model, Optimizer, Instance, Checkpoint, type(UNKNOWN)))
    ]
    return objects[-1] if objects and not plain else UNKNOWN


def _partial(values: list[Any]) -> Any:
    """A name that only some branches set."""
    return (
        values[0]
        if len(values) == 1
        and isinstance(values[0], (Model, Optimizer, Instance, Function, Class, External, LocalModule))
        else UNKNOWN
    )


def _roots(script: Path, package_root: Path | None) -> list[Path]:
    """Where imports of the script's own files are looked for.

    That is its folder, and the folder above the package that it is in.
    """
    folder = script.resolve().parent
    found = [folder]
    top = folder
    while (top / "__init__.py").is_file() and top.parent != top:
        top = top.parent
    for each in (
        top,
        package_root.resolve() if package_root is not None else top,
        folder.parent / "src",
        folder / "src",
    ):
        if each not in found and each.is_dir():
            found.append(each)
    return found
