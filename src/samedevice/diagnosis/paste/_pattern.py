"""Regular expressions that are compiled when they are first looked for.

Most never are for one text, and compiling all of them would take longer than reading it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Pattern:
    """An expression and its flags."""

    text: str
    flags: int = 0

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.text, self.flags)

    def search(self, text: str) -> re.Match[str] | None:
        """The first place where it matches."""
        return self._compiled.search(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Every place where it matches."""
        return self._compiled.finditer(text)
