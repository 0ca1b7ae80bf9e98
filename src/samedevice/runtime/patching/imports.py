"""Patches for packages that a script may import later.

A patch runs at once when its package is loaded, else right after its module was executed for the first time.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from samedevice.runtime.patching.patches import Patches

Hook = Callable[[ModuleType], None]


def when_imported(patches: Patches, hooks: dict[str, Hook]) -> None:
    """Run each hook on its module, now or after its import."""
    begun: dict[str, Hook] = {}
    for name, hook in hooks.items():
        module = sys.modules.get(name)
        if module is not None and _begun(module):
            begun[name] = hook
        elif module is not None:
            hook(module)
    finder = _Finder({name: hook for name, hook in hooks.items() if name not in sys.modules}, begun)
    # A new list in place of the old one would be missed by code that holds it: insert, and take out on undo.
    patches.call(lambda: sys.meta_path.insert(0, finder), lambda: _take_out(finder), "sys.meta_path")


def _take_out(finder: importlib.abc.MetaPathFinder) -> None:
    if finder in sys.meta_path:  # a script may have emptied the list
        sys.meta_path.remove(finder)


def _begun(module: ModuleType | None) -> bool:
    """Whether a module's import is still under way: torch may be imported, and a machine entered, in the
    middle of it.
    """
    return module is None or bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, hooks: dict[str, Hook], begun: dict[str, Hook]) -> None:
        self._hooks = hooks
        self._begun = begun
        """Of modules whose import was under way; it is over by the time that what builds on them is imported.
        """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        for name in [name for name in self._begun if not _begun(sys.modules.get(name))]:
            self._begun.pop(name)(sys.modules[name])
        hook = self._hooks.get(fullname)
        if hook is None:
            return None
        # Those before were asked already; one of them may be ours as well and ask us.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, hook)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """The module's own loader, and the hook after it."""

    def __init__(self, loader: Any, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._hook(module)
