"""What CUDA accepts: one row per operator.

Rows are derived from torch's own operator declarations, or written by hand.

Needs no torch: the declarations are a text file inside the torch distribution.
"""

from __future__ import annotations

from samedevice.device_rules._determinism import nondeterministic
from samedevice.device_rules._rows import Argument, Check, Demand, Row
from samedevice.device_rules._table import (
    lacks_sparse,
    of_another_library,
    on_host,
    only_on_cpu,
    row_for,
    rows_by_hand,
    sparse_row_for,
    table_of,
)
from samedevice.device_rules._types import Lack, lacking
from samedevice.device_rules._verdict import TYPE_NAMES, Refusal, judge_devices, no_kernel

__all__ = [
    "TYPE_NAMES",
    "Argument",
    "Check",
    "Demand",
    "Lack",
    "Refusal",
    "Row",
    "judge_devices",
    "lacking",
    "lacks_sparse",
    "no_kernel",
    "nondeterministic",
    "of_another_library",
    "on_host",
    "only_on_cpu",
    "row_for",
    "rows_by_hand",
    "sparse_row_for",
    "table_of",
]
