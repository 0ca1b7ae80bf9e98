"""What the parts of the reading share.

The names that a block of code sees, and what a call may ask of the reading.
"""

from __future__ import annotations

import ast
from typing import Any, Protocol

from samedevice.static.process import Process
from samedevice.static.values import UNKNOWN, External, LocalModule

BUILTINS = frozenset(
    "abs all any bool dict enumerate exit filter float getattr hasattr int isinstance iter len list map max "
    "min next open print quit range repr reversed round set setattr sorted str sum super tuple type zip "
    "property staticmethod classmethod issubclass callable vars id Exception ValueError RuntimeError".split()
)


class Stopped(Exception):
    """The path ends here: `raise`, `sys.exit`."""


class Frame:
    """Names that a block of code can see."""

    __slots__ = ("function", "locals", "module", "outer", "returned")

    def __init__(
        self,
        module: LocalModule,
        scope: dict[str, Any],
        outer: tuple[dict[str, Any], ...] = (),
        function: Any = None,
    ) -> None:
        self.module, self.locals, self.outer, self.function = module, scope, outer, function
        self.returned: list[Any] = []

    def find(self, name: str) -> Any:
        """A name's value; a builtin; `UNKNOWN`."""
        for scope in (self.locals, *reversed(self.outer), self.module.scope):
            if name in scope:
                return scope[name]
        return External(f"builtins.{name}") if name in BUILTINS else UNKNOWN


class Reader(Protocol):
    """One process's reading of a program, as Python's and the libraries' parts of it need it."""

    process: Process

    def note(self, kind: str, node: ast.AST, frame: Frame, **values: Any) -> None:
        """Something happened that matters to placement."""

    def attribute(self, owner: Any, name: str, node: ast.expr, frame: Frame) -> Any:
        """`owner.name`."""

    def call(
        self, function: Any, positional: list[Any], keywords: dict[str, Any], node: ast.AST, frame: Frame
    ) -> Any:
        """What a call gives."""

    def super_call(
        self, owner: Any, home: Any, name: str, positional: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """`super().name(...)`."""

    def meet(self, values: list[Any], node: ast.AST, frame: Frame, what: str = "operands") -> None:
        """Tensors of one operation."""
