"""Options of a script: `argparse`, dataclasses behind `HfArgumentParser`, `fire.Fire`.

They are read from the words, and the file of training arguments, that the script gets.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from samedevice.static.documents import Document
from samedevice.static.values import UNKNOWN, UNTOLD, Class, External, Instance, Origin, Text

_ACTIONS = ("store", "store_true", "store_false", "append", "extend", "count")
_PLAIN: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": bool}


class _Argparse(argparse.ArgumentParser):
    """One that raises where argparse ends the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


class Parser:
    """A script's `argparse.ArgumentParser`, as far as it was filled."""

    def __init__(self) -> None:
        self._parser = _Argparse(add_help=False, conflict_handler="resolve")
        self._names: dict[str, argparse.Action] = {}

    def add(self, positional: list[Any], keywords: dict[str, Any]) -> None:
        """`add_argument(...)`; what it does with a value that cannot be told cannot be told, either."""
        names = [str(each) for each in positional if isinstance(each, str)]
        if not names:
            return
        option = names[0].startswith("-")
        options: dict[str, Any] = {}
        action = keywords.get("action", "store")
        if isinstance(action, External) and action.last == "BooleanOptionalAction":
            options["action"] = argparse.BooleanOptionalAction
        else:
            options["action"] = action if action in _ACTIONS else "store"
        nargs = keywords.get("nargs")
        if options["action"] in ("store", "append", "extend"):
            several = isinstance(nargs, int) or nargs in ("*", "+", argparse.REMAINDER)
            options["nargs"] = ("*" if nargs == "+" else nargs) if several else "?"
            options["type"] = _converter(keywords.get("type"))
            if not several and option:
                options["const"] = UNKNOWN
        if option and isinstance(keywords.get("dest"), str):
            options["dest"] = str(keywords["dest"])
        required = keywords.get("required") is True or (not option and nargs not in ("?", "*"))
        if required:
            options["default"] = UNKNOWN
        elif "default" in keywords:
            options["default"] = as_default(keywords["default"])
        try:
            made = self._parser.add_argument(*names, **options)
        except (ValueError, TypeError, argparse.ArgumentError):  # the script itself fails here
            return
        self._names |= dict.fromkeys(names, made)

    def set_defaults(self, values: dict[str, Any]) -> None:
        """`set_defaults(...)`."""
        self._parser.set_defaults(**values)

    def parse(self, words: Sequence[Text]) -> Instance:
        """`parse_args()`; words that nothing was added for are passed over."""
        try:
            found = vars(self._parser.parse_known_args(self._parted(words))[0])
        except (ValueError, argparse.ArgumentError):
            found = vars(self._parser.parse_known_args([])[0])
            heads = {word.partition("=")[0] for word in words}
            found |= {action.dest: UNKNOWN for name, action in self._names.items() if name in heads}
        return Instance(External("argparse.Namespace"), found)

    def _parted(self, words: Sequence[Text]) -> list[str]:
        """`--name=value` in two words, of which the second knows where it was written."""
        parted: list[str] = []
        for word in words:
            head, has_value, value = word.partition("=")
            if has_value and head in self._names and value and not value.startswith("-"):
                flag = self._names[head].nargs == 0
                parted += [head] if flag else [head, Text(value, word.origin)]
            else:
                parted.append(word)
        return parted


def _converter(kind: Any) -> Callable[[str], Any]:
    """What `type=` makes of a word."""
    name = kind.last if isinstance(kind, External) else ""

    def convert(word: str) -> Any:
        if UNTOLD in word:
            return UNKNOWN
        try:
            return _PLAIN[name](word) if name in _PLAIN else word
        except ValueError:
            return UNKNOWN

    return convert


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


def given_options(words: Sequence[Text], settings: Document | None) -> dict[str, Any]:
    """`--name value` by name; what a file of training arguments says comes first."""
    found: dict[str, Any] = {}
    if settings is not None:
        found = settings.options()
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


def _fields(kind: Class) -> dict[str, Any]:
    """Names and defaults of a dataclass, bases first."""
    found: dict[str, Any] = {}
    for base in kind.bases:
        if isinstance(base, Class):
            found |= _fields(base)
    for node in kind.node.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            found[name] = kind.attributes.get(name, UNKNOWN)
    return found


def fill_dataclass(made: Instance, kind: Class, positional: list[Any], keywords: dict[str, Any]) -> None:
    """A dataclass's `__init__`."""
    fields = _fields(kind)
    for name, default in fields.items():
        made.attributes.setdefault(name, as_default(default))
    made.attributes.update(zip(fields, positional, strict=False))
    made.attributes.update({name: value for name, value in keywords.items() if name != "**"})


def parsed_dataclasses(kinds: Sequence[Any], given: dict[str, Any] | None) -> list[Any]:
    """`HfArgumentParser(kinds).parse_args_into_dataclasses()` on options by name; None: nobody knows them."""
    found: list[Any] = []
    for kind in kinds:
        if isinstance(kind, Class):
            made = Instance(kind)
            fill_dataclass(made, kind, [], {})
            own = made.attributes.keys()
            if given is None:
                made.attributes = dict.fromkeys(own, UNKNOWN)
                found.append(made)
                continue
            external = any(isinstance(base, External) for base in kind.lineage())
            made.attributes.update({name: value for name, value in given.items() if name in own or external})
        elif isinstance(kind, External):
            made = Instance(kind, dict(given or {}))
        else:
            found.append(UNKNOWN)
            continue
        found.append(made)
    return found


def as_default(value: Any) -> Any:
    """Text that was written as the default of an option or a field."""
    if isinstance(value, Text) and value.origin is not None:
        return Text(value, Origin(value.origin.file, value.origin.line, value.origin.node, "default"))
    return value
