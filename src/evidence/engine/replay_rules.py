"""A virtual machine accepts and refuses what a real GPU accepted and refused in a recording.

Time: some eight minutes; `--only` and `--every` take less.
Needs: numpy, expecttest.

    python -m evidence replay-rules [RECORDING.json.gz ...] [--only TEXT] [--every N] [--show N] [--rows]

Prints how far they agree, by family of operators. Without a recording it replays the newest in
`measurements/rules/`. Where there is none yet, the table's own predictions take its place: every case of
torch's operator database is run twice, and what is checked is that nothing breaks and that both runs agree.
A recording may come from another release of torch: cases whose sample has other shapes or types here, or
whose operator is unknown here, are counted and not compared.
`--rows` prints which operators were judged by a row of the table, by torch's declarations, or by the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay, print, and fail on a crash of our own."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--only", default="", help="operators whose name holds this text")
    parser.add_argument("--every", type=int, default=1, help="only every Nth operator")
    parser.add_argument("--show", type=int, default=40, help="disagreements to print")
    parser.add_argument(
        "--rows", action="store_true", help="count operators by where their row comes from, and stop"
    )
    options = parser.parse_args(arguments)
    from evidence.engine import recordings, replays, rule_cases

    kinds = recordings.KINDS if options.rows else (*recordings.KINDS, *recordings.ASKED)
    names = [name for name in rule_cases.names(kinds) if options.only in name][:: options.every]
    if options.rows:
        counts = replays.rows_consulted(names)
        print(
            ", ".join(f"{count} {source}" for source, count in counts.most_common()),
            f"of {sum(counts.values())} operators judged",
        )
        return 0
    for path in options.recordings or replays.newest() or [None]:
        recorded = recordings.load(path) if path is not None else None
        print(
            f"{path}: {recorded.machine}"
            if recorded is not None
            else "no recording of a real GPU yet: the table's own predictions, replayed"
        )
        found = replays.compare(recorded, names, options.only)
        replays.show(found.families, options.show)
        if recorded is not None:
            print(found.left_out())
        if replays.broken(recorded, found.families):
            return 1
    return 0
