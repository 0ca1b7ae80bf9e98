"""Python's collector of garbage, kept from looking at imports that leave none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """What is imported in this block counts as old, as if it had survived some collections.

    Importing torch makes some 170,000 objects that all stay; the collector would look at them again and
    again, which is a tenth of the import's time. `freeze` and `unfreeze` together move them to the oldest
    generation without a look.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if enabled:
            gc.enable()
