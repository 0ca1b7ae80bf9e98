"""The torch function mode under which refused calls of torch are healed.

Note [The mode is not seen]
Torch's own Python asks `has_torch_function` whether somebody listens, and takes other paths when somebody
does: `MultiheadAttention` leaves its fast one, whose last bits differ. So while the mode is there,
`torch.overrides` answers as it would without it; and a function of torch that is written in Python runs its
own body with the mode inside it, as if nobody had asked. What is healed are single operators, never the half
of a Python function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, Protocol, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch

from samedevice.guards._align import tensors_of
from samedevice.guards._compiled import is_recorded
from samedevice.guards._lent import is_plain, saving_is_watched
from samedevice.guards._operators import is_python, operator_of
from samedevice.messages import Phrase

_WATCHED = Phrase("heal.watched")
_ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


class Heals(Protocol):
    """What a mode asks."""

    healed: set[Any]
    """Functions of which a call was healed: their calls are looked at before they are made."""

    def heal(self, error: Exception, function: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """The result of a refused call that had done nothing; empty where it is not ours to heal."""

    def make(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result of a call whose tensors are on several devices, and which was not made yet."""

    def leave(
        self, error: Exception, function: Any, args: Any, kwargs: Any, reason: Phrase | None = None
    ) -> None:
        """Say on the error why the call is not healed."""


class _Here(threading.local):
    busy = False
    """A call is being healed: the modes further out let it pass."""
    running: tuple[Any, Any] = (None, None)
    """The Python function that was entered last, and its arguments."""


_here = _Here()
_entered = [0]
"""Modes that are there, in all threads."""
_lock = threading.Lock()
_asked = {name: getattr(torch.overrides, name) for name in _ASKS}


class Mode(TorchFunctionMode):
    """Hands refused calls of torch to who heals them."""

    def __init__(self, heals: Heals) -> None:
        super().__init__()
        self._heals = heals
        self._idle: list[bool] = []

    def __enter__(self) -> Self:
        top = _innermost()
        self._idle.append(isinstance(top, Mode) and top._heals is self._heals)
        if not self._idle[-1]:
            _count(1)
            super().__enter__()  # type: ignore[no-untyped-call] # of torch
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._idle.pop():
            super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call] # of torch
            _count(-1)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One call of torch."""
        kwargs = kwargs or {}
        if _here.busy:
            return func(*args, **kwargs)
        if is_python(func):
            return self._inside(func, args, kwargs)
        heals, operator = self._heals, operator_of(func)
        if operator is None or (types and _decides_itself(args, kwargs)):
            return self._left_alone(func, args, kwargs)
        careful = (
            func in heals.healed or "out" in kwargs or not operator.leaves_nothing or saving_is_watched()
        )
        if careful and _spread(args, kwargs):
            if not _alone() and not is_recorded():  # of a record, moves are a part, and nothing is lent
                return self._left_alone(func, args, kwargs, _WATCHED)
            return self._busy(heals.make, func, args, kwargs)
        recorded = is_recorded()  # asked first: torch.jit.trace has stopped when a call of torch has raised
        try:
            return func(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if recorded or (careful and not operator.leaves_nothing):
                heals.leave(error, func, args, kwargs)
            elif not _alone():
                heals.leave(error, func, args, kwargs, _WATCHED)
            elif healed := self._busy(heals.heal, error, func, args, kwargs):
                return healed[0]
            raise

    def _busy(self, call: Callable[..., Any], *given: Any) -> Any:
        _here.busy = True
        try:
            return call(*given)
        finally:
            _here.busy = False

    def _left_alone(self, func: Any, args: Any, kwargs: Any, reason: Phrase | None = None) -> Any:
        try:
            return func(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            self._heals.leave(error, func, args, kwargs, reason)
            raise

    def _inside(self, func: FunctionType, args: Any, kwargs: Any) -> Any:
        """A function of torch that is written in Python: its body, with the mode there."""
        before = _here.running
        again = before[0] is func and len(before[1]) == len(args) and all(map(_is, before[1], args))
        if again or _decides_itself(args, kwargs):  # it asks in a way of its own
            return self._left_alone(func, args, kwargs)
        if not _alone():
            return self._left_alone(func, args, kwargs, _WATCHED)
        names = func.__globals__
        body = FunctionType(
            func.__code__,
            {**names, **{name: _nobody for name in _ASKS if name in names}},
            func.__name__,
            func.__defaults__,
            func.__closure__,
        )
        body.__kwdefaults__ = func.__kwdefaults__
        _here.running = func, args
        try:
            with self:
                return body(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            self._heals.leave(error, func, args, kwargs)
            raise
        finally:
            _here.running = before


def _innermost() -> Any:
    return torch.overrides._get_current_function_mode()  # type: ignore[no-untyped-call] # of torch


def _is(one: Any, other: Any) -> bool:
    return one is other


def _nobody(*_: Any) -> bool:
    return False


def _alone() -> bool:
    """Whether no other mode further out is there that would see a call, and what is lent to it.

    That of the default device wants factories only. Modes for operators are torch's own, too, and count what
    is tried (`FlopCounterMode`), or keep its results (the policies of selective checkpoints).
    """
    from torch.utils._device import DeviceContext

    stack = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call] # of torch
    below = _python_dispatch._get_current_dispatch_mode_stack()
    return all(isinstance(each, (Mode, DeviceContext)) for each in stack) and all(
        type(each).__module__.startswith("samedevice.") for each in below
    )


def _decides_itself(args: Any, kwargs: Any) -> bool:
    return any(
        not is_plain(tensor) for value in (*args, *kwargs.values()) for _, _, tensor in tensors_of(value)
    )


def _spread(args: Any, kwargs: Any) -> bool:
    devices = {tensor.device for value in (*args, *kwargs.values()) for _, _, tensor in tensors_of(value)}
    return len(devices) > 1


def _count(by: int) -> None:
    """Answer for `torch.overrides` as long as a mode is there; see Note [The mode is not seen]."""
    with _lock:
        _entered[0] += by
        for name, ask in _asked.items():
            if by > 0 and _entered[0] == 1 and getattr(torch.overrides, name) is ask:
                setattr(torch.overrides, name, _answers[name])
            elif not _entered[0] and getattr(torch.overrides, name) is _answers[name]:
                setattr(torch.overrides, name, ask)


def _answer(ask: Callable[..., bool]) -> Callable[..., bool]:
    def has_torch_function(*relevant: Any) -> bool:
        """Whether somebody listens to calls of torch, besides what heals them."""
        if not ask(*relevant):
            return False
        if not isinstance(_innermost(), Mode):
            return True
        with torch.overrides._pop_mode_temporarily():
            return has_torch_function(*relevant)

    return has_torch_function


_answers = {name: _answer(ask) for name, ask in _asked.items()}
