"""Guard and heal cost a small model's step next to nothing, as ratios of paired runs.

Time: a minute or two.
Needs: nothing more on the CPU; `--device cuda:0` an NVIDIA GPU, `--device twin:0` g++.

    python -m evidence guard-cost [--device cpu|cuda:0|twin:0] [--pairs N]

Each pair runs a block of the same steps without and with, in turns and in changing order, so that whatever
slows the machine down slows both; the first row pairs a step with itself and shows what is noise. On a GPU
the last rows move a tensor from the host, and so does their partner, by hand; `twin:0` and `twin:1` are two
devices in host memory, real ones for torch, which compute what the CPU computes. On the CPU nothing can
mismatch: there the mode is around the step and has nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=400)
    options = parser.parse_args(arguments)
    from evidence.costs import paired_steps

    return paired_steps.run(options)
