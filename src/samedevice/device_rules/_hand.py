"""Rows that torch's declarations cannot tell, each with the place in torch's sources that does.

Where an operator only calls another one, its row names the other one's wrapper, because that is what the
error prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samedevice.device_rules._rows import Check, Demand, Row

_NATIVE = "aten/src/ATen/native/"


def _family(operators: str, check: Check, source: str, **more: Any) -> Iterable[Row]:
    return [
        Row(name, check, source=source if source.startswith("native_functions") else _NATIVE + source, **more)
        for name in operators.split()
    ]


def _same_type(other: str, suffix: str, on: str | None) -> Demand:
    text = f"Input type ({{input_type}}) and {other} type ({{{other}_type}}) should be the same{suffix}"
    return Demand("input", (other,), text, kinds=True, on=on)


_MKLDNN = " or input should be a MKLDNN tensor and {0} is a dense tensor"
_CONVOLUTION = (
    _same_type("weight", _MKLDNN.format("weight"), "cpu"),
    _same_type("bias", _MKLDNN.format("bias"), "cpu"),
    _same_type("weight", "", None),
    _same_type("bias", "", None),
)


_ALIKE = "{} must have same dtype, device, and layout"
"""Of the fused optimizers that are told which lists they have."""


def _fused(
    op: str,
    lists: str,
    message: str,
    lr: str = "lr must be on the same GPU device as the params",
    largest: str | None = None,
) -> Row:
    """A fused optimizer whose learning rate is a tensor.

    No wrapper, and `state_steps` is looked at by nobody. `largest` is said where the largest squares are
    kept, too.
    """
    first, *others = lists.split()
    whole = (first, *others, "max_exp_avg_sqs")
    return Row(
        op,
        Check.UNCHECKED,
        order=(first, "state_steps") if "sgd" not in op else (first,),
        demands=(
            Demand(first, ("grad_scale",), "grad_scale must be on the same GPU device as the params"),
            Demand(first, ("found_inf",), "found_inf must be on the same GPU device as the params"),
            Demand(first, ("lr",), lr, host_passes=True),
            *([] if largest is None else [Demand(first, whole, largest, beside="max_exp_avg_sqs")]),
            Demand(first, (first, *others), message),
        ),
        source=_NATIVE
        + f"cuda/{_FUSED_FILES[op.partition('.')[0]]}: lr on the host is read there; state_steps is not "
        "checked",
    )


_FUSED_FILES = {
    "_fused_adam_": "FusedAdamKernel.cu",
    "_fused_adamw_": "FusedAdamWKernel.cu",
    "_fused_adagrad_": "FusedAdagradKernel.cu",
    "_fused_sgd_": "FusedSgdKernel.cu",
}

_ASSERTION = (
    'iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/native/cuda/Loops.cuh":109'
    ", please report a bug to PyTorch. argument {place}: expected a CUDA device but found cpu"
)
"""Of `gpu_kernel`, which unlike `gpu_kernel_with_scalars` takes no CPU scalar; the line is that of torch
2.11.
"""


def _same_device(
    operators: str, function: str, source: str, *, result: str = "result", swapped: bool = False
) -> Iterable[Row]:
    """Variants with `out=` of linear algebra that call `checkSameDevice` before anything else."""
    first, second = ("input", "out") if swapped else ("out", "input")
    rows: list[Row] = []
    for operator, own in (each.split("/") for each in operators.split()):
        given = {"input": own, "out": "out"}
        text = (
            f"{function}: Expected {result} and input tensors to be on the same device, but got {result} on "
            f"{{{given[first]}}} and input on {{{given[second]}}}"
        )
        demand = Demand(own, ("out",), text)
        rows += _family(operator, Check.FREE, f"{source}: checkSameDevice", demands=(demand,))
    return rows


def _quantile(name: str) -> Demand:
    return Demand("self", (name,), f"quantile() {name} tensor must be on the same device as the input tensor")


def _window(operators: str, function: str) -> Iterable[Row]:
    text = (
        f"{function} input and window must be on the same device but got self on {{self}} and window on "
        "{window}"
    )
    return _family(
        operators,
        Check.FREE,
        f"SpectralOps.cpp, {function}",
        demands=(Demand("self", ("window",), text),),
    )


ROWS: tuple[Row, ...] = (
    # -- indexing
    *_family(
        "index.Tensor _unsafe_index.Tensor index.Tensor_out",
        Check.INDEX,
        "TensorAdvancedIndexing.cpp, meta of index",
    ),
    *_family(
        "index_put_ index_put _index_put_impl_ _unsafe_index_put index_put.out",
        Check.INDEX_PUT,
        "TensorAdvancedIndexing.cpp, _index_put_impl_",
    ),
    *_family(
        "masked_fill_.Scalar masked_fill.Scalar",
        Check.FREE,
        "cuda/Indexing.cu, masked_fill__cuda",
        demands=(
            Demand(
                "self",
                ("mask",),
                "expected self and mask to be on the same device, but got mask on {mask} and self on {self}",
            ),
        ),
    ),
    *_family(
        "masked_fill_.Tensor masked_fill.Tensor",
        Check.FREE,
        "cuda/Indexing.cu, masked_fill__cuda: the value is read by item(), wherever it is",
        demands=(
            Demand("self", ("mask", "value"), "masked_fill_: Expected inputs to be on same device", on="cpu"),
            Demand(
                "self",
                ("mask",),
                "expected self and mask to be on the same device, but got mask on {mask} and self on {self}",
            ),
        ),
    ),
    *_family(
        "index_fill_.int_Scalar index_fill_.int_Tensor index_fill.int_Scalar index_fill.int_Tensor",
        Check.ITERATOR_STRICT,
        "TensorAdvancedIndexing.cpp, index_fill_: an iterator over self and index; a tensor value is read "
        "by item()",
        free=frozenset({"value"}),
    ),
    *_family(
        "embedding",
        Check.WRAPPER,
        "Embedding.cpp, embedding_symint: calls index_select",
        method="wrapper_CUDA__index_select",
        names=(("weight", "self"), ("indices", "index")),
    ),
    *_family(
        "masked_scatter",
        Check.WRAPPER,
        "TensorAdvancedIndexing.cpp, masked_scatter: calls masked_scatter_",
        method="wrapper_CUDA__masked_scatter_",
    ),
    *_family(
        "put", Check.WRAPPER, "TensorAdvancedIndexing.cpp, put: calls put_", method="wrapper_CUDA__put_"
    ),
    *_family(
        "searchsorted.Tensor searchsorted.Scalar",
        Check.WRAPPER,
        "BucketizationUtils.h, searchsorted_pre_check: sorter comes after the `*`, so that no wrapper sees "
        "it",
        then=Row(
            "searchsorted",
            Check.FREE,
            demands=(
                Demand(
                    "sorted_sequence",
                    ("sorter",),
                    "torch.searchsorted(): sorter and boundary tensors should have same device type, but got "
                    "sorter tensor device type {sorter} and input value tensor device type {sorted_sequence}",
                ),
            ),
        ),
    ),
    # -- copies and what reads a number
    *_family(
        "_to_copy copy_ copy _copy_from _copy_from_and_resize copy_sparse_to_sparse_ _foreach_copy_ "
        "_foreach_copy",
        Check.FREE,
        "Copy.cpp, copy_impl: copies cross devices",
    ),
    *_family(
        "slice_scatter select_scatter diagonal_scatter as_strided_scatter",
        Check.FREE,
        "TensorShape.cpp, slice_scatter and kin: clone, then copy_ into a view",
    ),
    *_family(
        "lift_fresh lift resize_as_ _has_compatible_shallow_copy_type is_same_size is_set_to "
        "_has_same_storage_numel",
        Check.FREE,
        "TensorProperties.cpp, Resize.cpp: shapes and addresses only",
    ),
    *_family(
        "set_.source_Tensor",
        Check.FREE,
        "Resize.h, checkSetStorage",
        demands=(
            Demand(
                "self",
                ("source",),
                'Attempted to set the storage of a tensor on device "{self}" to a storage on different '
                'device "{source}".  This is no '
                "longer allowed; the devices must match.",
            ),
        ),
    ),
    *_family("fill_.Tensor fill.Tensor", Check.FREE, "Fill.cpp, fill_: the 0-dim value is read by item()"),
    *_family(
        "linspace.Tensor_Tensor linspace.Tensor_Scalar linspace.Scalar_Tensor logspace.Tensor_Tensor "
        "logspace.Tensor_Scalar logspace.Scalar_Tensor",
        Check.FREE,
        "RangeFactories.cpp, linspace: the 0-dim ends are read by item()",
    ),
    *_family(
        "bernoulli_.Tensor bernoulli.Tensor bernoulli.out",
        Check.FREE,
        "cuda/DistributionTemplates.h, bernoulli_kernel: p moves to self's device",
    ),
    # -- TensorIterator's exceptions
    *_family(
        "where.self where.self_out",
        Check.SCALARS_MOVE,
        "TensorCompare.cpp, where_self_out: 0-dim tensors move to the first device that is not the host",
    ),
    *_family(
        "addcdiv addcdiv_ addcdiv.out",
        Check.ITERATOR_STRICT,
        "PointwiseOps.cpp: build_ternary_op allows no CPU scalars",
    ),
    *_family(
        "addcmul addcmul_ addcmul.out",
        Check.ITERATOR,
        "cuda/PointwiseOpsKernel.cu, addcmul_cuda_kernel: takes tensor2 as CPU scalar (torch 2.6 none)",
        scalars=(
            (
                "self",
                "CPU Scalar support for self argument is not supported when calling addcmul on CUDA tensors.",
            ),
            (
                "tensor1",
                "CPU Scalar support for tensor1 argument is not supported when calling addcmul on CUDA "
                "tensors. However, CPU Scalar support for tensor2 is supported, please swap your tensor1 "
                "and tensor2 terms.",
            ),
        ),
    ),
    *_family(
        "lerp.Tensor lerp_.Tensor lerp.Tensor_out lerp.Scalar lerp_.Scalar lerp.Scalar_out",
        Check.ITERATOR,
        "Lerp.cpp: iterators that allow CPU scalars; cuda/Lerp.cu: gpu_kernel takes none but the weight",
        scalars=(("self", _ASSERTION), ("end", _ASSERTION)),
    ),
    *_family(
        "smooth_l1_loss smooth_l1_loss.out",
        Check.ITERATOR,
        "Loss.cpp: an iterator that allows CPU scalars; cuda/BinaryMiscOpsKernels.cu: gpu_kernel takes none",
        scalars=(("self", _ASSERTION), ("target", _ASSERTION)),
    ),
    *_family(
        "mse_loss mse_loss.out",
        Check.ITERATOR,
        "Loss.cpp, mse_loss_out: compares input and target, when the iterator is there",
        then=Row(
            "mse_loss",
            Check.FREE,
            demands=(
                Demand(
                    "self",
                    ("target",),
                    "Expected all tensors to be on the same device, but found at least two devices, {self} "
                    "and {target}!",
                ),
            ),
        ),
    ),
    *_family(
        "clamp.Tensor_out",
        Check.ITERATOR_STRICT,
        "TensorCompare.cpp, meta of clamp_Tensor: CLAMP_CONFIG allows no CPU scalars",
    ),
    *_family("rsub.Tensor", Check.ITERATOR, "BinaryOps.cpp, rsub: sub(other, self)", order=("other", "self")),
    *_family(
        "binary_cross_entropy",
        Check.ITERATOR_STRICT,
        "cuda/Loss.cu, binary_cross_entropy_out_cuda: an iterator over loss, input and target; then "
        "loss.mul_(weight)",
        free=frozenset({"weight"}),
        then=Row("binary_cross_entropy", Check.ITERATOR, order=("self", "weight")),
    ),
    *_family(
        "binary_cross_entropy_with_logits",
        Check.ITERATOR,
        "Loss.cpp, binary_cross_entropy_with_logits: (1 - target).mul_(input) comes first",
        order=("target", "self"),
        result="target",
        then=Row("binary_cross_entropy_with_logits", Check.ITERATOR, order=("self", "weight", "pos_weight")),
    ),
    *_family(
        "dist logical_and_ logical_or_ logical_xor_ ldexp.Tensor ldexp_ allclose isclose copysign.Scalar",
        Check.ITERATOR,
        "Distance.cpp, BinaryOps.cpp, TensorCompare.cpp: made of binary operators",
    ),
    *_family(
        "logical_and logical_or logical_xor soft_margin_loss",
        Check.ITERATOR,
        "BinaryOps.cpp, comparison_op; Loss.cpp, soft_margin_loss: write into a result on the first "
        "one's device",
        result="self",
    ),
    *_family(
        "_foreach_addcdiv.Scalar _foreach_addcdiv.ScalarList _foreach_addcdiv_.Scalar "
        "_foreach_addcdiv_.ScalarList _foreach_addcdiv.Tensor _foreach_addcdiv_.Tensor",
        Check.ITERATOR_STRICT,
        "ForeachUtils.h, convert_tensor_to_scalar_list; addcdiv does the work when devices differ",
        free=frozenset({"scalars"}),
    ),
    *_family(
        "_foreach_addcmul.Tensor _foreach_addcmul_.Tensor",
        Check.ITERATOR,
        "ForeachUtils.h, convert_tensor_to_scalar_list; addcmul does the work when devices differ",
        free=frozenset({"scalars"}),
    ),
    *_family(
        "_foreach_add.Tensor _foreach_add_.Tensor",
        Check.ITERATOR,
        "cuda/ForeachBinaryOpScalarTensor.cu, foreach_binary_op; test/test_foreach.py, "
        "test_0dim_tensor_overload_exception",
        demands=(Demand("self", ("other",), "scalar tensor expected to be on {self} but is on {other}"),),
    ),
    *_family(
        "_foreach_mul.Tensor _foreach_mul_.Tensor _foreach_div.Tensor _foreach_div_.Tensor",
        Check.ITERATOR,
        "cuda/ForeachBinaryOpScalarTensor.cu: mul and div read a scalar on the host, test/test_foreach.py",
    ),
    *(
        row
        for plain, called in (
            ("clamp_min", "clamp_min"),
            ("clamp_max", "clamp_max"),
            ("maximum", "clamp_min"),
            ("minimum", "clamp_max"),
        )
        for in_place in ("", "_")
        for row in _family(
            f"_foreach_{plain}{in_place}.List",
            Check.WRAPPER,
            f"ForeachOpsKernels.cpp: {called}{in_place} does the work when devices differ",
            method=f"wrapper_CUDA_{called}{in_place}_Tensor",
            order=("self", "other"),
            names=(("other", called.removeprefix("clamp_")),),
        )
    ),
    # -- operators that call another one
    *_family("stack _stack", Check.WRAPPER, "TensorShape.cpp, stack: calls cat", method="wrapper_CUDA_cat"),
    *_family(
        "mv",
        Check.WRAPPER,
        "Blas.cpp, mv: addmv_ on a result on vec's device",
        method="wrapper_CUDA_addmv_",
        order=("vec", "self"),
        names=(("self", "mat"),),
    ),
    *_family(
        "addr_", Check.WRAPPER, "LinearAlgebra.cpp, addr_: calls addr_out", method="wrapper_CUDA_out_addr_out"
    ),
    *_family(
        "complex",
        Check.WRAPPER,
        "TensorFactories.cpp, complex: calls complex_out",
        method="wrapper_CUDA_out_complex_out",
    ),
    *_family(
        "polar",
        Check.WRAPPER,
        "TensorFactories.cpp, polar: calls polar_out",
        method="wrapper_CUDA_out_polar_out",
    ),
    *_family(
        "native_batch_norm",
        Check.WRAPPER,
        "Normalization.cpp, _batch_norm_impl_index: cudnn takes inputs of three dimensions and more",
        method="wrapper_CUDA__native_batch_norm",
        deep_method="wrapper_CUDA__cudnn_batch_norm",
        deep_needs=frozenset({"weight", "bias"}),
    ),
    *_family(
        "_native_batch_norm_legit_no_training",
        Check.WRAPPER,
        "Normalization.cpp, _batch_norm_legit_no_training: calls _native_batch_norm_legit",
        method="wrapper_CUDA___native_batch_norm_legit",
    ),
    *_family(
        "convolution _convolution convolution_overrideable",
        Check.WRAPPER,
        "Convolution.cpp, check_input_same_type_as_parameters; between GPUs cudnn_convolution's wrapper, "
        "then output.add_(bias)",
        method="wrapper_CUDA__cudnn_convolution",
        names=(("input", "self"),),
        free=frozenset({"bias"}),
        demands=_CONVOLUTION,
        then=Row("convolution", Check.ITERATOR_STRICT, order=("input", "bias")),
    ),
    *_family(
        "cholesky_solve",
        Check.WRAPPER,
        "LinearAlgebraUtils.h, linearSolveCheckInputs",
        demands=(
            Demand(
                "self",
                ("input2",),
                "Expected b and A to be on the same device, but found b on {self} and A on {input2} instead.",
            ),
        ),
    ),
    *_family(
        "block_diag",
        Check.FREE,
        "TensorShape.cpp, block_diag",
        demands=(
            Demand(
                "tensors",
                ("tensors",),
                "torch.block_diag: input tensors must all be on the same device. Input 0 is on device {0} "
                "and input {position} is on device {1}",
            ),
        ),
    ),
    *_family(
        "stack.out _stack.out",
        Check.WRAPPER,
        "TensorShape.cpp, stack_out: calls cat_out",
        method="wrapper_CUDA_cat_out_out",
        order=("out", "tensors"),
    ),
    *_family(
        "linear.out",
        Check.WRAPPER,
        "Linear.cpp, linear_out: calls matmul_out, which calls mm_out",
        method="wrapper_CUDA_mm_out_out",
        order=("out", "input", "weight", "bias"),
        names=(("input", "self"), ("weight", "mat2")),
    ),
    *_family(
        "mv.out",
        Check.WRAPPER,
        "Blas.cpp, mv_out: addmv_out with the result as self, where it has the right size",
        method="wrapper_CUDA_addmv_out_out",
        order=("out", "self", "vec"),
        names=(("self", "mat"),),
    ),
    *_family(
        "softmax.int_out",
        Check.WRAPPER,
        "SoftMax.cpp, softmax_out: calls _softmax_out",
        method="wrapper_CUDA__softmax_out_out",
        order=("out", "self"),
    ),
    *_family(
        "log_softmax.int_out",
        Check.WRAPPER,
        "SoftMax.cpp, log_softmax_out: calls _log_softmax_out",
        method="wrapper_CUDA__log_softmax_out_out",
        order=("out", "self"),
    ),
    *_family(
        "logcumsumexp.out",
        Check.FREE,
        "ReduceOps.cpp, logcumsumexp_out: check_scalar_type_device_layout_equal",
        demands=(Demand("self", ("out",), "expected device {self} but found {1}"),),
    ),
    *_family(
        "cummax.out cummin.out",
        Check.FREE,
        "ReduceOps.cpp, cummax_out, cummin_out: check_scalar_type_device_layout_equal",
        demands=(Demand("self", ("values", "indices"), "expected device {self} but found {1}"),),
    ),
    *_family(
        "min.unary_out max.unary_out",
        Check.FREE,
        "ReduceAllOps.cpp, min_unary_out, max_unary_out",
        demands=(
            Demand(
                "self",
                ("out",),
                "Expected self.device() == out.device() to be true, but got false.  (Could this error "
                "message be improved?  If so, please report an enhancement request to PyTorch.)",
            ),
        ),
    ),
    *_family(
        "sort.values",
        Check.WRAPPER,
        "Sorting.cpp, sort_out: calls sort.values_stable",
        method="wrapper_CUDA_sort_out_values_stable",
        order=("values", "indices", "self"),
    ),
    *_family(
        "unbind_copy.int_out split_copy.Tensor_out",
        Check.FREE,
        "TensorShape.cpp, split_copy_Tensor_out: compares each result",
        demands=(Demand("self", ("out",), "Expected out tensor to have device {0}, but got {1} instead"),),
    ),
    *_family(
        "vdot.out",
        Check.FREE,
        "Blas.cpp, vdot_out",
        demands=(
            Demand(
                "out",
                ("self", "other"),
                "vdot: Expected the output and input tensors to be on the same device, but got the output "
                "tensor on {out}, the 'input' tensor on {self}, and the 'other' tensor on {other}",
            ),
        ),
    ),
    *_family(
        "dot.out",
        Check.FREE,
        "Blas.cpp, dot_out",
        demands=(
            Demand(
                "out",
                ("self", "tensor"),
                "dot: Expected the output and input tensors to be on the same device, but got the output "
                "tensor on {out}, the 'input' tensor on {self}, and the 'other' tensor on {tensor}",
            ),
        ),
    ),
    *_family(
        "mode.values",
        Check.FREE,
        "TensorCompare.cpp, mode_out",
        demands=(
            Demand("self", ("values",), "expected device '{self}' but got '{values}' for values output"),
            Demand("self", ("indices",), "expected device '{self}' but got '{indices}' for indices output"),
        ),
    ),
    # -- composites that compare devices before anything is computed
    *_family(
        "meshgrid meshgrid.indexing",
        Check.FREE,
        "TensorShape.cpp, meshgrid",
        demands=(Demand("tensors", ("tensors",), "meshgrid expects all tensors to have the same device"),),
    ),
    *_family(
        "take_along_dim take_along_dim.out",
        Check.FREE,
        "TensorAdvancedIndexing.cpp, _take_along_dim_helper",
        demands=(
            Demand(
                "self",
                ("indices", "out"),
                "Expected tensor to have {0} Device, but got tensor with {1} Device (while checking "
                "arguments for torch.take_along_dim():)",
            ),
        ),
    ),
    *_family(
        "inner inner.out",
        Check.FREE,
        "Linear.cpp, inner: checkDeviceType",
        demands=(
            Demand(
                "self",
                ("out", "other"),
                "Expected tensor to have {kind} DeviceType, but got tensor with {other_kind} DeviceType "
                "(while checking arguments for inner())",
                kinds=True,
            ),
        ),
    ),
    *_family(
        "gradient.tensorarray gradient.tensorarrayint",
        Check.FREE,
        "ReduceOps.cpp, pre_check_gradient",
        demands=(
            Demand(
                "self",
                ("spacing",),
                "torch.gradient expected each tensor to be on the same device, but got devices {0} and {1}!",
            ),
        ),
    ),
    *_window("stft stft.center", "stft"),
    *_window("istft", "istft"),
    *_family(
        "linalg_multi_dot linalg_multi_dot.out",
        Check.FREE,
        "LinearAlgebra.cpp, multi_dot_impl",
        demands=(
            Demand(
                "tensors",
                ("tensors",),
                "multi_dot(): all tensors must be on the same device but tensor 0 is on {0} and tensor "
                "{position} on {1}",
            ),
            Demand("tensors", ("out",), "multi_dot(): expected out tensor to be on device {0} but got {1}"),
        ),
    ),
    *_same_device("cholesky_solve.out/self", "cholesky_solve", "BatchLinearAlgebra.cpp, cholesky_solve_out"),
    *_same_device(
        "linalg_pinv.out/self linalg_pinv.out_rcond_tensor/self linalg_pinv.atol_rtol_tensor_out/self "
        "linalg_pinv.atol_rtol_float_out/self",
        "linalg.pinv",
        "LinearAlgebra.cpp, linalg_pinv_out",
    ),
    *_same_device(
        "linalg_matrix_power.out/self matrix_power.out/self",
        "matrix_power",
        "LinearAlgebra.cpp, linalg_matrix_power_impl",
    ),
    *_same_device(
        "linalg_matrix_norm.out/self linalg_matrix_norm.str_ord_out/self",
        "linalg.matrix_norm",
        "LinearAlgebra.cpp, linalg_matrix_norm_out",
        swapped=True,
    ),
    *_same_device(
        "linalg_norm.out/self linalg_norm.ord_str_out/self",
        "linalg.norm",
        "LinearAlgebra.cpp, linalg_norm_out",
        swapped=True,
    ),
    *_same_device(
        "linalg_cond.out/self linalg_cond.p_str_out/self", "linalg.cond", "LinearAlgebra.cpp, linalg_cond_out"
    ),
    *_same_device("linalg_tensorinv.out/self", "tensorinv", "LinearAlgebra.cpp, linalg_tensorinv_out"),
    *_same_device("linalg_tensorsolve.out/self", "tensorsolve", "LinearAlgebra.cpp, linalg_tensorsolve_out"),
    *_same_device(
        "linalg_vecdot.out/x", "linalg.vecdot", "BatchLinearAlgebra.cpp, linalg_vecdot_out", swapped=True
    ),
    *_same_device(
        "linalg_matrix_rank.out/self linalg_matrix_rank.out_tol_tensor/input "
        "linalg_matrix_rank.atol_rtol_float_out/self linalg_matrix_rank.atol_rtol_tensor_out/input",
        "torch.linalg.matrix_rank",
        "LinearAlgebra.cpp, matrix_rank_impl",
    ),
    *_family(
        "special_ndtr.out",
        Check.FREE,
        "UnaryOps.cpp, special_ndtr_out",
        demands=(
            Demand(
                "self",
                ("out",),
                "Expected all tensors to be on the same device, but found at least two devices, {self} and "
                "{out}!",
            ),
        ),
    ),
    *_family(
        "quantile quantile.out nanquantile nanquantile.out",
        Check.FREE,
        "Sorting.cpp, quantile_checks and quantile_out_impl",
        demands=(_quantile("q"), _quantile("out")),
    ),
    *_family(
        "quantile.scalar_out nanquantile.scalar_out",
        Check.FREE,
        "Sorting.cpp, quantile_out_impl",
        demands=(_quantile("out"),),
    ),
    *_family(
        "tensordot.out",
        Check.FREE,
        "Linear.cpp, tensordot_out: after the product of both",
        demands=(
            Demand(
                "self",
                ("out",),
                "tensordot: Expected the output and input tensors to be on the same device, but got the "
                "output tensor on {out}, input tensor a on {self}, and input tensor b on {other}",
            ),
        ),
    ),
    *_family(
        "ldexp.out copysign.Scalar_out deg2rad.out rad2deg.out",
        Check.ITERATOR,
        "BinaryOps.cpp, UnaryOps.cpp: mul_out, copysign_out",
    ),
    *_family(
        "segment_reduce",
        Check.WRAPPER,
        "SegmentReduce.cpp, segment_reduce_kernel: lengths and offsets come after the `*`, so that no "
        "wrapper sees them",
        then=Row(
            "segment_reduce",
            Check.UNCHECKED,
            order=("data", "indices"),
            demands=tuple(
                Demand(
                    "data",
                    (argument,),
                    f"Expected data.get_device() == {argument}_value.get_device() to be true, but got "
                    "false.  (Could this error message be "
                    "improved?  If so, please report an enhancement request to PyTorch.)",
                )
                for argument in ("offsets", "lengths")
            ),
        ),
    ),
    # -- lengths on the host
    *_family(
        "_ctc_loss.Tensor",
        Check.WRAPPER,
        "LossCTC.cpp, ctc_loss: lengths are read on the host; cudnn takes int32 targets from there",
        method="wrapper_CUDA___ctc_loss",
        free=frozenset({"input_lengths", "target_lengths"}),
        host=frozenset({("targets", "int32")}),
    ),
    *_family(
        "_cudnn_ctc_loss _cudnn_ctc_loss.Tensor _use_cudnn_ctc_loss _use_cudnn_ctc_loss.Tensor "
        "miopen_ctc_loss miopen_ctc_loss.Tensor _use_miopen_ctc_loss _use_miopen_ctc_loss.Tensor",
        Check.FREE,
        "native_functions.yaml: log_probs is expected to be on CUDA while targets is expected to be on CPU",
    ),
    *_family(
        "_pack_padded_sequence",
        Check.FREE,
        "PackedSequence.cpp, _pack_padded_sequence",
        demands=(
            Demand(
                "",
                ("lengths",),
                "'lengths' argument should be a 1D CPU int64 tensor, but got {dim}D {1} Long tensor",
            ),
        ),
    ),
    *_family(
        "tensor_split.tensor_indices_or_sections",
        Check.FREE,
        "TensorShape.cpp, tensor_split",
        demands=(
            Demand(
                "",
                ("tensor_indices_or_sections",),
                "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {1}",
            ),
        ),
    ),
    # -- cudnn's recurrent networks
    *_family(
        "_cudnn_rnn",
        Check.UNCHECKED,
        "cudnn/RNN.cpp, _cudnn_rnn: check_attributes of RNN.h looks at hidden states and weights; the rest "
        "is not checked",
        order=("input", "weight_buf", "dropout_state"),
        demands=(
            Demand(
                "input",
                ("hx", "cx"),
                "Input and hidden tensors are not at the same device, found input tensor at {0} and hidden "
                "tensor at {1}",
            ),
            Demand(
                "input",
                ("weight",),
                "Input and parameter tensors are not at the same device, found input tensor at {0} and "
                "parameter tensor at {1}",
            ),
        ),
    ),
    # -- nothing looks
    *_family(
        "_efficient_attention_backward _flash_attention_backward "
        "_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention_backward",
        Check.UNCHECKED,
        "native_functions.yaml: NoCheck; transformers/cuda/attention_backward.cu compares no devices; "
        "dropout's seed may be on the host",
        free=frozenset({"philox_seed", "philox_offset", "rng_state", "unused"}),
    ),
    _fused(
        "_fused_adam_.tensor_lr",
        "self grads exp_avgs exp_avg_sqs",
        _ALIKE.format("params, grads, exp_avgs, and exp_avg_sqs"),
        largest=_ALIKE.format("params, grads, exp_avgs, exp_avg_sqs, and max_exp_avg_sqs"),
    ),
    _fused(
        "_fused_adamw_.tensor_lr",
        "self grads exp_avgs exp_avg_sqs",
        _ALIKE.format("params, grads, exp_avgs, and exp_avg_sqs"),
        largest=_ALIKE.format("params, grads, exp_avgs, exp_avg_sqs, and max_exp_avg_sqs"),
    ),
    _fused(
        "_fused_adagrad_.tensor_lr",
        "self grads state_sums",
        _ALIKE.format("params and grads"),
    ),
    _fused(
        "_fused_sgd_.tensor_lr",
        "self grads momentum_buffer_list",
        "Expected at::native::check_fast_path_restrictions({{params, grads, momentum_buffer_list}}) to be "
        "true, but got false.  "
        "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
        "found_inf must be on the same GPU device as the params",
    ),
    *_family(
        "_fused_adam_ _fused_adamw_ _fused_adagrad_ _fused_sgd_",
        Check.WRAPPER,
        "cuda/FusedAdamKernel.cu and kin: grad_scale and found_inf come after the `*`, so that no wrapper "
        "sees them, nor the kernel",
        free=frozenset({"grad_scale", "found_inf"}),
        then=Row("_fused_adam_", Check.UNCHECKED, order=("self", "grad_scale", "found_inf")),
    ),
)
