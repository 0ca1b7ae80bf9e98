"""From printed lines to a cause: of what a call hands over, a part is moved, and the rest is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from samedevice.diagnosis._rule import beside_the_first, device_pattern
from samedevice.diagnosis._statement import is_carried, put_back, read_directly
from samedevice.diagnosis.paste import THING, Frame, Pattern, Report
from samedevice.diagnosis.story import Reading
from samedevice.messages import Phrase
from samedevice.provenance.syntax import given_by_name, parsed

_KINDS = frozenset(
    "same-device argument-device index-device mask-device type-combination cat-device-old".split()
)
_MAKES = Pattern(
    r"\b(?:arange|zeros|ones|full|tensor|linspace|eye|empty|randn?|randint|as_tensor|from_numpy)\(|\.cpu\(|['\"]cpu"
)
"""A statement that makes a tensor itself, or brings one to the host."""
_LOOKUP = Pattern(r"index_select|embedding", re.IGNORECASE)
_LAYER_WEIGHT = Pattern(r"^(?:weight|mat2|bias)$")
_LOSS = Pattern(r"(?:loss|criterion|cross_entropy|nll|bce|\beq)\w*\(| == ", re.IGNORECASE)
"""What compares outputs with labels."""
_TENSORS = frozenset("labels mask ids extra cache vision".split())
"""Roles of things that no number has."""
_PAIR = 2
_DIM = 1
"""What stands before the index of a method: the dimension."""
_BESIDE_THE_FIRST = beside_the_first()
_TYPES = Pattern(r"float|half|double|dtype|int|long|bool|cpu")


def read_printed(report: Report) -> Reading | None:
    """The cause that printed lines amount to, of operands that meet on two devices."""
    if report.kind == "input-weight-type":
        return _weight_of_a_function(report)
    if report.kind == "embedding-device-old":
        return _all_moved(report)
    if (directly := read_directly(report)) is not None or report.kind not in _KINDS:
        return directly
    looks = (
        put_back,
        _own_table,
        _data_beside_kept,
        _made_in_the_text,
        _not_moved,
        _kept_on_the_first,
        _handed_down,
    )
    return next((found for look in looks if (found := look(report)) is not None), None)


def _weight_of_a_function(report: Report) -> Reading | None:
    """A convolution's function is called with a weight on the host that no layer owns."""
    at = report.at
    tree = _tree(at.marked or at.code) if at is not None else None
    if device_pattern(report.devices) != "host" or report.devices[-1] != "cpu":
        return None
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ():
        given = given_by_name(call, "weight")
        weight = given or (call.args[1] if len(call.args) > 1 else None)
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if _CONVOLVES.fullmatch(name) and weight is not None and not _of_a_layer(weight):
            text = ast.unparse(weight)
            # a module's `forward` that calls the function may have handed over what the module keeps
            above = report.own_frames[: report.own_frames.index(at)] if at in report.own_frames else ()
            handed = isinstance(weight, ast.Name) and any(_runs_a_module(frame) for frame in above)
            reason = Phrase("because.weight-of-a-function", operand=text)
            others = ("module-left-on-other-device", "hard-coded-device")
            return Reading("tensor-created-on-wrong-device", (reason,), others, guilty=text, sure=not handed)
    return None


def _runs_a_module(frame: Frame) -> bool:
    return (frame.function or "").rpartition(".")[2] == "forward"


def _all_moved(report: Report) -> Reading | None:
    """A table meets ids on another device, and all that the model is called with is moved in that call."""
    own = next((frame for frame in reversed(report.frames) if frame.by_user), None)
    if own is None or own is report.frames[-1] or _PLACED.search(report.words):
        return None
    tree = _tree(own.marked or own.code)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ():
        given = [*call.args, *(each.value for each in call.keywords)]
        if not (isinstance(call.func, ast.Name) and given and all(map(_is_moved, given))):
            continue
        name = call.func.id
        moved = rf"\b{re.escape(name)}(?:\.(?:to|cuda)\(| ?= ?[^\n]{{0,120}}\.(?:to|cuda)\()"
        if re.search(moved, report.words):
            return None
        reason = Phrase("because.printed-all-moved", operand=name, text=_brief(own.code))
        others = ("input-not-on-embedding-device",)
        return Reading("module-left-on-other-device", (reason,), others, guilty=name)
    return None


_PLACED = Pattern(r"device_map|\.parameters\(\)\)?\.device|accelerat|DataParallel")
"""What places a model without naming it, or tells where it is."""


def _is_moved(node: ast.expr) -> bool:
    """Whether an argument is moved where it is handed over, to a device that stands first."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")) | ast.Call(args=[_]):
            return _is_move(node)
    return False


_CONVOLVES = Pattern(r"conv(?:_transpose)?[123]d")


def _of_a_layer(weight: ast.expr) -> bool:
    return isinstance(weight, ast.Attribute) and weight.attr in ("weight", "kernel")


def _own_table(report: Report) -> Reading | None:
    """An object's own tensor on the host is looked up by an index on a GPU, and no layer is called."""
    code = report.at.code if report.at is not None else ""
    table = _LOOKED_UP.search(code)
    if table is None or report.argument != "index" or report.kind not in ("same-device", "argument-device"):
        return None
    own = report.devices[0] if report.kind == "argument-device" else report.devices[-1]
    if device_pattern(report.devices) != "host" or own == "cpu":
        return None
    reason = Phrase("because.line", text=_brief(code))
    others = ("module-left-on-other-device", "rope-table-on-wrong-device")
    return Reading("tensor-created-on-wrong-device", (reason,), others, guilty=table["table"])


_LOOKED_UP = Pattern(r"\b(?P<table>self(?:\.\w{1,40}){1,3})\.(?:index_select|gather|take)\(")


def _made_in_the_text(report: Report) -> Reading | None:
    """An operand of the failing statement is made without a device in a line that the text shows, and nothing
    there moves it.
    """
    if device_pattern(report.devices) != "host" or report.at is None:
        return None
    read = _read_in(report.at.code)
    beside = report.beside.text if report.beside is not None else ""
    text = "\n".join((beside, *report.pieces, report.code))
    for name in sorted(read[0] if read is not None else ()):
        word = re.escape(name)
        made = re.search(rf"\b{word}\s?=(?!=){_MADE_BARE}", text)
        moved = re.search(rf"\b{word}\.(?:to|cuda)\(|\b{word}\s?=(?!=)[^\n]{{0,120}}\.(?:to|cuda)\(", text)
        if made is not None and moved is None:
            reason = Phrase("because.line", text=_brief(made[0]))
            return Reading("tensor-created-on-wrong-device", (reason,), guilty=name)
    return None


_MADE_BARE = (
    r"[^\n=;`]{0,80}\b(?:torch|th)\.(?:zeros|ones|tensor|arange|eye|full|empty|linspace|randn?|randint)"
    r"\((?:(?!device)[^\n`;()]|\([^\n()]{0,60}\)){0,80}\)(?!\s?\.(?:to|cuda)\()"
)


def _handed_down(report: Report) -> Reading | None:
    """The operand that a message about a list names was handed from function to function under its name."""
    at, name = report.at, report.argument
    if report.kind != "cat-device-old" or at is None or name is None or not name.isidentifier():
        return None
    callers = [frame for frame in report.own_frames if frame is not at]
    if not callers or not re.search(rf"[(,]\s?{name}\s?[,)]", callers[-1].code):
        return None
    reason = Phrase(
        "because.printed-not-moved", operand=name, line=callers[-1].line or 0, text=_brief(callers[-1].code)
    )
    return Reading("extra-input-on-wrong-device", (reason,), ("tensor-created-on-wrong-device",), guilty=name)


def _data_beside_kept(report: Report) -> Reading | None:
    """What comes in is on the host, and a module keeps the other operand, which moved with it.

    Or the reverse, where the statement makes that operand.

    Sure where the statement reads that operand from the module, or calls a module of it.
    """
    placed = dict(report.operands) if len(report.operands) > 1 else _by_argument(report)
    kept = next((name for name in placed if _KEPT.fullmatch(name)), None)
    others = [device for name, device in placed.items() if name != kept]
    if kept is None or not others:
        return None
    if device_pattern((placed[kept], others[0])) == "gpus":
        reason = Phrase("because.kept-beside", operand=kept, device=placed[kept])
        others_of_gpus = ("hard-coded-device", "generator-or-default-device")
        return Reading("tensor-created-on-wrong-device", (reason,), others_of_gpus, guilty=kept, sure=False)
    if device_pattern((placed[kept], others[0])) != "host":
        return None
    code = report.at.code if report.at is not None else ""
    reason = Phrase("because.kept-beside", operand=kept, device=placed[kept])
    if placed[kept] == "cpu":
        if not _MAKES.search(code):
            return None
        return Reading(
            "tensor-created-on-wrong-device", (reason,), ("module-left-on-other-device",), guilty=kept
        )
    sure = _OF_MODULE.search(code) is not None and not _MAKES.search(code)
    guilty = next(name for name in placed if name != kept)
    candidates = ("extra-input-on-wrong-device", "hard-coded-device")
    return Reading("input-not-on-embedding-device", (reason,), candidates, guilty=guilty or None, sure=sure)


def _by_argument(report: Report) -> dict[str, str]:
    """The devices of the named argument and, under an empty name, of the others."""
    if report.argument is None or len(report.devices) < _PAIR:
        return {}
    own, rest = report.devices[:2] if report.kind == "argument-device" else report.devices[1::-1]
    return {report.argument: own, "": rest}


_KEPT = Pattern(r"window|running_(?:mean|var)|boundar(?:y|ies)|filters?|kernel|codebook")
"""Arguments of operators that are made once and kept, beside the data that come in."""
_OF_MODULE = Pattern(r"\bself\.\w+")


def _not_moved(report: Report) -> Reading | None:
    """What one call hands over as it is, while it, or a line above it, moves the rest.

    The failing statement must read it by that name; what it reads of its own module may be the one as well.
    """
    at = report.at
    if device_pattern(report.devices) != "host" or at is None or not _named_on_host(report):
        return None
    read = _read_in(at.code)
    if read is None or _MAKES.search(at.code):
        return None
    tensors, others = read
    for frame in reversed(report.own_frames):
        left, moved, complete = _left_in(frame, failing=frame is at)
        found = [name for name in left if name in tensors]
        if len(found) == 1:
            if frame is not at and not _must_be(report, at.code, found[0], moved):
                return None
            sure = frame is at or (complete and not others)
            return _reading(report, frame, left[found[0]], found[0], sure=sure)
        if frame is not at:  # what is handed on further down goes by its name
            tensors = frozenset(name for name in tensors if re.search(rf"\b{name}\b", frame.code))
    return None


def _reading(report: Report, frame: Frame, text: str, name: str, *, sure: bool) -> Reading:
    thing = THING.fullmatch(name) or THING.fullmatch(text)
    statement = report.at.code if report.at is not None else ""
    if (thing is not None and thing.lastgroup == "labels") or (
        frame is report.at and _LOSS.search(statement)
    ):
        cause = "loss-or-label-on-other-device"
    elif is_carried(frame.code, name):
        cause = "cache-or-beam-state-on-wrong-device"
    elif _LOOKUP.search(report.op or "") or report.argument == "mat1":
        cause = "input-not-on-embedding-device"
    else:
        cause = "extra-input-on-wrong-device"
    others = (
        "extra-input-on-wrong-device",
        "tensor-created-on-wrong-device",
        "loss-or-label-on-other-device",
    )
    reason = Phrase("because.printed-not-moved", operand=text, line=frame.line or 0, text=_brief(frame.code))
    candidates = tuple(each for each in others if each != cause)[:2]
    return Reading(cause, (reason,), candidates, "advice.hand-over", guilty=text, sure=sure)


def _must_be(report: Report, code: str, name: str, moved: frozenset[str]) -> bool:
    """Whether a name of a statement stands for a tensor, and for the one on the host: a number is handed over
    as it is, too.

    It is a tensor where it is indexed, has a method called or is called as tensors are. Else it is the one
    where the message names the index and it is that, or all others that may be are moved; where there is one
    other, two tensors met, so both are.
    """
    tree = _tree(code)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case (
                ast.Call(func=ast.Attribute(value=ast.Name(id=base))) | ast.Subscript(value=ast.Name(id=base))
            ) if base == name:
                return True
    thing = THING.fullmatch(name)
    if thing is not None and thing.lastgroup in _TENSORS:
        return True
    if report.argument == "index":
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
        return any(name == _index_of(call) for call in calls)
    read = _read_in(code)
    names = read[0] if read is not None else frozenset()
    return len(names) == _PAIR or not names - moved - {name}


def _index_of(call: ast.Call) -> str | None:
    """The name that `x.index_add(dim, index, source)` or `torch.gather(x, dim, index)` indexes by."""
    given = given_by_name(call, "index")
    match call.func:
        case ast.Attribute(value=ast.Name(id="torch")) if given is None and len(call.args) > _DIM + 1:
            given = call.args[_DIM + 1]
        case ast.Attribute() if given is None and len(call.args) > _DIM:
            given = call.args[_DIM]
    return given.id if isinstance(given, ast.Name) else None


def _kept_on_the_first(report: Report) -> Reading | None:
    """A rank meets on its own GPU what an object keeps on the first one."""
    reason = _BESIDE_THE_FIRST(report)
    if reason is None or report.at is None:
        return None
    read = _read_in(report.at.code)
    kept = sorted(read[1]) if read is not None else []
    state = _kept_by_name(report.at.code)
    if state is not None:
        cause, others = "checkpoint-map-location", ("hard-coded-device", "rank-device-not-set")
        return Reading(cause, (reason,), others, "advice.state-of-a-rank", guilty=state, sure=False)
    candidates = ("rank-device-not-set", "tensor-created-on-wrong-device")
    guilty = kept[0] if len(kept) == 1 else None
    return Reading("hard-coded-device", (reason,), candidates, guilty=guilty, sure=False)


def _kept_by_name(code: str) -> str | None:
    """The state that an object keeps by names, as a checkpoint holds it: `self.shadow[name]`."""
    tree = _tree(code)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=ast.Name()):
                return ast.unparse(node)
    return None


def _named_on_host(report: Report) -> bool:
    """Whether the operand that the message names is the one on the host; also where it names none."""
    if report.argument is None or len(report.devices) < 2:
        return report.argument is None
    own = report.devices[0] if report.kind == "argument-device" else report.devices[1]
    return own == "cpu" and not _LAYER_WEIGHT.search(report.argument)


def _read_in(code: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """The names that a statement reads as tensors, and the attributes of `self`; None for what is no Python.

    A name is none of a tensor where it is called, stands in a slice, or only has an attribute read.
    """
    tree = _tree(code)
    if tree is None:
        return None
    skipped: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name() as function):
                skipped.add(id(function))
            case ast.Call(func=ast.Attribute() as function):
                skipped.add(id(function))
            case ast.Subscript(slice=inner):
                skipped |= {id(each) for each in ast.walk(inner)}
    names, kept = set(), set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Load()):
                kept.add(ast.unparse(node))
            case ast.Attribute(value=ast.Name() as base):
                skipped.add(id(base))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in skipped:
            names.add(node.id)
    return frozenset(names - {"self", "torch", "F", "np"}), frozenset(kept)


def _left_in(frame: Frame, *, failing: bool) -> tuple[dict[str, str], frozenset[str], bool]:
    """By name, what the calls of a frame hand over without a move, where something else is moved; the names
    that are moved; and whether no hidden line can have moved the others: the call moves something itself, or
    what hands them out is shown.

    In the failing statement itself that is what a loop or an unpacking in the lines above hands out.
    """
    tree = _tree(frame.code)
    if tree is None:
        return {}, frozenset(), False
    moved, handed = _moved_above(frame)
    if failing:
        return ({name: name for name in handed - moved} if handed & moved else {}), moved, True
    sent: set[str] = set()
    found: dict[str, str] = {}
    complete = True
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        given: list[tuple[str | None, ast.expr]] = [(None, each) for each in call.args]
        given += [(each.arg, each.value) for each in call.keywords]
        at_once = any(_is_move(each) for _, each in given)
        above = any(_name(each) in moved for _, each in given)
        for keyword, each in given:
            if _is_move(each):
                sent |= {keyword} if keyword else set(_targets(each))
        for keyword, each in given if at_once or above else ():
            name = _name(each)
            if name is None or name in moved:
                continue
            complete = complete and (at_once or name in handed)
            found[keyword or name] = ast.unparse(each)
            if isinstance(each, ast.Name):
                found.setdefault(name, name)
    return found, moved | sent, complete


def _moved_above(frame: Frame) -> tuple[frozenset[str], frozenset[str]]:
    """The names that the lines above a statement move, and those that a loop or an unpacking hands out."""
    moved: set[str] = set()
    handed: set[str] = set()
    for line in frame.above:
        tree = _tree(line)
        for node in tree.body if tree is not None else ():
            match node:
                case ast.For(
                    target=ast.Tuple(elts=[_, target]), iter=ast.Call(func=ast.Name(id="enumerate"))
                ):
                    handed |= set(_targets(target))
                case ast.For(iter=ast.Call(func=ast.Name(id="range"))):
                    pass
                case ast.For(target=target):
                    handed |= set(_targets(target))
                case ast.Assign(targets=[ast.Tuple() as target], value=ast.Tuple() as value):
                    pairs = zip(target.elts, value.elts, strict=False)
                    moved |= {name for one, each in pairs if _is_move(each) for name in _targets(one)}
                case ast.Assign(targets=[ast.Tuple() as target], value=ast.Name() | ast.Call() as value) if (
                    not isinstance(value, ast.Call) or _is_next(value)
                ):
                    handed |= set(_targets(target))
                case ast.Assign(targets=[target], value=value):
                    if _is_move(value):
                        moved |= set(_targets(target))
                    elif isinstance(value, ast.Subscript):
                        handed |= set(_targets(target))
    return frozenset(moved), frozenset(handed)


def _targets(node: ast.expr) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id


def _is_next(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "next"


def _is_move(node: ast.expr) -> bool:
    """Whether an expression is `x.to(...)` or `x.cuda()`, which brings a tensor to a GPU."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=args):
            return not _TYPES.search(" ".join(map(ast.unparse, args)))
    return False


def _name(node: ast.expr) -> str | None:
    """What a handed over expression is called: by a name, a key or an attribute that is none of `self`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Attribute(value=ast.Name(id=base), attr=attribute) if base != "self":
            return attribute
    return None


def _tree(code: str) -> ast.Module | None:
    """The tree of a printed line; the head of a block stands for a whole one."""
    plain = code.strip().replace("\\", "/")  # Python warns of escapes that it does not know
    return parsed(f"{plain} pass" if plain.endswith(":") else plain)


def _brief(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
