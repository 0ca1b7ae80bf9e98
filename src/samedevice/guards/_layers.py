"""Methods of one object in layers, each of which can be taken off whenever its owner likes.

Must guarantee: with the last layer gone the instance is as it was; where somebody else has wrapped the method
meanwhile, what is left of ours only calls through; layers belong to the one instance: its copies, its pickles
and its replicas have their own method, bare.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

Method = Callable[..., Any]
Layer = Callable[[Method], Method]
_ABSENT = object()
_REPLICATE = "_replicate_for_data_parallel"
"""How `nn.DataParallel` copies a module: with the very attributes of the instance."""


class _Entry:
    """What stands on the instance in the place of the method."""

    def __init__(self, layered: _Layered) -> None:
        functools.update_wrapper(self, layered.method)
        self._layered = layered

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._layered.call(*args, **kwargs)

    __code__ = __call__.__code__
    """What `torch.export` names the place by."""

    @property
    def __func__(self) -> Method:
        """As of a method, for who wraps that: torch's schedulers, accelerate's autocast."""

        def unbound(_: Any, *args: Any, **kwargs: Any) -> Any:
            return self(*args, **kwargs)

        return unbound

    def __reduce__(self) -> tuple[Any, ...]:
        """In a copy of the owner: the method of the copy, or a copy of what stood there before."""
        if self._layered.before is _ABSENT:
            return getattr, (self._layered.owner, self._layered.name)
        return operator.itemgetter(0), ([self._layered.before],)


class _Layered:
    """A method with its layers, the innermost first."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name
        self.before = vars(owner).get(name, _ABSENT)
        self.method: Method = getattr(owner, name)
        self.call = self.method
        self._layers: list[Layer] = []
        self._entry = _Entry(self)
        vars(owner)[name] = self._entry  # not setattr: modules and optimizers have rules of their own
        if (
            name != _REPLICATE
            and hasattr(owner, _REPLICATE)
            and not isinstance(vars(owner).get(_REPLICATE), _Entry)
        ):
            _Layered(owner, _REPLICATE).add(_bare)

    def add(self, layer: Layer) -> None:
        self._layers.append(layer)
        self._compose()

    def remove(self, layer: Layer) -> None:
        if layer not in self._layers:
            return
        self._layers.remove(layer)
        self._compose()
        if not self._layers and vars(self.owner).get(self.name) is self._entry:
            self.restore(self.owner)
            left = [each for each in vars(self.owner).values() if isinstance(each, _Entry)]
            if len(left) == 1 and left[0]._layered.name == _REPLICATE:
                left[0]._layered.remove(_bare)

    def restore(self, instance: Any) -> None:
        """Give an instance what stood there before."""
        if self.before is _ABSENT:
            del vars(instance)[self.name]
        else:
            vars(instance)[self.name] = self.before

    def _compose(self) -> None:
        self.call = functools.reduce(lambda method, layer: layer(method), self._layers, self.method)


def _bare(replicate: Method) -> Method:
    """A replica calls its own methods, not those of the module that it was made from."""

    def replica() -> Any:
        made = replicate()
        for each in list(vars(made).values()):
            if isinstance(each, _Entry):
                each._layered.restore(made)
        return made

    return replica


def called_method(module: Any) -> str:
    """The method that a call of the module runs.

    After `module.compile()` the compiled one, so that a layer is around the graph.
    """
    return "_compiled_call_impl" if vars(module).get("_compiled_call_impl") else "forward"


def add_layer(owner: Any, name: str, layer: Layer) -> Callable[[], None]:
    """Put a layer around `owner.name`; returns what takes it off."""
    entry = vars(owner).get(name)
    layered = entry._layered if isinstance(entry, _Entry) else _Layered(owner, name)
    layered.add(layer)
    return functools.partial(layered.remove, layer)
