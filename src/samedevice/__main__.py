"""`python -m samedevice` is `samedevice`."""

from __future__ import annotations

from samedevice.cli import main

if __name__ == "__main__":
    main()
