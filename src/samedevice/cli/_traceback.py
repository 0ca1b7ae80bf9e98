"""Shows the script's error as Python would."""

from __future__ import annotations

import sys

from samedevice.provenance import trim


def show_exception(error: BaseException) -> None:
    """Show `error` through `sys.excepthook`, as the interpreter does; SAMEDEVICE_DEBUG=1 keeps our frames."""
    trim(error)
    broken: BaseException | None = None
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as raised:  # the script's own hook failed: Python shows both
        broken = raised
    if broken is not None:
        trim(broken)
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)
