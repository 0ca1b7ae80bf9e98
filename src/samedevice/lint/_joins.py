"""Where a module joins what two of its parts gave, or what came in with what a part gave.

A device map may put the two on different GPUs wherever it may cut the module. Placement fills one GPU after
the other in the order in which parts are made, and hooks move what goes into a part. So what came in is with
the first part, and what the very first layer gave is, too.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from samedevice.lint._source import ClassText, LintedFile, called, nodes
from samedevice.static.tensors import MODULES

Sources = frozenset[str]
"""What a value came from last: parts of the module by name, and the empty name for what came in."""
_NOTHING: Sources = frozenset()
_CAME_IN: Sources = frozenset(("",))
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Join:
    """An operator or a call in a class."""

    owner: str
    node: ast.BinOp | ast.AugAssign | ast.Call


def joins(file: LintedFile, text: ClassText) -> Iterator[Join]:
    """The joins of a class's own methods, in their order."""
    weighted = Weights(file)
    for function in text.methods.values():
        if function.name != "__init__":
            flow = _Flow(text, weighted)
            flow.block(function.body, {name: _CAME_IN for name in _arguments(function)})
            yield from flow.found


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    every = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in every if name != "self"]


class Weights:
    """Which parts of the classes of a file have weights."""

    def __init__(self, file: LintedFile) -> None:
        self.file = file
        self.part = lru_cache(maxsize=None)(self._part)
        self.first = lru_cache(maxsize=None)(self._first_of)

    def _part(self, text: ClassText, name: str, depth: int = 0) -> bool:
        """Whether an attribute of a class is a module that has weights, as far as the file tells."""
        given = text.attributes.get(name, [])
        return any(each.value is not None and self._made(text, each.value, depth) for each in given)

    def _made(self, text: ClassText, value: ast.expr, depth: int) -> bool:
        return any(
            self._of_class(text, called(node), depth) for node in nodes(value) if isinstance(node, ast.Call)
        )

    def _of_class(self, text: ClassText, name: str, depth: int) -> bool:
        known = text.source.classes.get(name)
        if known is None:
            return name in MODULES["placed"] or (
                name[:1].isupper()
                and name not in MODULES["free"]
                and not name.endswith(("Dropout", "DropPath", "Identity", "ReLU", "Pool2d", "Config"))
            )
        own = text.source.class_text(known)
        return depth < _DEEPEST and (self.count(own, depth + 1) > 0)

    def _first_of(self, text: ClassText) -> str:
        """The first part with weights, where that is a single layer, which no map cuts."""
        weighted = [name for name in text.attributes if self.part(text, name)]
        values = [each.value for name in weighted[:1] for each in text.attributes[name]]
        single = [value for value in values if value is not None and called(value) in MODULES["placed"]]
        return weighted[0] if values and len(single) == len(values) else ""

    def count(self, text: ClassText, depth: int = 0) -> int:
        """How many parts with weights, and parameters of its own, a class has; lists of parts count twice."""
        total = 0
        for each in self.file.project.lineage(text):
            total += sum(base.rpartition(".")[2] in MODULES["placed"] for base in each.bases)
            for name, given in each.attributes.items():
                if any(attribute.kind == "parameter" for attribute in given):
                    total += 1
                elif self._part(each, name, depth):
                    several = any(
                        called(attribute.value) in ("ModuleList", "Sequential")
                        for attribute in given
                        if attribute.value is not None
                    )
                    total += 2 if several else 1
        return total


class _Flow:
    """Reads a method once, in the order of its statements."""

    def __init__(self, text: ClassText, weighted: Weights, depth: int = 0) -> None:
        self.text, self.weighted, self.depth = text, weighted, depth
        self.found: list[Join] = []
        self.returned: Sources = _NOTHING

    def block(self, statements: Sequence[ast.stmt], names: dict[str, Sources]) -> None:
        """Statements; in conditions and loops a name keeps what it had before, too."""
        for statement in statements:
            self._statement(statement, names)

    def _statement(self, node: ast.stmt, names: dict[str, Sources]) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                came = self.value(value, names)
                for target in targets:
                    self._give(target, came, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._give(target, self.value(value, names), names)
            case ast.AugAssign(target=target, value=value):
                pair = self.value(target, names), self.value(value, names)
                self._meet(node, pair)
                self._give(target, pair[0] | pair[1], names)
            case ast.Return(value=ast.expr() as value):
                self.returned |= self.value(value, names)
            case ast.Expr(value=value):
                self.value(value, names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                self._inside(node, names)

    def _inside(self, node: ast.stmt, names: dict[str, Sources]) -> None:
        """Ways that may be taken or not: each begins with the names before, and all are kept."""
        if isinstance(node, ast.For | ast.AsyncFor):
            self._give(node.target, self.value(node.iter, names), names)
        before = dict(names)
        for field in ("body", "orelse", "finalbody"):
            own = dict(before)
            self.block(getattr(node, field, []), own)
            for name, came in own.items():
                names[name] = names.get(name, _NOTHING) | came

    def _give(self, target: ast.expr, came: Sources, names: dict[str, Sources]) -> None:
        for each in nodes(target):
            if isinstance(each, ast.Name):
                names[each.id] = came

    def value(self, node: ast.expr, names: dict[str, Sources]) -> Sources:
        """What an expression came from."""
        match node:
            case ast.Name(id=name):
                return names.get(name, _NOTHING)
            case ast.Call():
                return self._call(node, names)
            case ast.BinOp(left=left, right=right):
                pair = self.value(left, names), self.value(right, names)
                self._meet(node, pair)
                return pair[0] | pair[1]
            case ast.Attribute(attr=attr) if attr in _NO_TENSORS:
                return _NOTHING
            case ast.Compare() | ast.Constant() | ast.Lambda():
                return _NOTHING
        return _NOTHING.union(
            *(self.value(each, names) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        )

    def _call(self, node: ast.Call, names: dict[str, Sources]) -> Sources:
        given = [*node.args, *(each.value for each in node.keywords)]
        every = [self.value(each, names) for each in given]
        came = _NOTHING.union(*every)
        passed = _NOTHING.union(*(self._called(_own(each)) for each in given))
        name = _own(node.func)
        if name:
            return self._called(name) or came
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _NO_TENSORS:
                return _NOTHING
            every.append(self.value(node.func.value, names))
            if node.func.attr in ("to", "type_as") and (beside := self._beside(given, names)):
                return beside
            came |= every[-1]
        if not passed and self._computes(node, every):
            self._meet(node, [each for each in every if each - _CAME_IN])
        return passed or came

    def _beside(self, given: Sequence[ast.expr], names: dict[str, Sources]) -> Sources:
        """What a move goes to: `.to(x.device)`, `.to(x)`, `.to(self.norm.weight.device)`."""
        found = _NOTHING
        for each in given:
            owner = each.value if isinstance(each, ast.Attribute) and each.attr == "device" else each
            inner = owner.value if isinstance(owner, ast.Attribute) else owner
            found |= self._called(_own(inner)) or self.value(owner, names)
        return found

    def _computes(self, node: ast.Call, every: Sequence[Sources]) -> bool:
        """Whether a call is an operator: a function, one of torch, or a method of what a part gave."""
        match node.func:
            case ast.Name(id=name):
                return name not in dir(builtins)
            case (
                ast.Attribute(value=ast.Name(id="torch" | "F"))
                | ast.Attribute(value=ast.Attribute(attr="functional" | "linalg"))
            ):
                return True
        return isinstance(node.func, ast.Attribute) and bool(every[-1] - _CAME_IN)

    def _called(self, name: str) -> Sources:
        """What a part or a method of the module gives; nothing where that is of its input alone."""
        function = self.text.methods.get(name)
        if function is None and self.weighted.part(self.text, name):
            return frozenset((name,))
        if function is None or self.depth > _DEEPEST:
            return _NOTHING
        inner = _Flow(self.text, self.weighted, self.depth + 1)
        inner.block(function.body, {each: _CAME_IN for each in _arguments(function)})
        return inner.returned - _CAME_IN

    def _meet(self, node: ast.BinOp | ast.AugAssign | ast.Call, operands: Sequence[Sources]) -> None:
        """Keep a join where a cut can part two of its operands."""
        parts = [getattr(node, each, None) for each in ("left", "right", "value")]
        if any(_is_list(each) for each in parts):
            return  # it may hold tensors of several devices
        first = self.weighted.first(self.text)
        for one, other in itertools.combinations([each for each in operands if each], 2):
            parted = (one | other) - {"", first}
            if one != other and (parted if "" in one | other else not one & other):
                self.found.append(Join(self.text.name, node))
                return


def _is_list(node: ast.expr | None) -> bool:
    """Whether an operand of `+` is a list of results rather than a tensor: `(x,)`, `outputs[1:-1]`."""
    match node:
        case ast.Tuple() | ast.List():
            return True
        case ast.Subscript(slice=ast.Slice(lower=ast.Constant(), upper=None, step=None)):
            return True
        case ast.Subscript(
            slice=ast.Slice(
                lower=ast.Constant(), upper=ast.UnaryOp(op=ast.USub(), operand=ast.Constant()), step=None
            )
        ):
            return True
    return False


_NO_TENSORS = frozenset("shape size dtype device ndim dim numel item tolist".split())


def _own(node: ast.expr) -> str:
    """The name of an attribute of `self`."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Subscript(value=value):
            return _own(value)
    return ""
