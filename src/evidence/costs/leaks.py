"""Making and freeing a million small virtual tensors leaves the process no larger and the ledger at zero.

Time: some minutes.
Needs: Linux, for the memory of the process.

    python -m evidence leaks [--tensors 1000000] [--step 100000]

A round makes tensors in the ways that programs do: factories, operators, moves, views, in-place writes and a
backward pass. The first rounds fill caches (remembered geometries, sites of statements); growth is counted
from the round after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tensors and print what the process and the ledger hold; 1 when something leaked."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--tensors", type=int, default=1_000_000)
    parser.add_argument("--step", type=int, default=100_000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args(arguments)
    from evidence.costs import rounds

    return rounds.run(options)
