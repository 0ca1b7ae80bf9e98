"""Work that is waited for: done already, or a call of ours.

Must guarantee: what is received between the brackets of coalesced calls is there once the bracket was waited
for, also where the program never sees the single receives (`batch_isend_irecv` up to torch 2.6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from samedevice.torch_versions.adapter import TORCH

_c10d: Any = torch._C._distributed_c10d
_kept: list[Any] = []
"""Python halves of work that C++ holds only the other half of."""
_brackets: list[list[Callable[..., bool]]] = []
"""What was begun in each bracket that is open, the innermost last."""


def done(tensors: Sequence[torch.Tensor]) -> Any:
    """A piece of work that is done."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(list(tensors))
    return _c10d._create_work_from_future(future)


def calling(wait: Callable[..., bool]) -> Any:
    """A piece of work that calls `wait` when it is waited for, perhaps more than once."""
    if _brackets:
        _brackets[-1].append(wait)
    work = TORCH.work_that_calls(wait)
    _kept.append(work)
    return work


def open_bracket() -> None:
    """From here on calls are coalesced."""
    _brackets.append([])


def close_bracket() -> Any:
    """The work of all calls since the bracket was opened."""
    waits = _brackets.pop()
    return calling(lambda *_: all([wait() for wait in waits])) if waits else done([])
