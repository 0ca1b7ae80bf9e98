"""A served block's cache stays with the block.

Must guarantee: values do not change; a cache that is with its block costs one look at each of its tensors; `remove()` leaves
the block as it was.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from samedevice.guards._hooks import hook_device
from samedevice.guards._placement import amount
from samedevice.messages import Language, say

if TYPE_CHECKING:
    import torch

_CACHE = re.compile(r"past_key_values?|layer_past|past|cache|cache_params|kv_cache")
_DEPTH = 4


class CacheParted(RuntimeError):
    """A cache and its block are on two devices."""


class CacheGuard:
    """What `sd.guard_cache` returns: `remove()` takes it off again."""

    def __init__(self, block: str, language: Language = "en") -> None:
        self.handles: list[Any] = []
        self.block = block
        self.language = language
        self.moves: dict[str, int] = {}
        """How often each part of the cache was moved, by its path."""

    def remove(self) -> None:
        """Take the guard off the block."""
        for handle in self.handles:
            handle.remove()


def guard_cache(block: torch.nn.Module, on_parted: Literal["move", "raise"] = "move", language: Language = "en") -> CacheGuard:
    """Keep the cache that `block` is called with on the device of the block.

    ```python
    import torch
    import samedevice as sd

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.key = torch.nn.Linear(2, 2)

        def forward(self, x, past=None):
            return torch.cat([past, self.key(x)])

    with sd.machine("1x24GB"):
        block = Block().to("cuda:0")
        handle = sd.guard_cache(block)
        print(block(torch.ones(1, 2, device="cuda:0"), past=torch.ones(3, 2)).shape)
        print(handle.moves)  # {'past': 1}
    ```

    Looks at the arguments that are caches by name (`past_key_value`, `layer_past`, `cache`, ...) or by class (`...Cache`): tensors,
    tuples, dictionaries and cache objects, static, hybrid and quantized ones as far as their parts are tensors. What is elsewhere
    is moved (inside a cache object in place, so the cache stays there) and logged on `samedevice` once for each path. With
    `on_parted="raise"` it raises a RuntimeError that names the part instead.

    A block of `tensor_parallel`, which is what Petals serves (`backend.module`), is guarded shard by shard, each with the part of
    the cache that is its own.
    """
    if on_parted not in ("move", "raise"):
        raise ValueError(f'on_parted is "move" or "raise", not {on_parted!r}')
    import inspect

    # A server calls the forward of the wrapper, which runs no hook; the wrapper calls its shards.
    shards: list[torch.nn.Module] = list(getattr(block, "module_shards", ())) or [block]
    guard = CacheGuard(type(shards[0]).__name__, language)
    names = tuple(inspect.signature(shards[0].forward).parameters)

    def keep(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        device = device_of_block(module)
        if device is None:
            return None
        positional = tuple(_kept(guard, on_parted, device, *pair) for pair in zip(names, args, strict=False)) + args[len(names) :]
        named = {key: _kept(guard, on_parted, device, key, value) for key, value in kwargs.items()}
        return positional, named

    guard.handles = [shard.register_forward_pre_hook(keep, with_kwargs=True, prepend=True) for shard in shards]
    return guard


def device_of_block(block: torch.nn.Module) -> str | None:
    """Where a block computes: its hook says so, or else its parameters."""
    device = hook_device(block)
    if device is not None:
        return device
    return next((str(parameter.device) for parameter in block.parameters() if str(parameter.device) != "meta"), None)


def _kept(guard: CacheGuard, on_parted: str, device: str, name: str, value: Any) -> Any:
    if value is None or not (_CACHE.fullmatch(name) or "Cache" in type(value).__name__):
        return value
    return _placed(guard, on_parted, device, name, value, _DEPTH)


def _placed(guard: CacheGuard, on_parted: str, device: str, path: str, value: Any, depth: int) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        source = str(value.device)
        if source in (device, "meta"):
            return value
        if on_parted == "raise":
            raise CacheParted(say("cache.parted", guard.language, path=path, block=guard.block, source=source, target=device))
        _tell(guard, path, value, device)
        return value.to(device)
    if depth == 0 or isinstance(value, torch.nn.Module):
        return value
    if isinstance(value, tuple):
        parts = [_placed(guard, on_parted, device, f"{path}[{index}]", part, depth - 1) for index, part in enumerate(value)]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    for where, part, put in list(_parts(value, path)):
        new = _placed(guard, on_parted, device, where, part, depth - 1)
        if new is not part:
            put(new)
    return value


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """(path, part, how to replace it) of what a list, a dictionary or a cache object holds."""
    if isinstance(value, (list, dict)):
        for key, part in enumerate(value) if isinstance(value, list) else value.items():
            yield f"{path}[{key!r}]", part, lambda new, key=key: value.__setitem__(key, new)
    elif not isinstance(value, Mapping) and hasattr(value, "__dict__") and not isinstance(value, type):
        for key, part in vars(value).items():
            yield f"{path}.{key}", part, lambda new, key=key: setattr(value, key, new)


def _tell(guard: CacheGuard, path: str, value: torch.Tensor, device: str) -> None:
    guard.moves[path] = guard.moves.get(path, 0) + 1
    if guard.moves[path] == 1:
        held = amount(value.numel() * value.element_size())
        text = say("cache.moved", guard.language, path=path, block=guard.block, source=str(value.device), target=device, amount=held)
        logging.getLogger("samedevice").warning("%s", text)
