"""Arguments of operators, made meta tensors for their shapes, or CPU tensors for their values."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._meta_registrations as meta

from samedevice.runtime.state import (
    ASSUMED_FLOAT,
    CPU,
    META,
    VALUE_LIMIT,
    Memory,
    Operator,
    QuantizedMemory,
    carrier,
    memory_of,
    of_parts,
    parts_of,
    plain,
    raw_is_meta,
    record_of_parts,
    storage_of,
    value_of,
)
from samedevice.runtime.tracking.sync_batch_norm import SYNC_BATCH_NORM
from samedevice.runtime.tracking.wide_products import WIDE_PRODUCTS, WITHOUT_SHAPES

Tensor = torch.Tensor


def to_meta(value: Any) -> Any:
    """The argument with meta tensors for tensors; carriers are meta already."""
    if isinstance(value, Tensor):
        if raw_is_meta(value):
            return value
        if value.layout != torch.strided:
            return value.to("meta")
        return carrier(value.size(), value.stride(), value.dtype)
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return type(value)([to_meta(part) for part in value])
    return value


def to_value(value: Any) -> Any:
    """CPU stand-in of an argument: its value where known, else what is assumed, without memory of its own."""
    if isinstance(value, Tensor):
        record = memory_of(value)
        if record is None:
            return value if not raw_is_meta(value) else stand_in(value)
        if not record.virtual or record.__class__ is QuantizedMemory:
            return value
        if value.layout != torch.strided:
            return of_parts([to_value(part).contiguous() for part in parts_of(value)], value)
        known = value_of(value, record)
        return stand_in(value) if known is None else known
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return type(value)([to_value(part) for part in value])
    return value


def stand_in(like: torch.Tensor) -> torch.Tensor:
    """What an unknown tensor reads as; a large one takes no memory."""
    fill = ASSUMED_FLOAT if like.dtype.is_floating_point or like.dtype.is_complex else 0
    if like.numel() * like.element_size() <= VALUE_LIMIT:
        dense = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype)
        return dense.fill_(fill)
    return plain.full((), fill, dtype=like.dtype).expand(like.size())


def as_dtype(value: Any, dtype: torch.dtype) -> Any:
    """The argument in another type, if it is a tensor or a list of them."""
    if isinstance(value, (list, tuple)):
        return type(value)([as_dtype(part, dtype) for part in value])
    return value.to(dtype) if isinstance(value, Tensor) else value


def give_shadow(tensor: torch.Tensor) -> None:
    """Make sure that the memory of a small virtual tensor has bytes.

    Note [Large buffers]
    Programs reserve a buffer of gigabytes and work on small views of it: DeepSpeed's buckets of gradients
    have 5e8 elements unless one says otherwise. Such memory starts `blank`; the first small view of it that
    is overwritten gives it bytes, of which the system backs only those pages that are used. What touches more
    at once than may have values ends that, and it is unknown.
    """
    storage = storage_of(tensor)
    record = storage._sd
    if record.__class__ is Memory and record.virtual and record.shadow is None:
        record.shadow = (
            unbacked(storage.nbytes())
            if record.blank
            else plain.zeros(storage.nbytes(), dtype=torch.uint8).untyped_storage()
        )
        record.assumed = False


def unbacked(nbytes: int) -> torch.UntypedStorage:
    """Zeros that take memory when they are written."""
    return torch.frombuffer(
        mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype=torch.uint8
    ).untyped_storage()


def blank(tensor: torch.Tensor, value_limit: int) -> bool:
    """Whether this is a small part of memory that may get values part by part."""
    record = memory_of(tensor)
    return record is not None and record.blank and tensor.numel() * tensor.element_size() <= value_limit


def forget(tensor: torch.Tensor) -> None:
    """Something unknown was written into the tensor.

    In real host memory it reads as what is assumed, as far as values go.
    """
    record = memory_of(tensor)
    if record is not None and record.virtual:
        record.shadow = None
        record.blank = False
        for part in record.parts or ():
            own = part()
            if own is not None:
                own.shadow = None
    elif not raw_is_meta(tensor):
        if record is None:
            record = storage_of(tensor)._sd = Memory(CPU, virtual=False)
        record.assumed = True
        if tensor.numel() * tensor.element_size() <= VALUE_LIMIT:
            tensor.fill_(ASSUMED_FLOAT if tensor.dtype.is_floating_point or tensor.dtype.is_complex else 0)


def write_value(
    tensor: torch.Tensor, value: torch.Tensor | None, known: bool, assumed: bool, limit: int
) -> None:
    """Give a tensor the value that a collective left in it, with as many elements; none where it is None.

    `known`: of all that it was made of. Memory keeps values up to `limit` bytes, see Note [Values].
    """
    record = memory_of(tensor)
    if record is None or not record.virtual:
        if value is not None:
            tensor.copy_(value.view(tensor.size()))
        return
    whole = tensor.numel() * tensor.element_size() == storage_of(tensor).nbytes() <= limit
    if value is None or not known or (record.shadow is None and not whole and not record.blank):
        forget(tensor)
        record.assumed = True
        return
    give_shadow(tensor)
    mine = value_of(tensor, record)
    assert mine is not None, "it was given a shadow"
    mine.copy_(value.view(tensor.size()))
    record.assumed = assumed if whole else record.assumed or assumed


def pass_on_assumptions(
    op: Operator, tensors: Sequence[torch.Tensor], written: Sequence[torch.Tensor]
) -> None:
    """What is computed from assumed values is assumed, too.

    A tensor that is overwritten as a whole is what its sources are.
    """
    replaced = written[0] if op.overwrites and len(written) == 1 else None
    assumed = any(
        record.__class__ is Memory and record.assumed
        for t in tensors
        if t is not replaced
        for record in [record_of(t)]
    )
    for tensor in written:
        own = memory_of(tensor)
        if own is None:
            continue
        whole = tensor is replaced and tensor.numel() * tensor.element_size() == storage_of(tensor).nbytes()
        own.assumed = assumed or (own.assumed and not whole)


def replace_tensors(value: Any, moved: dict[int, torch.Tensor]) -> Any:
    """The argument with some tensors, named by `id`, replaced."""
    if isinstance(value, Tensor):
        return moved.get(id(value), value)
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return type(value)([replace_tensors(part, moved) for part in value])
    return value


def record_of(tensor: torch.Tensor) -> Any:
    """What the machine knows of the tensor's memory: a `Memory`, a `Helper` or None."""
    try:
        return storage_of(tensor)._sd
    except NotImplementedError:
        return record_of_parts(tensor)


def abstract(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the operator for its shapes only."""
    args = tuple([to_meta(value) for value in args])
    if kwargs:
        kwargs = {name: to_meta(value) for name, value in kwargs.items()}
        if kwargs.get("device") is not None:
            kwargs["device"] = META
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if "generator" in kwargs:
            kwargs["generator"] = None
    shapes = _SHAPES.get(op.func)
    plain.load_compiler()
    try:
        return op.func(*args, **kwargs) if shapes is None else shapes(*args, **kwargs)
    except AssertionError as error:  # some meta functions in Python assert what kernels check
        raise RuntimeError(str(error)) from None


def _grouped_mm(
    mat_a: torch.Tensor,
    mat_b: torch.Tensor,
    offs: Any = None,
    bias: Any = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    if mat_a.dtype not in (torch.float16, torch.float32) or mat_b.dtype != mat_a.dtype:
        result: torch.Tensor = torch.ops.aten._grouped_mm.default(mat_a, mat_b, offs, bias, out_dtype)
        return result
    made: torch.Tensor = meta._create_grouped_mm_output_tensor(  # type: ignore[no-untyped-call]
        # torch has no types there
        mat_a,
        mat_b,
        offs,
        out_dtype or mat_a.dtype,
    )
    return made


def _lstsq(a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    batch, (rows, columns) = a.shape[:-2], a.shape[-2:]
    sides = () if vector else b.shape[-1:]
    residuals = (*batch, *(sides or (1,))) if rows > columns else (0,)
    return (
        b.new_empty((*batch, columns, *sides)),
        b.new_empty(residuals),
        b.new_empty(0, dtype=torch.int64),
        b.new_empty(0),
    )


def _ctc_loss_backward(grad: torch.Tensor, log_probs: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


def _loss(input: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """What is reduced keeps the memory of a loss for each element."""
    shape = torch.broadcast_shapes(input.shape, target.shape)  # type: ignore[no-untyped-call]  # torch's own
    each = input.new_empty(shape, dtype=torch.promote_types(input.dtype, target.dtype))
    return each.resize_(()) if reduction else each


_ctc = torch.ops.aten._ctc_loss_backward
# Their meta functions refuse what CUDA accepts, or are missing. Source:
# aten/src/ATen/native/cuda/GroupedBlas.cpp, _grouped_mm_fallback; BatchLinearAlgebra.cpp,
# linalg_lstsq_out_info; cuda/LossCTC.cu, ctc_loss_backward_gpu_template. Loss.cpp, TORCH_META_FUNC(mse_loss).
_SHAPES: dict[Any, Callable[..., Any]] = {
    **({torch.ops.aten._grouped_mm.default: _grouped_mm} if hasattr(torch.ops.aten, "_grouped_mm") else {}),
    torch.ops.aten.linalg_lstsq.default: _lstsq,
    torch.ops.aten.mse_loss.default: _loss,
    **dict.fromkeys((_ctc.default, _ctc.Tensor), _ctc_loss_backward),
    **SYNC_BATCH_NORM,
    **WITHOUT_SHAPES,
}
ONLY_ON_CUDA: dict[Any, Callable[..., Any]] = {**SYNC_BATCH_NORM, **WIDE_PRODUCTS}
"""What computes an operator's values in place of the kernels that torch has for CUDA alone."""
