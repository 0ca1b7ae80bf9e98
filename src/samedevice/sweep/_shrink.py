"""Tiny configurations, made from a library's own default ones.

Must guarantee: every kind of layer that the default configuration has is still there, numbers that were equal
are equal, and what was divisible is divisible. What happens to a field is a row of `shrinking.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samedevice.sweep._tables import FieldRow, field_row

_SMALLEST_WIDTH = 8
"""A width that is divided keeps at least so much."""
_ATTENTION_WIDTH = 8
"""The smallest width of one attention head."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much smaller; the sweep tries a finer one where a coarse one does not build or run."""

    divisor: int
    """Of all widths."""
    heads: bool = False
    """Whether there are fewer heads of the same width, instead of as many of a smaller one."""
    layers: bool = True
    vocabulary: bool = True
    pictures: bool = True


SCALES = (
    Scale(16),
    Scale(16, heads=True),
    Scale(16, pictures=False),
    Scale(16, heads=True, pictures=False),
    Scale(4, pictures=False),
    Scale(1),
    Scale(1, pictures=False, vocabulary=False),
    Scale(1, layers=False, pictures=False, vocabulary=False),
)
"""From the smallest to the configuration as it is."""


def _row_of(name: Any) -> FieldRow | None:
    return field_row("shrinking.toml", name) if isinstance(name, str) else None


def shrunk(values: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    """A configuration, as a dictionary with its sub-configurations, in a smaller size."""
    divisor = (_fewer if scale.heads else _fitting)(values, scale.divisor)
    made = _shrunk(values, scale, divisor, _small_tokens(values) if scale.vocabulary else {})
    if scale.divisor > 1:
        _join(made)
        _divide(made)
    return made


def _divide(made: dict[str, Any]) -> None:
    """Give a part heads that divide its width; default configurations often do not."""
    for part in (made, *(value for value in made.values() if isinstance(value, dict))):
        width, heads = part.get("hidden_size"), part.get("num_attention_heads")
        if isinstance(width, int) and isinstance(heads, int) and heads > 0 and not part.get("head_dim"):
            part["num_attention_heads"] = next(each for each in range(heads, 0, -1) if width % each == 0)


def _join(made: dict[str, Any]) -> None:
    """Give what a part hands to the text the width of the text; default configurations often do not."""
    text = made.get("text_config")
    width = text.get("hidden_size") if isinstance(text, dict) else None
    for name, part in made.items():
        if width is None or name == "text_config" or not isinstance(part, dict):
            continue
        if "out_hidden_size" in part:
            part["out_hidden_size"] = width
        elif "embed_dim" in part and "hidden_size" in part:
            part["hidden_size"] = width


def _fitting(values: Mapping[str, Any], divisor: int) -> int:
    """The largest power of two up to `divisor` after which heads still have a width."""
    heads = [
        width // count
        for part in _parts(values)
        for width, count in _heads(part)
        if count and width and width % count == 0
    ]
    while divisor > 1 and any(
        width % divisor or width // divisor < _ATTENTION_WIDTH or width // divisor % 4 for width in heads
    ):
        divisor //= 2
    return divisor


def _fewer(values: Mapping[str, Any], divisor: int) -> int:
    """The largest power of two up to `divisor` by which all numbers of attention heads can be divided."""
    counts = [
        count
        for part in _parts(values)
        for name, count in part.items()
        if _ATTENTION.fullmatch(name) and isinstance(count, int) and count > 1
    ]
    while divisor > 1 and any(count % divisor for count in counts):
        divisor //= 2
    return divisor


_ATTENTION = re.compile(r"((num|n)_)?((encoder|decoder)_)?(attention_)?heads?")
_SHARED = re.compile(r"(num|n)_(key_value|kv)_heads?")
_OF_A_HEAD = re.compile(r"(.*_)?head_dim|mrope_section|rotary_dim|dim_head|query_pre_attn_scalar|d_kv")


def _heads(part: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """(width, number of heads) of every attention that a configuration names."""
    for wide in ("hidden_size", "d_model", "n_embd", "embed_dim", "dim"):
        width = part.get(wide)
        for name, count in part.items():
            if isinstance(width, int) and re.fullmatch(r"(num_|n_|.*_)?(attention_)?heads?", name):
                if isinstance(count, int) and not isinstance(count, bool):
                    yield width, count
    for name, width in part.items():
        if name.endswith(("head_dim", "rotary_dim")) and isinstance(width, int):
            yield width, 1


def _parts(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield {name: value for name, value in values.items() if isinstance(name, str)}
    for value in values.values():
        if isinstance(value, Mapping):
            yield from _parts(value)


def _small_tokens(values: Mapping[str, Any]) -> dict[int, int]:
    """New numbers for special tokens that a small vocabulary does not have; equal ones stay equal."""
    large = sorted({
        token
        for part in _parts(values)
        for name, value in part.items()
        if re.fullmatch(r".*token(_id|_index|_ids|s)?|.*_id(s|x)?", name)
        for token in (value if isinstance(value, (list, tuple)) else (value,))
        if isinstance(token, int) and not isinstance(token, bool) and token >= _VOCABULARY // 2
    })  # fmt: skip
    return {token: _VOCABULARY - len(large) + place for place, token in enumerate(large)}


_VOCABULARY = 512


def _shrunk(
    values: Mapping[str, Any], scale: Scale, divisor: int, tokens: Mapping[int, int]
) -> dict[str, Any]:
    made: dict[str, Any] = {}
    length = _layers(values)
    kept = _kept_layers(values, length) if scale.layers else ()
    for name, value in values.items():
        row = _row_of(name)
        if row is not None and row.kind in ("derived", "places") and scale.layers and _of_blocks(values):
            if row.kind == "places" and value and len(value) <= len(kept):
                made[name] = _last(value, length, len(kept))
            continue
        if not isinstance(name, str):  # labels by their numbers
            made[name] = value
        elif isinstance(value, Mapping) and kept and _by_layer(value, length):
            said = {int(each): inside for each, inside in value.items()}
            made[name] = {
                str(number): _shrunk(said[place], scale, divisor, tokens)
                for number, place in enumerate(kept)
                if place in said
            }
        elif isinstance(value, Mapping):
            made[name] = _shrunk(value, scale, divisor, tokens)
        elif isinstance(value, (list, tuple)) and length and len(value) == length and kept:
            made[name] = [_number(name, value[place], scale, divisor, tokens, len(kept)) for place in kept]
        elif isinstance(value, (list, tuple)):
            made[name] = [_number(name, each, scale, divisor, tokens, len(kept)) for each in value]
        else:
            made[name] = _number(name, value, scale, divisor, tokens, len(kept))
    return made


def _of_blocks(values: Mapping[str, Any]) -> bool:
    """Whether the stages of a backbone are its blocks, which become fewer."""
    stages, length = values.get("stage_names"), _layers(values)
    return length > 0 and (stages is None or len(stages) - 1 == length)


def _last(places: Sequence[int], length: int, new: int) -> list[int]:
    """As many of fewer blocks, the last ones; counted from one where the old ones were."""
    end = new - 1 + max(0, max(places) - (length - 1))
    return list(range(end - len(places) + 1, end + 1))


def _number(name: str, value: Any, scale: Scale, divisor: int, tokens: Mapping[int, int], layers: int) -> Any:
    if scale.heads and isinstance(value, int) and not isinstance(value, bool):
        if _OF_A_HEAD.fullmatch(name):
            return value
        if _ATTENTION.fullmatch(name) or _SHARED.fullmatch(name):
            return max(1, value // divisor) if value % divisor == 0 or _SHARED.fullmatch(name) else value
    row = _row_of(name)
    if value is None and row is not None:
        return row.missing
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if row is None or row.kind in ("keep", "token"):
        return tokens.get(value, value) if re.fullmatch(r".*token.*|.*_ids?", name) else value
    match row.kind:
        case "count":
            most = max(layers, row.most) if layers and "layer" in name else row.most
            return min(value, most) if scale.layers else value
        case "vocabulary":
            return min(value, row.most) if scale.vocabulary else value
        case "picture":
            while scale.pictures and value > row.most and value % 2 == 0:
                value //= 2
            return value
    return value // divisor if value % divisor == 0 and value // divisor >= _SMALLEST_WIDTH else value


_LENGTHS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "depth", "encoder_layers")


def _layers(values: Mapping[str, Any]) -> int:
    return next((values[name] for name in _LENGTHS if isinstance(values.get(name), int)), 0)


def _kept_layers(values: Mapping[str, Any], length: int) -> tuple[int, ...]:
    """Two layers, or one of each kind where lists name more kinds, in their order."""
    kinds: list[Any] = [
        (
            *(repr(value[place]) for value in values.values() if _names_layers(value, length)),
            *(
                repr({int(each): inside for each, inside in value.items()}.get(place))
                for value in values.values()
                if _by_layer(value, length)
            ),
        )
        for place in range(length)
    ]
    first = {kind: place for place, kind in reversed(list(enumerate(kinds)))}
    places = sorted(first.values())[:4]
    taken = max((len(value) for name, value in values.items() if _is_places(name, value)), default=0)
    for place in range(length):
        if len(places) >= min(max(2, min(taken, 4)), length):
            break
        if place not in places:
            places.append(place)
    return tuple(sorted(places))


def _is_places(name: Any, value: Any) -> bool:
    row = _row_of(name)
    return row is not None and row.kind == "places" and isinstance(value, (list, tuple))


def _by_layer(value: Any, length: int) -> bool:
    """Whether it says by their numbers what is special about some layers."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(str(each).isdecimal() and int(each) < length for each in value)
        and all(isinstance(each, Mapping) for each in value.values())
    )


def _names_layers(value: Any, length: int) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == length and len(set(map(repr, value))) < length
