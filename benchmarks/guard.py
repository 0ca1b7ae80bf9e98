"""What guard and heal cost a small model's step, as ratios of paired runs.

    python benchmarks/guard.py [--device cpu|cuda:0] [--pairs N]

Each pair runs a block of the same steps without and with, in turns and in changing order, so that whatever slows the machine down slows
both; the first row pairs a step with itself and shows what is noise. On a GPU the heal rows move a tensor from the host, and so does their
partner, by hand. On the CPU nothing can mismatch: there healing is on and finds nothing to do, and the boundary is put where it has
nothing to move.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import nn

import samedevice as sd
from samedevice.guards import Boundary

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
    """Time of `STEPS` steps: of the processor on the CPU, since other programs are none of ours, by the clock on a GPU."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
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
    return f"{name:44} x{middle:.3f}  (quartiles {low:.3f} to {high:.3f}, {len(ratios)} pairs of {STEPS} steps; {least})"


def main() -> int:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description="What guard and heal cost a small model's step.")
    arguments.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    arguments.add_argument("--pairs", type=int, default=400)
    chosen = arguments.parse_args()
    device: torch.device = chosen.device
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        sys.exit(f"guard: torch sees no {device}; --device cpu runs without a GPU")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    bare, healed, bounded = (Small().to(device).eval() for _ in range(3))
    for copy in (healed, bounded):
        copy.load_state_dict(bare.state_dict())
    x, scale = torch.randn(32, 128, device=device), torch.randn(128)

    def plain() -> torch.Tensor:
        return bare(x, scale.to(device))  # type: ignore[no-any-return]

    def guarded() -> torch.Tensor:
        with sd.guard(bare):
            return bare(x, scale.to(device))  # type: ignore[no-any-return]

    def heals() -> torch.Tensor:
        return healed(x, scale)  # type: ignore[no-any-return]

    def at_boundary() -> torch.Tensor:
        return bounded(x, scale)  # type: ignore[no-any-return]

    with torch.no_grad():
        healing = sd.heal(healed)
        Boundary("input", bounded, "scale").install(device)
        same = all(torch.equal(step(), plain()) for step in (heals, at_boundary) for _ in range(4))
        print(f"{device}, torch {torch.__version__}; healed equals moved by hand: {same}; statements healed: {len(healing.repairs)}")
        print(told("a step and itself", pairs_of(plain, plain, device, chosen.pairs)), flush=True)
        print(told("guard, a step inside it", pairs_of(plain, guarded, device, chosen.pairs)), flush=True)
        print(told("heal, a step that was learned", pairs_of(plain, heals, device, chosen.pairs)), flush=True)
        print(told("a boundary alone, as heal leaves them", pairs_of(plain, at_boundary, device, chosen.pairs)), flush=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
