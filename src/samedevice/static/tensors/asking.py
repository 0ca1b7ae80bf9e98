"""What the library's and the classes' parts of the reading may ask of it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Protocol

from samedevice.static.tensors.abstract import Local, Tensor
from samedevice.static.tensors.project import Project
from samedevice.static.tensors.source import ClassText, Function, SourceText


class Reader(Protocol):
    """Reads functions of a file, each once."""

    def result(self, local: Local, positional: Sequence[Any], keywords: dict[str, Any], depth: int) -> Any:
        """What a call of a function of the project gives."""

    def given_in(self, text: ClassText, function: Function, value: ast.expr) -> Any:
        """What an expression of a class's method is, for any arguments."""


class Asking(Protocol):
    """The reading of one function."""

    elsewhere: bool
    source: SourceText
    function: Function | None
    """The function that is read."""
    depth: int
    project: Project

    @property
    def reader(self) -> Reader:
        """Who reads the functions."""

    def meet(
        self,
        node: ast.expr | ast.stmt,
        operands: Sequence[tuple[ast.expr, Tensor]],
        strictly: bool = False,
        written: bool = False,
    ) -> None:
        """Tensors of one operator, which must be together."""
