"""Reading a prompt as AutoAWQ's benchmark does, for `memory-truth`.

Source: casper-hansen/AutoAWQ at v0.1.6: `examples/benchmark.py` (`from_quantized(fuse_layers=True)`, a
product of two matrices of 4096 to warm up, then all logits of the prompt, and token after token),
`awq/modules/linear.py`, `awq/modules/fused` and the launchers in `awq_cuda/quantization`.

Memory sees of it: packed weights; while layers are fused, query, key and value beside their concatenation;
for each layer a cache of as many tokens as are generated, and a table of rotations of twice as many; scores
of attention written out, in 16 and in 32 bits; and of each product with packed weights eight partial results
(`split_k_iters`), which are added afterwards. A gate and an up projection of GEMV have none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

Kernel = Literal["gemm", "gemv"]
_PARTS = 8
"""`split_k_iters` of both kinds of kernels."""
_WARM = 4096
_GROUP, _IN_WORD = 128, 8


class _Packed(nn.Module):
    """`WQLinear_GEMM` or `WQLinear_GEMV` with 4 bits, without a bias."""

    def __init__(self, inputs: int, outputs: int, kernel: Kernel) -> None:
        super().__init__()
        self.inputs, self.outputs, self.kernel = inputs, outputs, kernel
        groups = -(-inputs // _GROUP)
        if kernel == "gemm":
            sizes = (inputs, outputs // _IN_WORD), (groups, outputs // _IN_WORD), (groups, outputs)
        else:
            width = -(-groups // _IN_WORD)
            sizes = (outputs, inputs // _IN_WORD), (outputs, width), (outputs, width * _IN_WORD)
        for name, size, dtype in zip(
            ("qweight", "qzeros", "scales"), sizes, (torch.int32, torch.int32, torch.float16), strict=True
        ):
            self.register_buffer(name, torch.zeros(size, dtype=dtype))

    def forward(self, given: torch.Tensor, parts: int = _PARTS) -> torch.Tensor:
        """Partial results and their sum; one token in GEMV has one part."""
        rows = given.reshape(-1, given.shape[-1])
        made = rows.new_empty(parts, rows.shape[0], self.outputs)
        whole = made.sum(0) if parts > 1 else made[0]
        return whole.view(*given.shape[:-1], self.outputs)

    @classmethod
    def joined(cls, layers: tuple[_Packed, ...]) -> _Packed:
        """`fuse_qkv`: one layer of several, beside them."""
        first = layers[0]
        made = cls(first.inputs, sum(each.outputs for each in layers), first.kernel)
        for name in ("qweight", "qzeros", "scales"):
            along = int(first.kernel == "gemm")
            setattr(made, name, torch.cat([getattr(each, name) for each in layers], dim=along))
        return made


@dataclass(frozen=True, slots=True)
class FusedGeneration:
    """One run on one GPU."""

    config: Mapping[str, Any]
    """Hidden and intermediate size, layers, heads, key heads and vocabulary, by transformers' names."""
    kernel: Kernel
    batch: int
    prompt: int
    generated: int
    parallel: bool
    """Falcon: attention beside the MLP, one layer for query, key and value, a tied head, no gate."""

    @torch.inference_mode()
    def run(self) -> None:
        """Load, fuse, warm up, read the prompt; one token more needs less."""
        with torch.device("cuda"):
            embedding = nn.Embedding(self.config["vocab_size"], self._hidden, dtype=torch.float16)
            weight = embedding.weight
            if not self.parallel:
                weight = nn.Parameter(torch.empty_like(weight))
            loaded = [self._layer() for _ in range(self.config["num_hidden_layers"])]
            blocks = []
            for layer in loaded:
                qkv = layer["qkv"] if self.parallel else _Packed.joined((layer["q"], layer["k"], layer["v"]))
                blocks.append((layer, qkv, *self._tables()))
            for layer in loaded:
                for name in ("q", "k", "v"):
                    layer.pop(name, None)
            del layer, qkv, loaded
            warm = torch.randn(_WARM, _WARM)
            torch.mm(warm, warm)
            del warm
            ids = torch.zeros(self.batch, self.prompt, dtype=torch.long)
            hidden = embedding(ids)
            mask = torch.full((1, 1, self.prompt, self.prompt), -torch.inf)
            mask = torch.triu(mask, diagonal=1).type_as(hidden)
            for block in blocks:
                hidden = self._block(hidden, mask, *block)
            logits = functional.linear(hidden, weight)
            if not self.parallel:
                logits = logits.float()

    @property
    def _hidden(self) -> int:
        return int(self.config["hidden_size"])

    @property
    def _heads(self) -> tuple[int, int, int]:
        """Heads, heads of keys, and their width."""
        heads = int(self.config["num_attention_heads"])
        return heads, int(self.config["num_key_value_heads"]), self._hidden // heads

    def _layer(self) -> dict[str, _Packed]:
        heads, kept, width = self._heads
        hidden, inner = self._hidden, int(self.config["intermediate_size"])
        sizes = {"o": (hidden, hidden), "up": (hidden, inner), "down": (inner, hidden)}
        if self.parallel:
            sizes["qkv"] = (hidden, (heads + 2 * kept) * width)
        else:
            keys = (hidden, kept * width)
            sizes |= {"gate": (hidden, inner), "q": (hidden, hidden), "k": keys, "v": keys}
        return {name: _Packed(*size, self.kernel) for name, size in sizes.items()}

    def _tables(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Values, keys and rotations of a layer."""
        _, kept, width = self._heads
        size = (self.batch, kept, self.generated, width)
        values, keys = (torch.zeros(size).half() for _ in range(2))
        return values, keys, torch.zeros(2 * self.generated, width // 2, dtype=torch.complex64)

    def _block(
        self,
        hidden: torch.Tensor,
        mask: torch.Tensor,
        layer: Mapping[str, _Packed],
        qkv: _Packed,
        values: torch.Tensor,
        keys: torch.Tensor,
        rotations: torch.Tensor,
    ) -> torch.Tensor:
        normed = torch.empty_like(hidden)
        attended = self._attention(normed, mask, layer, qkv, values, keys, rotations)
        if self.parallel:
            return hidden + attended + layer["down"].forward(functional.gelu(layer["up"].forward(normed)))
        hidden = hidden + attended
        normed = torch.empty_like(hidden)
        parts = 1 if self.kernel == "gemv" else _PARTS
        gate, up = layer["gate"](normed, parts), layer["up"](normed, parts)
        inner = functional.silu(gate) * up
        return hidden + layer["down"].forward(inner)

    def _attention(
        self,
        normed: torch.Tensor,
        mask: torch.Tensor,
        layer: Mapping[str, _Packed],
        qkv: _Packed,
        values: torch.Tensor,
        keys: torch.Tensor,
        rotations: torch.Tensor,
    ) -> torch.Tensor:
        heads, kept, width = self._heads
        mixed = qkv(normed).view(self.batch, self.prompt, heads + 2 * kept, width)
        q, k, v = mixed.split((heads, kept, kept), dim=2)
        q, k = (self._rotated(each, rotations) for each in (q, k))
        values[:, :, : self.prompt] = v.transpose(1, 2)
        keys[:, :, : self.prompt] = k.permute(0, 2, 1, 3).contiguous()
        if not self.parallel:
            k, v = (each.repeat_interleave(heads // kept, dim=2) for each in (k, v))
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(width)
        scores = scores + mask
        scores = functional.softmax(scores.float(), dim=-1).type_as(q)
        output = torch.matmul(scores, v)
        joined = output.transpose(1, 2).contiguous().view(self.batch, self.prompt, -1)
        made: torch.Tensor = layer["o"](joined)
        return made

    def _rotated(self, given: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
        pairs = given.float().reshape(*given.shape[:-1], 2, -1).transpose(-2, -1).contiguous()
        turned = torch.view_as_complex(pairs) * rotations[: self.prompt].view(1, self.prompt, 1, -1)
        return torch.view_as_real(turned).transpose(-2, -1).flatten(3).type_as(given)
