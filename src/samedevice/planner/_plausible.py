"""Limits for a configuration before anything is built from it.

A mistaken or hostile one must end in an error at once.

What takes time is the number of modules, so counts are bounded by their names before the configuration is
parsed, and modules while they are made; widths are bounded because no model has such. The bounds are far
above every released model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from samedevice.errors import UsageError

_WIDTH = re.compile(
    r"(?:size|dim|dims|width|channels|d_model|d_ff|d_kv|n_embd|n_inner|heads?|vocab)$|_per_layer(?:$|_)"
)
_COUNT = re.compile(
    r"(?:^|_)(?:layers?|blocks?|depths?|stages?|groups?|experts?|codebooks|quantizers)(?:$|_)"
)
_NO_COUNT = re.compile(r"theta$")
"""Of each layer: no number of them."""
_MOST_WIDE, _MOST_MANY, _MOST_LAYERS = 1 << 24, 10_000, 2_000
"""The widest released matrix has some 500 thousand rows, the largest vocabulary 260 thousand; 2,048 experts;
200 layers.
"""
_MOST_MODULES = 200_000
"""A released model has 70 thousand, when each expert is a module of its own."""
_DEEPEST = 20


def plausible(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same values.

    Raises UsageError where one of them is no number of layers, of experts, or width of any model.
    """
    for name, number in _numbers(values, "", 0):
        most = _most(name.rpartition(".")[2])
        if most is not None and number > most:
            raise UsageError(f"{name} is {number:.4g}, and no model has more than {most}")
    return values


def _most(name: str) -> int | None:
    """The most that a field of this name can be; None where any number will do."""
    if _WIDTH.search(name):
        return _MOST_WIDE
    if _COUNT.search(name) and not name.startswith("max_") and not _NO_COUNT.search(name):
        return _MOST_LAYERS if re.search(r"layer|depth", name) else _MOST_MANY
    return None


def _numbers(value: Any, name: str, depth: int) -> Iterator[tuple[str, int | float]]:
    """Every number with its name, those of nested configurations and of lists included."""
    if depth > _DEEPEST:
        raise UsageError(f"{name} is nested too deeply")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _numbers(inner, name, depth + 1)


def import_model(config: Any) -> None:
    """Import what builds the language model of a configuration; building it says what is wrong with it.

    To be called outside of `torch.device("meta")`, in which torch 2.6 cannot import its compiler.
    """
    from transformers import AutoModelForCausalLM

    with suppress(Exception):
        AutoModelForCausalLM._model_mapping[type(config)]


@contextmanager
def few_modules() -> Iterator[None]:
    """Raises UsageError as soon as more modules were made inside than any model has."""
    from torch.nn.modules.module import register_module_module_registration_hook

    made = 0

    def count(module: Any, name: str, submodule: Any) -> None:
        nonlocal made
        made += 1
        if made > _MOST_MODULES:
            raise UsageError(f"it would have more than {_MOST_MODULES} modules")

    handle = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
