"""What torch's C++ says of tensors on a virtual GPU, in the words that it has for a real one.

C++ sees the meta device (Note [C++ sees one device] in `engine.py`) and says so in its errors. Must
guarantee: no text that a person reads speaks of meta for a tensor that is on a virtual GPU; an error about
the program's own meta tensors keeps its text. Frames of ours leave a traceback at the same doors.

All doors lie on the way of an error, none on the way of a call that succeeds. The engine hands `in_own_words`
the errors of kernels that it ran. Above every mode, in autograd and in the checks of composite operators, C++
raises by itself: from Python 3.12 on the interpreter tells of each error where it enters Python, before that
it is reworded where it leaves backward or the machine, or where it is shown.
"""

from __future__ import annotations

import dis
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.provenance import passed_us, trim, variables_of
from samedevice.runtime.patching import Change, Patch
from samedevice.runtime.state import Helper, Memory, raw_is_meta, tensors_in, this_thread
from samedevice.runtime.tracking import record_of

_NO_KERNEL = re.compile(
    r"Could not run '[^']*' with arguments from the '(?!\w*CUDA')|"
    r"with Meta tensors, but there was no|Cannot access storage of|INTERNAL ASSERT FAILED|"
    r"(?:device type|layout|backend)\b.*\bmeta\b|cannot be called on meta tensor|[Cc]annot access data "
    r"pointer"
)
"""C++ has no kernel for the carrier, or has one that wants to read it."""
_NO_SHAPES = "with Meta tensors, but there was no"
_WRITTEN_IN_C = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)

_MOST_FRAMES = 60
_MOST_TENSORS = 200

_TYPE = re.compile(r"(device type[: ]*'?)meta\b")
_DEVICE = re.compile(r"(?<![\w.])meta(?![\w.]*\w)")
_CLASS = re.compile(r"\btorch\.meta\.")
_BACKEND = re.compile(
    r"(?<![a-z])(Quantized|SparseCsr|Sparse|NestedTensor|Autograd)?Meta(?=\b|[A-Z][a-z]+Type\b)"
)

_LEGACY = re.compile(r"\bCUDA([A-Z][a-z]+)Type\b")
"""`CUDAFloatType`: torch/csrc/Exceptions.cpp makes `torch.cuda.FloatTensor` of it."""


def in_own_words(name: str, error: Exception, tensors: Iterable[torch.Tensor]) -> None:
    """Reword an error of an operator that the engine ran.

    Where C++ cannot run it on carriers, raise one of ours in its place.

    It is not returned: a frame that holds an error which holds the frame keeps the operator's tensors alive.
    """
    text = str(error)
    no_kernel = bool(_NO_KERNEL.search(text))
    if (
        type(error) not in _WRITTEN_IN_C
        or hasattr(error, "samedevice_event")
        or hasattr(error, "samedevice_of_values")
        or not (no_kernel or _speaks_of_meta(error))
    ):
        return
    device = _carriers(tensors, helped=True)
    if device is None:
        return
    if not no_kernel:
        error.args = (_worded(text, device), *error.args[1:])
        return
    namespace, _, rest = name.partition(".")
    short = rest.partition(".")[0]
    if _NO_SHAPES in text and namespace != "aten":
        raise UnsupportedFeatureError(
            f"{namespace}::{short} says nothing of the shapes of its results, so it cannot run on a virtual "
            "machine: "
            f'torch.library.register_fake("{namespace}::{short}") tells them.'
        ) from None
    kind = (
        "sparse tensors"
        if "Sparse" in text
        else "quantized tensors"
        if "Quantized" in text
        else "these arguments"
    )
    raise UnsupportedFeatureError(
        f"{short if namespace == 'aten' else name} with {kind} is not supported on a virtual machine."
    ) from None


def reword(error: BaseException, frame: FrameType | None = None) -> None:
    """Change the text of an error, and of those before it, that C++ wrote about tensors of a virtual GPU.

    `frame` is where the error entered Python, where that is not in its traceback yet.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if (
            type(current) in _WRITTEN_IN_C
            and not hasattr(current, "samedevice_event")
            and _speaks_of_meta(current)
        ):
            device = _carriers(_tensors_near(frame if current is error else None, current.__traceback__))
            if device is not None:
                current.args = (_worded(current.args[0], device), *current.args[1:])
        current = current.__cause__ or current.__context__


def tidy(error: BaseException) -> None:
    """What a person is to see of an error that leaves the machine.

    Torch's words for a GPU, and no frames of ours.
    """
    reword(error)
    trim(error)


def _speaks_of_meta(error: BaseException) -> bool:
    return bool(error.args) and isinstance(error.args[0], str) and "meta" in error.args[0].lower()


def _worded(text: str, device: str) -> str:
    kind = device.partition(":")[0]
    text = _CLASS.sub("torch.cuda." if kind == "cuda" else "torch.", _TYPE.sub(rf"\g<1>{kind}", text))
    text = _BACKEND.sub(lambda found: f"{found[1] or ''}{kind.upper()}", text)
    text = _LEGACY.sub(r"torch.cuda.\1Tensor", text)
    return _DEVICE.sub(device, text)


def _carriers(tensors: Iterable[torch.Tensor], *, helped: bool = False) -> str | None:
    """The device of the carriers among tensors, without its number where there are several.

    None without any, and beside one that the program itself may have on meta. In the arguments of an operator
    it may be a helper; in a variable it is the program's.
    """
    devices: dict[str, str] = {}
    for tensor in islice(tensors, _MOST_TENSORS):
        record = record_of(tensor)
        if record.__class__ is Memory:
            if record.virtual:
                devices[str(record.device)] = record.device.type
        elif raw_is_meta(tensor) and not (helped and record.__class__ is Helper):
            return None
    gpus = [name for name, kind in devices.items() if kind == "cuda"]
    if len(gpus) > 1:
        return "cuda"
    return next(iter(gpus or devices), None)


def _tensors_near(frame: FrameType | None, trace: TracebackType | None) -> Iterator[torch.Tensor]:
    """Tensors in the variables of the innermost frame that has any."""
    for each in islice(_outwards(frame, trace), _MOST_FRAMES):
        found = list(islice(_held(variables_of(each)), _MOST_TENSORS))
        if found:
            yield from found
            return


def _outwards(frame: FrameType | None, trace: TracebackType | None) -> Iterator[FrameType]:
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    yield from reversed(frames)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _held(variables: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in variables.values():
        if isinstance(value, torch.nn.Module):
            yield from value.parameters()
            yield from value.buffers()
        elif isinstance(value, dict):
            yield from tensors_in(list(value.values()))
        else:
            yield from tensors_in(value)


# -- the doors


class _Backward:
    """Autograd's engine, whose own checks speak of devices."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._real.run_backward(*args, **kwargs)
        except Exception as error:
            reword(error)
            raise


def _shown(hook: Callable[..., object]) -> Callable[..., object]:
    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> object:
        if error is not None:
            tidy(error)
            trace = error.__traceback__
        return hook(kind, error, trace)

    return show


def _shown_in_thread(hook: Callable[..., object]) -> Callable[..., object]:
    def show(given: Any) -> object:
        if given.exc_value is not None:
            tidy(given.exc_value)
            given = threading.ExceptHookArgs(
                (given.exc_type, given.exc_value, given.exc_value.__traceback__, given.thread)
            )
        return hook(given)

    return show


_events: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What was recorded of an error that torch hands from one thread to another as text."""


def _wrapping(wrap: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(wrap)
    def into_text(self: Any, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        if error is not None:
            tidy(error)
            trace = error.__traceback__
            if hasattr(error, "samedevice_event"):
                _events[self] = error.samedevice_event
        wrap(self, (kind, error, trace), where)

    return into_text


def _unwrapping(reraise: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(reraise)
    def raise_again(self: Any) -> None:
        try:
            reraise(self)
        except BaseException as error:
            if self in _events:
                error.samedevice_event = _events[self]  # type: ignore[attr-defined]  # how callers find it again
            raise

    return raise_again


_RAISING = frozenset(dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE"))
_tools: list[int] = []
"""Numbers under which the interpreter knows the machines that listen, innermost last."""


def _free_tool() -> int | None:
    monitoring: Any = getattr(sys, "monitoring", None)  # new in Python 3.12
    if monitoring is None:
        return None
    return next((number for number in (4, 3) if monitoring.get_tool(number) is None), None)


def _raised(code: CodeType, offset: int, error: BaseException) -> None:
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None and not this_thread.raw and passed_us(trace.tb_next):
        if not passed_us(TracebackType(None, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)):
            trim(error)
    if (
        type(error) in _WRITTEN_IN_C
        and not this_thread.raw
        and _speaks_of_meta(error)
        and code.co_code[offset] not in _RAISING
    ):
        reword(error, sys._getframe(1))


def _listen() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # new in Python 3.12
    tool = _free_tool()
    assert tool is not None, "the row asks before"
    monitoring.use_tool_id(tool, "samedevice")
    _tools.append(tool)
    monitoring.register_callback(tool, monitoring.events.RAISE, _raised)
    monitoring.set_events(tool, monitoring.events.RAISE)


def _listen_no_more() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # new in Python 3.12
    tool = _tools.pop()
    monitoring.set_events(tool, 0)
    monitoring.register_callback(tool, monitoring.events.RAISE, None)
    monitoring.free_tool_id(tool)


_SHOWN = "an error that is shown speaks of meta, and its traceback of our frames"
PATCHES = (
    Patch(
        "torch.autograd.variable.Variable._execution_engine",
        _Backward,
        "autograd's own checks speak of meta where a tensor is on a GPU",
    ),
    Patch("sys.excepthook", _shown, _SHOWN),
    Patch("threading.excepthook", _shown_in_thread, _SHOWN),
    Patch("torch._utils.ExceptionWrapper.__init__", _wrapping, _SHOWN),
    Patch(
        "torch._utils.ExceptionWrapper.reraise",
        _unwrapping,
        "what `DataParallel` raises again is the error that was recorded, and no second one",
    ),
    Change(
        "sys.monitoring",
        _listen,
        _listen_no_more,
        "`_raised`, while an error enters Python from C",
        "a script that catches an error of C++ reads meta where a tensor is on a GPU",
        since="Python 3.12",
        when=lambda: _free_tool() is not None,
    ),
)
