"""Who made and moved a tensor, what it holds, and what was refused."""

from __future__ import annotations

from samedevice.runtime.tracking.recorder import OnMismatch, Recorder
from samedevice.runtime.tracking.recording import Recording
from samedevice.runtime.tracking.traces import name_devices
from samedevice.runtime.tracking.tracker import Tracker, warn_of_unknown
from samedevice.runtime.tracking.values import (
    ONLY_ON_CUDA,
    abstract,
    as_dtype,
    blank,
    forget,
    give_shadow,
    pass_on_assumptions,
    record_of,
    replace_tensors,
    stand_in,
    to_meta,
    to_value,
    unbacked,
    write_value,
)

__all__ = [
    "ONLY_ON_CUDA",
    "OnMismatch",
    "Recorder",
    "Recording",
    "Tracker",
    "abstract",
    "as_dtype",
    "blank",
    "forget",
    "give_shadow",
    "name_devices",
    "pass_on_assumptions",
    "record_of",
    "replace_tensors",
    "stand_in",
    "to_meta",
    "to_value",
    "unbacked",
    "warn_of_unknown",
    "write_value",
]
