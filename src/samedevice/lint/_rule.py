"""What a rule of lint is: a rule of the catalogue, and a check that looks at one file.

A rule lives in one file of `rules/`, whose docstring is its page. The code under *Example* is flagged, the
code under *Use instead* is not: tests run both.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samedevice.diagnosis import UNDETERMINED, Rule
from samedevice.findings import Confidence, Safety
from samedevice.lint._source import LintedFile
from samedevice.messages import Phrase, Value


@dataclass(frozen=True, slots=True)
class Repair:
    """A change of the file that repairs a hit."""

    title: Phrase
    text: str
    """The whole file, changed."""
    safety: Safety = "safe"


@dataclass(frozen=True, slots=True)
class Hit:
    """Something in a file that a rule speaks against."""

    node: ast.AST
    """The statement or expression to change."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """What the rule's headline names."""
    reasons: tuple[Phrase, ...] = ()
    repair: Callable[[], Repair | None] | None = None
    """Made only where somebody looks at it."""
    confidence: Confidence = "likely"


Check = Callable[[LintedFile], Iterable[Hit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRule(Rule):
    """A rule that reads source."""

    check: Check
    cause: str = UNDETERMINED
    """The cause of the taxonomy that it finds before anything ran."""
    words: tuple[str, ...]
    """A file that has none of these in it is not read for the rule."""
    default: bool = True
    """Whether it is on when nobody chooses rules."""

    def headline(self, values: Mapping[str, Value]) -> Phrase:
        """What is wrong, in one line."""
        return self.phrase("headline", **dict(values))


def texts(**languages: str) -> dict[Any, str]:
    """One sentence in every language."""
    return languages
