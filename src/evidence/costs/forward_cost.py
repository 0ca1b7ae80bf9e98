"""A forward of a 72B text model costs less on a virtual GPU than on bare `meta` or under FakeTensorMode.

Time: half a minute.
Needs: transformers.

    python -m evidence forward-cost [--layers 80] [--repeats 5] [--tokens 32] [--forget]

The model is transformers' own Qwen2 with the published configuration of Qwen2.5-72B; no weights exist
anywhere. The three variants take turns, and the fastest of the repeats counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the three variants in turn and print their ratios."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--layers", type=int, default=80)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--forget",
        action="store_true",
        help="let the machine remember nothing of repeated operators, for comparison",
    )
    parser.add_argument(
        "--profile", action="store_true", help="print where the virtual GPU's time goes, and stop"
    )
    options = parser.parse_args(arguments)
    from evidence.costs import timed_forward

    timed_forward.run(options)
    return 0
