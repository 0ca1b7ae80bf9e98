"""Regular expressions that are compiled when they are first looked for.

Most never are for one text, and compiling all of them would take longer than reading it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Pattern:
    """An expression and its flags."""

    text: str
    flags: int = 0

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.text, self.flags)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """The first place where it matches."""
        return self._compiled.search(text, start, end)

    def match(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """Whether it matches where the text starts."""
        return self._compiled.match(text, start, end)

    def fullmatch(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """Whether it matches the whole of the text."""
        return self._compiled.fullmatch(text, start, end)

    def finditer(self, text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
        """Every place where it matches."""
        return self._compiled.finditer(text, start, end)

    def findall(self, text: str) -> list[Any]:
        """What it matches, everywhere."""
        return self._compiled.findall(text)

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        """The text between the places where it matches."""
        return self._compiled.split(text, maxsplit)

    def sub(self, by: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        """The text with the matches replaced, all or the first ones."""
        return self._compiled.sub(by, text, count)
