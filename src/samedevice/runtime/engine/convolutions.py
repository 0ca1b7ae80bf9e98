"""Which operator computes a convolution: it decides who compares devices, and in which words.

Source: `_select_conv_backend` and `_convolution` of aten/src/ATen/native/Convolution.cpp. Of the devices only
the input's decides. Asked is what the host of a GPU would do, whose torch has cuDNN and oneDNN, so that the
answer is the same on every machine; a test compares it with torch's own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from samedevice.device_rules import Check, Demand, Row, no_kernel, row_for
from samedevice.runtime.state import Operator, device_of

_CONVOLUTIONS = frozenset({"convolution", "_convolution", "convolution_overrideable"})
_OF_TWO_DIMENSIONS, _OF_THREE_DIMENSIONS = 4, 5
"""Dimensions of an input with a batch and channels."""
_LEAST_FOR_ONEDNN, _LARGE_BATCH, _LARGE_FILTER = 20480, 16, 3
_LEAST_CHANNELS, _LEAST_WIDTH = 32, 7
"""From which on cuDNN is faster at depthwise convolutions."""


@dataclass(frozen=True, slots=True)
class _Convolution:
    """What decides; a convolution over one dimension is one over two, the first of which is 1."""

    kind: str
    """The kind of the input's device."""
    input: torch.Tensor
    weight: torch.Tensor
    size: tuple[int, ...]
    filter: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    transposed: bool
    groups: int

    @property
    def dilated(self) -> bool:
        """Whether the filter has gaps."""
        return any(each != 1 for each in self.dilation)

    @property
    def pads_much(self) -> bool:
        """Whether the padding of the result reaches a step."""
        return any(pad >= step for pad, step in zip(self.output_padding, self.stride, strict=True))

    @property
    def channels_last(self) -> bool:
        """Whether cuDNN is given channels that lie together."""
        if torch.float64 in (self.input.dtype, self.weight.dtype):
            return False
        return any(_channels_last(each.size(), each.stride()) for each in (self.input, self.weight))

    @property
    def depthwise(self) -> bool:
        """Whether each channel has filters of its own."""
        channels = self.size[1]
        own = self.kind == "cuda" and not self.transposed and channels == self.groups > 1
        return own and self.filter[0] % channels == 0


def convolution_row(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Row | None:
    """The row of the operator that a convolution comes to; None for what is no convolution."""
    if op.short not in _CONVOLUTIONS:
        return None
    given = {**dict(zip(op.argument_names, args, strict=False)), **kwargs}
    return _row(_worker(_told(given)))


def _told(given: Mapping[str, Any]) -> _Convolution:
    input, weight = given["input"], given["weight"]
    dimensions = input.dim() - 2
    flat = dimensions == 1

    def each(name: str, of_flat: int) -> tuple[int, ...]:
        found = tuple(given[name])
        whole = found * dimensions if len(found) == 1 else found
        return (of_flat, *whole) if flat else whole

    def shape(tensor: torch.Tensor) -> tuple[int, ...]:
        size = tuple(tensor.size())
        return (*size[:2], 1, *size[2:]) if flat else size

    return _Convolution(
        device_of(input).type,
        input,
        weight,
        shape(input),
        shape(weight),
        each("stride", 1),
        each("dilation", 1),
        each("output_padding", 0),
        given["transposed"],
        given["groups"],
    )


def _worker(asked: _Convolution) -> str:
    """The operator that is called."""
    if 0 in asked.size[:2]:
        return "mul"
    flat = len(asked.size) == _OF_TWO_DIMENSIONS
    if asked.depthwise:
        if _cudnn_is_faster(asked):
            return "cudnn_convolution"
        return "_conv_depthwise2d" if flat else "conv_depthwise3d"
    if asked.kind == "cuda" and torch.backends.cudnn.enabled and not asked.pads_much:
        return "cudnn_convolution_transpose" if asked.transposed else "cudnn_convolution"
    if _onednn_is_faster(asked):
        return "mkldnn_convolution"
    if asked.transposed:
        return "slow_conv_transpose2d" if flat else "slow_conv_transpose3d"
    if flat:
        return "slow_conv_dilated2d" if asked.dilated else "_slow_conv2d_forward"
    return "slow_conv_dilated3d" if asked.dilated or asked.kind == "cuda" else "slow_conv3d_forward"


def _cudnn_is_faster(asked: _Convolution) -> bool:
    """At a depthwise convolution. Source: `use_cudnn_depthwise`."""
    if not torch.backends.cudnn.enabled:
        return False
    if asked.channels_last:
        return True
    half = asked.input.dtype == asked.weight.dtype == torch.float16
    if not half or len(asked.size) != _OF_TWO_DIMENSIONS or asked.dilated:
        return False
    one_line = asked.size[2] == 1
    if asked.size[1] < _LEAST_CHANNELS or not (asked.stride[0] == asked.stride[1] or one_line):
        return False
    return (one_line and asked.stride[1] == 1) or _worthwhile(asked)


def _worthwhile(asked: _Convolution) -> bool:
    """Source: `check_cudnn_depthwise_workload_with_filter`."""
    batch, channels, _, width = asked.size
    rows, columns = asked.filter[2:]
    step = asked.stride[1]
    if rows != columns or columns not in (1, 3, 5) or width < _LEAST_WIDTH or step not in (1, 2):
        return False
    if step == 1:
        return True
    if batch == 1:
        return columns != 1 or width <= 28  # the heuristics' own numbers, as those below
    if columns == 1:
        return batch <= 16 and channels >= 128 and width <= _LEAST_WIDTH
    return channels >= 512 or (channels >= 256 and width >= 28)


def _onednn_is_faster(asked: _Convolution) -> bool:
    """Source: `use_mkldnn`."""
    if asked.kind != "cpu" or not torch._C._get_mkldnn_enabled():
        return False
    if asked.transposed and asked.pads_much:
        return False
    if asked.input.dtype in (torch.bfloat16, torch.float16):
        return True
    if asked.input.dtype != torch.float32:
        return False
    point = asked.filter[-2:] == (1, 1)
    strided = any(each != 1 for each in asked.stride)
    batch = asked.size[0]
    if point and not (strided or asked.dilated or batch >= _LARGE_BATCH or torch.get_num_threads() > 1):
        return False
    elements = batch * asked.size[1] * asked.size[2] * asked.size[3]
    large_filter = min(asked.filter[-2:]) > _LARGE_FILTER
    return asked.groups > 1 or large_filter or batch > 1 or elements > _LEAST_FOR_ONEDNN


def _channels_last(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the strides are those of channels that lie together. Source: c10/core/MemoryFormat.h."""
    if len(size) not in (_OF_TWO_DIMENSIONS, _OF_THREE_DIMENSIONS) or stride[1] == 0:
        return False
    least = 0
    for place in (1, *range(len(size) - 1, 1, -1), 0):
        if size[place] == 0 or stride[place] < least or (place == 0 and least == stride[1]):
            return False
        least = stride[place] * max(size[place], 1)
    return True


@functools.cache
def _row(worker: str) -> Row:
    whole = row_for("aten.convolution.default")
    if worker in ("cudnn_convolution", "mkldnn_convolution"):
        return whole
    called = row_for(f"aten.{worker}.default")
    if worker == "cudnn_convolution_transpose":
        return replace(whole, method=called.method)
    if worker == "mul":
        return _OF_NOTHING
    if worker == "slow_conv3d_forward":
        lacking = Demand("input", ("weight", "bias"), no_kernel(f"aten::{worker}"), on="cpu", missing=True)
        return Row("convolution", Check.FREE, demands=(lacking,), source=_SOURCE)
    return Row(
        "convolution", Check.WRAPPER, called.method, order=("input", "weight", "bias"), source=called.source
    )


_SOURCE = "Convolution.cpp, _convolution"
_TWO = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"
_OF_NOTHING = Row(
    "convolution",
    Check.FREE,
    demands=(
        Demand("input", ("weight", "bias"), _TWO.format("{1}", "{0}"), on="cpu"),
        Demand("input", ("weight", "bias"), _TWO.format("{0}", "{1}"), host_passes=True),
    ),
    source=f"{_SOURCE}: an empty input is multiplied by one number of the weight",
)
