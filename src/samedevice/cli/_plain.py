"""Commands whose calls are read without conversions where they need none.

Typer converts each word and each default with pydantic, and imports it for that: a tenth of a second, a third
of what explaining a text takes.

Must guarantee: a call is read here as typer reads it, or left to typer: help, wrong words, a shell that asks.
"""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command that takes flags and texts, at most one of them without an option."""

    texts: ClassVar[frozenset[str]] = frozenset()
    """The parameters that take a word as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a call."""
        values = None if ctx.resilient_parsing else self._read(ctx, args)
        if values is None:
            return super().parse_args(ctx, args)
        ctx.params, ctx.args = values, []
        return []

    def _read(self, ctx: Any, words: list[str]) -> dict[str, Any] | None:
        """The values of all parameters; None for a call that typer must read."""
        options = {word: each for each in self.params for word in each.opts if word.startswith("-")}
        places = [each.name for each in self.params if each.param_type_name == "argument"]
        given: dict[str, Any] = {}
        left = list(words)
        while left:
            word = left.pop(0)
            option = options.get(word)
            flag = getattr(option, "is_flag", False)
            if option is None:
                if (word.startswith("-") and word != "-") or not places:
                    return None
                name, text = places.pop(0), word
            elif flag or (left and not left[0].startswith("-")):
                name, text = option.name, "" if flag else left.pop(0)
            else:
                return None
            if name is None or name in given or not (flag or name in self.texts):
                return None
            given[name] = True if flag else text
        return {each.name: _default(each, ctx) for each in self.params if each.name} | given


def _default(parameter: Any, ctx: Any) -> Any:
    """What a parameter is that no word gives; nothing given several times is an empty tuple."""
    value = parameter.get_default(ctx)
    return () if value is None and getattr(parameter, "multiple", False) else value
