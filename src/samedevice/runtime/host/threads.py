"""Dispatch modes belong to a thread: new threads get one of their own.

Transformers 5 loads weights in a pool, `DataLoader` pins in a thread and `DataParallel` runs one thread a
replica. A thread starts on device 0, as in CUDA.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from samedevice.runtime.engine import Engine, VirtualDeviceMode
from samedevice.runtime.patching import Patch
from samedevice.runtime.state import current_machine


@contextlib.contextmanager
def _on_machine(engine: Engine) -> Iterator[None]:
    """Whatever of an entered machine belongs to a thread.

    Torch's flags for the whole process (whether any dispatch mode is there) are those of the machine's own
    thread: a thread that ends after the machine was left would set them again.
    """
    before = torch._C._only_lift_cpu_tensors()
    # Lets `torch.tensor(..., device="cuda")` reach the mode.
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with VirtualDeviceMode(engine).in_thread():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    engine = current_machine().part(Engine)

    def run(self: threading.Thread) -> Any:
        with _on_machine(engine):
            return original(self)

    return run


def _start_inner(bootstrap: Callable[..., Any]) -> Callable[..., Any]:
    engine = current_machine().part(Engine)
    run = threading.Thread.run

    def start_inner(self: threading.Thread) -> Any:
        if type(self).run is run:
            return bootstrap(self)
        with _on_machine(engine):
            return bootstrap(self)

    return start_inner


PATCHES = (
    Patch(
        "threading.Thread.run",
        _run,
        "modes belong to a thread; one that starts here would not run on the machine",
    ),
    Patch(
        "threading.Thread._bootstrap_inner",
        _start_inner,
        "subclasses that override `run` do not call the one of `Thread`",
    ),
)
