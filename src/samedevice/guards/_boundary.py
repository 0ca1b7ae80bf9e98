"""The narrowest module boundary at which a tensor can be moved once and for all: where a module takes it, or returns it."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from samedevice.guards._align import with_parts
from samedevice.guards._hooks import hook_device
from samedevice.provenance import variables_of

if TYPE_CHECKING:
    import torch

_DEPTH = 4
Step = tuple[str, Any]
"""`("key", 3)` or `("attribute", "keys")`."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where to move a tensor from now on."""

    kind: Literal["input", "output"]
    module: torch.nn.Module
    argument: str = ""
    path: tuple[Step, ...] = ()

    def spelled(self) -> str:
        """The argument as people write it."""
        return self.argument + "".join(f"[{key!r}]" if kind == "key" else f".{key}" for kind, key in self.path)

    def install(self, target: torch.device) -> Any:
        """Put the hook on the module; returns its handle."""
        if self.kind == "output":
            return self.module.register_forward_hook(_output_mover(self.path, target))
        return self.module.register_forward_pre_hook(_input_mover(self, target), with_kwargs=True)


class Producers:
    """Which module returned a tensor, known while it is watched."""

    def __init__(self, members: set[int]) -> None:
        self._members = members
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], torch.nn.Module, tuple[Step, ...]]] = {}
        self._watching = 0

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Note what modules return inside the block."""
        from torch.nn.modules.module import register_module_forward_hook

        self._watching += 1
        handle = register_module_forward_hook(self._note) if self._watching == 1 else None
        try:
            yield
        finally:
            self._watching -= 1
            if handle is not None:
                handle.remove()
                self._known.clear()

    def of(self, tensor: torch.Tensor) -> Boundary | None:
        """The boundary of the module that returned the tensor itself."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            return None
        return Boundary("output", known[1], path=known[2])

    def _note(self, module: torch.nn.Module, _: Any, result: Any) -> None:
        if id(module) in self._members:
            for path, tensor in _paths(result, (), 2):
                self._known.setdefault(id(tensor), (weakref.ref(tensor), module, path))
                if self._known[id(tensor)][0]() is not tensor:
                    self._known[id(tensor)] = (weakref.ref(tensor), module, path)


def taken_by(tensor: torch.Tensor, frames: Iterator[FrameType], members: set[int], target: torch.device) -> Boundary | None:
    """The innermost running module of the model that has the tensor among its arguments, or else one whose view it is."""
    from samedevice.runtime import surroundings

    running = list(frames)
    exact = _taken(running, members, target, lambda found: found is tensor)
    memory = surroundings.identity(tensor)
    if exact is not None or not memory:
        return exact
    return _taken(running, members, target, lambda found: surroundings.identity(found) == memory)


def _taken(frames: list[FrameType], members: set[int], target: torch.device, fits: Callable[[torch.Tensor], bool]) -> Boundary | None:
    import torch

    for frame in frames:
        code = frame.f_code
        if not code.co_argcount or code.co_varnames[0] != "self" or code.co_name not in ("forward", "_call_impl"):
            continue
        variables = variables_of(frame)
        module = variables.get("self")
        if not isinstance(module, torch.nn.Module) or id(module) not in members:
            continue
        hook = hook_device(module)
        if hook is not None and hook != str(target):
            continue  # accelerate's hook would send it back
        for name, value in _arguments(frame, variables):
            for path, found in _paths(value, (), _DEPTH):
                if fits(found):
                    return Boundary("input", module, name, path)
    return None


def _arguments(frame: FrameType, variables: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    code = frame.f_code
    if code.co_name == "_call_impl":  # torch's own frame still has what the module was called with, whatever forward renamed
        names = inspect.signature(type(variables["self"]).forward).parameters
        yield from zip(list(names)[1:], variables.get("args", ()), strict=False)
        yield from variables.get("kwargs", {}).items()
        return
    count = code.co_argcount + code.co_kwonlyargcount
    for name in code.co_varnames[1:count]:
        yield name, variables.get(name)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        rest = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
        held = variables.get(rest)
        if isinstance(held, dict):
            yield from held.items()


def _paths(value: Any, path: tuple[Step, ...], depth: int) -> Iterator[tuple[tuple[Step, ...], torch.Tensor]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth and not isinstance(value, (torch.nn.Module, type, str)):
        if isinstance(value, (list, tuple)):
            for index, part in enumerate(value):
                yield from _paths(part, (*path, ("key", index)), depth - 1)
        elif isinstance(value, dict):
            for key, part in value.items():
                yield from _paths(part, (*path, ("key", key)), depth - 1)
        elif hasattr(value, "__dict__"):
            for key, part in vars(value).items():
                yield from _paths(part, (*path, ("attribute", key)), depth - 1)


def _moved(value: Any, path: tuple[Step, ...], target: torch.device) -> Any:
    """The value with the tensor at `path` on `target`: containers are copied, objects such as caches are changed in place."""
    import torch

    if not path:
        return value.to(target) if isinstance(value, torch.Tensor) and value.device != target else value
    (kind, key), rest = path[0], path[1:]
    try:
        part = value[key] if kind == "key" else getattr(value, key)
    except (KeyError, IndexError, AttributeError, TypeError):
        return value
    new = _moved(part, rest, target)
    if new is part:
        return value
    if kind == "key":
        return with_parts(value, {key: new})
    setattr(value, key, new)
    return value


def _input_mover(boundary: Boundary, target: torch.device) -> Any:
    names = list(inspect.signature(type(boundary.module).forward).parameters)[1:]
    index = names.index(boundary.argument) if boundary.argument in names else None

    def move_input(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if boundary.argument in kwargs:
            value = kwargs[boundary.argument]
            new = _moved(value, boundary.path, target)
            return None if new is value else (args, {**kwargs, boundary.argument: new})
        if index is not None and index < len(args):
            new = _moved(args[index], boundary.path, target)
            return None if new is args[index] else ((*args[:index], new, *args[index + 1 :]), kwargs)
        return None

    return move_input


def _output_mover(path: tuple[Step, ...], target: torch.device) -> Any:
    def move_output(_: torch.nn.Module, __: Any, result: Any) -> Any:
        new = _moved(result, path, target)
        return None if new is result else new

    return move_output
