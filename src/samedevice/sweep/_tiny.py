"""Configurations in which every width is the same, so that parts made apart fit each other.

Must guarantee: what happens to a field is a row of `tiny.toml`, and no row names a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from samedevice.sweep._tables import FieldRow, field_row, read_table

_TABLE = "tiny.toml"
_WHOLE = "all levels"
"""Stands beside the fields of a network that keeps its levels."""
_SHORT = "one block"
"""Stands beside the fields of a part of a pipeline, of which one block of a kind is enough."""
_TOKENS = 1000
"""A vocabulary ends here; special tokens beyond it come in front of it."""
_HEAD = 16
"""The width of a head of attention."""


def tokens() -> Mapping[str, list[str]]:
    """Tokens that stand for something else, in the order of their numbers, and the fields that name them."""
    found: Mapping[str, list[str]] = read_table(_TABLE)["tokens"]
    return found


def plain_model() -> str:
    """The class of transformers that stands in where a part may be any model."""
    found: str = read_table(_TABLE)["plain"]["model"]
    return found


def _row_of(name: Any) -> FieldRow | None:
    return field_row(_TABLE, name) if isinstance(name, str) else None


def tiny(values: Mapping[str, Any], around: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The same configuration with small numbers; parts that are configurations themselves, too."""
    beside = {**(around or {}), **values}
    made = {name: _small(name, value, beside) for name, value in values.items()}
    depth = next((made[name] for name in _DEPTHS if isinstance(made.get(name), int)), 0)
    for name, value in made.items():
        row = _row_of(name)
        if row is not None and row.kind == "places" and isinstance(value, (list, tuple)) and depth:
            made[name] = type(value)(range(min(len(value), depth)))
        if name == "layer_types" and isinstance(value, (list, tuple)) and depth:
            made[name] = list(value)[:depth]
    return made


def tiny_part(values: Mapping[str, Any], *, levels: bool = False) -> dict[str, Any]:
    """A part of a pipeline, on request with all levels of a network."""
    return tiny(values, {_WHOLE: levels, _SHORT: not levels})


def others(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Values that are tried where these do not go together with other parts."""
    found = []
    for row in read_table(_TABLE)["other"]:
        new = row.get("values", {})
        filled = {name: value for name, value in row.get("fill", {}).items() if values.get(name, 0) is None}
        if new.keys() <= values.keys() and (new or filled):
            found.append({**values, **new, **filled})
    return found


def is_count(name: str) -> bool:
    """Whether a field says how many of something there are, which fits or does not fit nothing."""
    row = _row_of(name)
    return row is not None and row.kind in ("most", "depth", "places")


_DEPTHS = ("num_hidden_layers", "num_layers", "depth", "n_layer")


def _small(name: Any, value: Any, beside: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {**tiny(value, beside), **read_table(_TABLE)["within"].get(str(name), {})}
    row = _row_of(name)
    if row is not None and value is None:
        return row.missing
    if row is None or isinstance(value, bool):
        return _token(name, value)
    match row.kind:
        case "width" | "most":
            return _at_most(value, row.most)
        case "depth":
            return _at_most(value, 1 if beside.get(_SHORT) else row.most)
        case "first" if isinstance(value, (list, tuple)):
            return value[:1]
        case "levels":
            if isinstance(value, (list, tuple)) and len(value) > 2 and not beside.get(_WHOLE):
                value = type(value)((value[0], value[-1]))
            return _at_most(value, row.most)
        case "split" if isinstance(value, (list, tuple)) and value:
            return _divided(value, beside)
    return value


def _at_most(value: Any, most: int) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_at_most(each, most) for each in value)
    return most if isinstance(value, int) and not isinstance(value, bool) and value > most else value


def _token(name: Any, value: Any) -> Any:
    """A special token that a small vocabulary does not have becomes one of its last, or that of a text."""
    for number, fields in enumerate(tokens().values()):
        if name in fields:
            return number
    if isinstance(name, str) and re.fullmatch(r".*token(_id|_index|_ids)?", name):
        if isinstance(value, int) and not isinstance(value, bool) and value >= _TOKENS:
            return _TOKENS - 1 - value % 100
    return value


def _divided(parts: list[int] | tuple[int, ...], beside: Mapping[str, Any]) -> Any:
    """Parts of a head, as large beside each other as before, even, in a smaller head."""
    whole = sum(parts)
    head = _head(beside)
    new = whole * _HEAD // head if head and head > _HEAD else whole
    made = [max(2, part * new // whole // 2 * 2) for part in parts]
    made[-1] += new - sum(made)
    return type(parts)(made)


def _head(values: Mapping[str, Any]) -> int:
    """The width of a head as it was."""
    for name in ("attention_head_dim", "head_dim"):
        if isinstance(values.get(name), int):
            return int(values[name])
    for wide in ("hidden_size", "dim", "inner_dim"):
        for heads in ("num_attention_heads", "num_heads", "n_heads"):
            if isinstance(values.get(wide), int) and isinstance(values.get(heads), int):
                return int(values[wide]) // int(values[heads])
    return 0
