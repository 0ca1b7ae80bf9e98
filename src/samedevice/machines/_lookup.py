"""From what a user calls a GPU to the rows of the table.

That may be none, one, or several that the name cannot tell apart.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

from samedevice.machines._gpu import Gpu, gpu_table

_BRAND_WORDS = ("nvidia", "geforce", "tesla")


def squash(text: str) -> str:
    """Case, spaces, dashes, underscores and brand words do not tell GPUs apart."""
    plain = re.sub(r"[\s_-]+", "", text.casefold())
    for word in _BRAND_WORDS:
        plain = plain.removeprefix(word)
    return plain


def find_gpus(text: str) -> tuple[Gpu, ...]:
    """The rows that `text` names."""
    return _rows_by_name().get(squash(text), ())


def gpus_like(pattern: str) -> tuple[Gpu, ...]:
    """The rows with a name that has `pattern` in it, or is as a pattern with `*`, `?` or `[...]` says."""
    wanted = squash(pattern)
    if not re.search(r"[*?\[]", wanted):
        wanted = f"*{wanted}*"
    return tuple(
        gpu
        for gpu in gpu_table()
        if any(fnmatchcase(squash(name), wanted) for name in (gpu.key, gpu.name, *gpu.aliases))
    )


def nearest_keys(text: str, limit: int = 3) -> tuple[str, ...]:
    """Keys that `text` is a part of (`RTX6000`), else those of nearly its spelling, closest first."""
    from difflib import get_close_matches

    names, wanted = _rows_by_name(), squash(text)
    near = [name for name in names if len(wanted) > 2 and wanted in name]
    cutoff = 0.5 if len(wanted) < 4 else 0.6  # one slip is half of `T4`
    near = near or get_close_matches(wanted[:64], list(names), n=limit, cutoff=cutoff)
    return tuple(dict.fromkeys(gpu.key for name in near for gpu in names[name]))[:limit]


def contains_all(keys: tuple[str, ...], text: str) -> bool:
    """Whether `text` is a part of every one of these keys, so that none is nearer than another."""
    return all(squash(text) in squash(key) for key in keys)


@cache
def _rows_by_name() -> dict[str, tuple[Gpu, ...]]:
    rows: dict[str, dict[str, Gpu]] = {}
    for gpu in gpu_table():
        for name in _names(gpu):
            rows.setdefault(squash(name), {})[gpu.key] = gpu
    # A key or an alias is exact: `L40` never also means a row that only resembles it.
    for gpu in gpu_table():
        for name in (
            gpu.key,
            *gpu.aliases,
            *(f"{alias}B" for alias in gpu.aliases if alias[-2:-1].isdigit()),
        ):
            rows[squash(name)] = {gpu.key: gpu}
    return {name: tuple(found.values()) for name, found in rows.items()}


def _names(gpu: Gpu) -> set[str]:
    """The driver's name, and the model with any of its forms and sizes, in either order."""
    models = {gpu.model, re.sub(r"^[RG]TX(?=\d)", "", gpu.model)}
    forms = {gpu.form, gpu.form.rstrip("0123456789")} | ({""} if gpu.default else set())
    marketed, reported = f"{gpu.memory_gb:g}", f"{round(gpu.memory_mib / 1024)}"
    sizes = {""} | {f"{number}{unit}" for number in {marketed, reported} for unit in ("g", "gb", "gib")}
    sizes |= {f"{mib:g}{unit}" for mib in (gpu.memory_gb * 1024, gpu.memory_mib) for unit in ("mb", "mib")}
    both = {
        order
        for model in models
        for form in forms
        for size in sizes
        for order in (model + size + form, model + form + size)
    }
    return both | {gpu.name}
