"""The programs that start training processes.

How a command line names them, what they set for each rank, how `samedevice run` starts them.
"""

from __future__ import annotations

from samedevice.launchers.launcher import Job, Launcher, Options, Tasks
from samedevice.launchers.options import LauncherCall, flag_of, options_of
from samedevice.launchers.table import (
    ACCELERATE,
    DEEPSPEED,
    LAUNCHERS,
    LIGHTNING,
    PYTHON,
    STARTED,
    TORCHRUN,
    launcher_at,
    launcher_named,
    starter_of_tasks,
)
from samedevice.launchers.typed import Typed, assigned, begins_command, is_python, read_typed

__all__ = [
    "ACCELERATE",
    "DEEPSPEED",
    "LAUNCHERS",
    "LIGHTNING",
    "PYTHON",
    "STARTED",
    "TORCHRUN",
    "Job",
    "Launcher",
    "LauncherCall",
    "Options",
    "Tasks",
    "Typed",
    "assigned",
    "begins_command",
    "flag_of",
    "is_python",
    "launcher_at",
    "launcher_named",
    "options_of",
    "read_typed",
    "starter_of_tasks",
]
