"""Where tensors come from: compact sites of source code.

A site is taken in well under a microsecond, and resolved when a person asks.
"""

from __future__ import annotations

from samedevice.provenance._frames import (
    FrameFilter,
    Site,
    call_at,
    function_name,
    installed_path,
    resolve,
    site_of,
)
from samedevice.provenance._reach import tensors_reached
from samedevice.provenance._traceback import passed_us, raised_by_us, trim, unrecorded_trace, without_ours
from samedevice.provenance._variables import variables_of

__all__ = [
    "FrameFilter",
    "Site",
    "call_at",
    "function_name",
    "installed_path",
    "passed_us",
    "raised_by_us",
    "resolve",
    "site_of",
    "tensors_reached",
    "trim",
    "unrecorded_trace",
    "variables_of",
    "without_ours",
]
