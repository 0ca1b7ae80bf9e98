"""An event, of what the frames of a refused statement hold: its operands, and why they are there.

Looking for names is slow and happens only when a statement is refused.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import FrameType

import torch

from samedevice.events import Event, EventKind, Operand, Place, Running
from samedevice.provenance import FrameFilter, Site, call_at, function_name, resolve, site_of
from samedevice.provenance.at_hand import at_hand
from samedevice.provenance.surroundings import (
    Names,
    arguments_of,
    device_map,
    gradients_reached,
    identity,
    keeper,
    kept_within,
    modules_held,
    modules_in,
    modules_within,
    name_of,
    owner_hook,
    parameter_names,
    processes,
    running,
    versions,
)
from samedevice.runtime.state import Helper, Memory, as_torch, device_of, storage_of
from samedevice.runtime.tracking.ingredients import differentiable_in, ingredients, read_by
from samedevice.runtime.tracking.lineage import Lineages

Named = Sequence[tuple[str, torch.Tensor, bool]]
"""(argument name, tensor, written) of each operand."""
Bare = Sequence[tuple[str, torch.device]]
"""Operands that are no tensors: a generator, a process group."""

_STACK_LIMIT = 60
_COMMAND_LINE = str(Path(__file__).parents[2] / "cli") + "/"
"""What starts the script; the frames above it are none of the program's."""


def event_at(
    frame: FrameType,
    frames: FrameFilter,
    kind: EventKind,
    op: str,
    message: str,
    named: Named = (),
    devices: Sequence[torch.device] = (),
    bare: Bare = (),
) -> Event:
    """The event of an operator that was refused while `frame` ran: what its frames hold of the operands.

    `frames` tells which of them a person wrote, `bare` are operands that are no tensors.
    """
    # Long: one record of an event, field by field.
    own = list(islice(frames.frames(frame, _COMMAND_LINE), _STACK_LIMIT))
    with as_torch():
        modules, held = modules_in(outwards(frame)), modules_held(own)
        names = parameter_names(modules or held)
        shared = _shared(held) if modules else {}
        spoken = Names(own)
        user = next((each for each in own if frames.of_user(each.f_code.co_filename)), None)
        within = _kept_within(modules)
        at_user = spoken if user is None or user is own[0] else Names([user])
        around = _surroundings(modules)
        given = arguments_of(modules[-1], outwards(frame)) if modules else []
        beside = held if modules else [*held, *modules_within(own)]
        lineages = Lineages([*modules, *beside], given, len(modules), modules_within(own, 2))
        lineages.hold(spoken.states, gradients_reached(own, modules))
        lineages.part(modules[:-1], lambda module: arguments_of(module, outwards(frame)))
        operands = tuple(
            replace(
                _operand(name, tensor, device, names, spoken, own, lineages, shared.get(key, ())),
                at_user=at_user.local(tensor),
                hook=owner_hook(modules or held, names.get(key, ())),
                kept_within=None if key in names else within.get(key),
            )
            for (name, tensor, _), device in zip(named, devices, strict=True)
            for key in [identity(tensor)]
        )
        module = name_of(modules)
    return Event(
        kind=kind,
        op=op,
        message=message,
        at=_place(own[0]) if own else Place("<unknown>", 0, "<unknown>"),
        user_at=None if user is None else _place(user),
        module=module,
        operands=(*operands, *(Operand(name, str(device), (), "") for name, device in bare)),
        stack=tuple(map(_place, reversed(own))),
        running=around[0],
        device_map=around[1],
        versions=versions(),
        processes=processes(),
        arguments=tuple(lineages.given),
        read=read_by(own[0]) if own else (),
        placed=lineages.placed,
        placements=lineages.placements,
        differentiable=differentiable_in(own[0]) if own else (),
        met=(tuple(str(device) for device in devices),) if devices else (),
        at_hand=at_hand([each for each in own if frames.own(each.f_code.co_filename)], device_of),
        reached=(resolved(way_to(frame, frames)),),
    )


def way_to(frame: FrameType, frames: FrameFilter) -> tuple[Site, ...]:
    """The innermost statement outside installed packages, and the innermost one of the script."""
    own = next((each for each in outwards(frame) if frames.own(each.f_code.co_filename)), None)
    user = next((each for each in outwards(own) if frames.of_user(each.f_code.co_filename)), None)
    return tuple(dict.fromkeys(site_of(each) for each in (own, user) if each is not None))


def resolved(sites: Iterable[Site]) -> tuple[Place, ...]:
    """The lines of sites, as far as they are known."""
    return tuple(place for place in map(resolve, sites) if place is not None)


def _surroundings(modules: Sequence[torch.nn.Module]) -> tuple[tuple[Running, ...], dict[str, str]]:
    """A module's own methods may be overridden and fail; then the event goes without."""
    try:
        return running(modules, device_of), device_map(modules)
    except Exception:
        return (), {}


def _kept_within(modules: Sequence[torch.nn.Module]) -> dict[int, str]:
    """What a program keeps may refuse to be looked at; then nothing is known of it."""
    try:
        return kept_within(modules)
    except Exception:
        return {}


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    text = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
    return Place(
        code.co_filename, frame.f_lineno, function_name(code), text, call_at(code, frame.f_lasti, text)
    )


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _operand(
    name: str,
    tensor: torch.Tensor,
    device: torch.device,
    names: dict[int, list[tuple[str, str]]],
    spoken: Names,
    frames: Sequence[FrameType],
    lineages: Lineages,
    shared: tuple[str, ...],
) -> Operand:
    try:
        record = storage_of(tensor)._sd
    except NotImplementedError:
        record = None
    key = identity(tensor)
    known = names.get(key, [])
    memory = record if type(record) is Memory else None
    made = record.made if isinstance(record, (Memory, Helper)) else None
    operand = Operand(
        name=name,
        device=str(device),
        shape=tuple(int(size) for size in tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        parameter=known[0][0] if known else None,
        made=resolve(made),
        moved=resolve(memory.moved if memory else None),
        role=known[0][1] if known else None,
        tied=tuple(other for other, _ in known[1:]),
        assumed=memory is not None and memory.uncomputed,
        local=spoken.local(tensor),
        argument=spoken.argument(key),
        holder=spoken.holder(key) or (None if known else lineages.holder(tensor)),
        kept_by=None if known else keeper(spoken.local(tensor), frames),
        ingredients=() if known or (memory is not None and memory.moved) else ingredients(tensor, frames),
        gradient=lineages.is_gradient(tensor),
        from_argument=None if known else lineages.argument(tensor),
        parted=None if known else lineages.parted(tensor),
        lineage=lineages.of(tensor, placed=bool(known)),
    )
    return _with_shared(operand, shared)


def _shared(held: Sequence[torch.nn.Module]) -> dict[int, tuple[str, ...]]:
    """The names of memory that stands at several places of a module in the variables of the frames."""
    found: dict[int, tuple[str, ...]] = {}
    for module in held:
        for key, known in parameter_names([module]).items():
            if len(known) > 1:
                found.setdefault(key, tuple(name for name, _ in known))
    return found


def _with_shared(operand: Operand, names: tuple[str, ...]) -> Operand:
    """A weight with the names that it has beside the running modules, of which it has one."""
    own = operand.parameter
    if own is None or operand.tied or len(names) < 2:
        return operand
    return replace(operand, tied=tuple(each for each in names if not f".{each}".endswith(f".{own}")))
