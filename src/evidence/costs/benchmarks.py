"""Runs every command about cost, each in a process of its own, one after the other.

Time: some minutes.
Needs: transformers, accelerate.

    python -m evidence benchmarks [NAME ...]
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from evidence.commands import GROUPS, command_parser

NAMES = tuple(name for name in GROUPS["costs"] if name != "benchmarks")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named commands, or all; the number of those that failed."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all when left out")
    names: list[str] = parser.parse_args(arguments).names
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    failed = 0
    for name in names or NAMES:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", "evidence", name], check=False).returncode != 0
    return failed
