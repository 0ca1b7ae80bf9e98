"""Signals wait while a machine is entered or left.

Python runs the handler of a signal between any two instructions of the main thread, and what it raises
(Ctrl-C, a time limit) would end the work in the middle: torch would be half replaced.

Must guarantee: inside no handler of the program runs in this thread; at the end each signal that came is sent
again, once, to the handler that the program had.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class SignalsWait:
    """A context in which signals wait; nothing in threads other than the main one, where no handler runs."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        """What the program had, by the number of the signal."""
        self._came: list[int] = []
        self._raised: list[BaseException] = []
        """What handlers raised before all of them were put aside."""

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        left = [number for number in signal.valid_signals() if callable(signal.getsignal(number))]
        while left:
            try:
                self._put_aside(left[-1])
                left.pop()
            except BaseException as error:  # of a handler that is not put aside yet: the work comes first
                self._raised.append(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(self._came):
            signal.raise_signal(number)
        if self._raised:
            raise self._raised[0]

    def _put_aside(self, number: int) -> None:
        handler: Callable[[int, FrameType | None], Any] | int | None = signal.getsignal(number)
        if handler != self._note:
            self._handlers[number] = handler
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._came.append(number)
