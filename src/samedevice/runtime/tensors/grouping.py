"""Optimizers group their tensors by device, which C++ would see as one.

Must guarantee: what torch refuses to group is refused in the words of the release at hand, and for types of
elements by its own judgement, which differs between releases.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import torch

from samedevice.events import EventKind
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import as_torch, caller, current_machine, plain
from samedevice.runtime.tensors.tensor import seen_device
from samedevice.runtime.tracking import Recorder

Tensor = torch.Tensor
Groups = dict[Any, tuple[list[list[Any]], list[int]]]
_NAME = "_group_tensors_by_device_and_dtype"
_torchs_own: Any = torch._C._group_tensors_by_device_and_dtype
_Place = Literal["same", "host", "other"]
_STAND_INS: dict[_Place, tuple[str, str]] = {
    "same": ("cpu", "cpu"),
    "host": ("meta", "cpu"),
    "other": ("cpu", "meta"),
}
"""Devices of a pair that C++ compares as it would compare one with a GPU."""


def _group_by_device_and_dtype(lists: Sequence[Sequence[Any]], with_indices: bool = False) -> Groups:
    """What torch's own function returns: {(device, dtype): (lists, indices)}."""
    groups: Groups = {}
    refused = False
    for position, first in enumerate(lists[0]):
        refused = refused or _refuses([each[position] for each in lists if each])
        lists_of_group, indices = groups.setdefault(
            (seen_device(first), first.dtype), ([[] for _ in lists], [])
        )
        for own, values in zip(lists_of_group, lists, strict=True):
            if values:
                own.append(values[position])
        if with_indices:
            indices.append(position)
    return groups


def _refuses(alike: list[Any]) -> bool:
    """Whether the tensors of one index do not go together: a parameter and what is kept for it."""
    first = alike[0]
    home = seen_device(first)
    for each in alike[1:]:
        if not isinstance(each, Tensor):
            continue
        device = seen_device(each)
        place: _Place = "same" if device == home else "host" if device.type == "cpu" else "other"
        said = _refusal(place, first.dtype, each.dtype)
        if said is None:
            continue
        if device == home or "meta" in (home.type, device.type):
            raise RuntimeError(said)
        named = [("param", first, False), ("state", each, False)]
        recorder = current_machine().part(Recorder)
        recorder.refused(EventKind.MISMATCH, _NAME, said, named, [home, device], caller())
        return True
    return False


@functools.cache
def _refusal(place: _Place, dtype: torch.dtype, other: torch.dtype) -> str | None:
    """What torch says to two tensors of one index, if anything. Source: ForeachUtils.h in
    aten/src/ATen/native.
    """
    with as_torch():
        pair = [
            [plain.empty(0, dtype=each, device=device)]
            for each, device in zip((dtype, other), _STAND_INS[place], strict=True)
        ]
        try:
            _torchs_own(pair, False)
        except RuntimeError as error:
            return str(error)
    return None


PATCHES = (
    Patch(
        f"torch._C.{_NAME}",
        Constant(_group_by_device_and_dtype),
        "optimizers group their tensors by device, which C++ would see as one",
    ),
)
