"""On a real GPU and its host the situations fail, are diagnosed and healed as on a virtual machine.

Time: some minutes.
Needs: an NVIDIA GPU (none with `--self-check`), transformers; no network.

    python -m evidence hardware-proof [--json FILE]
    python -m evidence hardware-proof --self-check        # a virtual GPU stands in, its events taken away

Runs S1, S2, S3 and S5. For each: the broken run must fail, its diagnosis must be that of the virtual machine
for the same code, and under `sd.heal` it must give the numbers of the run on one device, bit for bit, in four
calls one after the other; on a GPU they may be off by what its host rounds otherwise (`close`). Then what guard and heal cost a step. Results are printed and written as they come,
to `hardware_proof.json` on hardware unless `--json` names another file; a situation that cannot run is told
with its error, and the rest goes on. Exit status: 0 all as it should be, 1 not so, 2 no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything, print and write what was shown."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--self-check", action="store_true", help="a virtual GPU stands in for the real one")
    parser.add_argument(
        "--diagnose",
        action="store_true",
        help="print the virtual machine's diagnoses as JSON, and nothing else",
    )
    options = parser.parse_args(arguments)
    from evidence.engine import on_hardware

    return on_hardware.run(options)
