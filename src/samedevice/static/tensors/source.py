"""A source file with what its names mean: imports, functions, classes, and calls with what is around each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from samedevice.static.tensors.knowledge import MAKERS, MODULES

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a node: innermost function and class, and how many loops of that function."""

    function: Function | None
    owner: ast.ClassDef | None
    loops: tuple[ast.For | ast.AsyncFor | ast.While, ...] = ()
    statement: ast.stmt | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call with what stands around it."""

    node: ast.Call
    around: Around

    @property
    def name(self) -> str:
        """The last part of what is called."""
        return called(self.node)

    def keyword(self, name: str) -> ast.expr | None:
        """What is given by name."""
        return next((each.value for each in self.node.keywords if each.arg == name), None)


@dataclass(frozen=True, slots=True)
class Attribute:
    """How a class gives one of its attributes a value."""

    kind: Literal["parameter", "buffer", "assigned"]
    value: ast.expr | None
    function: Function
    node: ast.AST
    several: bool = False
    """Whether it is one of several targets, so that the value is not its own."""


class SourceText:
    """A file that is read once; its parts are found when somebody asks."""

    def __init__(self, path: Path, text: str, tree: ast.Module, package: str = "") -> None:
        self.path, self.text, self.tree = path, text, tree
        self.package = package
        """The package that relative imports begin at."""
        self.functions: list[tuple[Function, Around]] = []
        self.classes: dict[str, ast.ClassDef] = {}
        self.class_list: list[ast.ClassDef] = []
        self.calls: dict[str, list[Call]] = {}
        self.imports: dict[str, str] = {}
        self.stars: list[str] = []
        """What all names are imported of."""
        self.globals: dict[str, ast.expr | None] = {}
        """Names that the module's own statements assign; None where it is more than one expression."""
        self._in_context = False
        """Whether a device is entered by `with`."""
        self._classes_read: dict[int, ClassText] = {}
        self._index()

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the file."""
        return self.text.splitlines()

    @property
    def name(self) -> str:
        """The file as its package names it: `package/part/file.py`."""
        return "/".join([*self.package.split("."), self.path.name] if self.package else [self.path.name])

    def _index(self) -> None:
        stack: list[tuple[ast.AST, Around]] = [(self.tree, Around(None, None))]
        while stack:
            node, around = stack.pop()
            if isinstance(node, ast.stmt):
                around = self._statement(node, around)
            elif isinstance(node, ast.Call):
                self.calls.setdefault(called(node), []).append(Call(node, around))
            held = node.__dict__
            for name in _PARTS[type(node)]:
                value = held.get(name)
                if type(value) is list:
                    stack += [(each, around) for each in value if _PARTS.get(type(each))]
                elif isinstance(value, ast.AST) and _PARTS[type(value)]:
                    stack.append((value, around))
        for calls in self.calls.values():
            calls.reverse()

    def _statement(self, node: ast.stmt, around: Around) -> Around:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.append((node, around))
                return Around(node, around.owner)
            case ast.ClassDef():
                self.class_list.append(node)
                if around.function is None:
                    self.classes.setdefault(node.name, node)
                return Around(None, node)
            case ast.For() | ast.AsyncFor() | ast.While():
                return Around(around.function, around.owner, (*around.loops, node), node)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                self._in_context |= any(
                    self.dotted_call(each.context_expr) == "torch.device" for each in items
                )
            case ast.Import():
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    self.imports[alias.asname or whole] = whole
            case ast.ImportFrom():
                base = self._base(node)
                for alias in node.names:
                    if alias.name == "*":
                        self.stars.append(base)
                        continue
                    self.imports[alias.asname or alias.name] = f"{base}.{alias.name}" if base else alias.name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                around.function is None and around.owner is None
            ):
                self.globals[name] = None if name in self.globals else value
        return Around(around.function, around.owner, around.loops, node)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.package.split(".") if self.package else []
        kept = parts[: len(parts) - (node.level - 1)]
        return ".".join([*kept, *([node.module] if node.module else [])])

    def enclosing(self, function: Function) -> list[Function]:
        """The functions around one that is defined inside others, the outermost first."""
        found: list[Function] = []
        around = self._around.get(id(function))
        while around is not None and around.function is not None:
            found.append(around.function)
            around = self._around.get(id(around.function))
        return found[::-1]

    @cached_property
    def _around(self) -> dict[int, Around]:
        return {id(node): around for node, around in self.functions}

    @cached_property
    def reassigned(self) -> frozenset[str]:
        """Names of the file that its functions give another value, or other data."""
        inside = nodes(self.tree)
        given = [name for node in inside if isinstance(node, ast.Global) for name in node.names]
        return frozenset((*given, *(name for node in inside if (name := _given_data(node)))))

    def reads_of_another(self, name: str) -> bool:
        """Whether an attribute of this name is asked of anything but `self` in the text."""
        return re.search(rf"(?<!\bself)\.{name}\b", self.text) is not None

    @cached_property
    def kept_names(self) -> frozenset[str]:
        """Attributes of `self` to which the text may give a tensor that it makes."""
        return kept_names(self.text)

    def gives(self, name: str) -> bool:
        """Whether anything in the file but `self` is given an attribute of this name, or of any."""
        return name in self._given or "setattr" in self.calls

    @cached_property
    def _given(self) -> frozenset[str]:
        return frozenset(
            node.attr
            for node in nodes(self.tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        )

    def function_named(self, name: str) -> Function | None:
        """A function of the module itself."""
        return self._top.get(name)

    @cached_property
    def _top(self) -> dict[str, Function]:
        return {node.name: node for node in self.tree.body if isinstance(node, Function)}

    def class_text(self, node: ast.ClassDef) -> ClassText:
        """A class of this file."""
        if id(node) not in self._classes_read:
            self._classes_read[id(node)] = ClassText(self, node)
        return self._classes_read[id(node)]

    def dotted(self, node: ast.expr) -> str:
        """The full name of a chain of names, by the imports; empty for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self.imports.get(node.id, node.id))
        return ".".join(reversed(parts))

    def every_call(self) -> Iterator[Call]:
        """All calls, in their order."""
        return self.inner_calls(*self.calls)

    def dotted_call(self, node: ast.expr) -> str:
        """The full name of what a call calls."""
        return self.dotted(node.func) if isinstance(node, ast.Call) else ""

    def inner_calls(self, *names: str) -> Iterator[Call]:
        """The calls of functions and methods with these names, in their order."""
        found = [call for name in names for call in self.calls.get(name, ())]
        return iter(sorted(found, key=lambda call: (call.node.lineno, call.node.col_offset)))

    @property
    def changes_default(self) -> bool:
        """Whether something in the file changes where tensors are made without a device."""
        return self._in_context or not self.calls.keys().isdisjoint(_CHANGERS)


_CHANGERS = frozenset("set_default_device set_default_tensor_type init_empty_weights no_init_weights".split())


class ClassText:
    """A class with its attributes, and those of the classes that it derives from where these are read."""

    def __init__(self, source: SourceText, node: ast.ClassDef) -> None:
        self.source, self.node, self.name = source, node, node.name
        self.bases = [source.dotted(base) for base in node.bases]
        self.methods = {each.name: each for each in node.body if isinstance(each, Function)}

    @cached_property
    def attributes(self) -> dict[str, list[Attribute]]:
        """What its own methods give to `self`, by name."""
        found: dict[str, list[Attribute]] = {}
        for function in self.methods.values():
            for node in nodes(function):
                for name, attribute in _attributes(node, function):
                    found.setdefault(name, []).append(attribute)
        return found

    @cached_property
    def fields(self) -> dict[str, ast.expr]:
        """The annotations of the attributes that the class itself names."""
        return {
            each.target.id: each.annotation
            for each in self.node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }

    @cached_property
    def mentions(self) -> list[tuple[Function, frozenset[str], frozenset[str]]]:
        """The attributes of `self` that each method calls, and those that it reads otherwise."""
        return [(function, *_mentions(function)) for function in self.methods.values()]

    @cached_property
    def sizes(self) -> frozenset[str]:
        """The attributes of `self` that its methods use as sizes, so that they are numbers."""
        return frozenset(
            name for function in self.methods.values() for node in nodes(function) for name in _sizes_in(node)
        )

    @cached_property
    def reached(self) -> bool:
        """Whether a method reaches attributes by names that are computed."""
        return (
            any(
                isinstance(node, ast.Call)
                and called(node) in ("setattr", "_apply", "__setattr__", "__dict__")
                for function in self.methods.values()
                for node in nodes(function)
            )
            or "_apply" in self.methods
        )


def _sizes_in(node: ast.AST) -> Iterator[str]:
    """The attributes of `self` that a call counts to, or that are sizes of what it makes or shapes."""
    match node:
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="arange" | "eye"), args=sizes):
            pass
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Tuple(elts=sizes)]) if name in _SIZED:
            pass
        case ast.Call(func=ast.Attribute(attr=name), args=[_, _, *_] as sizes) if name in _SIZED:
            pass
        case _:
            return
    for each in sizes:
        match each:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield name


_SIZED = frozenset("zeros ones empty rand randn view reshape expand repeat".split())


def _given_data(node: ast.AST) -> str:
    """The name in `name.data = ...`; empty for anything else."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="data", ctx=ast.Store()):
            return name
    return ""


def _mentions(function: Function) -> tuple[frozenset[str], frozenset[str]]:
    inside = nodes(function)
    owned = {
        id(node): node.attr
        for node in inside
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    calls = [owned.pop(id(node.func), "") for node in inside if isinstance(node, ast.Call)]
    return frozenset(calls) - {""}, frozenset(owned.values())


def _attributes(node: ast.AST, function: Function) -> Iterator[tuple[str, Attribute]]:
    match node:
        case ast.Call(func=ast.Attribute(attr=how)) if how == "add_state" or (
            how.startswith("register_") and how.endswith(("buffer", "parameter"))
        ):
            first = (
                node.args[0]
                if node.args
                else next((each.value for each in node.keywords if each.arg == "name"), None)
            )
            value = node.args[1] if len(node.args) > 1 else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                kind: Literal["parameter", "buffer"] = "parameter" if how.endswith("parameter") else "buffer"
                yield first.value, Attribute(kind, value, function, node)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _of_target(target, value, function, node, False)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _of_target(target, value, function, node, False)
        case ast.AugAssign(target=target, value=value):
            yield from _of_target(target, value, function, node, True)


def _of_target(
    target: ast.expr, value: ast.expr, function: Function, node: ast.AST, several: bool
) -> Iterator[tuple[str, Attribute]]:
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            made = isinstance(value, ast.Call) and called(value) in ("Parameter", "Buffer")
            kind: Literal["parameter", "assigned"] = "parameter" if made and not several else "assigned"
            yield name, Attribute(kind, value, function, node, several)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            given = _values_of(value, len(parts))
            for number, part in enumerate(parts):
                own, shared = (value, True) if given is None else (given[number], several)
                yield from _of_target(part, own, function, node, shared)


def _values_of(value: ast.expr, count: int) -> list[ast.expr] | None:
    """What each of so many targets gets, where the source tells them apart."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if len(parts) == count:
            return None if any(isinstance(each, ast.Starred) for each in parts) else parts
        case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part):
            return [part] * count
    return None


def nodes(root: ast.AST) -> list[ast.AST]:
    """A node with all that are inside it, in the order of `ast.walk`, in a third of its time; without those
    that only say how a name is used. Of functions and classes, of which many ask, the list is kept.
    """
    kept: list[ast.AST] | None = root.__dict__.get(_INSIDE)
    if kept is not None:
        return kept
    found = [root]
    for node in found:  # it grows meanwhile
        held = node.__dict__
        for name in _PARTS[type(node)]:
            value = held.get(name)
            if type(value) is list:
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    if isinstance(root, _SEVERAL_ASK):
        setattr(root, _INSIDE, found)
    return found


_INSIDE = "_samedevice_inside"
_SEVERAL_ASK = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


_NO_NODES = frozenset(
    "ctx id attr kind type_comment module level asname simple is_async conversion tag".split()
)
"""Fields of the grammar in which no node is, or only how a name is used."""
_PARTS: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in _NO_NODES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind is not ast.Constant
} | {ast.Constant: ()}
"""The fields of each kind of node that the grammar puts nodes into.

Others write more into a node: `executing`, with which IPython shows errors, a `parent`, also into the nodes
that all trees share, as `ast.Add()`. That leads into other trees and round in circles.
"""


def called(node: ast.AST) -> str:
    """The last part of the name that a call calls; empty where it has none."""
    function = node.func if isinstance(node, ast.Call) else node
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


_MAKES = re.compile(rf"\b(?:{'|'.join(sorted(MAKERS))})\(")
_GIVEN = re.compile(r"[ \t]+(self\.)?(\w+)[^=\n]*=(?!=)")
_KEPT = re.compile(r"^[ \t]+self\.(\w+)[^=\n]*=(?!=)([^\n]*)", re.MULTILINE)
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=512)
def kept_names(text: str) -> frozenset[str]:
    """The attributes of `self` that are given what a text makes on the same line, or under another name."""
    names: set[str] = set()
    others: set[str] = set()
    for made in _MAKES.finditer(text):
        begin = text.rfind("\n", 0, made.start()) + 1
        given = _GIVEN.match(text, begin, made.start())
        if given is None:  # the value may begin on the next line
            given = _GIVEN.match(text, text.rfind("\n", 0, max(0, begin - 1)) + 1, made.start())
        if given is not None:
            (names if given[1] else others).add(given[2])
    if others:
        names |= {name for name, value in _KEPT.findall(text) if not others.isdisjoint(_WORD.findall(value))}
    return frozenset(names)


_DEFINED = re.compile(r"^[ \t]*(?:async )?def (\w+)\(", re.MULTILINE)


@lru_cache(maxsize=512)
def making_functions(text: str) -> frozenset[str]:
    """The functions in whose text a tensor may be made."""
    parts = _DEFINED.split(text)[1:]
    return frozenset(name for name, body in zip(parts[::2], parts[1::2], strict=True) if _MAKES.search(body))


def is_module_base(name: str) -> bool:
    """Whether a class of a library keeps parameters and buffers, by its name."""
    last = name.rpartition(".")[2]
    return any(last.endswith(ending) for ending in MODULES["bases"])
