"""Drawn sequences of allocations, whose every step is recorded: what the caching allocator holds after it."""

from __future__ import annotations

import gc
import math
from random import Random
from typing import Any

import torch

LIMIT = 6 << 30
"""Bytes that tensors hold at most."""
STEPS = 500
SETTINGS = (
    "",
    "max_split_size_mb:32",
    "max_split_size_mb:200",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "garbage_collection_threshold:0.6",
    "max_non_split_rounding_mb:64,max_split_size_mb:64",
    "expandable_segments:True",
    "expandable_segments:True,garbage_collection_threshold:0.7",
    "large_segment_size_mb:64",
)
"""As `PYTORCH_CUDA_ALLOC_CONF` takes them."""
KEYS = (
    "allocated_bytes.all.current",
    "reserved_bytes.all.current",
    "requested_bytes.all.current",
    "active_bytes.all.current",
    "inactive_split_bytes.all.current",
    "segment.all.current",
    "num_alloc_retries",
    "num_ooms",
)
"""Of `torch.cuda.memory_stats`, what is compared."""


def names() -> list[str]:
    """A sequence's settings, whether several streams take part and whether memory is scarce, in one name; of
    each kind there are three.
    """
    return [
        f"{text}|{way}{number}"
        for number in ("", " 2", " 3")
        for text in SETTINGS
        for way in ("plain", "scarce", "streams")
    ]


def run(name: str) -> list[list[int]]:
    """What the statistics were after each step."""
    text, _, way = name.rpartition("|")
    way = way.partition(" ")[0]
    random = Random(f"sequence {name}")
    torch.cuda.init()
    if text:
        torch.cuda.memory._set_allocator_settings(text)
    if way == "scarce":
        torch.cuda.set_per_process_memory_fraction(
            (LIMIT * 3 // 4) / torch.cuda.get_device_properties(0).total_memory
        )
    streams: list[Any] = [torch.cuda.default_stream()]
    if way == "streams":
        streams += [torch.cuda.Stream(), torch.cuda.Stream()]
    held: list[torch.Tensor] = []
    seen = []
    for _ in range(STEPS):
        _step(random, held, streams)
        stats = torch.cuda.memory_stats()
        seen.append([int(stats.get(key, 0)) for key in KEYS])
    return seen


def _step(random: Random, held: list[torch.Tensor], streams: list[Any]) -> None:
    total = sum(tensor.numel() for tensor in held)
    drawn = random.random()
    size = int(math.exp(random.uniform(0, math.log(700 << 20))))
    if random.random() < 0.3:  # the sizes of a model come again
        size = random.choice((2048, 1 << 20, (1 << 20) + 1, 5 << 20, 10 << 20, 20 << 20, 33 << 20, 300 << 20))
    if drawn < 0.01:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    elif held and (drawn < 0.45 or total + size > LIMIT):
        tensor = held.pop(random.randrange(len(held)))
        if len(streams) > 1 and random.random() < 0.3:
            tensor.record_stream(random.choice(streams))
        del tensor
        torch.cuda.synchronize()  # so that no block waits for a stream
    else:
        with torch.cuda.stream(random.choice(streams)):
            try:
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            except torch.OutOfMemoryError:
                held[: len(held) // 2] = []
                gc.collect()
