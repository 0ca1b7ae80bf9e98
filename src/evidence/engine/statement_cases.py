"""Cases out of `statements.txt`: what scripts write beside operators, with tensors of GPU and host."""

from __future__ import annotations

import copy
import functools
import io
import math
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evidence.engine import op_cases

_STATEMENTS = Path(__file__).with_name("statements.txt")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class StatementCall:
    """One statement; its name is its source."""

    source: str

    def tensors(self) -> list[torch.Tensor]:
        """Nothing that another release could draw otherwise."""
        return []

    def positions(self) -> tuple[int, ...]:
        """It is run as it is."""
        return (0,)

    def displaced(self, position: int, gpu: str, other: str) -> list[Any]:
        """What it comes to: tensors, and other values in words."""
        assert position == 0
        names = _names(gpu, other)
        *before, last = self.source.split("; ")
        try:
            for each in before:
                exec(each, names)
            value = names["r"] if _assigned(last, names) else names.pop("_value")
        finally:
            torch.set_default_device(None)
        return [leaf if isinstance(leaf, torch.Tensor) else _told(leaf) for leaf in op_cases.leaves(value)]


def _assigned(last: str, names: dict[str, Any]) -> bool:
    if last.startswith("r = "):
        exec(last, names)
        return True
    names["_value"] = eval(last, names)
    return False


def _told(value: Any) -> str:
    return _ADDRESS.sub("", repr(value))[:80] if not isinstance(value, float) else "float"


@functools.cache
def statements() -> dict[str, StatementCall]:
    """Each by its name in a recording, which has no bar of its own."""
    lines = _STATEMENTS.read_text("utf-8").splitlines()
    calls = [StatementCall(line) for line in lines if line and not line.startswith("# ")]
    return {each.source.replace("|", "/"): each for each in calls}


def _names(gpu: str, other: str) -> dict[str, Any]:
    torch.manual_seed(0)
    values, indices = torch.randn(4, 3), torch.tensor([0, 2, 1, 3])
    mask = torch.tensor([True, False, True, False])
    found: dict[str, Any] = {
        "torch": torch,
        "F": torch.nn.functional,
        "D": torch.distributions,
        "np": np,
        "math": math,
        "copy": copy,
        "io": io,
        "pickle": pickle,
        "gpu": gpu,
        "G": torch.Generator(gpu),
        "H": torch.Generator(other),
        "_grad": _with_gradient,
        "_scaled": _scaled,
        "_saved": _saved,
        "_Doubled": _Doubled,
    }
    for letter, device in (("g", gpu), ("h", other)):
        found[letter] = values.to(device, copy=True)
        found[f"{letter}i"] = indices.to(device, copy=True)
        found[f"{letter}m"] = mask.to(device, copy=True)
        found[f"{letter}p"] = torch.nn.Parameter(values.to(device, copy=True))
    return found


def _with_gradient(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    parameter.grad = torch.ones_like(parameter)
    return parameter


def _scaled(scaler: Any, parameter: torch.nn.Parameter) -> Any:
    """A step of SGD under a gradient scaler."""
    optimizer = torch.optim.SGD([parameter], 0.1)
    scaler.scale((parameter * parameter).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return parameter


def _saved(tensor: torch.Tensor) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    buffer.seek(0)
    return buffer


class _Doubled(torch.autograd.Function):
    """Gives its gradient back on the host."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0].cpu() * 2
