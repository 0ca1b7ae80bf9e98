"""What is to be said, without a language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias


def signed_percent(share: float) -> str:
    """A share with its sign, in tenths of a per cent; nothing is `+0.0%`, never `-0.0%`."""
    return f"{round(share, 3) + 0.0:+.1%}"


@dataclass(frozen=True, slots=True)
class Bytes:
    """An amount of memory: in `unit`, or in the binary unit that leaves at most four digits before the point.

    Every language writes it alike, so `str` does.
    """

    count: int
    unit: Literal["", "GiB"] = ""

    def __str__(self) -> str:
        if self.unit == "GiB":
            return f"{self.count / (1 << 30):.1f} GiB"
        if self.count < 1024:
            return f"{self.count} B"
        value = float(self.count)
        for unit in ("KiB", "MiB", "GiB"):
            value /= 1024
            if value < 1024:
                return f"{value:.1f} {unit}"
        return f"{value / 1024:.1f} TiB"


@dataclass(frozen=True, slots=True)
class Several:
    """Values side by side, joined as the language joins them: `a, b and c`, `a, b, c`, or nothing between."""

    parts: tuple[Value, ...]
    joint: Literal["and", "comma", "clause", "none"] = "and"


@dataclass(frozen=True, slots=True, init=False)
class Phrase:
    """A sentence of the catalogues by its key, with the values that it names."""

    key: str
    values: tuple[tuple[str, Value], ...]

    def __init__(self, key: str, /, **values: Value) -> None:
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "values", tuple(values.items()))


Value: TypeAlias = str | int | float | Bytes | Several | Phrase
"""What a phrase may name. Text is for what has no language: names, paths, numbers, messages of torch."""


_WRAPPER = re.compile(r"^wrapper_(?:CUDA_)?_*")
"""What torch's messages put before the name of an operator."""


def short_operator(op: str) -> str:
    """The operator as people call it: `aten.mul.Tensor` is `mul`, `wrapper_CUDA_mm` is `mm`.

    Names of other libraries keep their namespace.
    """
    namespace, _, rest = op.partition(".")
    if not rest:
        return _WRAPPER.sub("", op) or op
    name = rest.rpartition(".")[0] or rest
    return name if namespace == "aten" else f"{namespace}.{name}"
