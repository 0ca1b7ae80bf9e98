"""How engines that split every layer over GPUs, and keep the cache in pages, would serve a model.

By calculation only: none of the engines runs here. Weights and cache of a layer are shared by the GPUs of a
tensor-parallel group, keys and values by at most as many as there are heads of them; a pipeline takes as many
layers in each stage; what a pass needs besides is counted whole on each GPU.
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

_HEADS = ("num_attention_heads", "n_head")
_KEY_HEADS = "num_key_value_heads"


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
    commands: Mapping[str, str]
    """By the name of the engine."""


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
    groups = groupby(sorted(machine.gpus, key=lambda gpu: gpu.key), key=lambda gpu: gpu.key)
    gpus = max((list(group) for _, group in groups), key=len)
    tensor = max(tensor_sizes(heads, key_heads, len(gpus)))
    pipeline = min(len(gpus) // tensor, len(layers))
    total = gpus[0].total_memory
    budget = total - reserve

    outside = sum(block.weights for block in profile.blocks if not block.cache)
    stage = math.ceil(len(layers) / pipeline)
    weights = (max(block.weights for block in layers) * stage + outside) // tensor
    cache = max(block.cache for block in layers) * stage // profile.workload.batch // min(tensor, key_heads)
    loads = Loads(profile.blocks)
    working = loads.part(0, len(loads)).working
    sequences = max((budget - weights - working) // cache, 0)
    length = profile.workload.tokens + 1
    sizes = _Sizes(tensor, pipeline, length, sequences, budget / total, max(budget - working, 0) / total)
    return Serving(tensor, pipeline, length, sequences, _commands(profile, sizes))


def tensor_sizes(heads: int, key_heads: int, gpus: int) -> Sequence[int]:
    """Sizes of a tensor-parallel group that divide the heads; keys and values are divided or repeated."""
    return [
        size
        for size in range(1, gpus + 1)
        if heads % size == 0 and (key_heads % size == 0 or size % key_heads == 0)
    ]


@dataclass(frozen=True, slots=True)
class _Sizes:
    tensor: int
    pipeline: int
    length: int
    sequences: int
    usable: float
    """Part of a GPU's memory that may be used."""
    static: float
    """Part of it for weights and cache."""


def _commands(profile: Profile, sizes: _Sizes) -> dict[str, str]:
    """Command lines, rounded to the safe side."""
    path, dtype = shlex.quote(profile.source.path), profile.source.dtype
    most = max(sizes.sequences, 1)
    return {
        "vllm": f"vllm serve {path} --dtype {dtype} --tensor-parallel-size {sizes.tensor} "
        f"--pipeline-parallel-size {sizes.pipeline} --max-model-len {sizes.length} --max-num-seqs {most} "
        f"--gpu-memory-utilization {_down(sizes.usable)}",
        "sglang": f"python -m sglang.launch_server --model-path {path} --dtype {dtype} "
        f"--tp-size {sizes.tensor} --pp-size {sizes.pipeline} --context-length {sizes.length} "
        f"--max-running-requests {most} --mem-fraction-static {_down(sizes.static)}",
        "deepspeed": f"deepspeed --num_gpus {sizes.tensor} SCRIPT  # deepspeed.init_inference(model, "
        f'tensor_parallel={{"tp_size": {sizes.tensor}}}, dtype=torch.{dtype})',
        "torchrun": f"torchrun --nproc_per_node {sizes.tensor} SCRIPT  # from_pretrained({path}, "
        f'dtype="{dtype}", tp_plan="auto")',
    }


def _down(part: float) -> str:
    return f"{math.floor(part * 100) / 100:.2f}"
