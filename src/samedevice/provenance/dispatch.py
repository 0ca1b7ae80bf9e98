"""How a model was dispatched: its device map, and what accelerate's hooks on its modules do.

Hooks are read by their attributes, so accelerate is never imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def hooks_of(module: torch.nn.Module) -> Iterator[Any]:
    """Accelerate's hooks on a module, the parts of a sequential one each."""
    hook = module.__dict__.get("_hf_hook")
    if hook is None:
        return
    parts = getattr(hook, "hooks", None)
    yield from parts if isinstance(parts, (tuple, list)) else (hook,)


def hook_device(module: torch.nn.Module) -> str | None:
    """Where a hook sends the inputs of the module; None without such a hook."""
    for hook in hooks_of(module):
        device = getattr(hook, "execution_device", None)
        if device is not None and not isinstance(device, Mapping):
            return device_name(device)
    return None


def offloads(module: torch.nn.Module) -> bool:
    """Whether a hook brings the module's weights in for each call."""
    return any(
        getattr(hook, "offload", False) or type(hook).__name__ == "CpuOffload" for hook in hooks_of(module)
    )


def device_map_of(model: torch.nn.Module) -> dict[str, str]:
    """The map by which the model was dispatched; empty when it was not."""
    placed = getattr(model, "hf_device_map", None)
    return (
        {str(name): device_name(device) for name, device in placed.items()}
        if isinstance(placed, Mapping)
        else {}
    )


def mapped(device_map: Mapping[str, str], name: str) -> str | None:
    """Where a map puts a parameter: the entry with the longest matching name.

    None when the map does not reach it.
    """
    entry = entry_of(device_map, name)
    return None if entry is None else device_map[entry]


def entry_of(device_map: Mapping[str, str], name: str) -> str | None:
    """The key of a map that decides where a parameter is: the longest one that covers its name."""
    fitting = [key for key in device_map if not key or name == key or name.startswith(f"{key}.")]
    return max(fitting, key=len) if fitting else None


def device_name(device: Any) -> str:
    """`cuda:0` for 0, and for `cuda` too when that is what it means; other devices as they are written."""
    return f"cuda:{device}" if isinstance(device, int) else str(device)
