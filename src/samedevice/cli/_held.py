"""What the frames of an error hold, as far as a repair has to know it."""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any

from samedevice.diagnosis import Held
from samedevice.provenance import installed_path, without_ours


def held_at(error: BaseException) -> Held:
    """What the innermost frame outside installed packages held when NumPy read a tensor."""
    innermost = _frames(error.__traceback__)[-1:]
    read = next((each.f_locals.get("self") for each in innermost), None)
    shown = reversed(_frames(without_ours(error.__traceback__)))
    user = next((each for each in shown if installed_path(each.f_code.co_filename) is None), None)
    names: dict[str, Any] = {} if user is None else {**user.f_globals, **user.f_locals}
    tensors = frozenset(name for name, value in names.items() if _is_tensor(value))
    lists = frozenset(
        name
        for name, value in names.items()
        if isinstance(value, (list, tuple)) and value and all(_is_tensor(each) for each in value)
    )
    return Held(bool(getattr(read, "requires_grad", False)), tensors, lists)


def _frames(trace: TracebackType | None) -> list[FrameType]:
    found = []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found


def _is_tensor(value: object) -> bool:
    return hasattr(type(value), "requires_grad")
