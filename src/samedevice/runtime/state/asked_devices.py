"""Whose device a program hands on: `x.device` is told as an object of its own, and known again when given.

Note [Asked devices]
A device is a value: what `x.device` says can be kept in a variable or an attribute and name the device of
another tensor much later, in another function. Which tensor was asked is then in no line of source. So each
decision tells its device as one object, made when a program first asks, and a device that is given to a
factory or a move is known by that object, not by its value. A device that the program made itself,
`torch.device("cuda:1")`, is known by the line that made it. A text or a number is known by nothing.

Must guarantee: nothing is told of an object that could be another one at the same address. An object stays
here for as long as its entry does.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from typing import TypeAlias

import torch

from samedevice.provenance import Site
from samedevice.runtime.state.decision import Decision
from samedevice.runtime.state.memory import this_thread

Taken: TypeAlias = "Decision | Site"
"""Where a device comes from: the decision of the tensor that was asked for it, or the line that made it."""
_told: weakref.WeakValueDictionary[int, Decision] = weakref.WeakValueDictionary()
"""The decision by the number of the object that it keeps in `told`."""
_asked: deque[Decision] = deque(maxlen=1024)
"""Those whose tensor may be gone while a program still holds the device that it told."""
_made: OrderedDict[int, tuple[torch.device, Taken]] = OrderedDict()
_MOST_MADE = 512
_Device = torch.device


def told_device(decision: Decision) -> torch.device:
    """The device of a decision, as the object that this decision alone tells."""
    if decision.told is None:
        device = decision.device
        decision.told = _Device(device.type) if device.index is None else _Device(device.type, device.index)
        _told[id(decision.told)] = decision
        _asked.append(decision)
    return decision.told


def note_made(device: torch.device, made: Taken | None) -> torch.device:
    """Remember what a device object was made from, or the line that made it; the newest ones are kept."""
    if made is not None:
        _made[id(device)] = device, made
        if len(_made) > _MOST_MADE:
            _made.popitem(last=False)
    return device


def taken_from(device: object) -> Taken | None:
    """Whose device an object is: that of a tensor that was asked, or one that a line made; else None."""
    if device.__class__ is not _Device:
        return None
    decision = _told.get(id(device))
    if decision is not None:
        return decision
    made = _made.get(id(device))
    return None if made is None else made[1]


class taking:  # reads as the statement that it is: `with taking(device):`
    """What is decided inside this block took the device that a program gives as `device`."""

    __slots__ = ("_before", "_taken")

    def __init__(self, device: object) -> None:
        self._taken = taken_from(device)

    def __enter__(self) -> None:
        self._before = this_thread.taken
        this_thread.taken = self._taken

    def __exit__(self, *error: object) -> None:
        this_thread.taken = self._before
