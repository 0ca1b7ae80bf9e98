"""Dispatch modes belong to a thread: new threads get one of their own.

Transformers 5 loads weights in a pool, `DataLoader` pins in a thread and `DataParallel` runs one thread a
replica. A thread starts on device 0, as in CUDA.
"""

from __future__ import annotations

import threading
from typing import Any

from samedevice.runtime.engine import Engine, VirtualDeviceMode
from samedevice.runtime.patching import Patches


def install_threads(patches: Patches, engine: Engine) -> None:
    """Threads that start while the machine is entered run on it."""
    original = threading.Thread.run

    def run(self: threading.Thread) -> Any:
        with VirtualDeviceMode(engine):
            return original(self)

    patches.attribute(threading.Thread, "run", run)
    # Subclasses that override `run` do not call the one above.
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def start_inner(self: threading.Thread) -> Any:
        if type(self).run is run:
            return bootstrap(self)
        with VirtualDeviceMode(engine):
            return bootstrap(self)

    patches.attribute(threading.Thread, "_bootstrap_inner", start_inner)
