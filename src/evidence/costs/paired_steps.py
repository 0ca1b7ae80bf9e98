"""Steps of a small model in pairs, without guard or heal and with it; `guard-cost` says what the rows are."""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import samedevice as sd
from samedevice.guards._heal import QUIET_CALLS

STEPS = 20


class Small(nn.Module):
    """A few layers and a scale that may come from another device."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(128, 128), nn.GELU())))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """One step."""
        result: torch.Tensor = self.layers(x) * scale
        return result


def seconds(step: Callable[[], object], device: torch.device) -> float:
    """Time of `STEPS` steps: of the processor without a GPU, since other programs are none of ours, by the
    clock on a GPU.
    """
    clock = time.process_time if device.type != "cuda" else time.perf_counter
    begin = clock()
    for _ in range(STEPS):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begin


def pairs_of(
    without: Callable[[], object], with_it: Callable[[], object], device: torch.device, pairs: int
) -> tuple[list[float], list[float]]:
    """Seconds without and with, pair by pair."""
    for step in (without, with_it):
        seconds(step, device)
    found: tuple[list[float], list[float]] = [], []
    for pair in range(pairs):
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        for which in order:
            found[which].append(seconds((without, with_it)[which], device))
    return found


def told(name: str, found: tuple[list[float], list[float]]) -> str:
    """The line of one comparison."""
    ratios = [after / before for before, after in zip(*found, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    quickest = [min(times) / STEPS * 1e6 for times in found]
    least = f"quickest block {quickest[0]:.1f} and {quickest[1]:.1f} us a step"
    return (
        f"{name:44} x{middle:.3f}  (quartiles {low:.3f} to {high:.3f}, {len(ratios)} pairs of {STEPS} steps; "
        f"{least})"
    )


def run(chosen: argparse.Namespace) -> int:
    """Measure and print."""
    if chosen.device.startswith("twin"):
        from evidence.environments import twin_device

        twin_device.enter()
    device = torch.device(chosen.device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        sys.exit(f"guard-cost: torch sees no {device}; --device cpu runs without a GPU")
    other = torch.device({"cuda": "cpu", "twin": "twin:1"}.get(device.type, "cpu"))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    logging.getLogger("samedevice").setLevel(logging.ERROR)
    bare, healthy, healed = (Small().to(device).eval() for _ in range(3))
    for copy in (healthy, healed):
        copy.load_state_dict(bare.state_dict())
    x, away = torch.randn(32, 128).to(device), torch.randn(128).to(other)
    scale = away.to(device)

    def plain() -> torch.Tensor:
        return bare(x, scale)  # type: ignore[no-any-return]

    def by_hand() -> torch.Tensor:
        return bare(x, away.to(device))  # type: ignore[no-any-return]

    def guarded() -> torch.Tensor:
        with sd.guard(bare):
            return bare(x, scale)  # type: ignore[no-any-return]

    def learned() -> torch.Tensor:
        return healthy(x, scale)  # type: ignore[no-any-return]

    def heals() -> torch.Tensor:
        return healed(x, away)  # type: ignore[no-any-return]

    def in_block() -> torch.Tensor:
        return bare(x, away)  # type: ignore[no-any-return]

    with torch.no_grad():
        sd.heal(healthy)
        healing = sd.heal(healed)
        same = all(torch.equal(step(), plain()) for step in (learned, heals) for _ in range(QUIET_CALLS + 2))
        print(
            f"{device}, torch {torch.__version__}; healed equals moved by hand: {same}; statements healed: "
            f"{len(healing.repairs)}"
        )
        print(told("a step and itself", pairs_of(plain, plain, device, chosen.pairs)), flush=True)
        print(told("guard, a step inside it", pairs_of(plain, guarded, device, chosen.pairs)), flush=True)
        print(
            told("heal, a healthy step that was learned", pairs_of(plain, learned, device, chosen.pairs)),
            flush=True,
        )
        if healing.repairs:
            print(
                told("heal, a step with one copy, learned", pairs_of(by_hand, heals, device, chosen.pairs)),
                flush=True,
            )
        with sd.heal():
            blocks = [seconds(in_block, device) for _ in range(chosen.pairs)]
        alone = [seconds(by_hand, device) for _ in range(chosen.pairs)]
        plainly = [seconds(plain, device) for _ in range(chosen.pairs)]
        with sd.guard(record=True):
            recorded = [seconds(plain, device) for _ in range(chosen.pairs)]
        print(
            f"{'a step in a block with the mode':44} "
            f"x{statistics.median(blocks) / statistics.median(alone):.3f}",
            flush=True,
        )
        print(
            f"{'a step in a guard that records':44} "
            f"x{statistics.median(recorded) / statistics.median(plainly):.3f}",
            flush=True,
        )
    if device.type == "cuda":
        _language_model(device)
    return 0 if same else 1


def _language_model(device: torch.device) -> None:
    """A guard that records around a model of Qwen2.5-1.5B's sizes in bf16: what its steps cost there."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.set_default_dtype(torch.bfloat16)
    with device:
        model: Any = Qwen2ForCausalLM(
            Qwen2Config(
                hidden_size=1536,
                intermediate_size=8960,
                num_hidden_layers=28,
                num_attention_heads=12,
                num_key_value_heads=2,
                tie_word_embeddings=True,
            )
        )
        ids = torch.randint(0, 1000, (1, 2048))
    torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)

    @torch.no_grad()
    def prefill() -> None:
        model(input_ids=ids, logits_to_keep=1)

    def generate() -> None:
        model.generate(ids[:, :64], max_new_tokens=32, do_sample=False, pad_token_id=0)

    def train() -> None:
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    steps = {"a prefill of 2048 tokens": prefill, "32 tokens": generate, "a training step": train}
    for name, step in steps.items():
        found: tuple[list[float], list[float]] = [], []
        peaks: tuple[set[int], set[int]] = set(), set()
        for record in (False, True, *(False, True) * 8):
            with sd.guard(record=record):
                torch.cuda.reset_peak_memory_stats(device)
                torch.cuda.synchronize(device)
                begin = time.perf_counter()
                step()
                torch.cuda.synchronize(device)
                found[record].append(time.perf_counter() - begin)
                peaks[record].add(torch.cuda.max_memory_allocated(device))
        without, with_it = (statistics.median(times[1:]) for times in found)
        memory = "same peak memory" if max(peaks[0]) == max(peaks[1]) else f"peaks {peaks}"
        ratio = f"x{with_it / without:.3f}  ({without * 1e3:.1f} ms without; {memory})"
        print(f"{name + ', recorded':44} {ratio}", flush=True)
