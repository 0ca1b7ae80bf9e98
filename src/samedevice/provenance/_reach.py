"""The tensors that a value holds, each with the Python expression that reaches it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_MOST_PARTS = 400


def tensors_reached(
    value: Any, path: str, depth: int, most: int | None = None
) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in containers and plain objects, `most` parts of each; a module keeps its own to itself."""
    import torch

    # Asked by type, and read past `__getattribute__`: an object of the program may warn or compute when it is
    # asked, as `torch.distributed.reduce_op` does.
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        yield path, value
    elif depth and not issubclass(kind, (torch.nn.Module, type)):
        parts: Iterator[tuple[str, Any]]
        if issubclass(kind, Mapping):
            parts = ((f"{path}[{key!r}]", part) for key, part in value.items())
        elif issubclass(kind, tuple) and isinstance(fields := getattr(kind, "_fields", None), tuple):
            parts = ((f"{path}.{name}", part) for name, part in zip(fields, value, strict=False))
        elif issubclass(kind, (list, tuple)):
            parts = ((f"{path}[{index}]", part) for index, part in enumerate(value))
        else:
            parts = ((f"{path}.{name}", part) for name, part in _attributes(value).items())
        for where, part in list(islice(parts, most)):
            yield from tensors_reached(part, where, depth - 1, most)


def parts_held(value: Any) -> list[Any]:
    """What a list, a mapping or a plain object holds itself; a module, a class and a tensor hold nothing."""
    import torch

    kind = type(value)
    if issubclass(kind, (torch.Tensor, torch.nn.Module, type)):
        return []
    if issubclass(kind, Mapping):
        return list(islice((*value.values(), *_attributes(value).values()), _MOST_PARTS))
    items = value if issubclass(kind, (list, tuple)) else ()
    return list(islice((*items, *_attributes(value).values()), _MOST_PARTS))


def _attributes(value: Any) -> Mapping[str, Any]:
    try:
        kept: Mapping[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return kept
