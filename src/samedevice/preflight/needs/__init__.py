"""What a launch needs of each GPU, and the files of one that fits."""

from __future__ import annotations

from samedevice.preflight.needs.files import (
    MODES,
    SHARDINGS,
    NothingFits,
    Wanted,
    WrittenLaunch,
    launch_files,
    write_launch,
    write_training,
)
from samedevice.preflight.needs.memory import METHODS, PARTS, LaunchMemory, Way, launch_memory, wanted
from samedevice.preflight.needs.proved import TrainingPlan, plan_training

__all__ = [
    "METHODS",
    "MODES",
    "PARTS",
    "SHARDINGS",
    "LaunchMemory",
    "NothingFits",
    "TrainingPlan",
    "Wanted",
    "Way",
    "WrittenLaunch",
    "launch_files",
    "launch_memory",
    "plan_training",
    "wanted",
    "write_launch",
    "write_training",
]
