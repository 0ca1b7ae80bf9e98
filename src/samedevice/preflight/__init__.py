"""A launch judged before it starts, from source and configuration alone.

Nothing is run, and torch is not imported.
"""

from __future__ import annotations

from samedevice.preflight.launch import (
    Launch,
    Request,
    begins_tool,
    launches_of,
    starts_in,
    without_option,
)
from samedevice.preflight.needs import (
    METHODS,
    MODES,
    SHARDINGS,
    LaunchMemory,
    NothingFits,
    TrainingPlan,
    Wanted,
    Way,
    WrittenLaunch,
    launch_files,
    launch_memory,
    plan_training,
    wanted,
    write_launch,
    write_training,
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
    "NothingFits",
    "Request",
    "TrainingPlan",
    "Wanted",
    "Way",
    "WrittenLaunch",
    "begins_tool",
    "launch_files",
    "launch_memory",
    "launches_of",
    "plan_training",
    "preflight",
    "starts_in",
    "wanted",
    "without_option",
    "write_launch",
    "write_training",
]
