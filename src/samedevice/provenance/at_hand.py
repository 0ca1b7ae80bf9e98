"""What the functions on a stack have in their variables that tells a device.

A repair has to say where a tensor belongs in words that mean something at its line; a variable of that
function which held this very device when the statement was refused is such a word. Looked for once for each
distinct statement. Must guarantee: only dictionaries are read; no property and no method of a script runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any

import torch

from samedevice.events import AtHand, HandKind
from samedevice.provenance._variables import variables_of

_FRAMES = 12
_MOST = 60
"""Names that are kept of a function."""
_ITEMS = 12
"""Tensors of a dictionary that are looked at."""
_WEIGHTS = 400
"""A module with more weights than these is not asked where all of them are."""
Where = Callable[[torch.Tensor], torch.device]


def at_hand(frames: Sequence[FrameType], device_of: Where) -> tuple[AtHand, ...]:
    """The names in these frames, the innermost first, that tell a device."""
    found: list[AtHand] = []
    for frame in frames[:_FRAMES]:
        try:
            found += _of_frame(frame, device_of)
        except Exception:  # what a script keeps may refuse to be looked at
            continue
    return tuple(found)


def _of_frame(frame: FrameType, device_of: Where) -> list[AtHand]:
    code = frame.f_code
    owner = code.co_varnames[0] if code.co_argcount else None
    found = []
    for name, value in variables_of(frame).items():
        if name.startswith("_") or isinstance(value, (ModuleType, type)):
            continue
        for text, kind, device in _told(name, value, device_of, whole=name == owner):
            found.append(AtHand(code.co_filename, code.co_name, frame.f_lineno, text, kind, device))
            if len(found) == _MOST:
                return found
    return found


def _told(name: str, value: Any, device_of: Where, whole: bool) -> Iterator[tuple[str, HandKind, str]]:
    """What one variable tells; of the method's own object all attributes, of others those that are
    devices.
    """
    if (told := _tells(value, device_of)) is not None:
        yield name, *told
    if type(value) is dict:
        for key, each in list(value.items())[:_ITEMS]:
            if type(key) is str and isinstance(each, torch.Tensor):
                yield f"{name}[{key!r}]", "tensor", str(device_of(each))
    if isinstance(value, (torch.Tensor, torch.device, str, int, float, list, tuple, dict)):
        return
    held = getattr(value, "__dict__", None)
    for attribute, each in held.items() if isinstance(held, dict) else ():
        if not isinstance(attribute, str) or attribute.startswith("_"):
            continue
        told = _tells(each, device_of)
        if told is not None and (whole or told[0] == "device"):
            yield f"{name}.{attribute}", *told
    if whole and isinstance(value, torch.nn.Module):
        for registry in ("_modules", "_parameters", "_buffers"):
            for attribute, each in vars(value).get(registry, {}).items():
                if attribute.isidentifier() and (told := _tells(each, device_of)) is not None:
                    yield f"{name}.{attribute}", *told


def _tells(value: Any, device_of: Where) -> tuple[HandKind, str] | None:
    """The device that a value is, or is on; None for what tells none, such as a model on two GPUs."""
    if isinstance(value, torch.device):
        return "device", _whole(str(value))
    if isinstance(value, str) and _names_a_device(value):
        return "device", _whole(value)
    if isinstance(value, torch.Tensor):
        return "tensor", str(device_of(value))
    if isinstance(value, torch.nn.Module):
        weights = list(_weights(value))
        devices = {str(device_of(each)) for each in weights}
        return ("module", devices.pop()) if len(devices) == 1 and len(weights) < _WEIGHTS else None
    return None


def _names_a_device(text: str) -> bool:
    own = torch._C._get_privateuse1_backend_name()  # of Ascend's `npu` and others outside of torch
    kind, colon, number = text.partition(":")
    return kind in ("cpu", "cuda", "xpu", "hpu", "mps", own) and number.isdecimal() == bool(colon)


def _weights(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """The parameters of a module and its parts, without calling a method that a script may have replaced."""
    waiting = [module]
    count = 0
    while waiting and count < _WEIGHTS:
        each = waiting.pop()
        held = vars(each)
        for weight in held.get("_parameters", {}).values():
            if weight is not None:
                count += 1
                yield weight
        waiting += [part for part in held.get("_modules", {}).values() if part is not None]


def _whole(device: str) -> str:
    """A device with its number: `cuda` is the current GPU."""
    return f"cuda:{torch.cuda.current_device()}" if device == "cuda" else device
