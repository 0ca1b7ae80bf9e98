"""The device on which a refused call is made again.

Must guarantee: a tensor that the call writes to is never moved, since the write would be lost; weights stay
where they are unless two of them meet; the host computes only where a weight is there or is written to; where
the diagnosis does not tell, the first GPU takes all: numbers do not depend on which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from samedevice.events import Event, Operand, Running
from samedevice.findings import Finding
from samedevice.messages import Phrase

if TYPE_CHECKING:
    import torch


def target_of(
    finding: Finding[str | Phrase],
    event: Event,
    named: Sequence[tuple[str, torch.Tensor]],
    written: Sequence[torch.Tensor],
) -> torch.device | None:
    """The device on which the call is to run; None when the evidence does not tell."""
    import torch

    if written:
        return written[0].device
    target = _where_it_belongs(finding, event, named)
    weighs = any(isinstance(tensor, torch.nn.Parameter) and tensor.device == target for _, tensor in named)
    if target is None or (target.type == "cpu" and not weighs):
        return next(
            (tensor.device for _, tensor in named if tensor.device.type != "cpu"), None
        )  # any GPU gives the same numbers
    return target


def _where_it_belongs(
    finding: Finding[str | Phrase], event: Event, named: Sequence[tuple[str, torch.Tensor]]
) -> torch.device | None:
    """The device that the evidence points at, if any."""
    import torch

    guilty = _guilty(finding, named)
    if guilty is not None:
        if isinstance(guilty, torch.nn.Parameter):
            return guilty.device  # the others come to it
        others = [tensor for _, tensor in named if tensor.device != guilty.device]
        weights = [tensor for tensor in others if isinstance(tensor, torch.nn.Parameter)]
        if weights or others:
            return (weights or others)[0].device
    weights = [tensor for _, tensor in named if isinstance(tensor, torch.nn.Parameter)]
    if weights:
        return max(weights, key=lambda tensor: tensor.numel()).device
    home = next((device for each in event.running if (device := _home(each)) is not None), None)
    if home is not None and any(str(tensor.device) == home for _, tensor in named):
        return torch.device(home)
    return None


def _home(module: Running) -> str | None:
    """Where a running module lives: where its hook sends inputs, or the one device of its parameters."""
    return module.hook or next((places[0] for places in (module.own, module.below) if len(places) == 1), None)


def _guilty(finding: Finding[str | Phrase], named: Sequence[tuple[str, torch.Tensor]]) -> torch.Tensor | None:
    """The tensor of the call that the finding's guilty operand is.

    An operator below the call may name it differently.
    """
    operand = next((each for each in finding.operands if each.name == finding.guilty), None)
    if operand is None:
        return None
    here = [(name, tensor) for name, tensor in named if str(tensor.device) == operand.device]
    for fits in (_same_name, _same_shape, _same_size):
        for name, tensor in here:
            if fits(operand, name, tensor):
                return tensor
    return here[0][1] if len(here) == 1 else None


def _same_name(operand: Operand, name: str, tensor: torch.Tensor) -> bool:
    return name == operand.name and tuple(tensor.shape) == operand.shape


def _same_shape(operand: Operand, _: str, tensor: torch.Tensor) -> bool:
    return tuple(tensor.shape) == operand.shape


def _same_size(operand: Operand, _: str, tensor: torch.Tensor) -> bool:
    return tuple(sorted(tensor.shape)) == tuple(sorted(operand.shape))
