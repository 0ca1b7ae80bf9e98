"""Commands, a module each: what a command takes. What it does is beside them, under the same name.

Must guarantee: the module of a command is imported when that command, or the help of all, is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer

_NAMES = ("run", "guard", "explain", "preflight", "lint", "plan", "machines", "doctor", "sweep", "env")
"""In the order of the help."""


class Commands(Mapping[str, Any]):
    """Click's commands by their names."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        if name not in self._made:
            module = importlib.import_module(f"{__name__}.{name}")
            self._made[name] = typer.main.get_command(module.app)
            self._made[name].name = name
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)
