"""What an operand was computed from, as far as the failing frame itself did that.

The place that made a mask or a position table is often the failing line itself; the tensor that is in the
wrong place is one that this line read. Must guarantee: only dictionaries are read; no property and no method
of a script runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch

from samedevice.events import Ingredient
from samedevice.provenance import Site, call_at, resolve, variables_of
from samedevice.provenance.surroundings import identity
from samedevice.provenance.syntax import parsed
from samedevice.runtime.state import Helper, Memory, device_of
from samedevice.runtime.tracking.values import record_of

_DEEPEST = 4
_MOST = 8
_REGISTRIES = (("_parameters", "parameter"), ("_buffers", "buffer"))


def ingredients(tensor: torch.Tensor, frames: Sequence[FrameType]) -> tuple[Ingredient, ...]:
    """Tensors that the lines of these frames read to make `tensor`, nearest first."""
    found: dict[int, Ingredient] = {}
    try:
        _collect(tensor, frames, found, {identity(tensor)}, 0)
    except Exception:  # what a script keeps may refuse to be looked at
        return ()
    return tuple(found.values())[:_MOST]


def read_by(frame: FrameType) -> tuple[Ingredient, ...]:
    """The tensors that the line where a frame stands reads by a name or an attribute."""
    found: list[Ingredient] = []
    try:
        for node in _read((frame.f_code, frame.f_lasti)):
            name, value, role, kept_by = _value(node, variables_of(frame), frame.f_globals)
            if isinstance(value, torch.Tensor):
                found.append(_record(name, value, role, kept_by))
    except Exception:  # what a script keeps may refuse to be looked at
        return ()
    return tuple(found)[:_MOST]


def differentiable_in(frame: FrameType) -> tuple[str, ...]:
    """The variables of a function's frame whose tensors come out of a graph of gradients.

    A view is not asked: `is_leaf` and `grad_fn` of one whose base was written to give it a new node, with
    which torch allows a write that it would refuse.
    """
    return tuple(
        name
        for name, value in variables_of(frame).items()
        if isinstance(value, torch.Tensor) and value.requires_grad and (value._is_view() or not value.is_leaf)
    )


def _record(name: str, value: torch.Tensor, role: str | None, kept_by: str | None) -> Ingredient:
    record = record_of(value)
    moved = record.moved if isinstance(record, Memory) else None
    dtype = str(value.dtype).removeprefix("torch.")
    return Ingredient(
        name, str(device_of(value)), resolve(_made(value)), resolve(moved), role, kept_by, dtype
    )


def _collect(
    tensor: torch.Tensor,
    frames: Sequence[FrameType],
    found: dict[int, Ingredient],
    seen: set[int],
    depth: int,
) -> None:
    site = _made(tensor)
    frame = next((each for each in frames if site is not None and each.f_code is site[0]), None)
    if site is None or frame is None or depth == _DEEPEST:
        return
    variables = variables_of(frame)
    for node in _read(site):
        name, value, role, kept_by = _value(node, variables, frame.f_globals)
        key = identity(value) if isinstance(value, torch.Tensor) else 0
        if not key or key in seen:
            continue
        seen.add(key)
        found[key] = own = _record(name, value, role, kept_by)
        if own.moved is None:
            _collect(value, frames, found, seen, depth + 1)


def _made(tensor: torch.Tensor) -> Site | None:
    record = record_of(tensor)
    return record.made if isinstance(record, (Memory, Helper)) else None


def _read(site: Site) -> Iterator[ast.expr]:
    """Names and chains of attributes that the expression of a site reads, the longest of each chain only."""
    place = resolve(site)
    if place is None:
        return
    for text in (
        call_at(*site, place.code),
        place.code,
        place.code.removeprefix("return "),
        place.code.partition("=")[2],
    ):
        tree = parsed(text)
        if tree is None:
            continue
        waiting: list[ast.AST] = [tree]
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, ast.Subscript) and _path(node.value) and _plain_key(node.slice):
                yield node
            elif (
                isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and _path(node)
            ):
                yield node
                if isinstance(node, ast.Attribute):
                    waiting.append(node.value)  # `self.mask.view(...)` reads self.mask
                continue
            waiting += ast.iter_child_nodes(node)
        if text:
            return


def _plain_key(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.Name))


def _item(
    node: ast.Subscript, variables: dict[str, Any], world: dict[str, Any]
) -> tuple[str, Any, str | None, str | None]:
    """What stands under a key of a dictionary, or at a number of a list; other classes are not asked."""
    _, container, _, _ = _value(node.value, variables, world)
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if isinstance(node.slice, ast.Name):
        key = variables.get(node.slice.id, world.get(node.slice.id))
    value = None
    if type(container) is dict and type(key) in (str, int):
        value = container.get(key)
    elif type(container) in (list, tuple) and type(key) is int and -len(container) <= key < len(container):
        value = container[key]
    return ast.unparse(node), value, None, None


def _path(node: ast.expr) -> list[str]:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _value(
    node: ast.expr, variables: dict[str, Any], world: dict[str, Any]
) -> tuple[str, Any, str | None, str | None]:
    if isinstance(node, ast.Subscript):
        return _item(node, variables, world)
    first, *rest = _path(node)
    value, role, kept_by = variables.get(first, world.get(first)), None, None
    for name in rest:
        held = getattr(value, "__dict__", None)
        owner, value, role, kept_by = value, None, None, None
        if not isinstance(held, dict):
            break
        if name in held:
            value = held[name]
            kept_by = type(owner).__name__ if isinstance(owner, torch.nn.Module) else None
            continue
        for registry, kind in (*_REGISTRIES, ("_modules", None)):
            own = held.get(registry)
            if isinstance(own, dict) and name in own:
                value, role = own[name], kind
                break
    return ".".join((first, *rest)), value, role, kept_by if isinstance(value, torch.Tensor) else None
