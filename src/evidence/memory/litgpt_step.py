"""A training step of litgpt, as its fine-tuning scripts take it, on the current GPU.

litgpt's model, its adapters and its loss in chunks run under Lightning's Fabric, which hands a model's output
on in fp32. On several GPUs Fabric's FSDPStrategy shards blocks and computes them twice, as `finetune/lora.py`
asks it to.

With weights in 4 bits, bitsandbytes has no kernels here, so its layers are stand-ins (`four_bits.py`), and so
is `PagedAdamW`: moments in fp32, of which those of 100,000 numbers or more are in memory that torch does not
count (`get_state_buffer` in `bitsandbytes/optim/optimizer.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal
from unittest import mock

import torch
from torch import nn

from evidence.memory.first_rank import first_rank
from evidence.memory.four_bits import FourBits

CHUNK = 128
"""Positions that the head is applied to at once (`lm_head_chunk_size` of `litgpt/finetune/lora.py`)."""
_PAGED = 100_000
"""Numbers from which on `PagedAdamW` pages a moment."""


@dataclass(frozen=True, slots=True)
class LitgptStep:
    """What a row says of a run."""

    model: str
    micro_batch: int
    tokens: int
    lora: Mapping[str, Any] | None
    accumulation: int = 1
    """Micro-batches of a step: gradients stay from one backward to the next, and FSDP does not shard them
    before the last one (`no_backward_sync`)."""
    quantized: Literal["nf4", "nf4-dq"] | None = None
    """Of linear layers, with their constants in 8 bits or in fp32."""
    ranks: int = 1

    def take(self, micro_batches: int) -> None:
        """Train, with steps of the optimizer between. Raises ImportError where litgpt is not installed."""
        with _first_of(self.ranks) if self.ranks > 1 else nullcontext():
            self._train(micro_batches)

    def _train(self, micro_batches: int) -> None:
        import lightning

        strategy: Any = "auto"
        if self.ranks > 1:
            from lightning.fabric.strategies import FSDPStrategy
            from litgpt.lora import Block

            strategy = FSDPStrategy(
                auto_wrap_policy={Block},
                activation_checkpointing_policy={Block},
                state_dict_type="full",
                limit_all_gathers=True,
                cpu_offload=False,
            )
        fabric: Any = lightning.Fabric(
            accelerator="cuda", devices=self.ranks, strategy=strategy, precision="bf16-true"
        )
        fabric.launch()
        with fabric.init_module(empty_init=True):
            model = self._model()
        if self.quantized is not None:
            _pack(model, compressed=self.quantized == "nf4-dq")
            torch.cuda.reset_peak_memory_stats()  # litgpt packs each layer as it is made
        model = fabric.setup_module(model)
        model.train()
        model.max_seq_length = self.tokens
        trained = [each for each in model.parameters() if each.requires_grad]
        kind = torch.optim.AdamW if self.quantized is None else _PagedAdamW
        optimizer = fabric.setup_optimizers(kind(trained, lr=3e-4))
        ids = torch.zeros(self.micro_batch, self.tokens, dtype=torch.long, device="cuda")
        for number in range(1, micro_batches + 1):
            accumulating = number % self.accumulation != 0
            with fabric.no_backward_sync(model, enabled=accumulating and self.ranks > 1):
                loss = self._loss(model, ids)
                fabric.backward(loss)
            if not accumulating:
                optimizer.step()
                optimizer.zero_grad()
        del loss

    def _loss(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        from litgpt.utils import chunked_cross_entropy

        loss: torch.Tensor
        if self.lora is None:
            loss = chunked_cross_entropy(model(ids)[..., :-1, :], ids[..., 1:])
        else:
            logits = model(ids, lm_head_chunk_size=CHUNK)
            logits[-1] = logits[-1][..., :-1, :]
            loss = chunked_cross_entropy(logits, ids[..., 1:])
        return loss

    def _model(self) -> Any:
        if self.lora is None:
            from litgpt.model import GPT, Config

            return GPT(Config.from_name(self.model))
        from litgpt.lora import GPT as Adapted
        from litgpt.lora import Config as Settings
        from litgpt.lora import mark_only_lora_as_trainable

        targets = [part.strip() for part in str(self.lora["targets"]).split(",")]
        chosen = {f"lora_{target}": True for target in targets}
        model = Adapted(
            Settings.from_name(
                self.model,
                lora_r=self.lora["rank"],
                lora_alpha=self.lora["alpha"],
                lora_dropout=0.05,
                **chosen,
            )
        )
        mark_only_lora_as_trainable(model)
        return model


@contextmanager
def _first_of(ranks: int) -> Iterator[None]:
    """The process of rank 0, as torchrun would have started it."""
    told = {
        "TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
        "RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
    }  # fmt: skip
    with mock.patch.dict(os.environ, told), first_rank(ranks):
        yield


def _pack(module: nn.Module, *, compressed: bool) -> None:
    """What `BitsandbytesPrecision` does with linear layers, the head with them."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            device = child.weight.device
            packed = FourBits(
                child, device, weight=device, storage=torch.uint8, packed_from=torch.float16,
                compressed=compressed,
            )  # fmt: skip
            setattr(module, name, packed)
        else:
            _pack(child, compressed=compressed)


class _PagedAdamW(torch.optim.Optimizer):
    """Keeps what memory sees of bitsandbytes' optimizer; updates nothing."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> None:  # type: ignore[override] # no closure gives a loss here
        """Make the moments that torch's allocator holds."""
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None and each.numel() < _PAGED and each not in self.state:
                    moments = [torch.zeros_like(each, dtype=torch.float32) for _ in range(2)]
                    self.state[each] = dict(zip(("state1", "state2"), moments, strict=True))
