"""What of a model stays together: the units that a device map may name.

A unit is a module whose class the model calls unsplittable (`_no_split_modules`); where it calls none that
exists, an entry of an outermost list of layers. What contains no such module is one unit as a whole, what a
split module owns directly is a unit by its own name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class Unit:
    """A module or a parameter that one device holds."""

    name: str
    kind: str
    module: torch.nn.Module | None
    """None for a parameter of a split module."""
    tensors: list[torch.Tensor] = field(default_factory=list)


def units_of(model: torch.nn.Module) -> list[Unit]:
    """The units in the order in which the model defines them."""
    whole = _unsplittable(model)
    return list(_units(model, "", whole))


def _unsplittable(model: torch.nn.Module) -> set[int]:
    """Identities of modules that stay whole."""
    import torch

    named: set[str] = set()
    for module in model.modules():
        named |= set(getattr(module, "_no_split_modules", None) or ())
    found = {id(module) for module in model.modules() if type(module).__name__ in named}
    found.discard(id(model))
    if found:
        return found
    return {
        id(entry) for module in model.modules() if isinstance(module, torch.nn.ModuleList) for entry in module
    }


def _units(module: torch.nn.Module, name: str, whole: set[int]) -> Iterator[Unit]:
    if id(module) in whole or not any(id(each) in whole for each in module.modules()):
        tensors = [*module.parameters(), *module.buffers()]
        if tensors:
            yield Unit(name, type(module).__name__, module, tensors)
        return
    own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    for own_name, tensor in own:
        yield Unit(f"{name}.{own_name}" if name else own_name, type(tensor).__name__, None, [tensor])
    for child_name, child in module.named_children():
        yield from _units(child, f"{name}.{child_name}" if name else child_name, whole)


def shared(units: list[Unit]) -> list[list[int]]:
    """Positions of units by groups that share memory; most groups are of one."""
    group_of = list(range(len(units)))
    first: dict[int, int] = {}
    for position, unit in enumerate(units):
        for tensor in unit.tensors:
            other = first.setdefault(id(tensor), position)
            _join(group_of, other, position)
    groups: dict[int, list[int]] = {}
    for position in range(len(units)):
        groups.setdefault(_root(group_of, position), []).append(position)
    return list(groups.values())


def _root(group_of: list[int], position: int) -> int:
    while group_of[position] != position:
        position = group_of[position]
    return position


def _join(group_of: list[int], one: int, other: int) -> None:
    first, second = sorted((_root(group_of, one), _root(group_of, other)))
    group_of[second] = first
