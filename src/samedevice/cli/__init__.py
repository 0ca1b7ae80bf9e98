"""The command line. `samedevice --help` and its like start without torch."""

from __future__ import annotations

import sys

from samedevice.cli._restart import start_with

__all__ = ["main"]


def main() -> None:
    """Entry point of the `samedevice` command."""
    if sys.argv[1:2] == ["run"]:
        start_with({}, (), fixed_seed=True)  # now, before anything else is imported twice
    from samedevice.cli import _app

    _app.main()
