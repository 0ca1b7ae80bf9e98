"""`generate` of Qwen2.5-VL-72B with an image, timed on a virtual machine.

The folder of the model holds only `config.json`.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import samedevice
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

IMAGE, VISION_START, VISION_END = 151655, 151652, 151653
QWEN25_VL_72B: dict[str, Any] = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "vision_start_token_id": VISION_START,
    "vision_end_token_id": VISION_END,
    "vision_token_id": 151654,
    "image_token_id": IMAGE,
    "video_token_id": 151656,
    "hidden_act": "silu",
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "max_position_embeddings": 128000,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 152064,
    "vision_config": {
        "depth": 32,
        "hidden_act": "silu",
        "hidden_size": 1280,
        "intermediate_size": 3456,
        "num_heads": 16,
        "out_hidden_size": 8192,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "tokens_per_second": 2,
        "temporal_patch_size": 2,
    },
}
"""https://huggingface.co/Qwen/Qwen2.5-VL-72B-Instruct, config.json."""

GRID = (1, 34, 52)
"""Patches of a picture of 476 x 728 pixels: time, height, width."""


def inputs() -> dict[str, torch.Tensor]:
    """What the processor makes of one picture and a short question, on the host."""
    patches = GRID[0] * GRID[1] * GRID[2]
    ids = [100, VISION_START, *[IMAGE] * (patches // 4), VISION_END, *range(200, 212)]
    input_ids = torch.tensor([ids])
    return {
        "input_ids": input_ids,
        "attention_mask": torch.ones_like(input_ids),
        "mm_token_type_ids": (input_ids == IMAGE).int(),
        "pixel_values": torch.randn(patches, 3 * 2 * 14 * 14),
        "image_grid_thw": torch.tensor([GRID]),
    }


def run(arguments: argparse.Namespace) -> None:
    """Load, generate, print."""
    from transformers import Qwen2_5_VLForConditionalGeneration

    machine = VirtualMachine(parse_machine(arguments.machine))
    with tempfile.TemporaryDirectory() as folder, machine:
        Path(folder, "config.json").write_text(json.dumps(QWEN25_VL_72B), encoding="utf-8")
        start = time.perf_counter()
        with profiled(arguments.profile == "load"):
            model: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained(
                folder, device_map="auto", dtype="auto"
            )
        loaded = time.perf_counter()
        batch = {name: value.to("cuda:0") for name, value in inputs().items()}
        before = machine.operators
        with profiled(arguments.profile == "generate"):
            tokens = model.generate(**batch, max_new_tokens=arguments.new_tokens, do_sample=False)
        done = time.perf_counter()
    assert tokens.shape[1] == batch["input_ids"].shape[1] + arguments.new_tokens
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    figures = {
        "load_seconds": loaded - start,
        "generate_seconds": done - loaded,
        "operators": machine.operators - before,
        "peak_gib": peak,
        "findings": len(machine.events),
    }
    print(
        f"Qwen2.5-VL-72B on {arguments.machine}, {arguments.new_tokens} new tokens, one image, samedevice "
        f"{samedevice.__version__}"
    )
    print(f"  load      {figures['load_seconds']:7.2f} s")
    print(f"  generate  {figures['generate_seconds']:7.2f} s   {figures['operators']} operators")
    print(f"  peak memory of the process  {peak:.2f} GiB;  findings: {figures['findings']}")
    for event in machine.events:
        print("   ", event.at, event.message)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


class profiled:
    """Print the functions that take most of the time inside, when asked to."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __enter__(self) -> None:
        if self._wanted:
            import cProfile

            self._profiler = cProfile.Profile()
            self._profiler.enable()

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            import pstats

            self._profiler.disable()
            pstats.Stats(self._profiler).sort_stats("tottime").print_stats(30)
