"""The command line. `samedevice --help` and its like start without torch."""

from __future__ import annotations

from samedevice.cli._app import main

__all__ = ["main"]
