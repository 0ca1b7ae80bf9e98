"""What `PYTORCH_ALLOC_CONF` asks of the caching allocator, read as torch reads it.

Keys, limits and texts are those of `c10/core/AllocatorConfig.h` and `c10/cuda/CUDAAllocatorConfig.h`. Each
text that is read puts back `max_split_size_mb`, `garbage_collection_threshold` and
`roundup_power2_divisions`, as in torch; the other settings stay until they are named again.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

_MIB = 1 << 20
_INTERVALS = 16
"""Sizes from 1 MiB to 64 GiB have divisions of their own, one for each power of two."""
_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The first that is set counts, as in torch."""
_MOST_THREADS = 128


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """One state of the settings; the defaults are torch's."""

    text: str = ""
    max_split_size: int | None = None
    """Bytes of the largest block that may be split; None: any."""
    max_non_split_rounding: int = 20 * _MIB
    large_segment: int = 20 * _MIB
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = (0,) * _INTERVALS
    expandable_segments: bool = False
    release_lock_on_cudamalloc: bool = False
    graph_capture_record_stream_reuse: bool = False
    per_process_memory_fraction: float = 1.0
    throw_on_cudamalloc_oom: bool = False
    pinned_use_cuda_host_register: bool = False
    pinned_num_register_threads: int = 1
    pinned_use_background_threads: bool = False
    pinned_reserve_segment_size_mb: int = 0
    pinned_free_catch_all: bool = False
    pinned_max_round_threshold_mb: int = 0
    pinned_max_cached_size_mb: int = 0

    def divisions(self, size: int) -> int:
        """Into how many parts the powers of two around `size` are divided for rounding; 0: not at all."""
        return self.roundup_power2_divisions[min(max(size.bit_length() - 21, 0), _INTERVALS - 1)]


def settings_of_environment() -> AllocatorSettings:
    """What the environment asks for."""
    for name in _VARIABLES:
        if text := os.environ.get(name):
            return parse_settings(text, AllocatorSettings())
    return AllocatorSettings()


def parse_settings(text: str, before: AllocatorSettings) -> AllocatorSettings:
    """The settings after `text`; raises ValueError in torch's words for what torch refuses."""
    changes: dict[str, Any] = {
        "text": text,
        "max_split_size": None,
        "garbage_collection_threshold": 0.0,
        "roundup_power2_divisions": (0,) * _INTERVALS,
    }
    for key, value in _pairs(text):
        read = _KEYS.get(_ALIASES.get(key, key))
        if read is None:
            raise ValueError(f"Unrecognized key '{key}' in CUDA allocator config.")
        changes.update(read(key, value, replace(before, **changes)))
    return replace(before, **changes)


def _pairs(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each key with the tokens of its value."""
    tokens = re.findall(r"[][,:]|[^][,:]+", "".join(text.split()))
    at = 0
    while at < len(tokens):
        key = tokens[at]
        if tokens[at + 1 : at + 2] != [":"] or at + 2 >= len(tokens):
            raise ValueError(f"Error parsing CachingAllocator settings: no value for '{key}'")
        end = at + 3
        if tokens[at + 2] == "[":
            if "]" not in tokens[at + 2 :]:
                raise ValueError(f"Expected closing bracket ']' after '{key}'")
            end = tokens.index("]", at) + 1
        yield key, tokens[at + 2 : end]
        if end < len(tokens) and tokens[end] != ",":
            raise ValueError("Error parsing CachingAllocator settings, expected ,")
        at = end + 1


_Change = dict[str, Any]
_Read = Callable[[str, list[str], AllocatorSettings], _Change]


def _number(key: str, value: list[str]) -> int:
    if len(value) != 1 or not value[0].isdecimal():
        raise ValueError(f"Expected a number for {key}, got '{''.join(value)}'")
    return int(value[0])


def _fraction(key: str, value: list[str]) -> float:
    try:
        number = float(value[0])
    except ValueError:
        number = math.nan
    if len(value) != 1 or math.isnan(number):
        raise ValueError(f"Expected a number for {key}, got '{''.join(value)}'")
    return number


def _large_segment(key: str, value: list[str], before: AllocatorSettings) -> _Change:
    size = _number(key, value) * _MIB
    if size <= 10 * _MIB:
        raise ValueError("CachingAllocator option large_segment_size_mb must be > 10 MB")
    return {"large_segment": size}


def _at_least_a_segment(name: str) -> _Read:
    def read(key: str, value: list[str], before: AllocatorSettings) -> _Change:
        size = _number(key, value) * _MIB
        if size < before.large_segment:
            least = before.large_segment // _MIB
            raise ValueError(f"CachingAllocator option {key} too small, must be >= {least}")
        return {name: size}

    return read


def _garbage_collection(key: str, value: list[str], before: AllocatorSettings) -> _Change:
    threshold = _fraction(key, value)
    if not 0.0 < threshold < 1.0:
        raise ValueError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
    return {"garbage_collection_threshold": threshold}


def _memory_fraction(key: str, value: list[str], before: AllocatorSettings) -> _Change:
    fraction = _fraction(key, value)
    if not 0.0 <= fraction <= 1.0:
        raise ValueError("per_process_memory_fraction is invalid, set it in [0.0, 1.0]")
    return {"per_process_memory_fraction": fraction}


def _roundup(key: str, value: list[str], before: AllocatorSettings) -> _Change:
    if value[0] != "[":
        divisions = _number(key, value)
        if divisions.bit_count() != 1:
            raise ValueError("For roundups, the divisions has to be power of 2 ")
        return {"roundup_power2_divisions": (divisions,) * _INTERVALS}
    found = [0] * _INTERVALS
    first, last = True, 0
    for pair in "".join(value[1:-1]).split(","):
        interval, colon, text = pair.partition(":")
        divisions = _number(key, [text])
        if not colon or divisions.bit_count() > 1:
            raise ValueError("For roundups, the divisions has to be power of 2 or 0 to disable roundup ")
        if interval == ">":
            found[last:] = [divisions] * (_INTERVALS - last)
            continue
        if (size := _number(key, [interval])).bit_count() != 1:
            raise ValueError("For roundups, the intervals have to be power of 2 ")
        last = min(size.bit_length() - 1, _INTERVALS - 1)
        if first:
            found[:last] = [divisions] * last
            first = False
        found[last] = divisions
    return {"roundup_power2_divisions": tuple(found)}


def _yes_or_no(name: str) -> _Read:
    def read(key: str, value: list[str], before: AllocatorSettings) -> _Change:
        if value not in (["True"], ["False"]):
            said = "".join(value)
            raise ValueError(f"Expected 'True' or 'False' for {key} in ConfigTokenizer but got '{said}'")
        return {name: value == ["True"]}

    return read


def _threads(key: str, value: list[str], before: AllocatorSettings) -> _Change:
    threads = _number(key, value)
    if threads.bit_count() != 1:
        raise ValueError("Number of register threads has to be power of 2, got " + str(threads))
    if threads > _MOST_THREADS:
        raise ValueError(f"Number of register threads should be less than or equal to {_MOST_THREADS}")
    return {"pinned_num_register_threads": threads}


def _plain_number(name: str) -> _Read:
    return lambda key, value, before: {name: _number(key, value)}


def _backend(key: str, value: list[str], before: AllocatorSettings) -> _Change:
    if value == ["cudaMallocAsync"]:
        raise ValueError("backend:cudaMallocAsync is not there on a virtual machine; leave it out.")
    if value != ["native"]:
        raise ValueError("Unknown allocator backend, options are native and cudaMallocAsync")
    return {}


_ALIASES = {
    "release_lock_on_hipmalloc": "release_lock_on_cudamalloc",
    "pinned_use_hip_host_register": "pinned_use_cuda_host_register",
}
_KEYS: Mapping[str, _Read] = {
    "large_segment_size_mb": _large_segment,
    "max_split_size_mb": _at_least_a_segment("max_split_size"),
    "max_non_split_rounding_mb": _at_least_a_segment("max_non_split_rounding"),
    "garbage_collection_threshold": _garbage_collection,
    "roundup_power2_divisions": _roundup,
    "per_process_memory_fraction": _memory_fraction,
    "pinned_num_register_threads": _threads,
    "backend": _backend,
    "pinned_reserve_segment_size_mb": _plain_number("pinned_reserve_segment_size_mb"),
    "pinned_max_round_threshold_mb": _plain_number("pinned_max_round_threshold_mb"),
    "pinned_max_cached_size_mb": _plain_number("pinned_max_cached_size_mb"),
    **{
        name: _yes_or_no(name)
        for name in (
            "expandable_segments",
            "release_lock_on_cudamalloc",
            "graph_capture_record_stream_reuse",
            "throw_on_cudamalloc_oom",
            "pinned_use_cuda_host_register",
            "pinned_use_background_threads",
            "pinned_free_catch_all",
        )
    },
}
"""What changes each setting. Those of pinned memory and of locks are kept and read back; nothing here
depends on them.
"""

__all__ = ["AllocatorSettings", "parse_settings", "settings_of_environment"]
