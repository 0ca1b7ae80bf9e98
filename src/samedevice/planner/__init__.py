"""Training memory, batch size and launch plans.

Two ways to one number: `training_memory` adds up formulas, `measure_step` runs a real step on a virtual
machine and reads its ledger.
"""

from samedevice.planner._choose import (
    Attempt,
    LaunchPlan,
    Sharding,
    choose_launch,
    describe,
    describe_host,
    describe_moment,
    largest_micro_batch,
    levers,
    parted,
)
from samedevice.planner._estimate import MOMENTS, RESERVE, MemoryEstimate, Moment, capacity, training_memory
from samedevice.planner._families import estimated_type
from samedevice.planner._measure import MeasuredStep, TooLarge, measure_step, step_here, step_within
from samedevice.planner._monitor import Monitor, Reading
from samedevice.planner._settings import (
    ATTENTION,
    Full,
    Lora,
    Mode,
    Offload,
    Optimizer,
    Precision,
    Training,
    Tuning,
)
from samedevice.planner._shape import TrainingShape, Weight, configuration

__all__ = [
    "ATTENTION",
    "MOMENTS",
    "RESERVE",
    "Attempt",
    "Full",
    "LaunchPlan",
    "Lora",
    "MeasuredStep",
    "MemoryEstimate",
    "Mode",
    "Moment",
    "Monitor",
    "Offload",
    "Optimizer",
    "Precision",
    "Reading",
    "Sharding",
    "TooLarge",
    "Training",
    "TrainingShape",
    "Tuning",
    "Weight",
    "capacity",
    "choose_launch",
    "configuration",
    "describe",
    "describe_host",
    "describe_moment",
    "estimated_type",
    "largest_micro_batch",
    "levers",
    "measure_step",
    "parted",
    "step_here",
    "step_within",
    "training_memory",
]
