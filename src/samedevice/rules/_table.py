"""The device-rule table: rows written by hand where the declarations cannot tell, else derived from them."""

from __future__ import annotations

import functools

from samedevice.rules._declarations import declarations
from samedevice.rules._rows import Check, Row

_BY_HAND: dict[str, Row] = {}


def _register(*rows: Row) -> None:
    for row in rows:
        if row.op in _BY_HAND:
            raise ValueError(f"two rows for operator {row.op}")
        _BY_HAND[row.op] = row


_INDEXING = "aten/src/ATen/native/TensorAdvancedIndexing.cpp"

_register(
    *(Row(op, Check.INDEX, source=_INDEXING) for op in ("index.Tensor", "_unsafe_index.Tensor", "index.Tensor_out")),
    *(
        Row(op, Check.INDEX_PUT, source=_INDEXING)
        for op in ("index_put_", "index_put", "_index_put_impl_", "_unsafe_index_put", "index_put.out")
    ),
    *(
        Row(op, Check.MASKED_FILL, source="aten/src/ATen/native/cuda/Indexing.cu, masked_fill__cuda")
        for op in ("masked_fill_.Tensor", "masked_fill.Tensor", "masked_fill_.Scalar", "masked_fill.Scalar")
    ),
    *(
        Row(
            op,
            Check.WRAPPER,
            method="wrapper_CUDA__index_select",
            names=(("weight", "self"), ("indices", "index")),
            source="aten/src/ATen/native/Embedding.cpp: calls index_select",
        )
        for op in ("embedding",)
    ),
    *(
        Row(op, Check.FREE, source="aten/src/ATen/native/Copy.cpp: copies cross devices")
        for op in (
            "_to_copy",
            "copy_",
            "copy",
            "set_.source_Tensor",
            "set_.source_Storage",
            "set_.source_Storage_storage_offset",
            "resize_as_",
            "_copy_from",
            "_copy_from_and_resize",
            "lift_fresh",
            "lift",
            "_has_compatible_shallow_copy_type",
            "is_same_size",
            "_foreach_copy_",
        )
    ),
    *(
        Row(op, Check.ITERATOR_STRICT, source="aten/src/ATen/TensorIterator.h: build_ternary_op allows no CPU scalars")
        for op in ("lerp.Tensor", "lerp_.Tensor", "lerp.Scalar", "lerp_.Scalar")
    ),
    Row(
        "where.self",
        Check.ITERATOR,
        source="aten/src/ATen/native/TensorCompare.cpp: where moves 0-dim CPU values to the condition's device",
    ),
    *(
        Row(
            op,
            Check.WRAPPER,
            free=frozenset({"input_lengths", "target_lengths", "targets"}),
            source="aten/src/ATen/native/LossCTC.cpp: lengths are read on the host",
        )
        for op in ("_ctc_loss.Tensor", "_cudnn_ctc_loss.Tensor")
    ),
    Row(
        "_pack_padded_sequence",
        Check.WRAPPER,
        free=frozenset({"lengths"}),
        source="aten/src/ATen/native/PackedSequence.cpp: lengths must be on the host",
    ),
)


def rows_by_hand() -> dict[str, Row]:
    """The rows that were written by hand, by operator."""
    return dict(_BY_HAND)


@functools.cache
def row_for(op: str) -> Row:
    """The row of an operator.

    `op` is `namespace.name.overload` as the dispatcher prints it (`aten.mul.Tensor`). An operator that neither the
    declarations nor a row know is treated as strict: its tensors must share a device.
    """
    namespace, _, rest = op.partition(".")
    name = rest.removesuffix(".default")
    if namespace != "aten":
        return Row(op, Check.ITERATOR_STRICT, source="default: an operator of another library")
    if name in _BY_HAND:
        return _BY_HAND[name]
    declared = declarations().get(name)
    if declared is None:
        return Row(name, Check.ITERATOR, source="default: not declared")
    if not declared.checked:
        return Row(name, Check.ITERATOR)
    if not declared.cuda:
        return Row(name, Check.ITERATOR_STRICT, source="default: composite")
    return Row(name, Check.WRAPPER, method=_wrapper_name(name, structured=declared.structured))


def _wrapper_name(name: str, *, structured: bool) -> str:
    # torchgen/dest/register_dispatch_key.py: `wrapper_CUDA_` + overload + `_` + name, or for structured operators
    # `wrapper_CUDA_` + name_overload.
    base, _, overload = name.partition(".")
    if structured:
        return f"wrapper_CUDA_{base}_{overload}" if overload else f"wrapper_CUDA_{base}"
    return f"wrapper_CUDA_{overload}_{base}"
