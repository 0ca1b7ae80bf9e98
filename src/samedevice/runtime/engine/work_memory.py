"""Memory that CUDA kernels take in passing, beside their results.

Each rule gives the bytes of the allocations that are there together when the kernel takes the most. It is
read from the kernel's own source, so it holds for every shape; what a closed library decides for itself
(cuDNN's convolutions, cuSOLVER, cuFFT, and cub's temporary storage beyond its double buffers) is left out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from samedevice.runtime.cuda import BlasWorkspaces, DeviceProperties, device_properties
from samedevice.runtime.engine import reductions
from samedevice.runtime.engine.reductions import Kind
from samedevice.runtime.state import Call, MachineState, Memory, Operator
from samedevice.runtime.tracking import Tracker

Tensor = torch.Tensor
Rule = Callable[[Call, DeviceProperties], Iterable[int]]

_HALF = (torch.float16, torch.bfloat16)
_FLOAT = 4
_INDEX = 8
_PLAIN, _LARGEST, _WITH_PLACE = Kind(), Kind(carried=0), Kind(carried=16)
_MOMENTS = Kind(carried=16, unrolled=2)
_REDUCTIONS = {
    **dict.fromkeys(("sum", "mean", "nansum", "prod", "norm", "linalg_vector_norm"), _PLAIN),
    **dict.fromkeys(("amax", "amin", "max", "min"), _LARGEST),
    **dict.fromkeys(("argmax", "argmin"), _WITH_PLACE),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), _MOMENTS),
    **dict.fromkeys(("any", "all"), Kind(carried=1)),
}
"""`aten/src/ATen/native/cuda/Reduce*Kernel.cu`; with `carried=0` a value of the input's type."""
_CASTS = frozenset(("sum", "mean", "nansum", "prod", "norm", "linalg_vector_norm"))
"""Those that read the input in another type where the result has another; not half precision for float32."""
_PRODUCTS = frozenset(
    (
        *("mm", "bmm", "addmm", "_addmm_activation", "baddbmm", "addbmm", "addmv", "mv", "dot", "vdot"),
        *("_scaled_mm", "_int_mm", "_euclidean_dist"),
        *(
            "linalg_solve_triangular",
            "triangular_solve",
            "_linalg_solve_ex",
            "linalg_inv_ex",
            "linalg_lu_solve",
        ),
    )
)
"""What asks for cuBLAS's handle. `aten/src/ATen/native/cuda/Blas.cpp`, `linalg/BatchLinearAlgebra*.cpp`."""
_LIGHT_TYPES = (torch.float64, torch.float32, *_HALF)


class WorkMemory:
    """Takes and gives back what kernels take in passing, and what cuBLAS keeps."""

    def __init__(self, tracker: Tracker, state: MachineState) -> None:
        self._tracker = tracker
        self._blas = state.part(BlasWorkspaces)
        self._properties = functools.cache(functools.partial(device_properties, state))

    def of(self, call: Call) -> None:
        """The kernel of a call runs on a GPU; its results are there."""
        op, index = call.op, call.target.index
        if op.short.rstrip("_") in _PRODUCTS and all(tensor.numel() for tensor in call.tensors):
            self._blas.use(index, self._tracker.book, light=_light(call))
        rule = work_of(op)
        if rule is None:
            return
        held = []
        for nbytes in rule(call, self._properties(index)):
            record = Memory(call.target, virtual=True)
            self._tracker.book(record, index, nbytes)
            held.append(record)


@functools.cache
def works(op: Operator) -> bool:
    """Whether an operator's kernel takes more than its results."""
    return op.func.namespace == "aten" and (op.short.rstrip("_") in _PRODUCTS or work_of(op) is not None)


@functools.cache
def work_of(op: Operator) -> Rule | None:
    """The rule of an operator; nearly all have none."""
    name = op.short.rstrip("_")
    kind = _REDUCTIONS.get(name)
    if kind is not None:
        if len(op.func._schema.arguments) > 1 and name in ("max", "min"):
            if "Tensor" in str(op.func._schema.arguments[1].type):
                return None  # of two tensors, element by element
            kind = _WITH_PLACE
        return functools.partial(_reduction, kind, _dims_at(op), name in _CASTS)
    return _RULES.get(op.short)


def _light(call: Call) -> bool:
    """Whether a product goes to cuBLASLt: `isInputCompliesAddmmCudaLt`, with CUDA 12.1 or newer."""
    if call.op.short in ("_scaled_mm", "_int_mm"):
        return True
    if call.op.short not in ("addmm", "_addmm_activation"):
        return False
    bias, _, second = call.tensors[:3]
    return (
        call.kwargs.get("beta", 1) == 1
        and bias.dim() == 1
        and bias.size(0) == second.size(1)
        and bias.is_contiguous()
        and bias.dtype in _LIGHT_TYPES
        and second.size(0) > 1
        and second.size(1) > 1
    )


# -- reductions


def _dims_at(op: Operator) -> int | None:
    return next((at for at, name in enumerate(op.argument_names) if name in ("dim", "dims")), None)


def _reduction(
    kind: Kind, dims_at: int | None, casts: bool, call: Call, gpu: DeviceProperties
) -> Iterable[int]:
    tensor = call.tensors[0]
    given = None
    if dims_at is not None:
        given = call.args[dims_at] if dims_at < len(call.args) else call.kwargs.get("dim")
    dtype = tensor.dtype
    cast: tuple[int, ...] = ()
    if casts:
        wanted = call.kwargs.get("dtype") or (
            dtype if dtype.is_floating_point or dtype.is_complex else torch.int64
        )
        if wanted != dtype and not (dtype in _HALF and wanted == torch.float32):
            cast, dtype = (tensor.numel() * wanted.itemsize,), wanted
    return (*cast, *_staging(tensor, given, kind, dtype, gpu))


def _staging(
    tensor: torch.Tensor, dims: Any, kind: Kind, dtype: torch.dtype, gpu: DeviceProperties
) -> tuple[int, ...]:
    size = dtype.itemsize
    if kind.carried is None:
        carried = _FLOAT if dtype in _HALF else size
    elif kind is _MOMENTS and size > _FLOAT:
        carried = 2 * kind.carried
    else:
        carried = kind.carried or size
    rank = tensor.dim()
    listed = () if dims is None else dims if isinstance(dims, (list, tuple)) else (dims,)
    reduced = frozenset([dim % rank for dim in listed]) if rank else frozenset()
    return reductions.taken(
        tuple(tensor.size()),
        tensor.stride(),
        reduced,
        size,
        carried,
        kind.unrolled,
        gpu.multi_processor_count,
        gpu.max_threads_per_multi_processor,
    )


def _log_sum_exp(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/ReduceOps.cpp`: the maxima and the exponentials of the differences."""
    tensor, dims = call.tensors[0], call.args[1]
    listed = dims if isinstance(dims, (list, tuple)) else (dims,)
    reduced = math.prod([tensor.shape[int(dim)] for dim in listed]) if tensor.dim() else 1
    rows = tensor.numel() // max(1, reduced)
    return (
        rows * tensor.element_size(),
        _nbytes(tensor),
        *_staging(tensor, dims, _PLAIN, tensor.dtype, gpu),
    )


# -- copies that a kernel makes first


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _copies(*tensors: torch.Tensor) -> list[int]:
    return [_nbytes(tensor) for tensor in tensors if not tensor.is_contiguous()]


def _contiguous_input(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/cuda/layer_norm_kernel.cu`: the input is made contiguous."""
    return _copies(call.tensors[0])


def _contiguous_pair(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    return _copies(*call.tensors[:2])


def _softmax_backward(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/cuda/SoftMax.cu`: gradient times result comes first."""
    gradient, result = call.tensors[:2]
    return (_nbytes(gradient), *_copies(result))


def _safe_softmax(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/transformers/attention.cpp`: which scores are masked, and which rows are so as a whole."""
    scores = call.tensors[0]
    return scores.numel(), scores.numel() // max(1, scores.size(call.args[1]))


# -- sorting and looking up


def _sort(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/cuda/Sort.cpp`, `SortStable.cu`."""
    tensor = call.tensors[0]
    given = call.kwargs.get("dim", next((arg for arg in call.args[1:] if type(arg) is int), -1))
    if tensor.dim() == 0 or not tensor.numel():
        return ()
    length, total = tensor.size(given), tensor.numel()
    if length <= 4096:
        return (length * _INDEX,)  # positions, copied into the result
    dense = tensor.stride(given) == 1
    copies = () if dense else (_nbytes(tensor), _nbytes(tensor), total * _INDEX)
    rows = total // length
    if rows == 1 or length >= 1_000_000:
        return (*copies, length * _INDEX, length * (tensor.element_size() + _INDEX))
    if rows < 128:
        return (*copies, total * _INDEX, total * _INDEX, total * (tensor.element_size() + _INDEX))
    return (*copies, total * _INDEX, total * (tensor.element_size() + _INDEX))


def _embedding_backward(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/cuda/Embedding.cu` and `EmbeddingBackwardKernel.cu`: many indices are sorted, and their rows
    summed in pieces of at most ten.
    """
    gradient, indices = call.tensors[:2]
    count, weights = indices.numel(), call.args[2]
    copies = _copies(gradient, indices)
    if count <= 3072 and not call.args[4]:
        return copies
    each = indices.element_size()
    segments = min(count, weights)
    pieces = count // 10 + segments
    width = max(_FLOAT, gradient.element_size()) * gradient.size(-1)
    return (
        *copies,
        *(count * each for _ in range(3)),  # sorted, their places, where segments begin
        _INDEX,
        *(segments * each for _ in range(2)),
        _INDEX,
        pieces * each,
        pieces * width,
    )


# -- attention


def _flash_backward(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`flash_attn/flash_api.cpp`, `mha_bwd`: gradients of the query are summed in float32, and grouped heads
    have gradients of their own first.
    """
    query, key = call.tensors[1:3]
    batch, heads, tokens, size = query.shape
    rows = batch * heads * _rounded(tokens, 128)
    wide = _rounded(size, 32 if size <= 128 else 64)
    grouped: tuple[int, ...] = ()
    if key.size(1) != heads:
        whole = batch * key.size(2) * heads * size * query.element_size()
        grouped = (whole, whole)
    return (rows * _FLOAT, rows * wide * _FLOAT, *grouped)


def _efficient_backward(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`attention_backward.cu`: the product of result and its gradient in float32, and its sums twice."""
    gradient = call.tensors[0]
    sums = gradient.numel() // max(1, gradient.size(-1)) * _FLOAT
    product = gradient.numel() * _FLOAT
    casts = (product, product) if gradient.dtype in _HALF else ()
    return (*casts, product, sums, sums)


def _rounded(number: int, to: int) -> int:
    return -(-number // to) * to


# -- comparisons and losses


def _is_close(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/TensorCompare.cpp`: both errors, and what `isfinite` makes of one."""
    tensor = call.tensors[0]
    flags = tensor.numel()
    if not tensor.dtype.is_floating_point:
        return (flags,)
    whole = _nbytes(tensor)
    return (flags, whole, whole, flags, whole, flags, flags)


def _loss(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/Loss.cpp`: the loss of each element, before it is reduced."""
    first, second, *_ = call.tensors
    reduction = call.args[2] if len(call.args) > 2 else call.kwargs.get("reduction", 1)
    if not reduction:
        return ()
    dtype = torch.promote_types(first.dtype, second.dtype)
    shape = torch.broadcast_shapes(first.shape, second.shape)  # type: ignore[no-untyped-call]  # torch's own
    each = torch.empty(shape, dtype=dtype, device="meta")
    return (_nbytes(each), *_staging(each, None, _PLAIN, dtype, gpu))


# -- drawing, distances


def _draws(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/Distributions.cpp` and `cuda/MultinomialKernel.cu`: a drawn number for each weight; with
    replacement copies of the weights, once as they are, once as shares, once summed up.
    """
    weights, count = call.tensors[0], call.args[1]
    again = call.args[2] if len(call.args) > 2 else call.kwargs.get("replacement", False)
    if again and count > 1:
        return (_nbytes(weights),) * 3
    return _nbytes(weights), 1, 1


def _distances(call: Call, gpu: DeviceProperties) -> Iterable[int]:
    """`native/Distance.cpp`: both sets of points, each with two numbers more."""
    return [
        points.numel() // max(1, points.size(-1)) * (points.size(-1) + 2) * points.element_size()
        for points in call.tensors[:2]
    ]


_RULES: dict[str, Rule] = {
    "_euclidean_dist": _distances,
    "multinomial": _draws,
    "logsumexp": _log_sum_exp,
    "native_layer_norm": _contiguous_input,
    "native_layer_norm_backward": _contiguous_pair,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _contiguous_pair,
    "_safe_softmax": _safe_softmax,
    "sort": _sort,
    "argsort": _sort,
    "embedding_dense_backward": _embedding_backward,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "allclose": _is_close,
    "mse_loss": _loss,
    "smooth_l1_loss": _loss,
    "huber_loss": _loss,
}
