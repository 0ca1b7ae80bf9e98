"""Tracebacks as on real hardware: without the frames that only the virtual machine put there."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType

from samedevice.errors import SameDeviceError

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_BELOW_US = tuple(
    str(Path(os.sep, "torch", part))
    for part in (
        "_ops.py",
        "_decomp",
        "_meta_registrations.py",
        "_prims",  # _prims_common too
        "_refs",
        "_subclasses",
        "overrides.py",
        "utils/_python_dispatch.py",
        "utils/_pytree.py",
    )
)
"""Files of torch that run in Python only because the virtual machine calls them; on hardware they are C++."""
_ABOVE_US = tuple(str(Path(os.sep, "torch", part)) for part in ("_compile.py", "_dynamo/eval_frame.py"))
"""Files of torch that stand between the script and our dispatch mode."""


def trim(error: BaseException) -> None:
    """Drop our frames from `error` and from every exception that is shown with it.

    `SAMEDEVICE_DEBUG=1` keeps them, and so does a broken invariant of ours, which only they can explain.
    """
    if os.environ.get("SAMEDEVICE_DEBUG") or (isinstance(error, AssertionError) and raised_by_us(error)):
        return
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = without_ours(current.__traceback__)
        waiting += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


def unrecorded_trace(error: BaseException) -> str | None:
    """The traceback of an error as text; None where the machine has an event of it, or refused something."""
    seen = 0
    current: BaseException | None = error
    while current is not None and seen < _DEEPEST:
        if hasattr(current, "samedevice_event"):
            return None
        current, seen = current.__cause__ or current.__context__, seen + 1
    return None if isinstance(error, SameDeviceError) else "".join(traceback.format_exception(error))


_DEEPEST = 20
"""Errors behind one another."""


def passed_us(trace: TracebackType | None) -> bool:
    """Whether frames of ours are in a traceback."""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(_OURS):
            return True
        trace = trace.tb_next
    return False


def raised_by_us(error: BaseException) -> bool:
    """The innermost frame is samedevice's own."""
    innermost = ""
    trace = error.__traceback__
    while trace is not None:
        innermost = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return innermost.startswith(_OURS)


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback less our frames and those of torch that run only because of us."""
    kept: list[TracebackType] = []
    inside = False
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        inside = file.startswith(_OURS) or (
            inside and (file.startswith("<frozen ") or any(part in file for part in _BELOW_US))
        )
        if file.startswith(_OURS):
            while kept and any(part in kept[-1].tb_frame.f_code.co_filename for part in _ABOVE_US):
                kept.pop()
        if not inside:
            kept.append(traceback)
        traceback = traceback.tb_next
    rebuilt: TracebackType | None = None
    for entry in reversed(kept):
        rebuilt = TracebackType(rebuilt, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return rebuilt
