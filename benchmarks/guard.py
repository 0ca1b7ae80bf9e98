"""What guard and heal cost a small model's step, as ratios of paired runs.

    python benchmarks/guard.py [--device cpu|cuda:0] [--pairs N]

Each pair runs the same steps without and with, in turns and in changing order, so that whatever slows the machine down slows both.
The heal row is a step whose mismatch was learned; its partner moves the same tensor by hand. On the CPU nothing can mismatch: there
healing is on and finds nothing to do.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

import samedevice as sd

STEPS = 200


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
    """Time of `STEPS` steps: of the processor on the CPU, since other programs are none of ours, by the clock on a GPU."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    begin = clock()
    for _ in range(STEPS):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begin


def ratios(without: Callable[[], object], with_it: Callable[[], object], device: torch.device, pairs: int) -> list[float]:
    """Time with over time without, pair by pair."""
    for step in (without, with_it):
        seconds(step, device)
    found = []
    for pair in range(pairs):
        first, second = (without, with_it) if pair % 2 == 0 else (with_it, without)
        times = {first: seconds(first, device), second: seconds(second, device)}
        found.append(times[with_it] / times[without])
    return found


def told(name: str, found: list[float]) -> str:
    """The line of one comparison."""
    low, _, high = statistics.quantiles(found, n=4)
    return f"{name:34} x{statistics.median(found):.3f}  (quartiles {low:.3f} to {high:.3f}, {len(found)} pairs of {STEPS} steps)"


def main() -> int:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description="What guard and heal cost a small model's step.")
    arguments.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    arguments.add_argument("--pairs", type=int, default=20)
    chosen = arguments.parse_args()
    device: torch.device = chosen.device
    torch.manual_seed(0)
    torch.set_num_threads(1)
    bare, healed = Small().to(device).eval(), Small().to(device).eval()
    healed.load_state_dict(bare.state_dict())
    x, scale = torch.randn(32, 128, device=device), torch.randn(128)

    def plain() -> torch.Tensor:
        return bare(x, scale.to(device))  # type: ignore[no-any-return]

    def guarded() -> torch.Tensor:
        with sd.guard(bare):
            return bare(x, scale.to(device))  # type: ignore[no-any-return]

    def heals() -> torch.Tensor:
        return healed(x, scale)  # type: ignore[no-any-return]

    with torch.no_grad():
        healing = sd.heal(healed)
        same = all(torch.equal(heals(), plain()) for _ in range(4))
        print(f"{device}, torch {torch.__version__}; healed equals moved by hand: {same}; statements healed: {len(healing.repairs)}")
        print(told("guard, a step inside it", ratios(plain, guarded, device, chosen.pairs)))
        print(told("heal, a step that was learned", ratios(plain, heals, device, chosen.pairs)))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
