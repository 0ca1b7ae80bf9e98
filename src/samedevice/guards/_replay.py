"""The failing call once more, on a virtual machine: the birthplaces that real hardware does not keep.

The outermost call of a module on the traceback is copied without its values, apart from small ones, and made
again in a forked process, on virtual GPUs with the names of the real ones. Must guarantee: the program that
failed is not touched, waits a bounded time and pays a bounded amount of memory; whatever goes wrong, there is
a reason in words and the diagnosis stays as it was.
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import gc
import inspect
import os
import pickle
import select
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import psutil

from samedevice.events import Event
from samedevice.machines import parse_machine
from samedevice.messages import Bytes, Phrase
from samedevice.provenance import variables_of

if TYPE_CHECKING:
    import torch

SECONDS = 60.0
"""How long the program waits for its replay."""
MEMORY = 4 << 30
"""Bytes that the replay may hold of its own."""
_SMALL = 1 << 16
"""Bytes of a tensor up to which its values are taken along."""


class ReplayError(Exception):
    """There is no replay, and why."""

    def __init__(self, why: Phrase) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class _Call:
    """A method of a module and what it got."""

    module: torch.nn.Module
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def replayed(
    error: BaseException,
    event: Event,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Event:
    """The event as a virtual machine sees it, with birthplaces.

    Raises `ReplayError` with the reason where there is none.
    """
    if not hasattr(os, "fork"):
        raise ReplayError(Phrase("replay.no-fork"))
    import torch

    call = _failing_call(error)
    if call is None:
        raise ReplayError(Phrase("replay.no-call"))
    try:
        with _without_values():
            # Not in the fork: where CUDA has started here, it cannot be asked anything there.
            count = torch.cuda.device_count()
            outline = copy.deepcopy((call.module, call.method, call.args, call.kwargs))
    except Exception as failed:
        raise ReplayError(
            Phrase("replay.no-copy", module=type(call.module).__name__, reason=_line(failed))
        ) from failed
    for found in _in_a_fork(outline, count, seconds, memory):
        if isinstance(found, Phrase):
            raise ReplayError(found)
        # A module of torch that the script calls fails in the script's own statement, of which the fork knows
        # the function only.
        if (found.at.file, found.at.function) == (event.at.file, event.at.function):
            return replace(
                found,
                message=event.message,
                at=event.at,
                user_at=event.user_at,
                stack=event.stack,
                module=event.module,
            )
    raise ReplayError(Phrase("replay.elsewhere"))


def _failing_call(error: BaseException) -> _Call | None:
    """The outermost call of a module that the exception went through.

    A method of one where none was called.
    """
    import torch

    method: _Call | None = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        trace = trace.tb_next
        code = frame.f_code
        if not code.co_argcount or code.co_varnames[0] != "self":
            continue
        variables = variables_of(frame)
        module = variables.get("self")
        if not isinstance(module, torch.nn.Module):
            continue
        if code.co_name in ("_wrapped_call_impl", "_call_impl"):
            return _Call(module, "__call__", variables.get("args", ()), variables.get("kwargs", {}))
        method = method or _Call(module, code.co_name, (), _arguments(frame, variables))
    return method


def _arguments(frame: FrameType, variables: dict[str, Any]) -> dict[str, Any]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    given = {name: variables[name] for name in code.co_varnames[1:count] if name in variables}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        given |= variables.get(code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)], {})
    return given


# -- tensors without values


class _Outline:
    """A tensor's place and shape; becomes a tensor of the virtual machine when it is copied there."""

    def __init__(self, tensor: torch.Tensor) -> None:
        import torch

        self.kind = type(tensor) if type(tensor) in (torch.Tensor, torch.nn.Parameter) else torch.Tensor
        self.device, self.dtype = str(tensor.device), tensor.dtype
        self.shape, self.requires_grad = tuple(tensor.shape), tensor.requires_grad
        self.values = None
        if self.device != "meta" and tensor.numel() * tensor.element_size() <= _SMALL:
            with contextlib.suppress(Exception):  # a GPU that no longer answers
                self.values = tensor.detach().cpu().tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        import torch

        with torch.no_grad():
            made = torch.empty(self.shape, dtype=self.dtype, device=self.device)
            if self.values is not None:
                made.copy_(torch.tensor(self.values, dtype=self.dtype))
        record = getattr(made.untyped_storage(), "_sd", None)
        if record is not None and hasattr(record, "made"):
            # What came from outside was not made here.
            record.made = record.moved = record.decision = None
        tensor = torch.nn.Parameter(made, self.requires_grad) if self.kind is torch.nn.Parameter else made
        if self.requires_grad and self.kind is torch.Tensor:
            tensor.requires_grad_()
        memo[id(self)] = tensor
        return tensor


@contextlib.contextmanager
def _without_values() -> Iterator[None]:
    """Deep copies have outlines in the place of tensors."""
    import torch

    def outline(tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(tensor), _Outline(tensor))

    kinds: tuple[Any, ...] = (torch.Tensor, torch.nn.Parameter)
    kept = [vars(kind)["__deepcopy__"] for kind in kinds]
    for kind in kinds:
        kind.__deepcopy__ = outline
    try:
        yield
    finally:
        for kind, before in zip(kinds, kept, strict=True):
            kind.__deepcopy__ = before


# -- the other process


def _in_a_fork(outline: Any, count: int, seconds: float, memory: int) -> Iterator[Event | Phrase]:
    """What the replay saw; a phrase is the reason why it saw nothing."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # a fork beside threads: that it may hang is what the limit is for
        process = os.fork()
    if process == 0:
        os.close(reader)
        _replay(outline, count, writer)
    os.close(writer)
    try:
        content = _read(reader, process, time.monotonic() + seconds, memory)
    except TimeoutError:
        yield Phrase("replay.too-long", seconds=f"{seconds:.0f}")
        return
    except MemoryError:
        yield Phrase("replay.too-large", amount=Bytes(memory))
        return
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)
    try:
        yield from pickle.loads(content)
    except Exception as failed:
        yield Phrase("replay.died", reason=_line(failed))


def _read(reader: int, process: int, until: float, memory: int) -> bytes:
    """All that the process writes; raises TimeoutError or MemoryError when it goes over its limits."""
    content = b""
    begin = _resident(process)
    while True:
        if time.monotonic() > until:
            raise TimeoutError
        if _resident(process) - begin > memory:
            raise MemoryError
        if select.select([reader], [], [], 0.02)[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return content
            content += part


def _resident(process: int) -> int:
    """Bytes that a process holds in memory; 0 where that cannot be asked."""
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.Error:
        return 0


def _replay(outline: Any, count: int, writer: int) -> NoReturn:
    """Make the call on a virtual machine, write what was seen, and end.

    Nothing of the parent's is touched.
    """
    with contextlib.suppress(BaseException):
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
    seen: list[Event | Phrase] = []
    try:
        import torch

        from samedevice.runtime import VirtualMachine

        torch.set_num_threads(1)  # threads do not survive a fork
        gc.freeze()  # what the parent holds on real GPUs is not freed here
        os.environ.pop(
            "CUDA_VISIBLE_DEVICES", None
        )  # the call's devices are numbered as the program sees them
        with VirtualMachine(
            parse_machine(f"{max([count, 1, *_ordinals(outline)])}x1024GB"), on_mismatch="raise"
        ) as machine:
            module, method, args, kwargs = copy.deepcopy(outline)
            try:
                getattr(module, method)(*args, **kwargs)
            except Exception as error:
                if not machine.events:
                    seen.append(Phrase("replay.other-error", reason=_line(error)))
            seen = list(machine.events) or seen or [Phrase("replay.no-error")]
    except BaseException as error:
        seen = [Phrase("replay.died", reason=_line(error))]
    with contextlib.suppress(BaseException):
        content = pickle.dumps(seen)
        while content:
            content = content[os.write(writer, content) :]
    os._exit(0)


def _ordinals(outline: Any) -> Iterator[int]:
    """Numbers of GPUs that the call needs: one more than the largest index."""
    module = outline[0]
    for each in module.modules():
        for held in (*each._parameters.values(), *each._buffers.values()):
            index = getattr(held, "device", "").rpartition(":")[2]
            if index.isdecimal():
                yield int(index) + 1


def _line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()[:200]
