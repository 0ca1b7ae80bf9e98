"""A process of a sweep: `python -m samedevice.cli.sweep_worker`, started by `samedevice sweep` alone."""

from __future__ import annotations

from samedevice.report import render_finding
from samedevice.sweep import serve


def main() -> None:
    """Answer the sweep that started this process."""
    serve(lambda finding: render_finding(finding).as_json())


if __name__ == "__main__":
    main()
