"""A file that is linted: its source, the reading of its tensors, and what kind of file it is."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from samedevice.diagnosis.fixes import Script
from samedevice.static.tensors import (
    Around,
    Call,
    ClassText,
    Entered,
    Function,
    Local,
    Meeting,
    Project,
    Reading,
    SourceText,
    Told,
    called,
    kept_names,
    making_functions,
    nodes,
)

_TEST_FOLDERS = frozenset(("test", "tests", "testing", "_test", "_tests"))
CALLERS_DECIDE = frozenset(
    "__init__ __post_init__ reset_parameters _init_weights init_weights reset_buffers _reset_parameters "
    "build initialize_weights from_config".split()
)
"""Functions that run while everything is still where it was made."""
_CALLED_BY_TORCH = frozenset("forward backward setup_context step training_step".split())
_MOVERS = frozenset(("_apply", "to", "cuda"))
_NOT_HERE = frozenset(("torch", "self", "numpy", ""))
"""Where names of other files of the project do not begin."""
_SCRIPT_SIGNS = frozenset("parse_args parse_args_into_dataclasses".split())


class LintedFile:
    """What the rules look at."""

    def __init__(self, source: SourceText, project: Project) -> None:
        self.source, self.project = source, project
        self.reading = Reading(source, project)
        self._owners: dict[int, bool] = {}
        self._assigned: dict[int, dict[str, list[ast.expr]]] = {}

    @property
    def path(self) -> Path:
        """The file."""
        return self.source.path

    @cached_property
    def is_test(self) -> bool:
        """Whether it is a test, which may do on one device what it likes."""
        name = self.path.name
        parts = self.path.parts[-6:-1]
        return (
            name.startswith("test_")
            or name.endswith("_test.py")
            or name == "conftest.py"
            or not _TEST_FOLDERS.isdisjoint(parts)
        )

    @cached_property
    def is_script(self) -> bool:
        """Whether it is a program that somebody starts, and no module of a package."""
        started = "__main__" in self.source.text or not _SCRIPT_SIGNS.isdisjoint(self.source.calls)
        return started or not self.source.package

    def told(self, around: Around) -> Told:
        """What the function around something does; what the file does, outside functions."""
        if around.function is None:
            return self.reading.of_module() if around.owner is None else Told()
        outer = self.source.enclosing(around.function)
        if outer and self._is_only_called(around.function, outer[-1]):
            return self.told(Around(outer[-1], around.owner))
        owner = None if around.owner is None else self.source.class_text(around.owner)
        return self.reading.of(around.function, owner)

    def meetings(self, around: Around) -> list[Meeting]:
        """What meets in the function around something; in a program also as it calls the function itself."""
        own = self.told(around).meetings
        if not self.is_script or around.function is None:
            return own
        return [*own, *self._entered.get(id(around.function), ())]

    def entered(self, around: Around) -> list[Entered]:
        """What meets in the functions that the function around something calls, each statement once."""
        return list({id(each.meeting.node): each for each in self.told(around).entered}.values())

    @cached_property
    def _entered(self) -> dict[int, list[Meeting]]:
        self.reading.of_module()
        return self.reading.entered

    def that_call(self, wanted: Callable[[Function], bool]) -> Iterator[Around]:
        """The functions that call one of other files of the project which is wanted."""
        return (around for around, function in self._calls_of_others if wanted(function))

    @cached_property
    def _calls_of_others(self) -> list[tuple[Around, Function]]:
        """Where functions call one of other files of the project, and which."""
        met: list[tuple[Around, Function]] = []
        found: object
        for call in (each for calls in self.source.calls.values() for each in calls):
            if call.around.function is None:
                continue
            dotted = self.source.dotted(call.node.func)
            own = dotted.startswith("self.") and call.around.owner is not None
            found = self._method(call.around, dotted.split(".")[1:]) if own else self._found(dotted)
            if isinstance(found, Local) and found.source is not self.source:
                met.append((call.around, found.node))
        return met

    def _method(self, around: Around, names: list[str]) -> object:
        """`self.method`, or `self.part.method` of a part whose class is told, where the project has it."""
        text = self.owner(around)
        if text is None or len(names) > 2 or names[-1] in text.methods:
            return None
        if len(names) == 2:
            text = self._class_of_part(text, *names)
        elif not any(names[0] in self._making(text, base) for base in text.bases):
            return None
        if text is None:
            return None
        home = next((each for each in self.project.lineage(text) if names[-1] in each.methods), None)
        return None if home is None else Local(home.methods[names[-1]], home.source)

    def _class_of_part(self, text: ClassText, name: str, method: str) -> ClassText | None:
        """The class of another file that an attribute is an object of, where its method may make a tensor."""
        dotted = self._made_of(text, name)
        makes = bool(dotted) and method in self._making(text, dotted)
        return self.project.class_of(text.source, dotted) if makes else None

    def _making(self, text: ClassText, dotted: str) -> frozenset[str]:
        return making_functions(self.project.text_of(text.source, dotted))

    @cached_property
    def kept_elsewhere(self) -> frozenset[str]:
        """Attributes that the file names and classes that it imports may give tensors which they make."""
        names: set[str] = set()
        used = self.source.calls.keys() | {
            called(base) for each in self.source.class_list for base in each.bases
        }
        for name, dotted in self.source.imports.items():
            if name[:1].isupper() and "." in dotted and name in used:
                names |= kept_names(self.project.text_of(self.source, dotted))
        return frozenset(each for each in names if f".{each}" in self.source.text)

    def _made_of(self, text: ClassText, name: str) -> str:
        """The full name of the class that an attribute is an object of, by the one call that gives it."""
        given = text.attributes.get(name, [])
        if len(given) != 1 or not isinstance(given[0].value, ast.Call):
            return ""
        dotted = text.source.dotted_call(given[0].value)
        return dotted if dotted.rpartition(".")[2][:1].isupper() else ""

    def _found(self, dotted: str) -> object:
        """What a full name is, where it may be of another file of the project."""
        head, _, rest = dotted.partition(".")
        if rest:
            return None if head in _NOT_HERE else self.project.find(self.source, dotted)
        known = head in self.source.classes or self.source.function_named(head) is not None
        return None if known or not self.source.stars else self.project.starred(self.source, head)

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls of functions and methods with these names, in their order."""
        return self.source.inner_calls(*names)

    def dotted(self, call: Call) -> str:
        """The full name of what a call calls."""
        return self.source.dotted(call.node.func)

    def owner(self, around: Around) -> ClassText | None:
        """The class around something."""
        return None if around.owner is None else self.source.class_text(around.owner)

    def in_module_class(self, around: Around) -> bool:
        """Whether it stands in a class of modules."""
        text = self.owner(around)
        if text is None:
            return False
        if id(text.node) not in self._owners:
            self._owners[id(text.node)] = self.project.is_module(text)
        return self._owners[id(text.node)]

    @cached_property
    def script(self) -> Script:
        """The file as repairs change it."""
        script = Script(str(self.path), self.source.text)
        script.__dict__["tree"] = self.source.tree  # the very nodes that the rules look at
        return script

    @cached_property
    def parents(self) -> dict[int, ast.AST]:
        """What stands around each node."""
        return {id(child): node for node in nodes(self.source.tree) for child in ast.iter_child_nodes(node)}

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node is in."""
        found: ast.AST | None = node
        while found is not None and not isinstance(found, ast.stmt):
            found = self.parents.get(id(found))
        return found

    def around_name(self, node: ast.AST) -> str:
        """The function that a node stands in, as a traceback names it."""
        line = getattr(node, "lineno", 0)
        inside = [
            (function.lineno, around, function)
            for function, around in self.source.functions
            if function.lineno <= line <= (function.end_lineno or 0)
        ]
        if not inside:
            return "<module>"
        return max(inside, key=lambda each: each[0])[2].name

    def assignments(self, around: Around, name: str) -> list[ast.expr]:
        """What the function around something gives to a name, or the file where it is in none."""
        scope = self.source.tree if around.function is None else around.function
        if id(scope) not in self._assigned:
            self._assigned[id(scope)] = _assigned_in(scope)
        return self._assigned[id(scope)].get(name, [])

    def moves_itself(self, around: Around) -> bool:
        """Whether the class around something has a way of its own to move its attributes."""
        owner = self.owner(around)
        return owner is None or any(
            each.reached or not _MOVERS.isdisjoint(each.methods) for each in self.project.lineage(owner)
        )

    def is_beside(self, endings: tuple[str, ...]) -> bool:
        """Whether the classes of the file are called like this, one at least and no module's among them."""
        classes = self.source.class_list
        return any(each.name.endswith(endings) for each in classes) and not any(
            self.in_module_class(Around(None, each)) for each in classes
        )

    def _is_only_called(self, inner: Function, outer: Function) -> bool:
        """Whether a function inside another is called there and given to nobody, so that what it gets is
        known.
        """
        if isinstance(inner, ast.AsyncFunctionDef) or inner.decorator_list:
            return False
        named = [
            node
            for node in nodes(outer)
            if isinstance(node, ast.Name) and node.id == inner.name and isinstance(node.ctx, ast.Load)
        ]
        called_names = [
            call.node.func for call in self.source.calls.get(inner.name, ()) if call.around.function is outer
        ]
        return bool(named) and len(named) == len(called_names)

    def given(self, around: Around, name: str) -> list[tuple[Around, object]]:
        """What the calls in this file give a parameter of a function, and where they stand; nothing where it
        is public and in no package.
        """
        function = around.function
        if function is None or function.name.startswith("__") or function.name in _CALLED_BY_TORCH:
            return []
        if not function.name.startswith("_") and not self.source.package:
            return []
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        method = around.owner is not None and names[:1] == ["self"]
        found: list[tuple[Around, object]] = []
        for call in self.source.calls.get(function.name, ()):
            node = call.keyword(name)
            place = names.index(name) - method if name in names else -1
            if node is None and 0 <= place < len(call.node.args):
                node = call.node.args[place]
            found.append((call.around, self.told(call.around).values.get(id(node))))
        return found

    def runs_on_host(self, around: Around) -> bool:
        """Whether only constructors, which run before anything is moved, or what a data loader is given call
        a function, as far as the file shows.
        """
        if around.function is None:
            return False
        outer = self.source.enclosing(around.function)
        name = (outer[0] if outer else around.function).name
        return name in self._collators or self._called_on_host(name, frozenset())

    @cached_property
    def _collators(self) -> frozenset[str]:
        """The functions that data loaders run."""
        given = [call.keyword("collate_fn") for call in self.source.every_call()]
        return frozenset(called(each) for each in given if each is not None)

    def _called_on_host(self, name: str, asked: frozenset[str]) -> bool:
        calls = [call.around for call in self.source.calls.get(name, ()) if call.around.function is not None]
        callers = {self._outermost(each) for each in calls} - {name}
        if not callers or name in asked:
            return False
        return all(
            caller in CALLERS_DECIDE | self._collators or self._called_on_host(caller, asked | {name})
            for caller in callers
        )

    def _outermost(self, around: Around) -> str:
        assert around.function is not None
        outer = self.source.enclosing(around.function)
        return (outer[0] if outer else around.function).name

    def function_name(self, around: Around) -> str:
        """The name of the function around something; empty outside functions."""
        return around.function.name if around.function is not None else ""


def _assigned_in(scope: ast.AST) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name):
            if node.value is not None:
                found.setdefault(node.target.id, []).append(node.value)
    return found


def short(node: ast.AST, most: int = 60) -> str:
    """An expression in one line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


__all__ = [
    "CALLERS_DECIDE",
    "Around",
    "Call",
    "ClassText",
    "Function",
    "LintedFile",
    "called",
    "nodes",
    "short",
]
