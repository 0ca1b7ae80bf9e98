"""CTC loss on virtual tensors: lengths may be on any device.

CUDA's route reads them on the host.

`ctc_loss` with lengths in tensors (`aten/src/ATen/native/LossCTC.cpp`) takes an overload under a dispatch
mode that leaves them where they are; without a mode it reads them, and moves the targets to the probabilities
"as a service for the user".
"""

from __future__ import annotations

import math
from typing import Any

import torch

from samedevice.runtime.engine import Engine
from samedevice.runtime.kernels.replacements import replaced
from samedevice.runtime.state import META, current_machine
from samedevice.runtime.tensors import brought, host_copy, move, seen_device

aten = torch.ops.aten
_MEAN, _SUM = 1, 2


def _loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
) -> torch.Tensor:
    batched = log_probs.dim() == 3
    rows = log_probs if batched else log_probs.unsqueeze(1)
    rows, targets = _beside_meta(rows, targets, input_lengths, target_lengths, blank, zero_infinity)
    wanted = move(targets, seen_device(rows), torch.int64)
    lengths = _numbers(target_lengths, "target_lengths")
    loss: torch.Tensor = aten._ctc_loss.default(
        rows, wanted, _numbers(input_lengths, "input_lengths"), lengths, blank, zero_infinity
    )[0]
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction == _MEAN:
        return (loss / torch.tensor(lengths, dtype=loss.dtype, device=seen_device(loss)).clamp_min_(1)).mean()
    if reduction == _SUM:
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def _beside_meta(
    rows: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    zero_infinity: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What C++ asks of probabilities on a GPU, and what it calls of others: there lengths stay tensors
    (`areAnyTensorSubclassLike` is true of one on meta).
    """
    lengths = (input_lengths, target_lengths)
    tensors = [each for each in (rows, targets, *lengths) if isinstance(each, torch.Tensor)]
    devices = [seen_device(each) for each in tensors]
    home = next((device for device in devices if device.type == "cuda"), None)
    if home is None or META not in devices:
        return rows, targets
    reached = current_machine().part(Engine).mismatches.reached
    kept = all(isinstance(each, torch.Tensor) for each in lengths)
    if devices[0] != META:
        asks = aten._use_cudnn_ctc_loss
        reached(asks.Tensor if kept else asks.default, rows, targets, *lengths, blank)
    elif kept:
        wanted = move(targets, META, torch.int64)
        reached(aten._ctc_loss.Tensor, rows, wanted, *lengths, blank, zero_infinity)
    else:
        return rows, targets
    rows, targets = [brought(each, home) if seen_device(each) == META else each for each in (rows, targets)]
    return rows, targets


def _numbers(lengths: Any, name: str) -> list[int]:
    if not isinstance(lengths, torch.Tensor):
        return list(lengths)
    if lengths.dtype.is_floating_point or lengths.dtype.is_complex or lengths.dtype == torch.bool:
        raise RuntimeError(f"{name} must be integral")
    return (
        torch.Tensor.tolist(host_copy(lengths).flatten())
        if seen_device(lengths) != META
        else [0] * lengths.numel()
    )


PATCHES = replaced(
    {aten.ctc_loss.IntList: _loss, aten.ctc_loss.Tensor: _loss},
    "under a mode C++ leaves the lengths where they are; CUDA's route reads them on the host",
)
