"""Compiled, exported and traced models keep their numbers and graphs under `sd.heal` and `sd.guard`.

Time: about a minute; another one the first time.
Needs: g++, which builds the two devices the first time.

    python -m evidence compile-proof

The models are on two devices that are real for torch's compilers. Each line is a model with a mismatch, or a
healthy one, compiled in one way: before or after it is healed, as a whole, in place, block by block, with and
without `fullgraph=True`, with the backends `eager` and `aot_eager` on `twin:0` and `twin:1`, with `inductor`
on the CPU. Results and gradients of some calls are compared bit for bit with those of the same model,
compiled by the same backend, on one device, with its operands moved by hand; calls that are learned may have
the numbers of the model that is not compiled. Graphs and breaks are torch's own counts. Exit status 1 if a
line is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proof and print its table."""
    parser = command_parser(__name__, __doc__)
    parser.parse_args(arguments)
    from evidence.healing import compiled_models

    return compiled_models.run()
