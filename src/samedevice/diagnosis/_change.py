"""The failing line of a person's own code, written so that its operands meet on one device.

Must guarantee: the line is the printed one with a move put in, and what is moved is what the message, or the
line itself, shows to be on the host or away from the others. Where that is open, nothing is written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis.paste import Frame, Pattern, Report
from samedevice.messages import Phrase
from samedevice.provenance.syntax import parsed

_ARGUMENTS = {
    "gather": ("self", "dim", "index"),
    "index_select": ("self", "dim", "index"),
    "index_add": ("self", "dim", "index", "source"),
    "index_copy": ("self", "dim", "index", "source"),
    "index_fill": ("self", "dim", "index"),
    "scatter": ("self", "dim", "index", "src"),
    "scatter_add": ("self", "dim", "index", "src"),
    "scatter_reduce": ("self", "dim", "index", "src"),
    "take_along_dim": ("self", "index", "dim"),
    "masked_fill": ("self", "mask", "value"),
    "masked_select": ("self", "mask"),
    "masked_scatter": ("self", "mask", "source"),
    "cross_entropy": ("self", "target", "weight"),
    "nll_loss": ("self", "target", "weight"),
    "binary_cross_entropy": ("self", "target", "weight"),
    "embedding": ("index", "weight"),
    "matmul": ("self", "mat2"),
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
}
"""By function or method, what torch's messages call its arguments, in order; `self` is a method's own."""
_OF_TENSORS = frozenset(
    "argmax bfloat16 bool chunk clamp clone contiguous detach double exp expand flatten float gather half "
    "int log log_softmax long masked_fill masked_select max mean min narrow permute pow repeat reshape "
    "select sigmoid softmax sqrt squeeze sum tanh to transpose type unflatten unsqueeze view".split()
)
"""Methods whose result is where the tensor is."""
_MODULES = frozenset(("torch", "F", "functional", "torch.nn.functional", "nn.functional"))
_NO_MODULES = frozenset(
    "to cuda cpu type view append extend add update float int len list tuple str print next iter sum max min "
    "abs range enumerate zip load_state_dict".split()
)
"""What is called with one thing and is no module."""
_CRITERION = Pattern(r"loss|criterion", re.IGNORECASE)
_LOSS = Pattern(r"nll_loss|cross_entropy", re.IGNORECASE)
"""Operators of losses that take class weights."""
_OF_LOSS = ("self", "target")
_MACHINE = {
    "advice.driver-too-old": Pattern(
        r"driver on your system is too old|driver version is insufficient", re.I
    ),
    "advice.build-for-this-gpu": Pattern(
        r"no kernel image|not compatible with the current PyTorch", re.IGNORECASE
    ),
}
"""What the machine's own messages say of driver and build."""
_TO_NUMPY = "numpy-conversion"
_BESIDE = frozenset(("same-device", "argument-device"))
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Change:
    """A line as it is printed, and as it could be."""

    frame: Frame
    moved: ast.expr
    by: str
    """What is written behind the expression that is moved."""
    kept: bool = False
    """Whether it is an attribute that a module keeps, which could be a buffer."""

    @property
    def text(self) -> str | None:
        """The new line; None where the printed one cannot be taken apart, or the new one is too long."""
        code, place = self.frame.code.strip(), self.moved
        if place.end_col_offset is None or place.lineno != 1 or place.end_lineno != 1:
            return None
        content = code.encode()
        before, own = content[: place.col_offset], content[place.col_offset : place.end_col_offset]
        opening, closing = (
            (b"(", b")") if isinstance(place, (ast.BinOp, ast.UnaryOp, ast.Compare)) else (b"", b"")
        )
        after = closing + self.by.encode() + content[place.end_col_offset :]
        text = (before + opening + own + after).decode()
        return text if len(text) <= _LONGEST else None


def advice_of(report: Report) -> Phrase | None:
    """The new line as advice; None where none can be written."""
    if (told := _of_message(report)) is not None:
        return told
    changes = (_to_host, _named, _attribute, _into_the_model, _joined)
    change = next((found for each in changes if (found := each(report)) is not None), None)
    text = change.text if change is not None else None
    if change is None or text is None:
        return _of_argument(report)
    if change.kept:
        return Phrase(
            "advice.change-line-or-buffer",
            line=change.frame.line or 0,
            text=text,
            name=ast.unparse(change.moved).partition("[")[0].removeprefix("self."),
        )
    return Phrase("advice.change-line", line=change.frame.line or 0, text=text)


def _of_message(report: Report) -> Phrase | None:
    """What messages and frames tell that belong to one place of a program: a backward, a replica."""
    if report.kind == "gradient-device" and (report.op or "").endswith("Backward"):
        return Phrase("advice.own-backward", function=(report.op or "").removesuffix("Backward"))
    if report.kind in ("machine", "cuda-not-compiled"):
        return next((Phrase(key) for key, told in _MACHINE.items() if told.search(report.words)), None)
    at = report.at
    if at is None or not at.by_user or "data-parallel-replica" not in report.earlier:
        return None
    if (tree := _tree(at)) is None:
        return None
    called = {id(call.func) for call in _calls(tree)}
    kept = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and id(node) not in called and _kept(node)
    }
    if len(kept) != 1:
        return None
    return Phrase("advice.buffer-of-replica", operand=kept.pop().removeprefix("self."))


def _of_argument(report: Report) -> Phrase | None:
    """What the name of an argument tells where no line of the person's own can be written anew."""
    if report.kind in _BESIDE and report.argument == "weight" and _LOSS.search(report.op or ""):
        return Phrase("advice.class-weights")
    return None


def _joined(report: Report) -> Change | None:
    """Two names that a person's line joins, on two GPUs: one goes to the device of the other."""
    at = report.at
    if report.kind not in _BESIDE or at is None or not at.by_user or device_pattern(report.devices) != "gpus":
        return None
    if (tree := _tree(at)) is None:
        return None
    for call in _calls(tree):
        given = call.args[0] if call.args and _last_name(call.func) in ("cat", "stack", "concat") else None
        match given:
            case ast.List(elts=[one, other]) | ast.Tuple(elts=[one, other]) if _plain(one) and _plain(other):
                return Change(at, one, f".to({ast.unparse(other)}.device)")
    return None


def _to_host(report: Report) -> Change | None:
    """What a person's line hands to NumPy, where it hands over one thing."""
    frame = next((each for each in reversed(report.frames) if each.by_user), None)
    if report.kind != _TO_NUMPY or frame is None or (tree := _tree(frame)) is None:
        return None
    entered = report.frames[report.frames.index(frame) + 1 :]
    calls = list(_calls(tree))
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy":
            return Change(frame, call.func.value, ".detach().cpu()")
    named = [each for each in calls if entered and _last_name(each.func) == entered[0].function]
    outer = [each for each in calls if _last_name(each.func) not in _NO_MODULES]
    chosen = named or outer
    given = [each for each in chosen[0].args if not isinstance(each, ast.Constant)] if chosen else []
    if len(given) != 1 or isinstance(given[0], (ast.List, ast.Tuple, ast.Starred, ast.ListComp)):
        return None
    return Change(frame, given[0], ".detach().cpu()")


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _named(report: Report) -> Change | None:
    """The argument that the message names, or its one partner, where a call of the failing line has it."""
    at = report.at
    if report.kind not in _BESIDE or at is None or not at.by_user or len(report.devices) < 2:
        return None
    if report.argument is None or (tree := _tree(at)) is None:
        return None
    own, other = report.devices[:2] if report.kind == "argument-device" else report.devices[1::-1]
    for call in _calls(tree):
        given = _arguments(call)
        if report.argument not in given:
            continue
        partners = [each for name, each in given.items() if name not in (report.argument, "dim")]
        named = given[report.argument]
        if own != "cpu" and other == "cpu" and len(partners) == 1:
            named, partners = partners[0], [named]
        elif other == "cpu":
            return None
        place = next((found for each in partners if (found := _simple(each)) is not None), None)
        return Change(at, named, f".to({place}.device)") if place is not None else None
    return None


def _attribute(report: Report) -> Change | None:
    """What a module keeps as an attribute and meets, on the host, what it was called with."""
    at = report.at
    if report.kind not in _BESIDE or at is None or not at.by_user or report.argument is not None:
        return None
    if device_pattern(report.devices) != "host" or (tree := _tree(at)) is None:
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.BinOp):
            continue
        for one, other in ((node.left, node.right), (node.right, node.left)):
            place = other.id if isinstance(other, ast.Name) else None
            if place is not None and _kept(one):
                return Change(at, one, f".to({place}.device)", kept=True)
    return None


def _into_the_model(report: Report) -> Change | None:
    """What a person's line calls a model with, where it is on the host and the weight it meets is not."""
    host_input = report.kind == "input-weight-type" and report.devices[:1] == ("cpu",)
    host_input = host_input or (report.kind == "embedding-device-old" and report.argument == "index")
    host_input = host_input or (
        report.argument in ("mat1", "index")
        and report.kind in _BESIDE
        and len(report.devices) > 1
        and (report.devices[0] if report.kind == "argument-device" else report.devices[1]) == "cpu"
    )
    own = [each for each in report.own_frames if each.by_user]
    if not host_input or report.argument == "hidden" or not own:
        return None
    first = next((row for row, each in enumerate(own) if each.function == "forward"), len(own))
    frame = own[max(0, first - 1)]
    tree = _tree(frame)
    calls = [call for call in _calls(tree) if _hands_one_over(call)] if tree is not None else []
    if len(calls) != 1:
        return None
    return Change(frame, calls[0].args[0], f".to(next({ast.unparse(calls[0].func)}.parameters()).device)")


def _hands_one_over(call: ast.Call) -> bool:
    """Whether a call may be that of a module with one tensor: `net(x)`, `self.net(batch.x)`."""
    if len(call.args) != 1 or call.keywords or not _plain(call.func) or not _plain(call.args[0]):
        return False
    name = ast.unparse(call.func)
    return name.partition(".")[0] not in _MODULES and name.rpartition(".")[2] not in _NO_MODULES


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call by what torch's messages call them."""
    match call.func:
        case ast.Attribute(value=of, attr=name):
            method = ast.unparse(of) not in _MODULES
        case ast.Name(id=name):
            method, of = False, call.func
        case _:
            return {}
    names = _ARGUMENTS.get(name.removesuffix("_"))
    if names is None and _CRITERION.search(name) and len(call.args) == len(_OF_LOSS):
        names, method = _OF_LOSS, False
    if names is None:
        return {}
    given = [of, *call.args] if method else list(call.args)
    found = dict(zip(names, given, strict=False))
    renamed = {"input": "self", "src": "src", "other": "mat2", "indices": "index"}
    return found | {renamed.get(each.arg, each.arg): each.value for each in call.keywords if each.arg}


def _simple(node: ast.expr) -> str | None:
    """A name or an attribute of one, whose method or part the value is, or what a model was called with: what
    can be asked for its device without doing anything twice. What a tensor's method is given may be a number.
    """
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in _OF_TENSORS:
                node = of
            case ast.Call(func=ast.Name() | ast.Attribute(), args=[of, *_]) | ast.Subscript(value=of):
                node = of
            case ast.UnaryOp(operand=of) | ast.BinOp(left=of):
                node = of
            case ast.Name() | ast.Attribute() if _plain(node) and ast.unparse(node) not in _MODULES:
                return ast.unparse(node)
            case _:
                return None


def _plain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _kept(node: ast.expr) -> bool:
    """Whether it is an attribute of `self`, or a part of one."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _tree(frame: Frame) -> ast.Module | None:
    return parsed(frame.code.strip())
