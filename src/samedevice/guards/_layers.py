"""Methods of one object in layers, each of which can be taken off whenever its owner likes.

Must guarantee: with the last layer gone the instance is as it was; where somebody else has wrapped the method meanwhile, what is left of
ours only calls through.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Method = Callable[..., Any]
Layer = Callable[[Method], Method]
_ABSENT = object()


class _Layered:
    """A method with its layers, the innermost first."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name
        self._before = vars(owner).get(name, _ABSENT)
        self._method: Method = getattr(owner, name)
        self._layers: list[Layer] = []
        self.call = self._method

        @functools.wraps(self._method)
        def entry(*args: Any, **kwargs: Any) -> Any:
            return self.call(*args, **kwargs)

        self._entry = entry
        entry._layered = self  # type: ignore[attr-defined] # how the next layer finds this one
        vars(owner)[name] = entry  # not setattr: modules and optimizers have rules of their own

    def add(self, layer: Layer) -> None:
        self._layers.append(layer)
        self._compose()

    def remove(self, layer: Layer) -> None:
        if layer not in self._layers:
            return
        self._layers.remove(layer)
        self._compose()
        if not self._layers and vars(self._owner).get(self._name) is self._entry:
            if self._before is _ABSENT:
                del vars(self._owner)[self._name]
            else:
                vars(self._owner)[self._name] = self._before

    def _compose(self) -> None:
        self.call = functools.reduce(lambda method, layer: layer(method), self._layers, self._method)


def called_method(module: Any) -> str:
    """The method that a call of the module runs: after `module.compile()` the compiled one, so that a layer is around the graph."""
    return "_compiled_call_impl" if vars(module).get("_compiled_call_impl") else "forward"


def add_layer(owner: Any, name: str, layer: Layer) -> Callable[[], None]:
    """Put a layer around `owner.name`; returns what takes it off."""
    layered = getattr(vars(owner).get(name), "_layered", None) or _Layered(owner, name)
    layered.add(layer)
    return functools.partial(layered.remove, layer)
