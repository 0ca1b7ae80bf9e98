"""Operators on quantized tensors.

Note [Quantized tensors]
Meta has no quantized tensors. One on a virtual GPU is for C++ a quantized tensor of the host, and the record
of its storage says that it is on a GPU. Its values are always there.

Must guarantee: an operator for which CUDA has no kernel raises, as there; a quantized result is on the GPU by
its record, and every other one is a carrier. Source of the list: `QuantizedCUDA` in native_functions.yaml.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine.mismatches import Mismatches
from samedevice.runtime.state import (
    CPU,
    Call,
    Form,
    Memory,
    Operator,
    tensors_in,
)
from samedevice.runtime.tracking import Tracker, record_of, to_value

_aten = torch.ops.aten
MAKES_QUANTIZED = (
    _aten._empty_affine_quantized.default,
    _aten._empty_per_channel_affine_quantized.default,
    _aten.quantize_per_tensor.default,
    _aten.quantize_per_tensor.tensor_qparams,
    _aten.quantize_per_channel.default,
    _aten.quantize_per_tensor_dynamic.default,
)
_ON_CUDA = frozenset(
    "as_strided empty.memory_format _empty_affine_quantized _empty_per_channel_affine_quantized "
    "empty_quantized empty_like empty_strided fill_.Scalar fill_.Tensor _index_put_impl_ max.dim "
    "quantized_max_pool2d min.dim _reshape_alias relu relu_ gelu squeeze squeeze.dim squeeze.dims "
    "flip unsqueeze clone dequantize.self q_scale q_zero_point q_per_channel_scales "
    "q_per_channel_zero_points q_per_channel_axis int_repr qscheme "
    "set_.source_Storage_storage_offset masked_fill_.Scalar masked_fill_.Tensor view "
    "index_select.out index_select unfold _adaptive_avg_pool2d".split()
)
"""Operators with a kernel for quantized tensors on CUDA, by name and overload as in native_functions.yaml."""
_MADE_OF_THESE = frozenset(("copy_", "new_empty", "new_empty_strided", "repeat"))
"""Operators whose one kernel for every device calls only those that CUDA has; so do those that make views."""
_MOST = 1 << 28
"""Elements of a tensor that is computed: the values of quantized tensors take real memory."""


class Quantized:
    """Runs operators that take or make quantized tensors on a GPU."""

    def __init__(self, tracker: Tracker, mismatches: Mismatches) -> None:
        self._tracker = tracker
        self._mismatches = mismatches

    def make(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A quantized tensor of another one's numbers, or of nothing."""
        tensors = list(tensors_in(args))
        records = [record_of(tensor) for tensor in tensors]
        device = kwargs.get("device")
        target = None if device is None else self._tracker.state.device(device)
        homes = {record.device if isinstance(record, Memory) else CPU for record in records}
        if target is None and all(home.type != "cuda" for home in homes):
            return NotImplemented
        if target is not None and target.type != "cuda":
            return NotImplemented
        call = Call(op, args, kwargs, tensors, records)
        call.home = next((home for home in homes if home.type == "cuda"), CPU)
        if len(homes) > 1:
            call = self._mismatches.resolve(call)
        call.target = target or call.home
        return self._computed(call)

    def run(self, call: Call, *, mixed: bool) -> Any:
        """An operator with a quantized tensor of a GPU among its arguments."""
        if not _on_cuda(call.op):
            _no_kernel(call.op)
        if mixed:
            call = self._mismatches.resolve(call)
            call.target = call.home
        return self._computed(call)

    def _computed(self, call: Call) -> Any:
        if any(tensor.numel() > _MOST for tensor in call.tensors):
            raise UnsupportedFeatureError(
                f"{call.op.short} with quantized tensors of more than 256 Mi elements is not supported on a "
                "virtual machine, which computes all their values."
            )
        options = {name: to_value(value) for name, value in call.kwargs.items()}
        if options.get("device") is not None:
            options["device"] = CPU
        result = call.op.func(*[to_value(value) for value in call.args], **options)
        if call.op.returned:
            return call.args[call.op.returned[0]]
        assumed = any(isinstance(record, Memory) and record.uncomputed for record in call.records)
        return self._placed(result, call.target, assumed)

    def _placed(self, result: Any, target: torch.device, assumed: bool) -> Any:
        if isinstance(result, (tuple, list)):
            return type(result)(self._placed(part, target, assumed) for part in result)
        if not isinstance(result, torch.Tensor):
            return result
        return self._tracker.with_value(result, target, self._tracker.site(), assumed=assumed)


def _on_cuda(op: Operator) -> bool:
    schema = op.func._schema
    name = schema.name.removeprefix("aten::")
    return (
        (f"{name}.{schema.overload_name}" if schema.overload_name else name) in _ON_CUDA
        or op.short in _MADE_OF_THESE
        or (op.form is Form.VIEW and _for_every_device(op))
    )


def _for_every_device(op: Operator) -> bool:
    made_of_others: bool = torch._C._dispatch_has_kernel_for_dispatch_key(
        op.func.name(), "CompositeExplicitAutograd"
    )
    return made_of_others


def _no_kernel(op: Operator) -> NoReturn:
    name = op.func._schema.name
    if op.func.namespace != "aten":
        raise UnsupportedFeatureError(
            f"{op.name} with quantized tensors on a GPU is not supported on a virtual machine."
        )
    raise NotImplementedError(
        f"Could not run '{name}' with arguments from the 'QuantizedCUDA' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process."
    )
