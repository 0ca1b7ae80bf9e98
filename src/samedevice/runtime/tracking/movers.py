"""Who moves a tensor: the script itself, a module's own `.to`, or a hook at a module's boundary.

Read off the frames of a move while it happens. Must guarantee: no frame is kept; of variables only the module
of a hook is read.
"""

from __future__ import annotations

from types import FrameType

import torch

from samedevice.events import DecisionKind
from samedevice.provenance import FrameFilter, Site, variables_of
from samedevice.runtime.state import Decision, shortened, this_thread

_OF_MODULES = torch.nn.Module._apply.__code__
_OF_MAPS = "set_module_tensor_to_device"
"""The function of accelerate that places a parameter as a map says."""
_AT_BOUNDARIES = frozenset(("pre_forward", "post_forward"))
"""Methods of accelerate's hooks that run at a module's boundary."""


def decision_to_move(
    frame: FrameType | None,
    frames: FrameFilter,
    target: torch.device,
    site: Site | None,
    earlier: Decision | None,
) -> Decision:
    """The decision to move memory to `target`, by whom the running code shows."""
    how, module, by_user = mover(frame, frames)
    decision = Decision(how, target, site, shortened(earlier), by_user if by_user != site else None, module)
    decision.taken = this_thread.taken
    return decision


def mover(
    frame: FrameType | None, frames: FrameFilter
) -> tuple[DecisionKind, torch.nn.Module | None, Site | None]:
    """What moves, the module at whose boundary it happens, and the innermost line of the user's script."""
    how: DecisionKind = "moved"
    module = None
    while frame is not None:
        code = frame.f_code
        if code is _OF_MODULES or (
            code.co_name == _OF_MAPS and code.co_filename.endswith("accelerate/utils/modeling.py")
        ):
            how = "placed"
        elif code.co_name in _AT_BOUNDARIES and code.co_filename.endswith("accelerate/hooks.py"):
            how, module = "hook", _module_of(frame)
        elif not frames.internal(code.co_filename) and "/accelerate/" not in code.co_filename:
            break
        frame = frame.f_back
    return how, module, frames.user_site(frame)


def _module_of(frame: FrameType) -> torch.nn.Module | None:
    module = variables_of(frame).get("module")
    return module if isinstance(module, torch.nn.Module) else None
