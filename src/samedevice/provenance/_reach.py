"""The tensors that a value holds, each with the Python expression that reaches it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def tensors_reached(
    value: Any, path: str, depth: int, most: int | None = None
) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in containers and plain objects, `most` parts of each; a module keeps its own to itself."""
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth and not isinstance(value, (torch.nn.Module, type)):
        parts: Iterator[tuple[str, Any]]
        if isinstance(value, Mapping):
            parts = ((f"{path}[{key!r}]", part) for key, part in value.items())
        elif isinstance(value, tuple) and isinstance(fields := getattr(value, "_fields", None), tuple):
            parts = ((f"{path}.{name}", part) for name, part in zip(fields, value, strict=False))
        elif isinstance(value, (list, tuple)):
            parts = ((f"{path}[{index}]", part) for index, part in enumerate(value))
        else:
            parts = ((f"{path}.{name}", part) for name, part in getattr(value, "__dict__", {}).items())
        for where, part in list(islice(parts, most)):
            yield from tensors_reached(part, where, depth - 1, most)
