"""A virtual machine answers torch's operator database as CPU torch does, and reports operands elsewhere.

Time: tens of minutes for all; `--only` takes some operators.
Needs: expecttest, numpy.

    python -m evidence op-db-sweep [KIND ...] [--only TEXT] [--samples N]

Kinds: forward, backward, in-place, out (same answers as CPU torch?), second-gpu, host (one argument
elsewhere: reported?).
"""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Sequence

from evidence.commands import command_parser

PLACEMENTS = {"second-gpu": "cuda:1", "host": "cpu"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is not as it should be, and the counts of each kind."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="all of the first four if none")
    parser.add_argument("--only", default="", help="operators whose name holds this text")
    parser.add_argument("--samples", type=int, default=2)
    options = parser.parse_args(arguments)
    from evidence.engine import op_cases

    known = [*op_cases.KINDS, *PLACEMENTS]
    if unknown := [kind for kind in options.kinds if kind not in known]:
        parser.error(f"no kind {', '.join(unknown)}; there are {', '.join(known)}")
    faulthandler.enable()
    for kind in options.kinds or op_cases.KINDS:
        counts: Counter[str] = Counter()
        for name, op in op_cases.operators().items():
            if options.only not in name:
                continue
            print(f"\r{name:60}", end="\r", flush=True)
            if kind in PLACEMENTS:
                for position, shape, placement in op_cases.displacements(op, PLACEMENTS[kind], 1):
                    counts[placement.status] += 1
                    if placement.status != "reported":
                        print(
                            f"{kind:10} {placement.status:8} {name} argument {position} {shape} "
                            f"{placement.note}",
                            flush=True,
                        )
                continue
            outcome = op_cases.check(op, kind, options.samples)
            counts[outcome.status] += 1
            if outcome.status not in ("pass",) and outcome.note != "does not apply":
                print(f"{kind:10} {outcome.status:8} {name:40} {outcome.note}", flush=True)
        total = sum(counts.values()) - counts["skip"]
        print(
            f"{kind}: {', '.join(f'{count} {status}' for status, count in counts.most_common())} (of "
            f"{total} compared)"
        )
    return 0
