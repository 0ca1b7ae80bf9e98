"""Whose device a program hands on: `x.device` is told as an object of its own, and known again when given.

Note [Asked devices]
A device is a value: what `x.device` says can be kept in a variable or an attribute and name the device of
another tensor much later, in another function. Which tensor was asked is then in no line of source. So each
decision tells its device as one object, made when a program first asks, and a device that is given to a
factory or a move is known by that object, not by its value. A device that the program made itself,
`torch.device("cuda:1")`, is known by the line that made it. A text or a number is known by nothing.

What was computed from a tensor has the decision of that tensor, and tells another object than the tensor.

Must guarantee: nothing is told of an object that could be another one at the same address, since an object
stays here for as long as its entry does; and a decision keeps no other decision alive but a copy without
its past.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict, deque

import torch

from samedevice.runtime.state.decision import Decision, Taken
from samedevice.runtime.state.memory import this_thread

_MOST = 4096
_COPYING = frozenset(("copy", "pickle", "copyreg"))
"""Modules whose lines make a device that somebody else made before."""


class Told:
    """A device object, and the decision that it tells."""

    __slots__ = ("__weakref__", "decision", "device")

    def __init__(self, device: torch.device, decision: Decision) -> None:
        self.device = device
        self.decision = decision


_told: weakref.WeakValueDictionary[int, Told] = weakref.WeakValueDictionary()
"""By the number of the device object. A decision keeps what it tells, and goes with its last tensor."""
_asked: deque[Told] = deque(maxlen=_MOST)
"""Those whose tensor may be gone while a program still holds the device that it told."""
_made: OrderedDict[int, tuple[torch.device, Taken]] = OrderedDict()
_Device = torch.device


def told_device(decision: Decision, *, computed: bool) -> torch.device:
    """The device of a decision, as the object that it tells for its own tensor, or for what was `computed`
    from that.
    """
    told: Told | None = decision.told_of_results if computed else decision.told
    if told is None:
        place = decision.device
        device = _Device(place.type) if place.index is None else _Device(place.type, place.index)
        told = Told(device, decision.alone(computed=computed))
        _told[id(device)] = told
        _asked.append(told)
        if computed:
            decision.told_of_results = told
        else:
            decision.told = told
    return told.device


def note_made(device: torch.device, made: Taken | None) -> torch.device:
    """Remember what a device object was made from, or the line that made it; those that are used stay."""
    if made is not None and sys._getframe(2).f_globals.get("__name__") not in _COPYING:
        _made[id(device)] = device, made
        if len(_made) > _MOST:
            _made.popitem(last=False)
    return device


def taken_from(device: object) -> Taken | None:
    """Whose device an object is: that of a tensor that was asked, or one that a line made; else None."""
    if device.__class__ is not _Device:
        return None
    told = _told.get(id(device))
    if told is not None and told.device is device:
        return told.decision
    made = _made.get(id(device))
    if made is None or made[0] is not device:
        return None
    _made.move_to_end(id(device))
    return made[1]


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
