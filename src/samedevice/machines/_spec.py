"""Machine specifications: `2x24GB`, `8xA100-80G`, `2xH100-80G+2xA100-40G`, or the path of a machine file.

Whatever the text, the outcome is a machine or a `MachineSpecError` whose message names a specification that
does work.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from samedevice.errors import MachineSpecError
from samedevice.machines._file import is_file_spec, read_machine_file
from samedevice.machines._generic import MAX_MEMORY_MIB, generic_gpu
from samedevice.machines._gpu import Gpu
from samedevice.machines._lookup import contains_all, find_gpus, nearest_keys
from samedevice.machines._machine import MAX_GPUS, Machine
from samedevice.machines._size import looks_like_size, size_in_mib

EXAMPLES = "`2x24GB` or `8xA100-80G`"

_COUNTED = re.compile(r"(\d*)\s*[x\u00d7*]\s*(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_STRANGE_UNIT = re.compile(r"\d+(?:\.\d+)?\s*[a-z]i?b", re.ASCII | re.IGNORECASE)
_VIRTUAL = re.compile(r"nvidia[\s_-]*virtual[\s_-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with one part of a specification, and what could stand in its place, nearest first.

    `equal` says that none of those is likelier than another, so a message offers them all.
    """

    reason: str
    instead: tuple[str, ...] = ()
    equal: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """So many of one GPU."""

    count: int
    gpu: Gpu

    def __str__(self) -> str:
        return self.gpu.key if self.count == 1 else f"{self.count}x{self.gpu.key}"


def parse_machine(spec: str | os.PathLike[str]) -> Machine:
    """The machine that `spec` describes.

    >>> print(parse_machine("8xA100-80G"))
    8 x NVIDIA A100-SXM4-80GB

    Raises `MachineSpecError`: the message says what is wrong and names the nearest specification that works.
    """
    if isinstance(spec, os.PathLike):
        return read_machine_file(os.fsdecode(spec))
    if not isinstance(spec, str):
        raise MachineSpecError(
            f"a machine specification is text such as {EXAMPLES}, not {type(spec).__name__}"
        )
    text = spec.strip()
    if is_file_spec(text):
        return read_machine_file(text)
    if not text:
        raise MachineSpecError(f"the machine specification is empty; write for example {EXAMPLES}")
    parts = [part.strip() for part in text.split("+")]
    read = [_read_part(part) for part in parts]
    groups = [part for part in read if isinstance(part, _Group)]
    if len(groups) < len(read):
        raise MachineSpecError(_explain(text, parts, read))
    return _machine(text, groups)


def _machine(text: str, groups: list[_Group]) -> Machine:
    total = sum(group.count for group in groups)
    if total > MAX_GPUS:
        fewer = _fewer(groups)
        raise MachineSpecError(
            f"machine specification {_shown(text)} has {total} GPUs; at most {MAX_GPUS} are supported, as "
            f"in `{fewer}`"
        )
    gpus = tuple(group.gpu for group in groups for _ in range(group.count))
    return Machine(spec="+".join(str(group) for group in groups), gpus=gpus)


def _fewer(groups: list[_Group]) -> _Group:
    return _Group(min(groups[0].count, MAX_GPUS), groups[0].gpu)


def _read_part(part: str) -> _Group | _Fault:
    if not part:
        return _Fault("has nothing on one side of a `+`")
    counted = _COUNTED.fullmatch(part)
    # `24XB` is a size with a slip, not 24 of something.
    if counted is None or _STRANGE_UNIT.fullmatch(part):
        return _read_gpu(part, 1)
    digits, what = counted[1], counted[2].strip()
    if not digits:
        return _Fault("has no number before the `x`", (f"1x{what}",))
    if not what:
        return _Fault("names no GPU after the `x`", (f"{digits}x24GB",))
    if len(digits) > 9:
        return _Fault(f"asks for far more than {MAX_GPUS} GPUs", (f"{MAX_GPUS}x{what}",))
    if int(digits) == 0:
        return _Fault("asks for 0 GPUs", (f"1x{what}",))
    if _COUNTED.fullmatch(what) and not _STRANGE_UNIT.fullmatch(what):
        return _Fault("has two counts for one GPU", (what,))
    return _read_gpu(what, int(digits))


def _read_gpu(what: str, count: int) -> _Group | _Fault:
    """`what` is a size or a name; a fault offers the same count of something that exists."""
    prefix = "" if count == 1 else f"{count}x"
    mib = _generic_mib(what)
    if mib is not None and mib <= MAX_MEMORY_MIB:
        return _Group(count, generic_gpu(mib))
    rows = find_gpus(what)
    if len(rows) == 1:
        return _Group(count, rows[0])
    if rows:
        return _Fault(f"does not say which {what}", tuple(f"{prefix}{gpu.key}" for gpu in rows), equal=True)
    if mib is not None:
        return _Fault(f"asks for {what} in one GPU, and 4TB is the most", (f"{prefix}80GB",))
    if what.isdigit():
        return _Fault(
            f"has the number {_shown(what)} alone: a size needs a unit",
            (f"{prefix}{what}GB", f"{prefix}24GB"),
        )
    size = looks_like_size(what)
    if size is not None and (_STRANGE_UNIT.fullmatch(what) or not nearest_keys(what)):
        return _Fault(
            f"has {_shown(what)}, which is no memory size (units are GB and MiB)",
            tuple(f"{prefix}{fitting}" for fitting in (f"{size[1]}GB", f"{size[1]}MiB", "24GB")),
        )
    nearest = nearest_keys(what)
    return _Fault(
        f"names no known GPU: {_shown(what)}",
        tuple(f"{prefix}{key}" for key in nearest),
        equal=contains_all(nearest, what),
    )


def _generic_mib(what: str) -> int | None:
    """MiB of a generic GPU's name: `24GB`, or `NVIDIA Virtual 24GB`, as a printed machine has it."""
    return size_in_mib(_VIRTUAL.sub("", what, count=1))


def _explain(text: str, parts: list[str], read: list[_Group | _Fault]) -> str:
    """The first fault, and the whole specification with that part put right, if that is then all right."""
    at, fault = next((index, part) for index, part in enumerate(read) if isinstance(part, _Fault))
    repaired = [
        part if isinstance(found, _Group) else _repair(found) for part, found in zip(parts, read, strict=True)
    ]
    fixed = ["+".join([*repaired[:at], instead, *repaired[at + 1 :]]) for instead in fault.instead]
    valid = [f"`{candidate}`" for candidate in fixed if _is_valid(candidate)]
    if not valid:
        return f"machine specification {_shown(text)} {fault.reason}; write for example {EXAMPLES}"
    offer = " or ".join(valid if fault.equal else valid[:1])
    return f"machine specification {_shown(text)} {fault.reason}; did you mean {offer}?"


def _repair(fault: _Fault) -> str:
    """What one faulty part most likely meant; empty, so not valid, when nothing is near."""
    return next((instead for instead in fault.instead if _is_valid(instead)), "")


def _is_valid(text: str) -> bool:
    read = [_read_part(part.strip()) for part in text.split("+")]
    groups = [part for part in read if isinstance(part, _Group)]
    return len(groups) == len(read) and sum(group.count for group in groups) <= MAX_GPUS


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
