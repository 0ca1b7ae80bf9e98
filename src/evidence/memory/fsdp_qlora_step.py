"""Training steps as fsdp_qlora takes them, for `memory-truth`.

Source: AnswerDotAI/fsdp_qlora at 05ed9f2a60f9, `train.py`: the model in bf16, or its linear layers in 4 bits
(`Linear4bit` with `quant_storage` bf16) without the head; peft's LoRA on q, k, v, gate, up and down, not o;
FSDP1 with a flat parameter for each layer, each trained matrix, and the rest (embedding, norm, head);
reentrant checkpoints of the layers; AdamW of torch; `model(ids, labels=...)` of the transformers of March
2024, whose logits become fp32, are shifted by a copy, and are held by `output` until the step is over.

The constants of 4-bit weights are no parameters, so they are outside of the flat parameter, on each GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from evidence.memory.first_rank import first_rank
from evidence.memory.four_bits import FourBits

_TARGETS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "down_proj")
_DROPOUT = 0.1
_STEPS = 2


@dataclass(frozen=True, slots=True)
class QloraStep:
    """One run: rank 0 of `ranks`."""

    config: Mapping[str, Any]
    """Of transformers."""
    micro_batch: int
    context: int
    rank: int
    """Of the adapters."""
    ranks: int
    quantized: bool
    sharded: bool
    """`FULL_SHARD`; else `NO_SHARD`."""
    offloaded: bool = False
    """`CPUOffload(offload_params=True)`."""

    def take(self) -> None:
        """Build the model and take steps; the caller reads the peaks, which start when training does."""
        with first_rank(self.ranks):
            self._train()

    def _train(self) -> None:
        model = self._wrapped(self._built())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), eps=1e-5)
        torch.cuda.reset_peak_memory_stats()
        for _ in range(_STEPS):
            ids = torch.zeros(self.micro_batch, self.context, dtype=torch.long).cuda()
            logits, loss = model(ids)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            del logits, loss

    def _built(self) -> _OfMarch2024:
        from peft import LoraConfig, get_peft_model
        from transformers import AutoConfig, AutoModelForCausalLM

        values = dict(self.config)
        config = AutoConfig.for_model(**values, use_cache=False, attn_implementation="sdpa")
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        if self.quantized:
            _quantize(model.model)
        model = get_peft_model(
            model,
            LoraConfig(
                r=self.rank, lora_alpha=16, lora_dropout=_DROPOUT, target_modules=list(_TARGETS),
                task_type="CAUSAL_LM",
            ),
            autocast_adapter_dtype=False,
        )  # fmt: skip
        largest = max(each.numel() for each in model.parameters())
        memory = torch.empty(largest, dtype=torch.bfloat16)  # of all of them: nobody reads it
        for module in model.modules():
            for name, value in module._parameters.items():
                if value is not None and value.device.type == "meta":
                    own = memory[: value.numel()].view(value.shape)
                    module._parameters[name] = nn.Parameter(own, requires_grad=value.requires_grad)
            for name, value in module._buffers.items():
                if value is not None and value.device.type == "meta":
                    module._buffers[name] = torch.empty_like(value, device="cpu")
        return _OfMarch2024(model)

    def _wrapped(self, model: _OfMarch2024) -> nn.Module:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
            CheckpointImpl,
            apply_activation_checkpointing,
            checkpoint_wrapper,
        )
        from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, ShardingStrategy

        def is_layer(module: nn.Module) -> bool:
            return type(module).__name__ == "LlamaDecoderLayer"

        def own_unit(module: nn.Module, recurse: bool, nonwrapped_numel: int) -> bool:
            weight = getattr(module, "weight", None)
            trained = weight is not None and weight.requires_grad and not list(module.children())
            return recurse or is_layer(module) or trained

        made = FullyShardedDataParallel(
            model,
            sharding_strategy=ShardingStrategy.FULL_SHARD if self.sharded else ShardingStrategy.NO_SHARD,
            auto_wrap_policy=own_unit,
            use_orig_params=False,
            limit_all_gathers=True,
            cpu_offload=CPUOffload(offload_params=self.offloaded),
            device_id=torch.cuda.current_device(),
        )
        model.inner.enable_input_require_grads()
        wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.REENTRANT)
        apply_activation_checkpointing(made, checkpoint_wrapper_fn=wrapper, check_fn=is_layer)
        made.train()
        return made


class _OfMarch2024(nn.Module):
    """`LlamaForCausalLM.forward` of transformers 4.38, with logits and loss as its results."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner: Any = inner

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits are handed out, too, as by `output`."""
        causal = self.inner.base_model.model
        logits = causal.lm_head(causal.model(input_ids=ids)[0])
        logits = logits.float()
        shifted = logits[..., :-1, :].contiguous()
        loss = nn.functional.cross_entropy(
            shifted.view(-1, shifted.shape[-1]), ids[..., 1:].contiguous().view(-1)
        )
        return logits, loss


def _quantize(module: nn.Module) -> None:
    """Replace the linear layers inside."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            packed = FourBits(
                child, torch.device("cuda", 0), weight=torch.device("meta"), storage=torch.bfloat16,
                packed_from=torch.bfloat16, compressed=True,
            )  # fmt: skip
            setattr(module, name, packed)
        else:
            _quantize(child)
