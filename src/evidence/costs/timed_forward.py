"""One forward of a 72B text model, timed on a virtual GPU, on bare `meta` and under FakeTensorMode."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.initialization import no_init_weights

import samedevice
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state.call import Call

QWEN25_72B: dict[str, Any] = {
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
}
"""https://huggingface.co/Qwen/Qwen2.5-72B, config.json."""

NO_MASK = {"full_attention": None}
"""Attention is causal by itself; building a mask would read a value, which bare meta cannot."""


def build(config: Qwen2Config, device: str) -> Qwen2ForCausalLM:
    """The model in bfloat16 on `device`, without values."""
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device), no_init_weights():
            model: Qwen2ForCausalLM = Qwen2ForCausalLM(config).eval()
            return model
    finally:
        torch.set_default_dtype(torch.float32)


def timed(run: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def run(arguments: argparse.Namespace) -> None:
    """Run the three variants in turn and print their ratios."""
    config = Qwen2Config(num_hidden_layers=arguments.layers, **QWEN25_72B)

    meta_model = build(config, "meta")
    meta_ids = torch.ones(1, arguments.tokens, dtype=torch.long, device="meta")
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    with fake_mode:
        fake_model = build(config, "cpu")
        fake_ids = torch.ones(1, arguments.tokens, dtype=torch.long)
    if arguments.forget:
        Call.key = lambda call: None  # type: ignore[assignment, method-assign]
    machine = VirtualMachine(parse_machine("1x192GB"))
    with machine:
        virtual_model = build(config, "cuda:0")
        virtual_ids = torch.ones(1, arguments.tokens, dtype=torch.long, device="cuda:0")

        def virtual() -> Any:
            with torch.no_grad():
                return virtual_model(virtual_ids, attention_mask=NO_MASK, use_cache=False).logits

        if arguments.profile:
            profile(virtual)
            return
        before = machine.operators
        virtual()
        operators = machine.operators - before
        seconds: dict[str, list[float]] = {"virtual GPU": [timed(virtual) for _ in range(arguments.repeats)]}

    def meta() -> Any:
        with torch.no_grad():
            return meta_model(meta_ids, attention_mask=NO_MASK, use_cache=False).logits

    def fake() -> Any:
        with fake_mode, torch.no_grad():
            return fake_model(fake_ids, attention_mask=NO_MASK, use_cache=False).logits

    meta(), fake()
    seconds["bare meta"], seconds["FakeTensorMode"] = [], []
    for _ in range(arguments.repeats):
        seconds["bare meta"].append(timed(meta))
        seconds["FakeTensorMode"].append(timed(fake))
    best = {name: min(values) for name, values in seconds.items()}
    print(
        f"Qwen2.5-72B, {arguments.layers} layers, {arguments.tokens} tokens, {operators} operators, torch "
        f"{torch.__version__},"
    )
    print(f"samedevice {samedevice.__version__}, best of {arguments.repeats}")
    for name, value in best.items():
        print(f"  {name:16}{value:8.3f} s   {value / best['bare meta']:5.2f} x bare meta")
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"operators": operators, "seconds": seconds}, indent=1), encoding="utf-8"
        )


def profile(run: Callable[[], Any]) -> None:
    """Print the functions that take most of a warm run."""
    import cProfile
    import pstats

    run()
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(25)
