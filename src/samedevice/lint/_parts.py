"""Where a model that a device map may spread brings together what two of its parts gave."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from samedevice.lint._source import Around, ClassText, LintedFile, called, nodes
from samedevice.lint._spread import spread_classes
from samedevice.static.tensors import CURRENT, HOST, OTHER, Meeting, Tensor

_CAME_IN = ""
"""The part that stands for what the caller gave."""
_OF_A_LAYER = (".weight", ".bias")
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Apart:
    """Two operands of one operator that come from different parts."""

    meeting: Meeting
    owner: ClassText
    one: tuple[ast.expr, frozenset[str]]
    other: tuple[ast.expr, frozenset[str]]


def parts_that_meet(file: LintedFile) -> Iterator[Apart]:
    """Every operator at which what different parts gave meets, outside the blocks that stay whole."""
    spread = spread_classes(file)
    done: set[int] = set()
    for function, around in file.source.functions:
        if around.owner is None or around.owner.name not in spread or function.name == "__init__":
            continue
        inside = Around(function, around.owner)
        entered = [each.meeting for each in file.entered(inside) if each.source is file.source]
        for meeting in (*file.meetings(inside), *entered):
            if id(meeting.node) not in done and (found := _apart(meeting)) is not None:
                done.add(id(meeting.node))
                yield Apart(meeting, file.source.class_text(around.owner), *found)


def _apart(
    meeting: Meeting,
) -> tuple[tuple[ast.expr, frozenset[str]], tuple[ast.expr, frozenset[str]]] | None:
    if any(node is getattr(meeting.node, "func", None) for node, _ in meeting.operands):
        return None  # what goes into a module is moved by its hook
    if meeting.indexed and all(tensor.scalar is True for _, tensor in meeting.operands[1:]):
        return None
    found = [(node, parts) for node, tensor in meeting.operands if (parts := _parts(tensor))]
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if not any(_is_inside(a, b) or _is_inside(b, a) for a in one[1] for b in other[1]):
                return one, other
    return None


def _parts(tensor: Tensor) -> frozenset[str]:
    """The parts that a tensor may be beside, as their names in `self`; nothing where something else may have
    placed it.
    """
    where = tensor.where
    if where.kind in ("literal", "default", "unknown") or HOST in where.of or CURRENT in where.of:
        return frozenset()
    named = [each for each in where.of if each != OTHER]
    if any(":" in each or each.endswith("device") for each in named):
        return frozenset()
    parts = frozenset(_name(each) for each in named)
    if own := parts - {_CAME_IN}:
        return own  # a caller may give it instead; it is then where the part would have put it
    follows = where.follows or (where.kind == "maybe" and OTHER not in where.of)
    return frozenset() if tensor.scalar is True or not follows else parts


def _name(symbol: str) -> str:
    if not symbol.startswith("self."):
        return _CAME_IN
    name = symbol.removeprefix("self.")
    for ending in _OF_A_LAYER:
        name = name.removesuffix(ending)
    return name


def _is_inside(one: str, other: str) -> bool:
    return one == other or (other != "" and one.startswith(f"{other}."))


class Towers:
    """Which parts of a class hold blocks of their own, so that more than one GPU may be needed for each."""

    def __init__(self, file: LintedFile) -> None:
        self.file = file

    def is_one(self, text: ClassText, part: str, depth: int = 0) -> bool:
        """Whether a part, by its name in `self`, is a model or holds a list of modules."""
        first = part.partition(".")[0]
        if first == "get_input_embeddings()":
            return sum(self.is_one(text, each, depth) for each in self._attributes(text)) > 1
        values = [
            each.value for own in self.file.project.lineage(text) for each in own.attributes.get(first, ())
        ]
        return bool(values) and all(value is not None and self._holds(text, value, depth) for value in values)

    def _attributes(self, text: ClassText) -> set[str]:
        return {name for own in self.file.project.lineage(text) for name in own.attributes}

    def _holds(self, text: ClassText, value: ast.expr, depth: int) -> bool:
        name = called(value)
        if name in ("from_config", "_from_config") or name.endswith("Model"):
            return True
        if name == "ModuleList":
            return any(called(node)[:1].isupper() for node in nodes(value) if node is not value)
        own = self.file.project.class_of(text.source, text.source.dotted_call(value))
        if own is None or depth > _DEEPEST or not self.file.project.is_module(own):
            return False
        return any(self.is_one(own, each, depth + 1) for each in own.attributes)
