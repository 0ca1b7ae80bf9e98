"""Options of a script: `argparse`, dataclasses behind `HfArgumentParser`, `fire.Fire`; read from the launch's
own words and files.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from samedevice.preflight._launch import Launch
from samedevice.preflight._shell import UNTOLD
from samedevice.preflight._values import UNKNOWN, Class, External, Instance, Origin, Text


@dataclass(slots=True)
class _Option:
    names: tuple[str, ...]
    target: str
    default: Any
    kind: Any
    action: str | None
    required: bool


@dataclass(eq=False, slots=True)
class Parser:
    """An `argparse.ArgumentParser` as far as it was filled."""

    options: list[_Option] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)

    def add(self, positional: list[Any], keywords: dict[str, Any]) -> None:
        """`add_argument(...)`."""
        names = tuple(str(each) for each in positional if isinstance(each, str))
        if not names:
            return
        longest = max(names, key=len)
        target = (
            keywords.get("dest")
            if isinstance(keywords.get("dest"), str)
            else longest.lstrip("-").replace("-", "_")
        )
        action = keywords.get("action")
        action = action if isinstance(action, str) else getattr(action, "last", None)
        default = keywords.get("default", {"store_true": False, "store_false": True}.get(str(action)))
        if isinstance(default, Text) and default.origin is not None:
            default = Text(
                default, Origin(default.origin.file, default.origin.line, default.origin.node, "default")
            )
        positional_one = not longest.startswith("-")
        required = keywords.get("required") is True or (
            positional_one and keywords.get("nargs") not in ("?", "*")
        )
        self.options.append(
            _Option(
                names, str(target), UNKNOWN if required else default, keywords.get("type"), action, required
            )
        )

    def parse(self, words: Sequence[Text]) -> Instance:
        """`parse_args()` on the words of the launch."""
        found: dict[str, Any] = dict(self.defaults)
        for option in self.options:
            found.setdefault(option.target, option.default)
        positionals = [option for option in self.options if not option.names[0].startswith("-")]
        free: list[Text] = []
        index = 0
        by_name = {name: option for option in self.options for name in option.names}
        while index < len(words):
            head, has_value, value = words[index].partition("=")
            named = by_name.get(head)
            if named is None:
                if not head.startswith("-"):
                    free.append(words[index])
                index += 1
                continue
            if named.action in ("store_true", "store_false"):
                found[named.target] = named.action == "store_true"
                index += 1
                continue
            if has_value:
                text: Text | None = Text(value, words[index].origin)
            elif index + 1 < len(words) and not words[index + 1].startswith("--"):
                text = words[index + 1]
                index += 1
            else:
                text = None
            index += 1
            found[named.target] = _converted(text, named.kind) if text is not None else UNKNOWN
        for option, word in zip(positionals, free, strict=False):
            found[option.target] = _converted(word, option.kind)
        return Instance(External("argparse.Namespace"), found)


def _converted(word: Text | None, kind: Any) -> Any:
    if word is None or UNTOLD in word:
        return UNKNOWN
    name = kind.last if isinstance(kind, External) else ""
    try:
        if name == "int":
            return int(word)
        if name == "float":
            return float(word)
    except ValueError:
        return UNKNOWN
    if name == "bool":
        return bool(word)
    return word


def plain(word: Any) -> Any:
    """A word as YAML would read it: numbers, truth, nothing; text otherwise."""
    if not isinstance(word, str):
        return word
    lowered = word.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("none", "null"):
        return None
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word if isinstance(word, Text) else Text(word)


class Arguments:
    """Dataclasses and functions filled from the words of a launch."""

    @staticmethod
    def given(launch: Launch) -> dict[str, Any]:
        """`--name value` of the launch by name; what a file of training arguments says comes first."""
        found: dict[str, Any] = {}
        if launch.training is not None:
            found = {
                str(key): launch.training.text(str(key))
                for key in launch.training.data
                if isinstance(key, str)
            }
        words = launch.arguments
        index = 0
        while index < len(words):
            word = words[index]
            head, has_value, value = word.partition("=")
            if head.startswith("--"):
                name = head[2:].replace("-", "_")
                if has_value:
                    found[name] = plain(Text(value, word.origin))
                elif index + 1 < len(words) and not words[index + 1].startswith("--"):
                    following = words[index + 1]
                    found[name] = UNKNOWN if UNTOLD in following else plain(following)
                    index += 1
                else:
                    found[name] = True
            elif has_value and head.isidentifier():
                found[head] = plain(Text(value, word.origin))
            index += 1
        return found

    @staticmethod
    def fields(kind: Class) -> dict[str, Any]:
        """Names and defaults of a dataclass, bases first."""
        found: dict[str, Any] = {}
        for base in kind.bases:
            if isinstance(base, Class):
                found |= Arguments.fields(base)
        for node in kind.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                found[name] = kind.attributes.get(name, UNKNOWN)
        return found

    @staticmethod
    def fill(made: Instance, kind: Class, positional: list[Any], keywords: dict[str, Any]) -> None:
        """A dataclass's `__init__`."""
        fields = Arguments.fields(kind)
        for name, default in fields.items():
            made.attributes.setdefault(name, _as_default(default))
        made.attributes.update(zip(fields, positional, strict=False))
        made.attributes.update({name: value for name, value in keywords.items() if name != "**"})

    @staticmethod
    def parsed(kinds: Sequence[Any], launch: Launch) -> list[Any]:
        """`HfArgumentParser(kinds).parse_args_into_dataclasses()`."""
        given = Arguments.given(launch)
        found: list[Any] = []
        for kind in kinds:
            if isinstance(kind, Class):
                made = Instance(kind)
                Arguments.fill(made, kind, [], {})
                own = made.attributes.keys()
                external = any(isinstance(base, External) for base in kind.lineage())
                made.attributes.update(
                    {name: value for name, value in given.items() if name in own or external}
                )
            elif isinstance(kind, External):
                made = Instance(kind, dict(given))
            else:
                found.append(UNKNOWN)
                continue
            found.append(made)
        return found


def _as_default(value: Any) -> Any:
    if isinstance(value, Text) and value.origin is not None:
        return Text(value, Origin(value.origin.file, value.origin.line, value.origin.node, "default"))
    return value
