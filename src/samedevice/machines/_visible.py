"""What `CUDA_VISIBLE_DEVICES` means.

Sources: CUDA Programming Guide, CUDA Environment Variables ("only devices with indices that appear before the
invalid index in the list are visible"); `torch/cuda/__init__.py`, `_parse_visible_devices`, which follows the
driver where the guide is silent: a number is read as C's `strtoul` reads it, and an entry given twice leaves
no device at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[+-]?\d+")
_UUIDS = ("GPU-", "MIG-")


def visible_gpus(setting: str | None, count: int, uuids: Sequence[str] | None = None) -> tuple[int, ...]:
    """The GPUs of a machine that a program sees, in its order, as the machine numbers them.

    Unset shows all. Without the `uuids` of the machine, a UUID stands for the first GPU that nothing else
    names.
    """
    if setting is None:
        return tuple(range(count))
    entries = [entry.strip() for entry in setting.split(",")]
    found: list[int] = []
    for position, entry in enumerate(entries):
        if entry.startswith(_UUIDS):
            if entry in entries[:position]:
                return ()
            index = _of_uuid(entry, uuids, (*found, *map(_number, entries)))
        else:
            index = _number(entry)
        if index < 0:
            break
        if index in found:
            return ()
        found.append(index)
    return tuple(found[: next((place for place, index in enumerate(found) if index >= count), None)])


def _number(entry: str) -> int:
    """The number at the start of an entry; -1 for none."""
    found = _NUMBER.match(entry)
    return int(found[0]) if found else -1


def _of_uuid(entry: str, uuids: Sequence[str] | None, taken: Sequence[int]) -> int:
    if uuids is not None:
        return next((index for index, uuid in enumerate(uuids) if uuid.startswith(entry)), -1)
    return next(index for index in range(len(taken) + 1) if index not in taken)
