"""What a model is called with, made of its configuration and the names of its arguments.

Must guarantee: nothing hangs on the name of a model. Which argument gets which tensor is a row of
`inputs.toml`; where a row has several forms, they are tried until the model runs on one GPU.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from samedevice.sweep._tables import read_table

Given = dict[str, Any]

INPUTS = "inputs.toml"
_ATTEMPTS = 16
"""So many combinations of forms are tried for one model."""
_PATCHES = 4
"""Patches along a side of a picture that is given in patches."""


@dataclass(frozen=True, slots=True)
class _Row:
    names: tuple[str, ...]
    modality: str
    forms: tuple[Mapping[str, Any], ...]
    needed: bool
    """Whether it is given only to what cannot do without."""


@dataclass(frozen=True, slots=True)
class _Table:
    sizes: Mapping[str, Sequence[Any]]
    inputs: tuple[_Row, ...]
    labels: tuple[_Row, ...]
    placeholders: tuple[Mapping[str, Any], ...]


@cache
def _table(file: str) -> _Table:
    data = read_table(file)

    def rows(key: str) -> tuple[_Row, ...]:
        return tuple(
            _Row(tuple(r["names"]), r.get("modality", ""), tuple(r["forms"]), r.get("needed", False))
            for r in data.get(key, ())
        )

    return _Table(data["sizes"], rows("input"), rows("label"), tuple(data.get("placeholder", ())))


class Sizes:
    """Sizes by their names, looked up in a configuration and its parts."""

    def __init__(self, config: Any, modality: str = "", table: str = INPUTS) -> None:
        self._table = _table(table)
        parts = [*_parts(config)]
        near = [part for name, part in parts if modality and _stands_for(name, modality)]
        self._roots = [*near, config, *(part for _, part in parts if part not in near)]

    def __getitem__(self, name: str) -> int:
        if name == "grid":
            return _PATCHES * _PATCHES
        if name == "lags":
            return int(max(getattr(self._roots[0], "lags_sequence", None) or [0]))
        *fields, otherwise = self._table.sizes[name]
        for field, root in itertools.product(fields, self._roots):
            value = getattr(root, field, None)
            if isinstance(value, (list, tuple)) and value:
                value = value[-1 if name == "width" else 0]
            if isinstance(value, Mapping):
                value = value.get(name)
            if isinstance(value, int) and value > 0:
                return value
        return int(otherwise)

    def of(self, expression: str | int) -> int:
        """A size, or a sum of products of sizes: `channels*patch*patch+2`."""
        if isinstance(expression, int):
            return expression
        return sum(
            math.prod(int(word) if word.isdecimal() else self[word] for word in term.split("*"))
            for term in expression.split("+")
        )


_STANDS = {
    "image": ("vision", "image", "visual", "vit", "backbone"),
    "video": ("vision", "video", "visual"),
    "audio": ("audio", "speech", "encoder"),
    "text": ("text", "llm", "language", "decoder"),
}


def _stands_for(name: str, modality: str) -> bool:
    return any(word in name for word in _STANDS.get(modality, ()))


def _parts(config: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth > 3:
        return
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield name, value
            yield from _parts(value, depth + 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a `forward` takes."""

    main: tuple[str, ...]
    """The inputs that the class itself calls its main ones."""
    required: tuple[str, ...]
    names: tuple[str, ...]
    """All arguments."""
    table: str = INPUTS
    """Which table has the rows of its arguments."""


def attempts(asked: Asked, config: Any, *, whole: bool) -> Iterator[Given]:
    """Inputs to try: those with all modalities that the arguments name, or those with fewer.

    A model that has its main inputs in all modalities has no fewer.
    """
    needed = {*asked.main, *asked.required}
    rows = [row for row in _table(asked.table).inputs if any(name in asked.names for name in row.names)]
    base = {row.modality for row in rows if needed & set(row.names)}
    modalities = dict.fromkeys(row.modality for row in rows)
    optional = [each for each in modalities if each in _ADDED and each not in base]
    chosen: list[set[str]] = [base | set(optional)]
    if not whole:
        chosen = [{*base, each} for each in optional if len(optional) > 1] + ([base] if optional else [])
    for each in chosen:
        given = [row for row in rows if row.modality in each]
        yield from itertools.islice(_combinations(given, asked, config, needed), _ATTEMPTS)


_ADDED = ("image", "video", "audio", "text", "time", "boxes")
_ONLY_IF_NEEDED = {
    *("token_type_ids", "inputs_embeds", "query_embeds", "visual_embeds", "image_features", "future_values"),
    *("future_time_features", "hidden_states", "bool_masked_pos", "mask_time_indices", "target_sizes"),
    "hidden",
}
_MAYBE = ("decoder_input_ids", "image_sizes", "input_features_mask", "feature_attention_mask")
"""Some models want them and some cannot stand them; both are tried."""


def _combinations(rows: Sequence[_Row], asked: Asked, config: Any, needed: set[str]) -> Iterator[Given]:
    """One modality after the other goes through its forms, while the others keep their first one."""
    named = [
        (name, row, [form for form in row.forms if _has(form, asked) and _wanted(form, config)])
        for row in rows
        for name in row.names
        if name in asked.names and (name in needed or not (row.needed or name in _ONLY_IF_NEEDED))
    ]
    modalities = sorted({row.modality for _, row, _ in named}, key=lambda each: each == "text")
    steps = [("", 0)] + [
        (modality, step)
        for modality in modalities
        for step in range(1, max(len(forms) for _, row, forms in named if row.modality == modality))
    ]
    given_names = {name for name, _, _ in named}
    maybe = [name for name in _MAYBE if name in given_names and name not in needed]
    if "input_ids" not in given_names and "attention_mask" in given_names - needed:
        maybe.append("attention_mask")  # of what it speaks then, nothing says
    for modality, step in steps:
        given = {
            name: make(
                forms[min(step, len(forms) - 1) if row.modality == modality else 0],
                Sizes(config, row.modality, asked.table),
            )
            for name, row, forms in named
            if forms
        }
        yield given
        for left_out in [maybe, *([each] for each in maybe if len(maybe) > 1)] if maybe else ():
            yield {name: value for name, value in given.items() if name not in left_out}


def _has(form: Mapping[str, Any], asked: Asked) -> bool:
    return all(any(name in asked.names for name in needs.split("|")) for needs in form.get("needs", ()))


def _wanted(form: Mapping[str, Any], config: Any) -> bool:
    """Whether the configuration asks for it, where a form says which of its fields do."""
    return all(getattr(config, field, None) for field in form.get("where", ()))


def labels(asked: Asked, config: Any, given: Given) -> Iterator[Given]:
    """Labels to try; what `given` has already says how long a text is."""
    rows = [row for row in _table(asked.table).labels if any(name in asked.names for name in row.names)]
    sizes = Sizes(config, "text", asked.table)
    for row in rows:
        for form in row.forms:
            if "value" in form:
                yield dict.fromkeys((name for name in row.names if name in asked.names), form["value"])
                continue
            if form.get("modality") == "text":
                ids = given.get("decoder_input_ids", given.get("input_ids"))
                if ids is None:
                    continue
                yield {name: ids.clone() for name in row.names if name in asked.names}
                continue
            made = make(form, sizes)
            yield {name: made.clone() for name in row.names if name in asked.names}


def make(form: Mapping[str, Any], sizes: Sizes) -> Any:
    """A tensor on the CPU, or the value that a form names."""
    import torch

    if "value" in form:
        return form["value"]
    shape = [sizes.of(each) for each in form["shape"]]
    dtype = getattr(torch, form["dtype"]) if "dtype" in form else None
    match form["fill"]:
        case "token":
            return (torch.arange(math.prod(shape)) % 50 + 10).reshape(shape)
        case "normal":
            return torch.randn(shape, dtype=dtype or torch.float32)
        case "ones":
            return torch.ones(shape, dtype=dtype or torch.float32)
        case "zeros":
            return torch.zeros(shape, dtype=dtype or torch.float32)
        case "small":
            numbers = torch.arange(math.prod(shape)) % (form.get("most", 3) + 1)
            return numbers.reshape(shape).to(dtype or torch.int64)
        case "probable":
            return (torch.arange(math.prod(shape)) * 7 % 10 / 10).reshape(shape)
        case "flag":
            return torch.ones(shape, dtype=torch.bool)
        case "box":
            return torch.tensor([1, 2, 30, 40]).expand(shape).clone()
        case "grid":
            return torch.tensor([1, _PATCHES, _PATCHES]).expand(shape).clone()
        case "side":
            return torch.full(shape, _PATCHES)
        case "height":
            return torch.full(shape, sizes["height"])
    raise AssertionError(f"inputs.toml fills nothing by {form['fill']!r}")


def with_placeholders(
    model: Any, config: Any, given: Given, to_host: Callable[[], object] = lambda: None
) -> Given:
    """The same inputs with as many tokens in the text as pictures and sounds need places.

    `to_host` is called before the model is asked how many those are, with inputs on the host.
    """
    import torch

    ids = given.get("input_ids")
    if ids is None or ids.dim() != 2:
        return given
    end = _field(config, "eos_token_id")
    if end is not None:  # some heads look for the end of a text
        ids = ids.clone()
        ids[:, -1] = end
        given = {**given, "input_ids": ids}
    runs: list[tuple[int, int, int]] = []
    for row in _table(INPUTS).placeholders:
        sources = {name: given[name] for name in row["arguments"] if given.get(name) is not None}
        token = next((t for t in (_field(config, name) for name in row["tokens"]) if t is not None), None)
        method = _method(model, row["method"])
        if not sources or token is None or method is None:
            continue
        to_host()
        with torch.no_grad():
            count = _count(method(**_accepted(method, sources)))
        if count:
            runs.append((token, -(-count // ids.shape[0]), row["kind"]))
    if not runs:
        return given
    batch = ids.shape[0]
    spare = {token for token, _, _ in runs}
    ids = torch.where(torch.isin(ids, torch.tensor(sorted(spare))), 9, ids)
    inside = [torch.full((batch, count), token) for token, count, _ in runs]
    kinds = [torch.full((batch, count), kind) for _, count, kind in runs]
    longer = dict(given)
    longer["input_ids"] = torch.cat([ids[:, :2], *inside, ids[:, 2:]], 1)
    if "attention_mask" in given:
        longer["attention_mask"] = torch.ones_like(longer["input_ids"])
    if _takes(model, "mm_token_type_ids"):
        rest = torch.zeros_like(ids)
        longer["mm_token_type_ids"] = torch.cat([rest[:, :2], *kinds, rest[:, 2:]], 1)
    return longer


def _takes(model: Any, name: str) -> bool:
    import inspect

    return name in inspect.signature(model.forward).parameters


def _accepted(method: Any, sources: Given) -> Given:
    import inspect

    parameters = inspect.signature(method).parameters
    return {name: value for name, value in sources.items() if name in parameters}


def _method(model: Any, name: str) -> Any:
    return getattr(model, name, None) or getattr(getattr(model, "model", None), name, None)


def _field(config: Any, name: str) -> int | None:
    for root in (config, *(part for _, part in _parts(config))):
        value = getattr(root, name, None)
        if isinstance(value, int) and value >= 0:
            return value
    return None


def _count(made: Any) -> int:
    """How many vectors a method made."""
    import torch

    if not isinstance(made, (torch.Tensor, list, tuple)):
        made = getattr(made, "pooler_output", None)
        if made is None:
            return 0
    if isinstance(made, torch.Tensor):
        return math.prod(made.shape[:-1])
    return sum(_count(each) for each in made)
