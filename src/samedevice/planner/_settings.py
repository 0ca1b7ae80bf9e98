"""How a model is trained, in the words that decide its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["single", "ddp", "fsdp", "hybrid", "zero1", "zero2", "zero3"]
"""Who holds what: one GPU; a replica on each; FSDP2 over all; FSDP2 within groups, replicas across;
DeepSpeed's ZeRO stages.
"""
Precision = Literal["bf16-mixed", "fp16-mixed", "bf16", "fp16", "fp32"]
"""`-mixed` keeps fp32 master weights and computes in 16 bits; plain 16-bit types keep nothing else."""
Optimizer = Literal["adamw", "adamw-foreach", "adamw-8bit", "sgd", "sgd-momentum", "adafactor"]
"""`adamw` is torch's fused one, which transformers' Trainer asks for; `adamw-foreach` is what plain
`torch.optim.AdamW` does.
"""
Offload = Literal["none", "optimizer", "parameters"]
"""What waits on the host between steps; `parameters` includes the optimizer's state."""

MODES: tuple[Mode, ...] = ("single", "ddp", "fsdp", "hybrid", "zero1", "zero2", "zero3")
PRECISIONS: tuple[Precision, ...] = ("bf16-mixed", "fp16-mixed", "bf16", "fp16", "fp32")
OPTIMIZERS: tuple[Optimizer, ...] = (
    "adamw",
    "adamw-foreach",
    "adamw-8bit",
    "sgd",
    "sgd-momentum",
    "adafactor",
)
OFFLOADS: tuple[Offload, ...] = ("none", "optimizer", "parameters")


ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
"""Targets for adapters of models with experts."""


@dataclass(frozen=True, slots=True)
class Full:
    """Every weight is trained."""


@dataclass(frozen=True, slots=True)
class Lora:
    """Adapters of `rank` beside frozen matrices, as peft adds them.

    `quantized` keeps those matrices in 4 bits (QLoRA).

    `targets` are last parts of module names, or `all-linear`: every matrix of the repeated layers.
    """

    rank: int = 16
    targets: tuple[str, ...] | Literal["all-linear"] = "all-linear"
    dropout: float = 0.0
    quantized: bool = False
    fp32_adapters: bool = True
    """What peft does with adapters of 16-bit models (`autocast_adapter_dtype`)."""

    def adapts(self, *modules: str) -> bool:
        """Whether a module that has one of these names gets an adapter."""
        return self.targets == "all-linear" or any(module in self.targets for module in modules)

    def adapter_bytes(self, compute: int) -> int:
        """Bytes of an adapter's element, and of the input that is cast to it."""
        return 4 if self.fp32_adapters else compute


Tuning = Full | Lora


@dataclass(frozen=True, slots=True)
class Training:
    """Everything but the model and the machine.

    Raises ValueError for a batch or a context below 1.
    """

    mode: Mode = "single"
    precision: Precision = "bf16-mixed"
    optimizer: Optimizer = "adamw"
    micro_batch: int = 1
    context: int = 2048
    """Tokens of one sample, padding included."""
    checkpointing: bool = False
    """Activations are computed again in the backward; only each layer's input is kept."""
    offload: Offload = "none"
    tuning: Tuning = Full()
    accumulation: int = 1
    """Micro-batches before a step: with more than one, gradients stay from one backward to the next."""
    gpus_per_group: int | None = None
    """For `hybrid`: over how many GPUs the model is sharded; None for half the machine."""
    bucket_view: bool = False
    """DDP's `gradient_as_bucket_view`."""
    chosen_ranks: int | None = None
    """Processes, one a GPU; None for all of the machine's."""

    def __post_init__(self) -> None:
        for name in ("micro_batch", "context", "accumulation"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1, not {getattr(self, name)}")
        for name, allowed in (
            ("mode", MODES),
            ("precision", PRECISIONS),
            ("optimizer", OPTIMIZERS),
            ("offload", OFFLOADS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}")
