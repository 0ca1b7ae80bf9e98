"""Work that is waited for: done already, or a call of ours.

Must guarantee: what is received between the brackets of coalesced calls is there once the bracket was waited
for, also where the program never sees the single receives (`batch_isend_irecv` up to torch 2.6); what was
waited for is held no longer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from samedevice.torch_versions.adapter import TORCH

_c10d: Any = torch._C._distributed_c10d


def done(tensors: Sequence[torch.Tensor]) -> Any:
    """A piece of work that is done."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(list(tensors))
    return _c10d._create_work_from_future(future)


class Works:
    """What a program on one machine has not waited for yet."""

    def __init__(self) -> None:
        self._kept: dict[Callable[..., bool], Any] = {}
        """By their waits, Python halves of work that C++ holds only the other half of."""
        self._brackets: dict[tuple[int, str], dict[Callable[..., bool], None]] = {}
        """The waits of what was begun in each open bracket, by its thread and the name of its group."""

    def calling(self, wait: Callable[[], object], group: Any) -> Any:
        """A piece of work of `group` that calls `wait` when it is waited for the first time."""
        bracket = self._brackets.get(_key(group), {})
        left = [wait]

        def wait_once(*_: Any) -> bool:
            try:
                if left:
                    left.pop()()
            finally:
                self._kept.pop(wait_once, None)
                bracket.pop(wait_once, None)
            return True

        bracket[wait_once] = None
        work = self._kept[wait_once] = TORCH.work_that_calls(wait_once)
        return work

    def open_bracket(self, group: Any) -> None:
        """From here on this thread's calls of `group` are coalesced.

        A bracket that is open still was left by an exception: torch does not close it then.
        """
        self._brackets[_key(group)] = {}

    def close_bracket(self, group: Any) -> Any:
        """The work of all calls since the bracket was opened."""
        waits = list(self._brackets.pop(_key(group), ()))
        return self.calling(lambda: [wait() for wait in waits], group) if waits else done([])

    def clear(self) -> None:
        """Hold nothing any longer: the machine was left."""
        self._kept.clear()
        self._brackets.clear()


def _key(group: Any) -> tuple[int, str]:
    return threading.get_ident(), group.group_name
