"""A served block's cache stays with the block, as far as the block can tell.

A cache that is elsewhere is not handed over as a copy, since who made it holds it, too, and a write by one
would be missed by the other: while the block runs, each operator that meets it gets a copy of its own; see
Note [One operator].

Must guarantee: values do not change; a cache that is with its block costs one look at each of its tensors;
`remove()` leaves the block as it was.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from samedevice.findings import Renderer
from samedevice.guards._compiled import breaking, eagerly, untraced
from samedevice.guards._layers import Layer, add_layer
from samedevice.guards._repairs import Repairs
from samedevice.messages import Bytes, Phrase
from samedevice.provenance import tensors_reached
from samedevice.provenance.dispatch import hook_device

if TYPE_CHECKING:
    import torch

_CACHE = re.compile(r"past_key_values?|layer_past|past|cache|cache_params|kv_cache")
_DEPTH = 4


class CacheParted(RuntimeError):
    """A cache and its block are on two devices."""


class CacheGuard:
    """What `sd.guard_cache` returns: `remove()` takes it off again."""

    def __init__(self, block: str, renderer: Renderer) -> None:
        self.block = block
        self.renderer = renderer
        self.moves: dict[str, int] = {}
        """In how many calls each part of the cache was elsewhere, by its path."""
        self._undo: list[Callable[[], None]] = []

    def remove(self) -> None:
        """Take the guard off the block."""
        while self._undo:
            self._undo.pop()()


def guard_cache(
    block: torch.nn.Module, on_parted: Literal["move", "raise"], renderer: Renderer
) -> CacheGuard:
    """A guard on the cache that `block` is called with; see `samedevice.guard_cache`."""
    if on_parted not in ("move", "raise"):
        raise ValueError(f'on_parted is "move" or "raise", not {on_parted!r}')
    import inspect

    # A server calls the forward of the wrapper, which runs no hook; the wrapper calls its shards.
    shards: list[torch.nn.Module] = list(getattr(block, "module_shards", ())) or [block]
    guard = CacheGuard(type(shards[0]).__name__, renderer)
    names = tuple(inspect.signature(shards[0].forward).parameters)

    def layer_of(shard: torch.nn.Module) -> Layer:
        repairs = Repairs(shard, renderer, speaks=False)

        def layer(forward: Callable[..., Any]) -> Callable[..., Any]:
            def kept(*args: Any, **kwargs: Any) -> Any:
                device = device_of_block(shard)
                given = (*zip(names, args, strict=False), *kwargs.items())
                if device is None or not sum(_elsewhere(guard, on_parted, device, *pair) for pair in given):
                    return forward(*args, **kwargs)
                from samedevice.guards._mode import Mode

                with Mode(repairs):
                    return eagerly(forward)(*args, **kwargs)

            untraced(_elsewhere, device_of_block)
            return breaking(kept)

        return layer

    guard._undo = [add_layer(shard, "forward", layer_of(shard)) for shard in shards]
    return guard


def device_of_block(block: torch.nn.Module) -> str | None:
    """Where a block computes: its hook says so, or else its parameters."""
    device = hook_device(block)
    if device is not None:
        return device
    return next(
        (str(parameter.device) for parameter in block.parameters() if str(parameter.device) != "meta"), None
    )


def _elsewhere(guard: CacheGuard, on_parted: str, device: str, name: str, value: Any) -> int:
    """How many parts of an argument that is a cache are not with the block."""
    if value is None or not (_CACHE.fullmatch(name) or "Cache" in type(value).__name__):
        return 0
    found = [
        (path, tensor)
        for path, tensor in tensors_reached(value, name, _DEPTH)
        if str(tensor.device) not in (device, "meta")
    ]
    for path, tensor in found:
        if on_parted == "raise":
            parted = Phrase(
                "cache.parted",
                path=path,
                block=guard.block,
                source=str(tensor.device),
                target=device,
            )
            raise CacheParted(guard.renderer.text(parted))
        _tell(guard, path, tensor, device)
    return len(found)


def _tell(guard: CacheGuard, path: str, value: torch.Tensor, device: str) -> None:
    guard.moves[path] = guard.moves.get(path, 0) + 1
    if guard.moves[path] == 1:
        held = value.numel() * value.element_size()
        moved = Phrase(
            "cache.moved",
            path=path,
            block=guard.block,
            source=str(value.device),
            target=device,
            amount=Bytes(held),
        )
        logging.getLogger("samedevice").warning("%s", guard.renderer.text(moved))
