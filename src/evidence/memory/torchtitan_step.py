"""Training steps as torchtitan takes them under FSDP2, for `memory-truth`.

Source: pytorch/torchtitan, `train.py`, `models/llama/model.py` and `parallelisms/parallelize_llama.py` at
9dec370: parameters in fp32, computed in bf16 and reduced in fp32; each block sharded by itself, the last one
and the rest kept gathered between forward and backward; activations computed twice, wholly or but for every
second product, attention and collectives (`_save_list`); logits in fp32 for the loss; gradients clipped;
AdamW. Products in fp8 have results in 16 bits, and the same ones are kept; what the casts take in passing is
not counted. Of tensor parallelism one rank's share is built: matrices in parts, sequences gathered before
attention and MLP and scattered after them, logits of a part of the vocabulary.

`torch.compile` is not run. What it changes for memory is written here: chains of pointwise operators and a
reduction are one kernel, so norms, rotations and the gate have a result and nothing in between (`_Kernel`);
of the results that a policy marks, those are kept that the backward needs, which the last product of a block
is not; a compiled loss keeps logits in 16 bits and a number for each token (`CompiledLoss`).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

from evidence.memory.first_rank import first_rank

Checkpoints = Literal["full", "op"]
_STEPS = 2
_PRODUCTS = 7
"""Of a block; the last one makes what is only added."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a Llama, or of a Qwen3, which has norms of queries and keys."""

    layers: int
    hidden: int
    heads: int
    kept: int
    """Heads of keys and values."""
    width: int
    inner: int
    vocabulary: int
    normed: bool
    compiled: bool
    """The blocks."""
    parts: int = 1
    """Of tensor parallelism."""


class _Kernel(torch.autograd.Function):
    """One kernel, whose result is like its first operand; so is each gradient like its operand."""

    @staticmethod
    def forward(ctx: Any, *operands: torch.Tensor) -> torch.Tensor:
        """Keep the operands."""
        ctx.save_for_backward(*operands)
        return torch.empty_like(operands[0])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """One kernel, too."""
        wanted = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=True)
        return tuple(torch.empty_like(each) if asked else None for each, asked in wanted)


class _Exchange(torch.autograd.Function):
    """A collective along the sequence: gathered from `parts` ranks, or scattered to them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, parts: int, gathered: bool) -> torch.Tensor:
        """Make the other length."""
        ctx.shape = x.shape
        batch, tokens, width = x.shape
        return x.new_empty(batch, tokens * parts if gathered else tokens // parts, width)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """The other collective."""
        return gradients[0].new_empty(ctx.shape), None, None


def _exchanged(x: torch.Tensor, parts: int, *, gathered: bool) -> torch.Tensor:
    made: torch.Tensor = _Exchange.apply(x, parts, gathered) if parts > 1 else x
    return made


class _Norm(nn.Module):
    def __init__(self, width: int, *, compiled: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.compiled = compiled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.compiled:
            made: torch.Tensor = _Kernel.apply(x, self.weight)
            return made
        whole = x.float()
        normed = whole * torch.rsqrt(whole.pow(2).mean(-1, keepdim=True) + 1e-5)
        return normed.type_as(x) * self.weight


class _Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        across, kept = (heads * sizes.width // sizes.parts for heads in (sizes.heads, sizes.kept))
        self.wq, self.wk, self.wv = (
            nn.Linear(sizes.hidden, wide, bias=False) for wide in (across, kept, kept)
        )
        self.wo = nn.Linear(across, sizes.hidden, bias=False)
        self.q_norm, self.k_norm = (
            _Norm(sizes.width, compiled=sizes.compiled) if sizes.normed else nn.Identity() for _ in range(2)
        )

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        q, k, v = (part(x).view(batch, tokens, -1, self.sizes.width) for part in (self.wq, self.wk, self.wv))
        q, k = (self._turned(each, turns) for each in (self.q_norm(q), self.k_norm(k)))
        copies = self.sizes.heads // self.sizes.kept
        k, v = (
            each.unsqueeze(3).expand(-1, -1, -1, copies, -1).reshape(batch, tokens, -1, self.sizes.width)
            for each in (k, v)
        )
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        made: torch.Tensor = self.wo(mixed.transpose(1, 2).contiguous().view(batch, tokens, -1))
        return made

    def _turned(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        if self.sizes.compiled:
            made: torch.Tensor = _Kernel.apply(x)
            return made
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns.view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


class _Mlp(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.compiled = sizes.compiled
        self.w1, self.w3 = (nn.Linear(sizes.hidden, sizes.inner // sizes.parts, bias=False) for _ in range(2))
        self.w2 = nn.Linear(sizes.inner // sizes.parts, sizes.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.w1(x), self.w3(x)
        inner = _Kernel.apply(gate, up) if self.compiled else functional.silu(gate) * up
        made: torch.Tensor = self.w2(inner)
        return made


class _Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.parts = sizes.parts
        self.attention, self.feed_forward = _Attention(sizes), _Mlp(sizes)
        self.attention_norm, self.ffn_norm = (_Norm(sizes.hidden, compiled=sizes.compiled) for _ in range(2))

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        whole = _exchanged(self.attention_norm(x), self.parts, gathered=True)
        h = x + _exchanged(self.attention(whole, turns), self.parts, gathered=False)
        whole = _exchanged(self.ffn_norm(h), self.parts, gathered=True)
        return h + _exchanged(self.feed_forward(whole), self.parts, gathered=False)


class Llama(nn.Module):
    """The model, or one rank's share of it."""

    turns: torch.Tensor
    """Of queries and keys, for each position."""

    def __init__(self, sizes: Sizes, tokens: int) -> None:
        super().__init__()
        self.parts, own = sizes.parts, sizes.vocabulary // sizes.parts
        self.tok_embeddings = nn.Embedding(own, sizes.hidden)
        self.register_buffer("turns", torch.zeros(tokens, sizes.width // 2, dtype=torch.complex64))
        self.layers = nn.ModuleList(_Block(sizes) for _ in range(sizes.layers))
        self.norm = _Norm(sizes.hidden, compiled=False)
        self.output = nn.Linear(sizes.hidden, own, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits."""
        made: torch.Tensor = self.output(self.hidden(ids))
        return made

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """What the head is applied to."""
        x = _exchanged(self.tok_embeddings(ids), self.parts, gathered=False)
        for layer in self.layers:
            x = layer(x, self.turns)
        return _exchanged(self.norm(x), self.parts, gathered=True)


class CompiledLoss(torch.autograd.Function):
    """What a compiled cross-entropy of logits in 16 bits keeps and writes."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Keep the logits, and the sum of each token's exponents."""
        sums = logits.new_empty(logits.shape[0], dtype=torch.float32)
        ctx.save_for_backward(logits, targets, sums)
        return sums.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """One kernel writes the gradient."""
        return torch.empty_like(ctx.saved_tensors[0]), None


class _ParallelLoss(torch.autograd.Function):
    """What `loss_parallel` does with logits of a part of the vocabulary (torch's `parallel/loss.py`)."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        """Keep the logarithms."""
        shifted = logits - logits.amax(-1, keepdim=True)
        sums = torch.exp(shifted).sum(-1, keepdim=True)
        result = shifted - sums.log()
        ctx.save_for_backward(result)
        return sums.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """With two results in between."""
        (result,) = ctx.saved_tensors
        return (torch.zeros_like(result) + torch.exp(result)) * gradients[0]


@dataclass(frozen=True, slots=True)
class TitanStep:
    """One run: rank 0."""

    sizes: Sizes
    micro_batch: int
    tokens: int
    ranks: int
    """That shard the parameters."""
    checkpoints: Checkpoints
    compiled_loss: bool
    fused: bool
    """The optimizer's kernel."""
    chunks: int = 1
    """Of tokens, for the loss."""
    holds_logits: bool = False
    """In fp32, until the backward is over."""

    def take(self) -> None:
        """Build the model and take steps."""
        with first_rank(self.ranks):
            self._train()

    def _train(self) -> None:
        model = self._built()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=self.fused)
        for _ in range(_STEPS):
            optimizer.zero_grad()
            ids = torch.zeros(self.micro_batch, self.tokens, dtype=torch.long).cuda()
            logits = model(ids)
            if self.holds_logits:
                logits = logits.float()
            loss = self._loss(logits, ids)
            if not self.holds_logits:
                del logits
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()

    def _loss(self, logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor
        if self.compiled_loss:
            made = CompiledLoss.apply(logits.flatten(0, 1), ids.flatten())
            return made
        if self.sizes.parts > 1:
            made = _ParallelLoss.apply(logits.flatten(0, 1).float())
            return made
        parts = zip(logits.chunk(self.chunks, dim=1), ids.chunk(self.chunks, dim=1), strict=True)
        losses = [
            functional.cross_entropy(part.flatten(0, 1).float(), targets.flatten()) for part, targets in parts
        ]
        return torch.stack(losses).mean()

    def _built(self) -> nn.Module:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        with torch.device("meta"):
            model = Llama(self.sizes, self.tokens)
        asked: dict[str, Any] = {}
        if self.checkpoints == "op":
            asked["context_fn"] = functools.partial(_save_some, compiled=self.sizes.compiled)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        shard: Callable[..., Any] = fully_shard
        shared = {"mesh": init_device_mesh("cuda", (self.ranks,)), "mp_policy": policy}
        for number, layer in enumerate(model.layers):
            wrapped = checkpoint_wrapper(layer, preserve_rng_state=False, **asked)
            model.layers[number] = wrapped
            shard(wrapped, **shared, reshard_after_forward=number < len(model.layers) - 1)
        shard(model, **shared, reshard_after_forward=True)
        return model.to_empty(device="cuda")


def _save_some(*, compiled: bool) -> Any:
    """The policy of selective checkpoints by operator."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    aten = torch.ops.aten
    kept = {
        aten.mm.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_flash_attention.default,
        torch.ops._c10d_functional.reduce_scatter_tensor.default,
    }
    products: Counter[bool] = Counter()

    def choose(ctx: Any, function: Any, *arguments: Any, **keywords: Any) -> Any:
        products[ctx.is_recompute] += function == aten.mm.default
        number = products[ctx.is_recompute] if function == aten.mm.default else None
        passed = number is not None and (number % 2 == 0 or (compiled and number == _PRODUCTS))
        saved = function in kept and not passed
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(choose)
