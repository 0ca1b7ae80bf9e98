"""What CUDA's reductions take in passing: a place for each block's part, where blocks share a result.

Source: `aten/src/ATen/native/cuda/Reduce.cuh` (`setReduceConfig`, `global_memory_size`) and
`TensorIterator.cpp` (the order of dimensions, and which of them become one).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

_VECTOR = 4
_WARP = 32
_LEAST_VALUES, _MOST_VALUES = 16, 256
"""Values of a thread, below and above which work is split otherwise."""
_INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of reduction: bytes of what it carries along (None: the accumulated type), and how far it is
    unrolled.
    """

    carried: int | None = None
    unrolled: int = 4


@dataclass(slots=True)
class _Dim:
    size: int
    stride: int
    """Of the input, in bytes."""
    out: int
    """Of the result, 0 where the dimension is reduced."""


@functools.lru_cache(maxsize=4096)
def taken(
    sizes: Sequence[int],
    strides: Sequence[int],
    reduced: frozenset[int],
    itemsize: int,
    carried: int,
    unrolled: int,
    processors: int,
    threads: int,
) -> tuple[int, ...]:
    """Bytes of the allocations of one reduction of a tensor on a GPU; `reduced` empty: of all dimensions."""
    dims = _iterated(sizes, strides, reduced or frozenset(range(len(sizes))), itemsize)
    if not all(dim.size for dim in dims):
        return ()
    while not _fits(dims):
        largest = max(dims, key=lambda dim: (dim.size - 1) * max(dim.stride, dim.out))
        largest.size = (largest.size + 1) // 2  # one half after the other
    return _staging(dims, itemsize, carried, unrolled, processors, threads)


def _iterated(
    sizes: Sequence[int], strides: Sequence[int], reduced: frozenset[int], itemsize: int
) -> list[_Dim]:
    """The dimensions as `TensorIterator` has them: reduced ones first, small strides before large ones."""
    dims: list[_Dim] = []
    step = itemsize
    for place in reversed(range(len(sizes))):
        gone = place in reduced
        dims.append(
            _Dim(sizes[place], strides[place] * itemsize if sizes[place] > 1 else 0, 0 if gone else step)
        )
        step *= 1 if gone else sizes[place]
    dims = [dim for dim in dims if dim.size != 1]
    dims.sort(key=lambda dim: (dim.out > 0, dim.out, dim.stride))
    joined: list[_Dim] = []
    for dim in dims:
        last = joined[-1] if joined else None
        if last is not None and last.size * last.stride == dim.stride and last.size * last.out == dim.out:
            last.size *= dim.size
        else:
            joined.append(dim)
    return joined


def _fits(dims: list[_Dim]) -> bool:
    """Whether offsets have 32 bits."""
    numel = 1
    for dim in dims:
        numel *= dim.size
    return numel <= _INT_MAX and 1 + sum((dim.size - 1) * dim.stride for dim in dims) <= _INT_MAX


def _staging(
    dims: list[_Dim], itemsize: int, carried: int, unrolled: int, processors: int, threads: int
) -> tuple[int, ...]:
    inputs = outputs = 1
    for dim in dims:
        if dim.out:
            outputs *= dim.size
        else:
            inputs *= dim.size
    first = sum(1 for dim in dims if not dim.out)
    along = not dims or first == len(dims) or (first > 0 and dims[0].stride < dims[first].stride)
    width, height = (inputs, outputs) if along else (outputs, inputs)
    fastest = dims[0 if along else first].stride if dims else itemsize
    vector = 1
    if not dims:
        width = height = 1
    elif fastest == itemsize:
        if along and width > 128 and first == 1 and unrolled >= _VECTOR:
            width //= _VECTOR
        elif not along:
            vector = _VECTOR
            for number in (
                dims[first].size,
                *(dim.stride // itemsize for place, dim in enumerate(dims) if place != first),
            ):
                while number % vector:
                    vector //= 2
            width //= vector
    most = (256 if itemsize > 8 else 512) // vector
    block_width, block_height = _block(width, height, most)
    step_input, step_output = (block_width, 1) if along else (1, block_width)
    split = -(-inputs // step_input) >= min(block_height * _LEAST_VALUES, _MOST_VALUES)
    if split:
        step_input *= block_height
    else:
        step_output *= block_height
    values = -(-inputs // step_input)
    grid = -(-(outputs // vector) // step_output)
    target = processors * (threads // (block_width * block_height))
    if not split or values < _MOST_VALUES or grid > target:
        return ()
    blocks = max(min(-(-target // grid), -(-values // _LEAST_VALUES)), -(-values // _MOST_VALUES))
    if blocks <= 1:
        return ()
    size = carried * outputs * blocks
    return (size if along else size * block_width * vector), 4 * grid


def _block(width: int, height: int, most: int) -> tuple[int, int]:
    width, height = (_power(number) if number < most else most for number in (width, height))
    block = min(width, _WARP)
    rows = min(height, most // block)
    return min(width, most // rows), rows


def _power(number: int) -> int:
    return 1 << (max(1, number).bit_length() - 1)
