"""Operators at which a tensor that stays behind meets one that follows the model or its input."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from samedevice.diagnosis import Rule
from samedevice.lint._source import Around, LintedFile, called, nodes
from samedevice.messages import Phrase
from samedevice.static.tensors import (
    HOST,
    OTHER,
    Entered,
    Function,
    Meeting,
    SourceText,
    Tensor,
    Where,
    device_parameters,
    picks,
    tensor_parameters,
)

_READS_DATA = frozenset("__getitem__ collate_fn process download preprocess pad tokenize collate".split())
_DATA_FOLDERS = frozenset("data datasets dataset dataio dataloaders".split())
_DATA_CLASSES = (
    "Dataset",
    "Transform",
    "Processor",
    "Tokenizer",
    "Collator",
    "Sampler",
    "Extractor",
    "Loader",
    "Generator",
    "Simulator",
    "Pipeline",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two operands of one operator."""

    meeting: Meeting
    stray_node: ast.expr
    stray: Tensor
    placed_node: ast.expr
    placed: Tensor
    inside: Entered | None = None
    """The function that is entered, where they meet in one."""

    def told(self, file: LintedFile, rule: Rule, **more: str) -> Phrase:
        """Where they meet, in the words of a rule: `meets`, and `meets-elsewhere` for another file."""
        line = str(getattr(self.meeting.node, "lineno", 0))
        home = self.inside.source if self.inside is not None else file.source
        if home is file.source:
            return rule.phrase("meets", line=line, **more)
        return rule.phrase("meets-elsewhere", line=line, file=home.name, **more)


def pairs(file: LintedFile, around: Around, is_stray: Callable[[Tensor], bool]) -> Iterator[Pair]:
    """Where a function's strays meet something that is placed for sure."""
    data = not file.in_module_class(around) and handles_data(file, around)
    if file.runs_on_host(around):
        return
    beside = _handed_in(around)
    arrays = _read_as_arrays(around)
    own: list[tuple[Meeting, Entered | None]] = [(each, None) for each in file.meetings(around)]
    entered = [each for each in file.entered(around) if not _prepares_data(each.function, each.source)]
    for meeting, inside in (*own, *((each.meeting, each) for each in entered)):
        compared = isinstance(meeting.node, ast.Compare)
        handed = beside if compared else frozenset()
        strays = [each for each in meeting.operands if is_stray(each[1]) and _counts(meeting, each)]
        placed = [each for each in meeting.operands if _is_placed(each[1], handed, meeting.written)]
        if meeting.indexed:  # only a tensor of the host refuses an index of a GPU, and never the other way
            strays = strays[:1] if strays and strays[0] is meeting.operands[0] else []
            placed = [each for each in placed if picks(each[1]) and each[1].role != "argument"]
        placed = [each for each in placed if not _comes_from_host(file, around, each[1])]
        placed = [each for each in placed if not arrays.issuperset(_roots(each[1].where))]
        if compared:  # with what an argument keeps, as lengths of a batch
            placed = [each for each in placed if not _is_kept_by_argument(each[1].where)]
        if data:
            placed = [each for each in placed if _is_asked_for(each[1].where, around)]
        if strays and placed:
            yield Pair(meeting, *strays[0], *placed[0], inside)


def _read_as_arrays(around: Around) -> frozenset[str]:
    """The names whose tensors a function gives to NumPy as they are, which only those of the host can be."""
    found = set()
    for node in nodes(around.function) if around.function is not None else ():
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="numpy"), args=[]):
                calls = {called(each) for each in nodes(owner) if isinstance(each, ast.Call)}
                root = owner
                while isinstance(root, ast.Call | ast.Attribute | ast.Subscript):
                    root = root.func if isinstance(root, ast.Call) else root.value
                if isinstance(root, ast.Name) and calls.isdisjoint(("cpu", "to")):
                    found.add(root.id)
    return frozenset(found)


def _roots(where: Where) -> frozenset[str]:
    """The names that a place begins with; none where it is not told by names."""
    return frozenset(each.partition(":")[0].partition(".")[0] for each in where.of) or _NOWHERE


_NOWHERE = frozenset(("",))


def _counts(meeting: Meeting, operand: tuple[ast.expr, Tensor]) -> bool:
    """Whether an operator refuses a tensor of the host beside one of a GPU: one that has dimensions, or that
    it writes.
    """
    tensor = operand[1]
    if meeting.written and operand is meeting.operands[0]:
        return True
    return tensor.scalar is False or tensor.sized or (meeting.strictly and tensor.scalar is None)


def _comes_from_host(file: LintedFile, around: Around, value: object, deeper: int = 3) -> bool:
    """Whether a tensor is on the host, or all that it follows is what a function is given, and every call
    gives it from the host; the function is private, or no other file of its package has its name.
    """
    if not isinstance(value, Tensor):
        return False
    where = value.where
    if where.kind == "default" or (where.kind == "literal" and where.of[0] == "cpu"):
        return True
    told = [each for each in where.of if each != OTHER]
    given = [file.given(around, name) for name in told if name.isidentifier()] if deeper else []
    alone = len(given) == len(told) > 0 and all(
        calls and all(_comes_from_host(file, at, each, deeper - 1) for at, each in calls) for calls in given
    )
    return alone and not file.project.named_elsewhere(file.source, file.function_name(around))


def _is_asked_for(where: Where, around: Around) -> bool:
    """Whether a tensor is on a device that the function was told, so that data go there, too."""
    devices = device_parameters(around.function) if around.function is not None else set()
    told = [each for each in where.of if each != OTHER]
    return bool(told) and all(each in devices or each.endswith("device") for each in told)


def _is_placed(tensor: Tensor, handed: frozenset[str], written: bool = False) -> bool:
    """Whether a tensor is where the model, its input or a written GPU is."""
    where = tensor.where
    if where.kind == "literal":
        return not where.of[0].startswith(("cpu", "meta"))
    if (tensor.scalar is True and not written) or not handed.isdisjoint(where.of):
        return False
    told = where.kind == "maybe" and HOST not in where.of
    return told or where.kind in ("same", "likely", "part")


def _is_kept_by_argument(where: Where) -> bool:
    return any("." in each and ":" not in each and not each.startswith("self.") for each in where.of)


def _handed_in(around: Around) -> frozenset[str]:
    """The tensors that a function is given beside its input, the first: what they are compared with may be
    lengths, which callers keep on the host.
    """
    if around.function is None:
        return frozenset()
    given = around.function.args
    tensors = tensor_parameters(around.function)
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg in tensors]
    return frozenset(names[1:])


def handles_data(file: LintedFile, around: Around) -> bool:
    """Whether a function prepares data, which stays on the host."""
    function, owner = around.function, around.owner
    if function is None:
        return False
    if function.name.startswith("post_process"):
        return False
    if any(each.endswith(_DATA_CLASSES) for each in _kinds(file, around)):
        return True
    if owner is None and file.is_beside(_DATA_CLASSES):
        return True
    return _prepares_data(function, file.source)


def _kinds(file: LintedFile, around: Around) -> set[str]:
    """The names of the class around something and of those that it derives from."""
    text = file.owner(around)
    lineage = [] if text is None else file.project.lineage(text)
    return {
        name for each in lineage for name in (each.name, *(base.rpartition(".")[2] for base in each.bases))
    }


def _prepares_data(function: Function, source: SourceText) -> bool:
    """Whether a function does, by its name, its folder and the arrays that it works with."""
    if (
        function.name in _READS_DATA
        or "collat" in function.name
        or not _DATA_FOLDERS.isdisjoint(source.package.split("."))
    ):
        return True
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("np", "numpy")
        for node in nodes(function)
    )


def symbol_expression(file: LintedFile, around: Around, where: Where, at: ast.expr) -> str | None:
    """The expression of a device that a line can use; None where none is surely at hand there."""
    if where.kind != "same" or len(where.of) != 1 or around.function is None:
        return None
    symbol = where.of[0]
    text, _, line = symbol.partition(":")
    if line:
        return None
    if text.startswith("self."):
        return text if text.endswith(".device") else f"{text}.device"
    given = around.function.args
    if text not in {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}:
        return None
    rebound = any(
        isinstance(node, ast.Name) and node.id == text and isinstance(node.ctx, ast.Store)
        for node in nodes(around.function)
    )
    if rebound:
        return None
    return text if text in device_parameters(around.function) else f"{text}.device"
