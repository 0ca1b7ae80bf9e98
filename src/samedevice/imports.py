"""Calling back when a module was imported, now or later.

Must guarantee: nothing is imported here; a module is found and made as it would be without us.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


class Watch(importlib.abc.MetaPathFinder):
    """Runs each hook once on its module: at once where it is loaded, else right after it was executed.

    A program may ask for a module's spec only to see whether it is installed, so being asked is not yet an
    import.
    """

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks = dict(hooks)

    def start(self) -> None:
        """Run the hooks of what is loaded, and stand before the other finders for the rest."""
        for name in list(self._hooks):
            module = sys.modules.get(name)
            if module is not None and not _under_way(module):
                self._hooks.pop(name)(module)
        # A new list in place of the old one would be missed by code that holds it.
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watch no more."""
        if self in sys.meta_path:  # a script may have emptied the list
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the others find, with a loader that calls back."""
        # What was under way before is over by the time that what builds on it is imported.
        for name in [name for name in self._hooks if name in sys.modules and name != fullname]:
            if not _under_way(sys.modules[name]) and (hook := self._hooks.pop(name, None)) is not None:
                hook(sys.modules[name])
        if fullname not in self._hooks or self not in sys.meta_path:
            return None
        # Those before were asked already; one of them may be ours as well and ask us.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._executed)
                return spec
        return None

    def _executed(self, module: ModuleType) -> None:
        hook = self._hooks.pop(module.__name__, None)
        if hook is not None:
            hook(module)


def _under_way(module: ModuleType) -> bool:
    """Whether an import is not over: a machine may be entered in the middle of torch's."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


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
