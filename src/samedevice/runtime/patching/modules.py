"""The loaded modules, sorted out once for the many replacements of one installation."""

from __future__ import annotations

import sys
from types import ModuleType


class LoadedModules:
    """The loaded modules by the beginning of their path; asked anew once another one is imported."""

    def __init__(self) -> None:
        self._below: dict[str, list[ModuleType]] = {}
        self._count = 0

    def below(self, prefix: str) -> list[ModuleType]:
        """The modules whose path begins with `prefix`."""
        if self._count != len(sys.modules):
            self.forget()
        if prefix not in self._below:
            self._below[prefix] = [
                module
                for path, module in sys.modules.copy().items()
                if path.startswith(prefix) and isinstance(module, ModuleType)
            ]
        return self._below[prefix]

    def forget(self) -> None:
        """Ask anew the next time."""
        self._below.clear()
        self._count = len(sys.modules)
