"""A launch judged before it starts, from source and configuration alone.

Nothing is run, and torch is not imported.
"""

from __future__ import annotations

from samedevice.preflight.launch import Launch, Request, launches_of, starts_in, without_option
from samedevice.preflight.needs import (
    METHODS,
    MODES,
    SHARDINGS,
    LaunchMemory,
    Wanted,
    WrittenLaunch,
    launch_files,
    launch_memory,
    write_launch,
)
from samedevice.preflight.verdict import Judgement, Mode, preflight

__all__ = [
    "METHODS",
    "MODES",
    "SHARDINGS",
    "Judgement",
    "Launch",
    "LaunchMemory",
    "Mode",
    "Request",
    "Wanted",
    "WrittenLaunch",
    "launch_files",
    "launch_memory",
    "launches_of",
    "preflight",
    "starts_in",
    "without_option",
    "write_launch",
]
