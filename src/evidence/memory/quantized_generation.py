"""Generation with packed weights, for `memory-truth`: what memory sees of GPTQ's and AWQ's linear layers.

A layer keeps its numbers packed in int32, and for each group of inputs a scale of 16 bits and packed zero
points; GPTQ also the group of each input (`QuantLinear` of AutoGPTQ, `WQLinear_GEMM` of AutoAWQ). Embedding,
norms, head and biases stay in 16 bits. The kernels have no counterpart on a virtual machine: a product is an
empty result. What they allocate in passing, such as a dequantized matrix, is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

_WORD = 32
"""Bits of the integers that numbers are packed into."""


class _Packed(nn.Module):
    """A linear layer with `bits` a number and one scale for `group` inputs."""

    def __init__(self, layer: nn.Linear, bits: int, group: int, *, indexed: bool) -> None:
        super().__init__()
        inputs, self.outputs = layer.in_features, layer.out_features
        groups = -(-inputs // group)
        self.register_buffer("qweight", torch.empty(inputs * bits // _WORD, self.outputs, dtype=torch.int32))
        self.register_buffer("qzeros", torch.empty(groups, self.outputs * bits // _WORD, dtype=torch.int32))
        self.register_buffer("scales", torch.empty(groups, self.outputs, dtype=torch.float16))
        if indexed:
            self.register_buffer("g_idx", torch.empty(inputs, dtype=torch.int32))
        if layer.bias is not None:
            self.register_buffer("bias", torch.empty(self.outputs, dtype=torch.float16))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """An output of the product's shape."""
        return input.new_empty(*input.shape[:-1], self.outputs)


@dataclass(frozen=True, slots=True)
class QuantizedGeneration:
    """One run on one GPU."""

    config: Mapping[str, Any]
    """Of transformers."""
    bits: int
    indexed: bool
    """GPTQ; else AWQ."""
    batch: int
    prompt: int
    generated: int
    group: int = 128

    @torch.no_grad()
    def peaks(self) -> tuple[int, int, int]:
        """Bytes allocated after loading, at most while the prompt is read, and for the last token."""
        from transformers import DynamicCache

        model = self._built().cuda()
        loaded = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        ids = torch.zeros(self.batch, self.prompt, dtype=torch.long, device="cuda")
        past = model(ids, use_cache=True, logits_to_keep=1).past_key_values
        reading = torch.cuda.max_memory_allocated()
        kept = [(layer.keys.shape, layer.keys.dtype) for layer in past.layers]
        del past, ids
        cache = DynamicCache(config=model.config)
        for number, (shape, dtype) in enumerate(kept):
            full = (*shape[:2], self.prompt + self.generated - 1, shape[3])
            keys, values = (torch.empty(full, dtype=dtype, device="cuda") for _ in range(2))
            cache.update(keys, values, number)
            del keys, values
        torch.cuda.reset_peak_memory_stats()
        one = torch.zeros(self.batch, 1, dtype=torch.long, device="cuda")
        model(one, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return loaded, reading, torch.cuda.max_memory_allocated()

    def _built(self) -> Any:
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.for_model(**self.config, attn_implementation="sdpa")
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float16)
            for parent in list(model.model.modules()):
                for name, child in list(parent.named_children()):
                    if isinstance(child, nn.Linear):
                        packed = _Packed(child, self.bits, self.group, indexed=self.indexed)
                        setattr(parent, name, packed)
        model = model.to_empty(device="cpu").eval()
        model.tie_weights()  # `to_empty` made two of one
        return model
