"""`generate` of Qwen2.5-VL-72B with an image runs on 8 virtual A100-80G in seconds.

Time: ten seconds.
Needs: transformers, accelerate.

    python -m evidence generate-cost [--new-tokens 8] [--machine 8xA100-80G] [--profile load|generate]

Prints seconds of loading and of generating, operators run and the peak memory of this process. The ghost
checkpoint is made by samedevice, loaded by transformers' own `from_pretrained(..., device_map="auto")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Load, generate, print."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--new-tokens", type=int, default=8)
    parser.add_argument("--machine", default="8xA100-80G")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--profile", choices=("load", "generate"), help="print where the time of that part goes"
    )
    options = parser.parse_args(arguments)
    from evidence.costs import timed_generate

    timed_generate.run(options)
    return 0
