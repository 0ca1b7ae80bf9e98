"""One call of an operator on its way through the engine, and what the engine remembers of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from samedevice.runtime.state.decision import Decision
from samedevice.runtime.state.memory import Memory, storage_of
from samedevice.runtime.state.operators import Operator

Tensor = torch.Tensor


class Call:
    """An operator, its arguments, and what is known of its tensors."""

    __slots__ = (
        "args",
        "away",
        "drawn",
        "generator",
        "given",
        "home",
        "kwargs",
        "op",
        "records",
        "target",
        "tensors",
    )

    def __init__(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        records: Sequence[Any],
    ) -> None:
        self.op = op
        self.args = args
        self.kwargs = kwargs
        self.tensors = tensors
        self.records = records
        """What the machine knows of each tensor's memory, in the same order."""
        self.home: torch.device = _NOWHERE
        """Where the tensors are."""
        self.target: torch.device = _NOWHERE
        """Where results go."""
        self.generator: Any = None
        self.drawn: torch._C.Generator | None = None
        """The CPU's engine that this one call draws from; None where it draws nothing on a GPU."""
        self.given: Any = None
        """The results, where torch gave them already: tensors on meta."""
        self.away: Sequence[tuple[torch.Tensor, torch.Tensor]] = ()
        """What is written on another device: the script's own tensor, and the one that this call has in its
        place.
        """

    def decision(self, home: torch.device) -> Decision | None:
        """Why the first operand that is on this device is there."""
        for record in self.records:
            if record.__class__ is Memory and record.device == home:
                return record.decision
        return None

    def key(self) -> Any:
        """Equal for calls whose results have equal geometry; None when an argument cannot be compared."""
        key = (
            self.op.func,
            _signature(self.args),
            _signature(self.kwargs.values()) if self.kwargs else None,
            self.target.index,
        )
        try:
            hash(key)
        except TypeError:
            return None
        return key


_NOWHERE = torch.device("meta")


def _signature(values: Any) -> Any:
    parts: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            parts.append((value.shape, value.stride(), value.dtype))
        elif isinstance(value, (list, tuple)):
            parts.append(_signature(value))
        else:
            parts.append((value.__class__, value))
    return tuple(parts)


class Geometry:
    """Shapes, strides and types of an operator's results."""

    __slots__ = ("nbytes", "parts", "single")

    def __init__(self, result: Any) -> None:
        self.single = isinstance(result, Tensor)
        parts = [result] if self.single else list(result)
        self.parts = [
            None if part is None else (tuple(part.size()), part.stride(), part.dtype) for part in parts
        ]
        self.nbytes = [0 if part is None else storage_of(part).nbytes() for part in parts]


def has_geometry(result: Any) -> bool:
    """Whether a result is plain enough to be made again from its geometry."""
    if isinstance(result, Tensor):
        return result.layout == torch.strided and result.storage_offset() == 0
    return isinstance(result, tuple) and all(
        part is None or (isinstance(part, Tensor) and has_geometry(part)) for part in result
    )
