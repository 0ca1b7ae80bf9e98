"""Training steps of a Llama as Megatron-Core takes them with TransformerEngine, one rank's share.

Sources: NVIDIA/Megatron-LM (`core/transformer`, `core/tensor_parallel`, `core/distributed`,
`core/optimizer/distrib_optimizer.py`), NVIDIA/TransformerEngine (`pytorch/module`, `pytorch/attention`), and
Korthikanti et al. 2022. Weights in bf16 and gradients in fp32 lie in one buffer each, into which products
write their gradients; master weights and both moments are split over data and context parallelism. A norm
and the product after it keep the norm's input and output, of a rank's part of the sequence, and gather the
output again for the backward; attention keeps queries, keys, values, its output and a number for each head
and token; the gate and a product keep their input. The fused loss writes the gradient over the logits. What
cuDNN's kernels and NCCL take is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

_STEPS = 2


class _Operation(torch.autograd.Function):
    """Makes a result of a size; keeps tensors for its backward, which makes others in passing."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        size: tuple[int, int],
        passing: Sequence[tuple[int, int]],
        *kept: torch.Tensor,
    ) -> torch.Tensor:
        """Only memory."""
        ctx.save_for_backward(*kept)
        ctx.size, ctx.passing, ctx.count = x.shape, passing, len(kept)
        return x.new_empty(size)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Only memory."""
        passing = [gradients[0].new_empty(size) for size in ctx.passing]
        made = gradients[0].new_empty(ctx.size)
        del passing
        return made, None, None, *(None,) * ctx.count


def _operation(
    x: torch.Tensor,
    size: tuple[int, int],
    *kept: torch.Tensor,
    passing: Sequence[tuple[int, int]] = (),
) -> torch.Tensor:
    made: torch.Tensor = _Operation.apply(x, size, passing, *kept)
    return made


@dataclass(frozen=True, slots=True)
class MegatronStep:
    """One run: the only stage of a pipeline."""

    layers: int
    hidden: int
    heads: int
    kept: int
    """Heads of keys and values."""
    width: int
    inner: int
    vocabulary: int
    tokens: int
    micro_batch: int
    accumulation: int
    tensor: int
    """Ranks of tensor parallelism, with the sequence in as many parts."""
    context: int
    data: int

    def take(self) -> None:
        """Make what stays, and take steps."""
        count = self._parameters
        stays = [torch.empty(count, dtype=torch.bfloat16, device="cuda"), torch.zeros(count, device="cuda")]
        shard = -(-count // (self.data * self.context))
        stays.append(torch.empty(shard, device="cuda"))
        for step in range(_STEPS):
            for _ in range(self.accumulation):
                self._micro_batch()
            if step == 0:
                stays += [torch.empty(shard, device="cuda") for _ in range(2)]

    @property
    def _own_vocabulary(self) -> int:
        """Rounded up to 128 for each rank."""
        return -(-self.vocabulary // (128 * self.tensor)) * 128

    @property
    def _parameters(self) -> int:
        across = (2 * self.heads + 2 * self.kept) * self.width + 3 * self.inner
        block = self.hidden * across // self.tensor + 2 * self.hidden
        return self.layers * block + self.hidden + 2 * self._own_vocabulary * self.hidden

    @property
    def _whole(self) -> int:
        """Tokens of a product."""
        return self.micro_batch * self.tokens // self.context

    def _micro_batch(self) -> None:
        own = self._whole // self.tensor
        h = torch.empty(own, self.hidden, dtype=torch.bfloat16, device="cuda", requires_grad=True)
        for _ in range(self.layers):
            h = self._block(h)
        logits = self._product(h, self._own_vocabulary)
        loss = _operation(logits, (1, 1), logits)
        del logits, h
        loss.sum().backward()
        table = self._own_vocabulary * self.hidden
        torch.empty(
            table, dtype=torch.bfloat16, device="cuda"
        )  # the embedding's gradient, added to the buffer

    def _product(self, x: torch.Tensor, outputs: int) -> torch.Tensor:
        """A norm, and a product of the gathered sequence: gathered again in the backward, then scattered."""
        normed = torch.empty_like(x)
        whole = (self._whole, self.hidden)
        gathered = [x.new_empty(whole)] if self.tensor > 1 else []
        passing = [whole, whole] if self.tensor > 1 else [whole]
        made = _operation(x, (self._whole, outputs), x.detach(), normed, passing=passing)
        del gathered
        return made

    def _scattered(self, x: torch.Tensor) -> torch.Tensor:
        """A product that keeps its input, and whose result is scattered."""
        size = (self._whole, self.hidden)
        made = _operation(x, size, x.detach())
        return _operation(made, (self._whole // self.tensor, self.hidden)) if self.tensor > 1 else made

    def _block(self, x: torch.Tensor) -> torch.Tensor:
        own = (self.heads + 2 * self.kept) * self.width // self.tensor
        across = self.heads * self.width // self.tensor
        mixed = self._product(x, own)
        turned = _operation(mixed, (self._whole, own))
        if self.context > 1:
            turned = _operation(turned, (self._whole, own))
        del mixed
        output = turned.new_empty(self._whole, across)
        sums = torch.empty(self._whole, self.heads // self.tensor, device="cuda")
        attended = _Attended.apply(turned, output, sums)
        if self.context > 1:
            attended = _operation(attended, (self._whole, across))
        del turned, output
        h = x + self._scattered(attended)
        inner = self.inner // self.tensor
        gates = self._product(h, 2 * inner)
        gated = _operation(gates, (self._whole, inner), gates.detach())
        return h + self._scattered(gated)


class _Attended(torch.autograd.Function):
    """Attention: keeps what came in and what goes out."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, output: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        """Hand the output on, which the product after it keeps as well."""
        ctx.save_for_backward(x, output, sums)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Of queries, keys and values."""
        return torch.empty_like(ctx.saved_tensors[0]), None, None
