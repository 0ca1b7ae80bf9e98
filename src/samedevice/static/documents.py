"""Configurations in YAML and JSON as plain data with the line of each key. Nothing in them is ever built or
run.

Aliases, deep nesting and large documents are refused: a few lines of YAML can stand for gigabytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from samedevice.errors import UsageError
from samedevice.messages import Language, say
from samedevice.static.files import read_text
from samedevice.static.values import Origin, Text

_DEEPEST = 40
_MOST_NODES = 50_000


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its data, and the line of every key by its dotted path."""

    file: Path
    data: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)
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
        return self.lines.get(dotted, 1)

    def origin(self, dotted: str) -> Origin:
        """Where a key is written."""
        return Origin(self.file, self.line(dotted), kind="config")

    def text(self, dotted: str) -> Any:
        """The value at a path; text knows its line."""
        value = self.get(dotted)
        return Text(value, self.origin(dotted)) if isinstance(value, str) else value


def read_document(path: Path, language: Language = "en") -> Document:
    """The document in a YAML or JSON file; raises `UsageError` when it cannot be read as one mapping."""
    source = read_text(path, language)
    data, lines = (
        _json(path, source, language) if path.suffix.lower() == ".json" else _yaml(path, source, language)
    )
    if not isinstance(data, dict):
        raise UsageError(say("preflight.no-mapping", language, path=path))
    return Document(path, data, lines, source)


def read_documents(path: Path, language: Language = "en") -> tuple[list[Any], dict[str, int]]:
    """All documents of a YAML or JSON file, with the lines of their keys."""
    source = read_text(path, language)
    if path.suffix.lower() == ".json":
        data, lines = _json(path, source, language)
        return [data], lines
    parts: list[tuple[int, list[str]]] = [(0, [])]
    for number, line in enumerate(source.splitlines(keepends=True)):
        if re.match(r"---(?:\s|$)", line):
            parts.append((number + 1, []))
        else:
            parts[-1][1].append(line)
    documents, lines = [], {}
    for first, kept in parts:
        data, own = _yaml(path, "".join(kept), language)
        documents.append(data)
        for name, where in own.items():
            lines.setdefault(name, where + first)
    return documents, lines


def _json(path: Path, source: str, language: Language) -> tuple[Any, dict[str, int]]:
    try:
        data = json.loads(source)
    except json.JSONDecodeError as error:
        raise UsageError(
            say("preflight.broken", language, path=path, line=error.lineno, reason=error.msg)
        ) from None
    except RecursionError:
        raise UsageError(say("preflight.too-deep", language, path=path)) from None
    lines: dict[str, int] = {}
    _locate(data, "", source, 0, lines, 0)
    return data, lines


def _locate(data: Any, prefix: str, source: str, start: int, lines: dict[str, int], depth: int) -> int:
    """Lines of the keys of JSON, found in the order in which they stand."""
    if depth > _DEEPEST or not isinstance(data, dict):
        return start
    for key, value in data.items():
        found = re.compile(re.escape(json.dumps(key)) + r"\s*:").search(source, start)
        if found is not None:
            lines[f"{prefix}{key}"] = source.count("\n", 0, found.start()) + 1
            start = _locate(value, f"{prefix}{key}.", source, found.end(), lines, depth + 1)
    return start


def _yaml(path: Path, source: str, language: Language) -> tuple[Any, dict[str, int]]:
    lines: dict[str, int] = {}
    try:
        count = depth = 0
        for event in yaml.parse(source, Loader=yaml.SafeLoader):
            count += 1
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise UsageError(say("preflight.too-deep", language, path=path))
            if isinstance(event, yaml.AliasEvent):
                raise UsageError(
                    say("preflight.aliases", language, path=path, line=event.start_mark.line + 1)
                )
            if count > _MOST_NODES:
                raise UsageError(say("preflight.too-large", language, path=path, most=_MOST_NODES))
        loader = yaml.SafeLoader(source)
        node = loader.get_single_node()
        if node is None:
            return {}, lines
        _mark(node, "", lines, 0)
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(
            say("preflight.broken", language, path=path, line=line, reason=error.problem or error)
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            say("preflight.broken", language, path=path, line=1, reason=type(error).__name__)
        ) from None


def _mark(node: Any, prefix: str, lines: dict[str, int], depth: int) -> None:
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{prefix}{getattr(key, 'value', '')}"
            lines[name] = key.start_mark.line + 1
            _mark(value, f"{name}.", lines, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _mark(value, prefix, lines, depth + 1)
