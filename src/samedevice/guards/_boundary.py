"""The narrowest module boundary at which a tensor can be moved once and for all: where a module takes it, or returns it.

Note [What is lent comes back]
A module gets a copy of a tensor that it takes, so whatever it does to the copy must reach the original: lists and dictionaries are
the caller's own, with the copy in them for as long as the module runs, and a copy that was written to is written back. Objects such as
caches are never taken apart: what is in them is moved inside.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from samedevice.guards._align import with_parts
from samedevice.guards._compiled import breaking, untraced
from samedevice.guards._hooks import hook_device
from samedevice.guards._layers import Layer, add_layer
from samedevice.provenance import variables_of

if TYPE_CHECKING:
    import torch

_DEPTH = 4
Path = tuple[Any, ...]
"""Keys and numbers that lead to a tensor in lists, tuples and dictionaries."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where to move a tensor from now on."""

    kind: Literal["input", "output"]
    module: torch.nn.Module
    argument: str = ""
    path: Path = ()

    def spelled(self) -> str:
        """The argument as people write it."""
        return self.argument + "".join(f"[{key!r}]" for key in self.path)

    def install(self, target: torch.device) -> Callable[[], None]:
        """Put the move on the module; returns what takes it off."""
        if self.kind == "output":
            return self.module.register_forward_hook(_output_mover(self.path, target)).remove
        return add_layer(self.module, "forward", _lender(self, target))


class Producers:
    """Which module returned a tensor, known while it is watched."""

    def __init__(self, model: torch.nn.Module | None) -> None:
        self._model = model
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], torch.nn.Module, Path, int]] = {}
        self._watching = 0

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Note what modules return inside the block, before their other hooks change it."""
        self._watching += 1
        modules = self._model.modules() if self._model is not None and self._watching == 1 else ()
        handles = [module.register_forward_hook(self._note, prepend=True) for module in modules]
        try:
            yield
        finally:
            self._watching -= 1
            for handle in handles:
                handle.remove()
            if not self._watching:
                self._known.clear()

    def of(self, tensor: torch.Tensor) -> tuple[Boundary, int] | None:
        """The boundary of the module that returned the tensor itself, and how often the tensor had been written to by then."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            return None
        return Boundary("output", known[1], path=known[2]), known[3]

    def _note(self, module: torch.nn.Module, _: Any, result: Any) -> None:
        for path, tensor in _paths(result, (), 2):
            known = self._known.get(id(tensor))
            if (known is None or known[0]() is not tensor) and not tensor.is_inference():
                self._known[id(tensor)] = (weakref.ref(tensor), module, path, tensor._version)


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

    from samedevice.runtime import surroundings

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
        taken = [(name, path, found) for name, value in _arguments(frame, variables) for path, found in _paths(value, (), _DEPTH)]
        for name, path, found in taken:
            if fits(found):
                memory = surroundings.identity(found)
                if any(surroundings.identity(other) == memory != 0 for _, __, other in taken if other is not found):
                    return None  # a write to one shows in the other, and a copy would part them
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


def _paths(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, torch.Tensor]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth and isinstance(value, (list, tuple, dict)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(part, (*path, key), depth - 1)


def _at(value: Any, path: Path) -> Any:
    """What is at the path; None when the path leads nowhere in this call."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _with(value: Any, path: Path, new: torch.Tensor, in_place: bool) -> Any:
    """The value with another tensor at the path; in place as far as lists and dictionaries go."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    part = _with(value[key], rest, new, in_place)
    if part is value[key]:
        return value
    if isinstance(value, tuple) or not in_place:
        return with_parts(value, {key: part})
    value[key] = part
    return value


def _lender(boundary: Boundary, target: torch.device) -> Layer:
    """Lends a module a copy of what it takes on its own device; see Note [What is lent comes back]."""
    import torch

    untraced(_at, _with, _copy)
    argument, path = boundary.argument, boundary.path
    names = list(inspect.signature(type(boundary.module).forward).parameters)[1:]
    index = names.index(argument) if argument in names else sys.maxsize

    def layer(forward: Callable[..., Any]) -> Callable[..., Any]:
        def lend(*args: Any, **kwargs: Any) -> Any:
            value = args[index] if index < len(args) else kwargs.get(argument)
            original = _at(value, path) if path else value
            if not isinstance(original, torch.Tensor) or original.device == target:
                return forward(*args, **kwargs)
            copied = _copy(original, target)
            version = copied._version
            new = _with(value, path, copied, in_place=True)
            if index < len(args):
                args = (*args[:index], new, *args[index + 1 :])
            else:
                kwargs[argument] = new
            try:
                return forward(*args, **kwargs)
            finally:
                if copied._version != version:
                    original.copy_(copied)
                if path and _at(value, path) is copied:
                    _with(value, path, original, in_place=True)

        return breaking(lend)

    return layer


def _copy(tensor: torch.Tensor, target: torch.device) -> torch.Tensor:
    """The tensor on another device, with a count of its writes, which tensors made in inference mode lack."""
    import torch

    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False):
            return tensor.to(target)
    return tensor.to(target)


def _output_mover(path: Path, target: torch.device) -> Any:
    import torch

    def move_output(_: torch.nn.Module, __: Any, result: Any) -> Any:
        found = _at(result, path)
        if not isinstance(found, torch.Tensor) or found.device == target:
            return None
        return _with(result, path, found.to(target), in_place=False)

    untraced(move_output)
    return move_output
