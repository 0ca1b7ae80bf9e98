"""Up to which size a tensor of a virtual GPU has values, as the environment says it."""

from __future__ import annotations

import os

from samedevice.errors import UsageError
from samedevice.machines._size import size_in_mib

VARIABLE = "SAMEDEVICE_VALUE_LIMIT"


def value_limit() -> int:
    """Bytes: those of `SAMEDEVICE_VALUE_LIMIT`, a number or a size such as 64MiB, else 1 MiB."""
    text = os.environ.get(VARIABLE, str(1 << 20)).strip()
    if text.isdecimal():
        return int(text)
    mib = size_in_mib(text)
    if mib is None:
        raise UsageError(f"{VARIABLE} is a number of bytes or a size such as 64MiB, not {text!r}")
    return mib << 20
