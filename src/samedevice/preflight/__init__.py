"""A launch judged before it starts, from source and configuration alone. Nothing is run, and torch is not
imported.
"""

from __future__ import annotations

from samedevice.preflight._launch import LAUNCHERS, Launch, without_option
from samedevice.preflight._memory import METHODS, LaunchMemory, launch_memory
from samedevice.preflight._mode import Mode
from samedevice.preflight._preflight import Judgement, Request, preflight
from samedevice.preflight._write import MODES, SHARDINGS, Wanted, WrittenLaunch, launch_files, write_launch

__all__ = [
    "LAUNCHERS",
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
    "preflight",
    "without_option",
    "write_launch",
]
