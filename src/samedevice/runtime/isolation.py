"""What one test did to a machine, undone before the next.

Must guarantee: after `Settings.restore` and `start_over` a test finds what it would find in a process of its
own, except for what outlives a test by its own will: tensors that a fixture of wider scope holds, and random
numbers, which go on as torch's own do.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from samedevice.runtime.cuda import BlasWorkspaces, forget_current_streams
from samedevice.runtime.patching import Patches
from samedevice.runtime.state import DeviceLedger, MachineState

_AUTOCAST = ("cuda", "cpu")


@dataclass(frozen=True, slots=True)
class Settings:
    """What torch and the machine are told to do.

    Default and current device, default type, autocast, every replaced attribute.
    """

    current_device: int
    default_device: Any
    type_on_gpu: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: bool
    attributes: tuple[tuple[Any, str, Any], ...]

    @classmethod
    def read(cls, state: MachineState, patches: Patches) -> Settings:
        """The settings of this thread now."""
        return cls(
            state.current_device(),
            _default_device(),
            state.type_on_gpu,
            tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCAST),
            torch.is_autocast_cache_enabled(),
            tuple(patches.values()),
        )

    def restore(self, state: MachineState, patches: Patches) -> None:
        """Put back what differs."""
        patches.restore(self.attributes)
        if _default_device() is not self.default_device:
            torch.set_default_device(self.default_device)
        state.type_on_gpu = self.type_on_gpu
        for kind, (enabled, dtype) in zip(_AUTOCAST, self.autocast, strict=True):
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(self.autocast_cache)
        torch.clear_autocast_cache()
        state.rest_on(self.current_device)
        forget_current_streams(state)


def _default_device() -> Any:
    """What `torch.set_default_device` was given last."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def held(ledgers: dict[str, DeviceLedger]) -> dict[str, int]:
    """Bytes allocated on each device."""
    return {device: ledger.allocated for device, ledger in ledgers.items()}


def start_over(state: MachineState, before: dict[str, int]) -> dict[str, int]:
    """Free what nothing needs any more, start the statistics again, and return what is still held.

    `before` is what was held when the test began: only where more is held now is there anything to look for,
    and looking for cycles takes tenths of a second once libraries are loaded.
    """
    ledgers = state.ledgers()
    state.part(BlasWorkspaces).clear()
    if any(size > before.get(device, 0) for device, size in held(ledgers).items()):
        _let_go_of_the_last_error()
        gc.collect()
    for ledger in ledgers.values():
        ledger.start_over()
    left = held(ledgers)
    if not any(left.values()):
        state.uninitialize()
    return left


def _let_go_of_the_last_error() -> None:
    """The locals of a failed test's frames.

    Pytest keeps its traceback for debuggers until the next test runs.
    """
    error: BaseException | None = getattr(sys, "last_value", None)
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            with suppress(RuntimeError):  # it still runs
                trace.tb_frame.clear()
                # Up to Python 3.12 a frame keeps a copy of its locals for whoever asked; asking again renews
                # it.
                trace.tb_frame.f_locals  # noqa: B018
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
