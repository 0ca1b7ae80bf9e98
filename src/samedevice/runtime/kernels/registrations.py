"""Kernels in Python that torch's dispatcher has while machines are entered.

Must guarantee: machines nest and share one registration, which ends with the last of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch.library import Library


class Registration:
    """Kernels that are registered together, with a count of the machines that need them.

    Args:
        fill: registers the kernels with a library that it is given.
        namespace: of the operators; `_` for a fallback.
        at_once: whether the first machine brings the kernels, or the first call of `make`.
    """

    def __init__(
        self, fill: Callable[[Library], None], namespace: str = "aten", *, at_once: bool = True
    ) -> None:
        self._fill = fill
        self._namespace = namespace
        self._at_once = at_once
        self._lock = threading.Lock()
        self._machines = 0
        self._library: Library | None = None

    def enter(self) -> None:
        """One more machine needs them."""
        with self._lock:
            self._machines += 1
        if self._at_once:
            self.make()

    def make(self) -> None:
        """Register the kernels, if they are not there and a machine is."""
        with self._lock:
            if self._library is None and self._machines:
                self._library = Library(self._namespace, "IMPL")  # type: ignore[no-untyped-call]  # torch's own
                self._fill(self._library)

    def leave(self) -> bool:
        """One machine less; the last one takes the kernels away. Tells whether any machine is left."""
        with self._lock:
            self._machines -= 1
            if not self._machines and self._library is not None:
                self._library._destroy()  # type: ignore[no-untyped-call]  # torch's own
                self._library = None
            return bool(self._machines)
