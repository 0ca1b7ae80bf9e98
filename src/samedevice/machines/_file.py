"""Machine files: TOML with a name, a host, `[[gpu]]` tables and an optional `[link]`.

A file is user input: each value is checked for its type here, and a wrong one is named with its place.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any, NoReturn

from samedevice.errors import MachineSpecError
from samedevice.machines._generic import MAX_MEMORY_MIB, generic_gpu
from samedevice.machines._gpu import MIB, Gpu
from samedevice.machines._link import Link
from samedevice.machines._lookup import find_gpus, nearest_keys
from samedevice.machines._machine import MAX_GPUS, Machine
from samedevice.machines._size import size_in_mib

MAX_FILE_BYTES = 1 << 20

_TOP_KEYS = ("name", "host", "gpu", "link")
_HOST_KEYS = ("memory", "cores")
_GPU_KEYS = ("model", "count", "name", "memory", "total_memory", "capability", "sm_count", "bandwidth_gbps")
_LINK_KEYS = ("kind", "gbps", "generation", "pairs")
_KINDS = {"nvlink": "NVLink", "pcie": "PCIe"}
_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", dict: "a table", list: "a list"}


def is_file_spec(text: str) -> bool:
    """Whether a specification is the path of a machine file: no GPU has a slash in its name."""
    return text.lower().endswith(".toml") or "/" in text or "\\" in text


def read_machine_file(path: str) -> Machine:
    """The machine that a TOML file describes."""
    table = _Table(_load(path), f"machine file {path!r}", _TOP_KEYS)
    host = _Table(table.take("host", dict) or {}, f"{table.place}, [host]", _HOST_KEYS)
    rows = table.take("gpu", list)
    if not rows:
        table.refuse('has no [[gpu]] table; add one with `memory = "24GB"` or `model = "A100-80G"`')
    gpus: list[Gpu] = []
    for number, row in enumerate(rows, start=1):
        place = f"{table.place}, [[gpu]] table {number}"
        if not isinstance(row, dict):
            raise MachineSpecError(f"{place} is not a table; write `[[gpu]]` on a line of its own")
        gpus += _read_gpus(_Table(row, place, _GPU_KEYS))
        if len(gpus) > MAX_GPUS:
            table.refuse(f"has more than {MAX_GPUS} GPUs")
    every_link, links = _read_links(table, gpus)
    return Machine(
        spec=path if is_file_spec(path) else f"./{path}",
        gpus=tuple(gpus),
        host_memory=host.take_memory("memory"),
        host_cores=host.take_positive("cores"),
        name=table.take("name", str),
        links=links,
        every_link=every_link,
    )


class _Table:
    """One TOML table whose keys are known beforehand."""

    def __init__(self, values: dict[str, Any], place: str, known: tuple[str, ...]) -> None:
        self.values, self.place = values, place
        for key in values:
            if key not in known:
                self.refuse(f"has an unknown key {key!r}; did you mean `{_nearest(key, known)}`?")

    def refuse(self, reason: str) -> NoReturn:
        raise MachineSpecError(f"{self.place} {reason}")

    def take(self, key: str, kind: type) -> Any:
        """The value of `key`, None when it is absent. A bool is no number; a whole number is a number."""
        value = self.values.get(key)
        fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
        if value is not None and not fits:
            self.refuse(f"has `{key} = {value!r}`, which must be {_TYPE_NAMES[kind]}")
        return value

    def take_positive(self, key: str, kind: type = int) -> Any:
        """As `take`, for a number above zero."""
        value = self.take(key, kind)
        if value is not None and not 0 < value < 1 << 62:
            self.refuse(f"has `{key} = {value!r}`, which must be above 0")
        return value

    def take_memory(self, key: str) -> int | None:
        """Bytes of a size such as "24GB"."""
        if isinstance(self.values.get(key), (int, float)):
            self.refuse(
                f'has `{key} = {self.values[key]!r}` without a unit; write for example `{key} = "24GB"`'
            )
        text = self.take(key, str)
        mib = None if text is None else size_in_mib(text)
        if text is not None and mib is None:
            self.refuse(
                f'has `{key} = {text!r}`, which is no memory size; write for example `{key} = "24GB"`'
            )
        return None if mib is None else mib * MIB


def _load(path: str) -> dict[str, Any]:
    import tomllib
    from pathlib import Path

    try:
        if not Path(path).is_file():
            raise MachineSpecError(f"there is no machine file {path!r}{_similar_file(path)}")
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise MachineSpecError(f"machine file {path!r} is larger than a machine file can be")
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise MachineSpecError(f"machine file {path!r} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise MachineSpecError(f"machine file {path!r} is not UTF-8 text") from error
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, MachineSpecError):
            raise
        raise MachineSpecError(f"machine file {path!r} cannot be read: {error}") from error


def _similar_file(path: str) -> str:
    """What lies beside the missing file under nearly its name; else the specifications that need no file."""
    from difflib import get_close_matches
    from pathlib import Path

    folder = Path(path).parent
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.name.lower().endswith(".toml")]
    except (OSError, ValueError):
        names = []
    close = get_close_matches(Path(path).name, names, n=1)
    if close:
        return f"; did you mean `{folder / close[0]}`?"
    return "; a machine without a file is written like `2x24GB` or `8xA100-80G`"


def _read_gpus(table: _Table) -> list[Gpu]:
    model, memory = table.take("model", str), table.take_memory("memory")
    if memory is not None and memory // MIB > MAX_MEMORY_MIB:
        table.refuse(f"has `memory = {table.values['memory']!r}` in one GPU, and 4TB is the most")
    if model is not None:
        gpu = _model(table, model)
    elif memory is not None:
        gpu = generic_gpu(memory // MIB)
    else:
        table.refuse(
            'names neither a model nor a memory size; write `model = "A100-80G"` or `memory = "24GB"`'
        )
    changes: dict[str, Any] = {"torch_total_bytes": table.take_positive("total_memory")}
    if changes["torch_total_bytes"] is None:
        # Another size than the product's: what torch reports for the product no longer holds.
        changes["torch_total_bytes"] = gpu.torch_total_bytes if memory is None else None
    changes |= {"memory_mib": gpu.memory_mib if memory is None else memory // MIB}
    changes |= {
        "name": table.take("name", str) or gpu.name,
        "capability": _capability(table) or gpu.capability,
    }
    changes |= {"sm_count": table.take_positive("sm_count") or gpu.sm_count}
    changes |= {"bandwidth_gbps": table.take_positive("bandwidth_gbps", float) or gpu.bandwidth_gbps}
    count = table.take_positive("count") or 1
    if count > MAX_GPUS:
        table.refuse(f"has `count = {count}`; at most {MAX_GPUS} GPUs are supported")
    return [replace(gpu, **changes)] * count


def _model(table: _Table, model: str) -> Gpu:
    rows = find_gpus(model)
    if len(rows) == 1:
        return rows[0]
    keys = tuple(gpu.key for gpu in rows) or nearest_keys(model)
    hint = "" if not keys else f"; did you mean {' or '.join(f'`{key}`' for key in keys)}?"
    table.refuse(f"has `model = {model!r}`, which {'fits several GPUs' if rows else 'is no known GPU'}{hint}")


def _capability(table: _Table) -> tuple[int, int] | None:
    """Text, not a number: as a number 12.10 would be 12.1."""
    value = table.values.get("capability")
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", value, re.ASCII) if isinstance(value, str) else None
    if match is None:
        table.refuse(f'has `capability = {value!r}`; write it as text, for example `capability = "8.9"`')
    return int(match[1]), int(match[2])


def _read_links(table: _Table, gpus: list[Gpu]) -> tuple[Link | None, tuple[tuple[int, int, Link], ...]]:
    """The link of all pairs, or of the listed ones; the rest then meet over PCIe."""
    values = table.take("link", dict)
    if values is None:
        return None, ()
    part = _Table(values, f"{table.place}, [link]", _LINK_KEYS)
    kind = _KINDS.get((part.take("kind", str) or "").lower())
    if kind is None:
        part.refuse(f"has `kind = {values.get('kind')!r}`; it is `NVLink` or `PCIe`")
    link = _link(part, kind, gpus[0])
    pairs = part.take("pairs", list)
    if pairs is None:
        return link, ()
    for pair in pairs:
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(index) is int for index in pair)
        if not whole or pair[0] == pair[1] or not all(0 <= index < len(gpus) for index in pair):
            part.refuse(
                f"has the pair {pair!r}; a pair is two different GPUs from 0 to {len(gpus) - 1}, like [0, 1]"
            )
    return gpus[0].pcie, tuple((one, other, link) for one, other in pairs)


def _link(part: _Table, kind: str, gpu: Gpu) -> Link:
    """The file's figures where it has them, else the GPU's own."""
    own = (
        gpu.pcie
        if kind == "PCIe"
        else gpu.link
        if gpu.link.kind == "NVLink"
        else gpu.bridge or Link("NVLink")
    )
    gbps, generation = part.take_positive("gbps", float), part.take_positive("generation")
    return Link(own.kind, generation or own.generation, own.gbps if gbps is None else float(gbps))


def _nearest(key: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    return get_close_matches(key, known, n=1, cutoff=0.0)[0]
