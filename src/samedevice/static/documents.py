"""Configurations in YAML and JSON as data that knows its places. Nothing in them is ever built or run.

Aliases, deep nesting and large documents are refused: a few lines of YAML can stand for gigabytes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning
from ruamel.yaml.events import AliasEvent

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.static.files import read_text
from samedevice.static.values import Origin, Text

_DEEPEST = 40
_MOST_NODES = 50_000
_LARGEST_WITH_PLACES = 100_000
"""Characters of JSON; what is larger is data, not settings."""
_PLAIN_TAGS = ("!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null")))


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its data, which knows the place of every key."""

    file: Path
    data: dict[str, Any]
    source: str = ""

    def get(self, dotted: str, otherwise: Any = None) -> Any:
        """The value at a dotted path."""
        value: Any = self.data
        for part in dotted.split("."):
            if not isinstance(value, dict) or part not in value:
                return otherwise
            value = value[part]
        return value

    def line(self, dotted: str) -> int:
        """The line of a key; 1 when it has none."""
        path, _, key = dotted.rpartition(".")
        return line_of(self.get(path) if path else self.data, key)

    def origin(self, dotted: str) -> Origin:
        """Where a key is written."""
        return Origin(self.file, self.line(dotted), kind="config")

    def text(self, dotted: str) -> Any:
        """The value at a path; text knows its line."""
        value = self.get(dotted)
        return Text(value, self.origin(dotted)) if isinstance(value, str) else value

    def options(self) -> dict[str, Any]:
        """What it says by name, as options of a program."""
        return {str(key): self.text(str(key)) for key in self.data if isinstance(key, str)}


def line_of(mapping: Any, key: str) -> int:
    """The line of a key of a mapping that was read from a document; 1 when it has none."""
    place = mapping.lc.data.get(key) if isinstance(mapping, CommentedMap) and mapping.lc.data else None
    return place[0] + 1 if place is not None else 1


def read_document(path: Path) -> Document:
    """The document in a YAML or JSON file; raises `UsageError` when it cannot be read as one mapping."""
    source = read_text(path)
    documents = _documents(path, source)
    if len(documents) > 1 or not isinstance(documents[0], dict):
        raise UsageError(Phrase("preflight.no-mapping", path=str(path)))
    return Document(path, documents[0], source)


def read_documents(path: Path) -> list[Any]:
    """All documents of a YAML or JSON file."""
    return _documents(path, read_text(path))


def _documents(path: Path, source: str) -> list[Any]:
    try:
        if path.suffix.lower() == ".json":
            return [_json(source)]
        return _yaml(source, "1.1") or [{}]
    except json.JSONDecodeError as error:
        reason: dict[str, Any] = {"line": error.lineno, "reason": error.msg}
    except RecursionError:
        raise UsageError(Phrase("preflight.too-deep", path=str(path))) from None
    except _RefusedError as error:
        raise UsageError(error.phrase(path)) from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = {"line": line, "reason": error.problem or str(error)}
    except (YAMLError, ValueError) as error:
        reason = {"line": 1, "reason": type(error).__name__}
    raise UsageError(Phrase("preflight.broken", path=str(path), **reason))


def _json(source: str) -> Any:
    data = json.loads(source)
    if len(source) > _LARGEST_WITH_PLACES:
        return data
    try:
        (placed,) = _yaml(source, "1.2")
    except (YAMLError, ValueError, RecursionError):  # JSON that YAML does not read alike
        return data
    return placed if placed == data else data


def _yaml(source: str, version: str) -> list[Any]:
    """The documents of a text. 1.1 is the version of PyYAML, by which the libraries read their files."""
    reader = YAML(typ="rt")
    reader.version = version
    reader.Composer, reader.Constructor = _Composer, _Constructor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", YAMLWarning)
        return [{} if each is None else each for each in reader.load_all(source)]


class _RefusedError(YAMLError):
    """Well written, and not read all the same."""

    def __init__(self, phrase: Callable[[Path], Phrase]) -> None:
        super().__init__()
        self.phrase = phrase


class _Composer(Composer):
    """Refuses what could be larger than it looks."""

    nodes = 0
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """One node with all below it."""
        self.nodes += 1
        event = self.parser.peek_event()
        if isinstance(event, AliasEvent):
            line = event.start_mark.line + 1
            raise _RefusedError(lambda path: Phrase("preflight.aliases", path=str(path), line=line))
        if self.nodes > _MOST_NODES:
            raise _RefusedError(lambda path: Phrase("preflight.too-large", path=str(path), most=_MOST_NODES))
        if self.depth > _DEEPEST:
            raise _RefusedError(lambda path: Phrase("preflight.too-deep", path=str(path)))
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _PLAIN_TAGS:
            problem = f"could not determine a constructor for the tag {tag!r}"
            raise MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _Constructor(RoundTripConstructor):
    """Of a key that is there twice the last one counts, as for `json` and PyYAML."""

    def check_mapping_key(
        self, node: Any, key_node: Any, mapping: Mapping[Any, Any], key: Any, value: Any
    ) -> bool:
        """Whether a key is taken."""
        return True
