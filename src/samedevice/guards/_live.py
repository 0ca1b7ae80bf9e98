"""From an exception to an event: which tensors the failing frames hold, on which devices, in which modules.

Must guarantee: torch is not imported, only used when it is there; the script's objects are looked at and
never run (no properties, no calls); whatever goes wrong, the answer is None and the text of the exception has
to do.
"""

from __future__ import annotations

import ast
import dis
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from samedevice.events import Decision, Event, EventKind, Operand, Place
from samedevice.guards._align import tensors_of
from samedevice.provenance import call_at, function_name, variables_of
from samedevice.provenance.named_devices import device_source
from samedevice.provenance.syntax import parsed

if TYPE_CHECKING:
    import torch

    from samedevice.provenance import FrameFilter

_DEVICE_WORDS = re.compile(
    r"same device|meta tensor|device meta|device type for generator|should be the same|indices should "
    r"be|different device|to have \S+ device|expected device|device \S+ should match",
    re.I,
)
_META = re.compile(r"\bmeta\b(?!-)")
"""The device, and not torch's own address on the web."""
_MET = re.compile(r"two (?:different )?devices,? (\w+(?::\d+)?)(?: and |, )(\w+(?::\d+)?)")
"""How a compiler says which devices met: `at least two devices, cuda:0 and cpu`, before 2.13 `two different
devices cuda:0, cpu`.
"""
_TRACED = re.compile(r"call_(?:function|method) (?:<\S+(?: \S+)? )?(\w+)")
_DEVICES = re.compile(r"\b(?:cpu|[a-z]+:\d+)\b")
_HELD_DEPTH = 3
_STAYS = frozenset(
    (
        "abs bool chunk clone contiguous cos detach exp expand flatten float half int log long masked_fill "
        "mean permute relu repeat reshape sigmoid sin softmax split sqrt squeeze sum t tanh transpose "
        "unsqueeze view"
    ).split()
)
"""Methods that give a result where their tensor is."""
_RENAMED = {
    "embedding": {"input": "indices"},
    "cross_entropy": {"input": "self"},
    "nll_loss": {"input": "self"},
}
_OPERATORS = {
    "embedding": "aten.embedding.default",
    "cross_entropy": "aten.nll_loss_forward.default",
    "nll_loss": "aten.nll_loss_forward.default",
}
_SYMBOLS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "mm"}


def event_of(
    error: BaseException,
    model: torch.nn.Module | None = None,
    outer: FrameType | None = None,
    met: list[tuple[str, torch.Tensor]] | None = None,
) -> Event | None:
    """The event that an exception amounts to; None when it does not speak of devices or its frames are gone.

    `model` names parameters where no frame of a module does. `outer` is where the exception is on its way to,
    when it was caught below; `met` are the tensors that met, when the caller knows them.
    """
    carried = getattr(error, "samedevice_event", None)
    if isinstance(carried, Event) and carried.message == str(
        error
    ):  # a statement that failed before keeps its first event
        return carried
    if _is_empty(error) and is_recorded():
        from samedevice.runtime import Recording

        return Recording.failed_last()[1]
    if "torch" not in sys.modules or not speaks_of_devices(str(error)[:10_000]):
        return None
    try:
        return _event(error, model, outer, met)
    except Exception:
        return None


def speaks_of_devices(text: str) -> bool:
    """Whether the text of an exception is about devices."""
    return bool(_DEVICE_WORDS.search(text))


def raised_by_program(error: BaseException) -> bool:
    """Whether a `raise` or an `assert` outside of torch made the exception.

    Also every exception about devices before it, which it was raised from or while handling.
    """
    return _raised(error) and all(
        _raised(each) for each in _before(error) if speaks_of_devices(str(each)[:10_000])
    )


def _before(error: BaseException) -> list[BaseException]:
    """The exceptions that led to one, and those that were being handled."""
    chain = [error]
    for each in chain:  # grows while it is walked
        for earlier in (each.__cause__, each.__context__):
            if earlier is not None and all(earlier is not known for known in chain):
                chain.append(earlier)
    return chain[1:]


def _raised(error: BaseException) -> bool:
    """Whether a `raise` or an `assert` outside of torch made the exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or "torch" not in sys.modules:
        return False
    code = trace.tb_frame.f_code
    return code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"] and not frames_of_program().internal(
        code.co_filename
    )


def frames_of_program() -> FrameFilter:
    """Which frames are torch's and ours."""
    from samedevice.provenance import FrameFilter

    file = sys.modules["torch"].__file__
    assert file is not None
    return FrameFilter((str(Path(file).parent) + "/", str(Path(__file__).parent.parent) + "/"), None)


def _event(
    error: BaseException,
    model: torch.nn.Module | None,
    outer: FrameType | None,
    met: list[tuple[str, torch.Tensor]] | None,
) -> Event | None:
    from samedevice.provenance import surroundings

    frames = [*_outer(outer), *_frames(error.__traceback__)]  # oldest first
    keep = frames_of_program()
    own = [
        (frame, lasti, line) for frame, lasti, line in frames if not keep.internal(frame.f_code.co_filename)
    ]
    modules = surroundings.modules_in([frame for frame, _, _ in reversed(frames)])
    users = [entry for entry in own if keep.of_user(entry[0].f_code.co_filename)]
    stack = tuple(_place(*entry) for entry in own)
    if (
        traced := _traced(error, keep)
    ) is not None:  # no statement ran: a compiler met the mismatch when it made a graph
        places, op, operands = traced
        return _made(error, op, (*stack, *places), users, modules, operands)
    if not own:
        return None
    inner = [entry for entry in frames[frames.index(own[-1]) :] if entry[0] is not own[-1][0]]
    at = _place(*own[-1])
    failing = own[-1][0]
    inwards = [frame for frame, _, _ in reversed(own)]
    known = modules or ([model] if model is not None else surroundings.modules_held(inwards))
    names = surroundings.parameter_names(known)
    spoken = surroundings.Names(inwards)
    at_user = surroundings.Names([users[-1][0]]) if users else spoken
    function = next((name for frame, _, _ in inner if (name := frame.f_code.co_name) in _OPERATORS), None)
    tensors = met or _tensors(failing, at, inner, function)
    results: tuple[Operand, ...] = ()
    if met is None and function is None and (direct := _direct(failing, at, str(error))) is not None:
        tensors, results = direct
    keys = [surroundings.identity(tensor) for _, tensor in tensors]
    operands = tuple(_operand(*pair, names, key) for pair, key in zip(tensors, keys, strict=True))
    event = _made(error, _operator(str(error), function, at), stack, users, modules, (*operands, *results))
    if is_recorded():
        from samedevice.runtime import Recording

        return Recording.event(failing, keep, event, tensors)
    given = _given(modules, inwards)
    outside = _outside_of_modules([frame for frame, _, _ in users], [frame for frame, _, _ in frames])
    held = {surroundings.identity(tensor) for frame in outside for tensor in _held(frame)} - {0}
    operands = tuple(
        replace(
            operand,
            local=spoken.local(tensor),
            argument=spoken.argument(key),
            holder=spoken.holder(key),
            held_by_user=key in held,
            from_argument=given.get(key),
            at_user=at_user.local(tensor),
            hook=surroundings.owner_hook(known, names.get(key, ())),
        )
        for operand, key, (_, tensor) in zip(operands, keys, tensors, strict=True)
    )
    return replace(event, operands=(*(_with_source(each, own[::-1]) for each in operands), *results))


def _is_empty(error: BaseException) -> bool:
    """Whether an exception has lost its text, as in TorchScript's interpreter below a dispatch mode."""
    return isinstance(error, RuntimeError) and str(error).rstrip().endswith(("RuntimeError:", "Error:"))


def lost_text(error: BaseException) -> str:
    """What torch said in an exception that has lost its text; empty for any other."""
    if not _is_empty(error) or not is_recorded():
        return ""
    from samedevice.runtime import Recording

    return Recording.failed_last()[0]


def is_recorded() -> bool:
    """Whether the decisions of tensors are kept while the program runs."""
    runtime = sys.modules.get("samedevice.runtime")
    return runtime is not None and runtime.Recording.runs()


def _made(
    error: BaseException,
    op: str,
    stack: tuple[Place, ...],
    users: list[tuple[FrameType, int, int]],
    modules: list[torch.nn.Module],
    operands: tuple[Operand, ...],
) -> Event:
    from samedevice.provenance import surroundings

    meta = any(operand.device == "meta" for operand in operands) or bool(_META.search(str(error)))
    return Event(
        kind=EventKind.GENERATOR
        if "for generator" in str(error)
        else EventKind.UNMATERIALIZED
        if meta
        else EventKind.MISMATCH,
        op=op,
        message=str(error),
        at=stack[-1],
        user_at=_place(*users[-1]) if users else None,
        module=surroundings.name_of(modules),
        operands=operands,
        stack=stack,
        running=surroundings.running(modules, lambda tensor: tensor.device),
        device_map=surroundings.device_map(modules),
        versions=surroundings.versions(),
        processes=surroundings.processes(),
    )


def _traced(
    error: BaseException, keep: FrameFilter
) -> tuple[tuple[Place, ...], str, tuple[Operand, ...]] | None:
    """The statements that a compiler was tracing, what it called and the devices that met.

    As far as its error says so.
    """
    traced, met = vars(error).get("real_stack"), _MET.search(str(error))
    places = tuple(
        Place(each.filename, each.lineno or 0, each.name, each.line or "", "")
        for each in (traced if isinstance(traced, traceback.StackSummary) else ())
        if not keep.internal(each.filename)
    )
    if not places or met is None:
        return None
    called = _TRACED.search(str(error))
    name = called[1] if called else "?"
    return places, f"aten.{name}.default", tuple(Operand("?", device, (), "") for device in met.groups())


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lasti, trace.tb_lineno
        trace = trace.tb_next


def _outside_of_modules(users: list[FrameType], frames: list[FrameType]) -> list[FrameType]:
    """The script's frames that no call of a module is around: what they hold there, a module made or got.

    `frames` are all, the oldest first.
    """
    import torch

    before: list[FrameType] = []
    for each in frames:
        if each.f_code.co_name == "forward" and isinstance(variables_of(each).get("self"), torch.nn.Module):
            break
        before.append(each)
    return [frame for frame in users if any(frame is each for each in before)]


def _held(frame: FrameType) -> Iterator[torch.Tensor]:
    """The tensors in the variables of a frame, in containers too, and not those inside modules."""
    for value in variables_of(frame).values():
        yield from (tensor for _, _, tensor in tensors_of(value, depth=_HELD_DEPTH))


def _outer(frame: FrameType | None) -> Iterator[tuple[FrameType, int, int]]:
    """A frame that still runs and its callers, oldest first."""
    found = []
    while frame is not None:
        found.append((frame, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    yield from reversed(found)


def _place(frame: FrameType, lasti: int, line: int) -> Place:
    import linecache

    code = frame.f_code
    text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    return Place(code.co_filename, line, function_name(code), text, call_at(code, lasti, text))


def _tensors(
    failing: FrameType, at: Place, inner: list[Any], function: str | None
) -> list[tuple[str, torch.Tensor]]:
    """The tensors that met.

    Those of torch's own functional frame when there is one, else those of the failing expression.
    """
    import torch

    for frame, _, _ in inner:
        if function is not None and frame.f_code.co_name == function:
            renamed = _RENAMED.get(function, {})
            values: dict[str, Any] = dict(frame.f_locals)
            held = [
                (renamed.get(name, name), value)
                for name, value in values.items()
                if isinstance(value, torch.Tensor)
            ]
            if held:
                return held
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for frame, _, _ in reversed(inner):
        module = variables_of(frame).get("self")
        if frame.f_code.co_name == "forward" and isinstance(module, torch.nn.Module):
            return [
                *module.named_parameters(recurse=False),
                *(
                    (name, each)
                    for name, each in variables_of(frame).items()
                    if isinstance(each, torch.Tensor)
                ),
            ]
    for node in _expressions(at):
        for name, value in _values(node, failing):
            if isinstance(value, torch.Tensor):
                found.setdefault(id(value), (name, value))
            elif isinstance(value, torch.nn.Module):
                for own, tensor in value.named_parameters(recurse=False):
                    found.setdefault(id(tensor), (own, tensor))
    return list(found.values())


def _direct(
    failing: FrameType, at: Place, message: str
) -> tuple[list[tuple[str, torch.Tensor]], tuple[Operand, ...]] | None:
    """What a failing sum, product, comparison or call of a function combines: tensors that names reach, and
    results of other expressions, which are where the message leaves them; None where this cannot be told.
    """
    import torch

    sides = next((found for text in _texts(at) if (found := _sides(text))), [])
    known: dict[int, tuple[str, torch.Tensor]] = {}
    others: list[str] = []
    for side in sides:
        name, value = next(_values(_root(side), failing), ("", None))
        if isinstance(value, torch.Tensor):
            known.setdefault(id(value), (name, value))
        elif isinstance(value, torch.nn.Module):
            return None
        elif isinstance(side, (ast.Call, ast.BinOp, ast.UnaryOp)):
            others.append(ast.unparse(side))
    where = {str(tensor.device) for _, tensor in known.values()}
    told = set(_DEVICES.findall(message))
    if len(where) == 2:
        return list(known.values()), ()
    if len(where) != 1 or len(told) != 2 or not where < told or len(others) != 1:
        return None
    (device,) = told - where
    return list(known.values()), (Operand(others[0], device, (), "", local=others[0]),)


def _sides(text: str) -> list[ast.expr]:
    """The expressions that the outermost operation of a text combines."""
    tree = parsed(text)
    match tree.body[0] if tree is not None and tree.body else None:
        case ast.Expr(value=value) | ast.Return(value=ast.expr() as value) | ast.Assign(value=value):
            pass
        case _:
            return []
    match value:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=keywords):
            given = [*args, *(each.value for each in keywords)]
            lists = (each.elts if isinstance(each, (ast.List, ast.Tuple)) else [each] for each in given)
            return [owner, *(part for each in lists for part in each)]
    return []


def _root(side: ast.expr) -> ast.expr:
    """The tensor of which an expression is a view, a part or another dtype, and so on the same device."""
    while True:
        match side:
            case ast.Subscript(value=value) | ast.Attribute(value=value, attr="T" | "mT" | "data"):
                side = value
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _STAYS:
                side = value
            case _:
                return side


def _given(modules: list[torch.nn.Module], frames: list[FrameType]) -> dict[int, str]:
    """The arguments that the outermost running module was called with, by the identity of their memory."""
    from samedevice.provenance import surroundings

    if not modules:
        return {}
    return {
        key: name
        for name, tensor in surroundings.arguments_of(modules[-1], frames)
        if (key := surroundings.identity(tensor))
    }


def _with_source(operand: Operand, frames: list[tuple[FrameType, int, int]]) -> Operand:
    """What the source tells of an operand that is no parameter: who keeps it, where it was made and moved."""
    from samedevice.provenance import births, surroundings

    if operand.parameter is not None or operand.local is None:
        return operand
    made, moved = births.birth(operand.local, frames)
    kept_by = surroundings.keeper(operand.local, [frame for frame, _, _ in frames[:1]])
    return replace(
        operand, made=made, moved=moved, kept_by=kept_by, lineage=_decisions(operand.device, made, moved)
    )


def _decisions(device: str, made: Place | None, moved: Place | None) -> tuple[Decision, ...]:
    """The decision that a line of source took, where it is the last one."""
    place = moved or made
    if place is None:
        return ()
    source, said = device_source(place) or (None, None)
    return (Decision("moved" if moved else "created", device, place, source=source, said=said),)


def _expressions(at: Place) -> list[ast.expr]:
    for text in _texts(at):
        tree = parsed(text)
        if tree is None:
            continue
        found: list[ast.expr] = [
            node for node in ast.walk(tree) if isinstance(node, (ast.Name, ast.Attribute))
        ]
        if found:
            return found
    return []


def _texts(at: Place) -> tuple[str, ...]:
    """The expression of a place, as far as it is known."""
    code = at.code
    return at.call, code, code.rstrip(":").removeprefix("return "), code.partition("=")[2].strip()


def _values(node: ast.expr, frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The value of a name or a chain of attributes, read from dictionaries only."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return
    names = [node.id, *reversed(path)]
    value = frame.f_locals.get(names[0], frame.f_globals.get(names[0]))
    for name in names[1:]:
        value = _attribute(value, name)
    if value is not None:
        yield ".".join(names), value


def _attribute(owner: Any, name: str) -> Any:
    held = getattr(owner, "__dict__", None)
    if not isinstance(held, dict):
        return None
    if name in held:
        return held[name]
    for registry in ("_parameters", "_buffers", "_modules"):
        own = held.get(registry)
        if isinstance(own, dict) and name in own:
            return own[name]
    return None


def _operand(name: str, tensor: torch.Tensor, names: dict[int, list[tuple[str, str]]], key: int) -> Operand:
    known = names.get(key, []) if key else []
    return Operand(
        name=name,
        device=str(tensor.device),
        shape=tuple(int(size) for size in tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        parameter=known[0][0] if known else None,
        role=known[0][1] if known else None,
        tied=tuple(other for other, _ in known[1:]),
    )


def _operator(message: str, function: str | None, at: Place) -> str:
    if function is not None:
        return _OPERATORS[function]
    if found := re.search(r"in method wrapper_(?:\w{2,6}?_)?_{0,3}(\w{1,60}?)_?\)", message):
        return f"aten.{found[1]}.default"
    for text in (at.call, at.code):
        tree = parsed(text)
        if tree is None:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and type(node.op) in _SYMBOLS:
                return f"aten.{_SYMBOLS[type(node.op)]}.Tensor"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                return f"aten.{node.func.attr}.default"
    return "?"
