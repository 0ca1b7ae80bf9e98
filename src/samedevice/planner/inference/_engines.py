"""How engines that split every layer over GPUs, and keep the cache in pages, would serve a model.

By calculation only: none of the engines runs here. Weights and cache of a layer are shared by the GPUs of a
tensor-parallel group, keys and values by at most as many as there are heads of them, and latents that stand
for the keys and values of all heads (DeepSeek) by none; a pipeline takes as many layers in each stage; what a
pass needs besides is counted whole on each GPU.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from samedevice.machines import Machine
from samedevice.planner.inference._blocks import Loads
from samedevice.planner.inference._profile import Profile
from samedevice.planner.inference._source import ModelSource, has_tensor_plan

_HEADS = ("num_attention_heads", "n_head")
_KEY_HEADS = "num_key_value_heads"
_LATENT = "kv_lora_rank"
"""A model that caches one latent for all heads names its size so."""
_USUAL = 0.90
"""Part of a GPU that engines take if they are not told another: they need some for graphs and workspaces."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A model on GPUs of one kind."""

    tensor: int
    """GPUs that share each layer."""
    pipeline: int
    """Stages of layers."""
    length: int
    """Tokens of a sequence at its end."""
    sequences: int
    """The most of them at once; 0 where the weights do not fit."""
    usable: float
    """Part of a GPU's memory that may be used at all."""
    working: float
    """Part that one pass needs besides weights and cache."""
    idle: float
    """Part that is used without any sequence, with what is left alone."""
    each: float
    """Part that the cache of one sequence takes."""
    planned: int | None
    """GPUs by which transformers divides the layers; None for a model that has no plan for that."""
    gpus: Sequence[int]
    """The GPUs of one kind."""
    source: ModelSource

    def commands(self, asked: int | None = None) -> dict[str, str]:
        """Command lines by the name of the engine, for so many sequences at once or for the most.

        Shares of memory are rounded to the safe side. Where an engine's usual share is enough it is kept.
        """
        count = max(min(asked or self.sequences, self.sequences), 1)
        needed = math.ceil((self.idle + count * self.each) * 100) / 100
        usable = math.floor(min(max(needed, _USUAL), self.usable) * 100) / 100
        static = max(math.floor((usable - self.working) * 100) / 100, 0.0)
        path, dtype = shlex.quote(self.source.path), self.source.dtype
        found = {
            "vllm": f"vllm serve {path} --dtype {dtype} --tensor-parallel-size {self.tensor} "
            f"--pipeline-parallel-size {self.pipeline} --max-model-len {self.length} --max-num-seqs {count} "
            f"--gpu-memory-utilization {usable:.2f}",
            "sglang": f"python -m sglang.launch_server --model-path {path} --dtype {dtype} "
            f"--tp-size {self.tensor} --pp-size {self.pipeline} --context-length {self.length} "
            f"--max-running-requests {count} --mem-fraction-static {static:.2f}",
            "deepspeed": f"deepspeed --num_gpus {self.tensor} SCRIPT  # deepspeed.init_inference(model, "
            f'tensor_parallel={{"tp_size": {self.tensor}}}, dtype=torch.{dtype})',
        }
        if self.planned is not None:
            found["torchrun"] = (
                f"torchrun --nproc_per_node {self.planned} SCRIPT  # from_pretrained({self.source.path!r}, "
                f'dtype="{dtype}", tp_plan="auto")'
            )
        if list(self.gpus) == list(range(len(self.gpus))):
            return found
        seen = ",".join(map(str, self.gpus))
        return {engine: f"CUDA_VISIBLE_DEVICES={seen} {command}" for engine, command in found.items()}


def serving(profile: Profile, machine: Machine, reserve: int) -> Serving | None:
    """The best split for engines; None for a model whose heads its configuration does not tell.

    Of unlike GPUs the largest group of alike ones is taken.
    """
    values = profile.source.values
    text = values.get("text_config")
    numbers: Mapping[str, Any] = {**values, **text} if isinstance(text, Mapping) else values
    heads = next((numbers[name] for name in _HEADS if isinstance(numbers.get(name), int)), 0)
    key_heads = numbers.get(_KEY_HEADS) or heads
    layers = [block for block in profile.blocks if block.cache]
    if not heads or not layers or not isinstance(key_heads, int) or not profile.source.decodes_only:
        return None
    numbered = sorted(enumerate(machine.gpus), key=lambda each: each[1].key)
    alike = max((list(group) for _, group in groupby(numbered, key=lambda each: each[1].key)), key=len)
    gpus = [gpu for _, gpu in alike]
    tensor = max(tensor_sizes(heads, key_heads, len(gpus)))
    pipeline = min(len(gpus) // tensor, len(layers))
    total = gpus[0].total_memory
    budget = total - reserve

    outside = sum(block.weights for block in profile.blocks if not block.cache)
    stage = math.ceil(len(layers) / pipeline)
    weights = (max(block.weights for block in layers) * stage + outside) // tensor
    shared = 1 if numbers.get(_LATENT) else min(tensor, key_heads)
    cache = max(block.cache for block in layers) * stage // profile.workload.batch // shared
    loads = Loads(profile.blocks)
    working = loads.part(0, len(loads)).working
    sequences = max((budget - weights - working) // cache, 0)
    return Serving(
        tensor,
        pipeline,
        profile.workload.tokens + 1,
        sequences,
        budget / total,
        working / total,
        (reserve + weights + working) / total,
        cache / total,
        _planned(profile, heads, key_heads, len(gpus)),
        [number for number, _ in alike],
        profile.source,
    )


def _planned(profile: Profile, heads: int, key_heads: int, gpus: int) -> int | None:
    if not has_tensor_plan(profile.source):
        return None
    return max(size for size in tensor_sizes(heads, key_heads, gpus) if key_heads % size == 0)


def tensor_sizes(heads: int, key_heads: int, gpus: int) -> Sequence[int]:
    """Sizes of a tensor-parallel group that divide the heads; keys and values are divided or repeated."""
    return [
        size
        for size in range(1, gpus + 1)
        if heads % size == 0 and (key_heads % size == 0 or size % key_heads == 0)
    ]
