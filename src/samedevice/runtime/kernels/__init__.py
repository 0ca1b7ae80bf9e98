"""Operators that choose their kernel, or check devices themselves: attention, autocast, dropout, foreach."""

from __future__ import annotations

from samedevice.runtime.kernels.attention import PATCHES as ATTENTION
from samedevice.runtime.kernels.autocast import PATCHES as AUTOCAST
from samedevice.runtime.kernels.composite_repairs import PATCHES as COMPOSITE_REPAIRS
from samedevice.runtime.kernels.ctc import PATCHES as CTC
from samedevice.runtime.kernels.device_checks import PATCHES as DEVICE_CHECKS
from samedevice.runtime.kernels.dropout import PATCHES as DROPOUT
from samedevice.runtime.kernels.foreach_route import PATCHES as FOREACH_ROUTE
from samedevice.runtime.kernels.foreach_route import ForeachRoute
from samedevice.runtime.kernels.gradients_of_selections import PATCHES as GRADIENTS_OF_SELECTIONS
from samedevice.runtime.kernels.recurrent import PATCHES as RECURRENT
from samedevice.runtime.kernels.rms_norm import PATCHES as RMS_NORM

__all__ = [
    "ATTENTION",
    "AUTOCAST",
    "COMPOSITE_REPAIRS",
    "CTC",
    "DEVICE_CHECKS",
    "DROPOUT",
    "FOREACH_ROUTE",
    "GRADIENTS_OF_SELECTIONS",
    "RECURRENT",
    "RMS_NORM",
    "ForeachRoute",
]
