"""Local variables of a running frame, read without keeping them alive."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any


def variables_of(frame: FrameType) -> dict[str, Any]:
    """A copy of the frame's local variables.

    Before Python 3.13 `frame.f_locals` of a function is a second dictionary that the frame keeps: a tensor
    that the script deletes after its variables were read would stay alive until the function returns, and
    memory would not be freed.
    """
    variables = dict(frame.f_locals)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()
    return variables
