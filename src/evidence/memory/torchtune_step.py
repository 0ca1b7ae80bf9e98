"""Training steps as torchtune's recipe for one device takes them, for `memory-truth`.

Source: pytorch/torchtune, `recipes/full_finetune_single_device.py`, `modules/loss/ce_chunked_output_loss.py`:
everything in bf16, layers compiled and computed twice, the head applied to eight parts of the tokens, whose
loss is compiled; AdamW with one kernel, or a step for each parameter as soon as its gradient is there
(`optimizer_in_bwd`). What compiling changes is that of torchtitan's blocks.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from evidence.memory.torchtitan_step import CompiledLoss, Llama, Sizes

_CHUNKS = 8
_STEPS = 2


@dataclass(frozen=True, slots=True)
class TuneStep:
    """One run on one GPU; head and embedding are one matrix."""

    sizes: Sizes
    micro_batch: int
    tokens: int
    in_backward: bool
    """The optimizer."""

    def take(self) -> None:
        """Build the model and take steps."""
        model = self._built()
        adam: Any = functools.partial(torch.optim.AdamW, lr=2e-5, fused=True)
        if self.in_backward:
            for each in model.parameters():
                each.register_post_accumulate_grad_hook(_Step(adam([each])))
            whole = None
        else:
            whole = adam(model.parameters())
        for _ in range(_STEPS):
            ids = torch.zeros(self.micro_batch, self.tokens, dtype=torch.long, device="cuda")
            self._loss(model, ids).backward()
            if whole is not None:
                whole.step()
                whole.zero_grad(set_to_none=True)

    def _loss(self, model: Llama, ids: torch.Tensor) -> torch.Tensor:
        logits = [model.output(part) for part in model.hidden(ids).chunk(_CHUNKS, dim=1)]
        targets = ids.chunk(_CHUNKS, dim=1)
        losses: list[torch.Tensor] = [
            CompiledLoss.apply(part.flatten(0, 1), labels.flatten())
            for part, labels in zip(logits, targets, strict=True)
        ]
        return torch.stack(losses).sum()

    def _built(self) -> Llama:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        with torch.device("meta"):
            model = Llama(self.sizes, self.tokens)
        turns = torch.empty_like(model.turns, device="cuda")
        model = model.to(torch.bfloat16).to_empty(device="cuda")
        model.turns = turns
        model.output.weight = model.tok_embeddings.weight
        model.layers = nn.ModuleList(checkpoint_wrapper(layer) for layer in model.layers)
        return model


@dataclass(frozen=True, slots=True)
class _Step:
    """Called with a parameter that has its gradient."""

    optimizer: torch.optim.Optimizer

    def __call__(self, parameter: torch.Tensor) -> None:
        """Use the gradient up."""
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
