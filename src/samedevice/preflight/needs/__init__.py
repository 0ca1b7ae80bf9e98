"""What a launch needs of each GPU, and the files of one that fits."""

from __future__ import annotations

from samedevice.preflight.needs.files import (
    MODES,
    SHARDINGS,
    Wanted,
    WrittenLaunch,
    launch_files,
    write_launch,
)
from samedevice.preflight.needs.memory import METHODS, LaunchMemory, launch_memory

__all__ = [
    "METHODS",
    "MODES",
    "SHARDINGS",
    "LaunchMemory",
    "Wanted",
    "WrittenLaunch",
    "launch_files",
    "launch_memory",
    "write_launch",
]
