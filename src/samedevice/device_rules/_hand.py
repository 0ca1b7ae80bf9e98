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


def _fused(
    op: str, lists: str, message: str, lr: str = "lr must be on the same GPU device as the params"
) -> Row:
    """A fused optimizer whose learning rate is a tensor.

    No wrapper, and `state_steps` is looked at by nobody.
    """
    first, *others = lists.split()
    return Row(
        op,
        Check.UNCHECKED,
        order=(first, "state_steps") if "sgd" not in op else (first,),
        demands=(
            Demand(first, ("grad_scale",), "grad_scale must be on the same GPU device as the params"),
            Demand(first, ("found_inf",), "found_inf must be on the same GPU device as the params"),
            Demand(first, ("lr",), lr, host_passes=True),
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
        "bernoulli_.Tensor bernoulli.Tensor",
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
        "addcmul addcmul_ addcmul.out", Check.ITERATOR, "PointwiseOps.cpp, meta of addcmul: allow_cpu_scalars"
    ),
    *_family(
        "lerp.Tensor lerp_.Tensor lerp.Tensor_out",
        Check.ITERATOR,
        "Lerp.cpp, meta of lerp_Tensor: allow_cpu_scalars",
    ),
    *_family(
        "lerp.Scalar lerp_.Scalar lerp.Scalar_out",
        Check.ITERATOR,
        "Lerp.cpp, meta of lerp_Scalar: build_binary_op",
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
        then=Row("binary_cross_entropy_with_logits", Check.ITERATOR, order=("self", "weight", "pos_weight")),
    ),
    *_family(
        "dist logical_and logical_and_ logical_or logical_or_ logical_xor logical_xor_ _trilinear "
        "ldexp.Tensor ldexp_ allclose isclose soft_margin_loss copysign.Scalar",
        Check.ITERATOR,
        "Distance.cpp, BinaryOps.cpp, TensorCompare.cpp, Linear.cpp, Loss.cpp: made of binary operators",
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
    # -- operators that call another one
    *_family("stack _stack", Check.WRAPPER, "TensorShape.cpp, stack: calls cat", method="wrapper_CUDA_cat"),
    *_family(
        "mv",
        Check.WRAPPER,
        "Blas.cpp, mv_out: addmv_out into a result on vec's device",
        method="wrapper_CUDA_addmv_out_out",
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
        method="wrapper_CUDA_cat_out",
        order=("out", "tensors"),
    ),
    *_family(
        "mv.out",
        Check.WRAPPER,
        "Blas.cpp, mv_out: addmv_out with an empty vector on vec's device",
        method="wrapper_CUDA_addmv_out_out",
        order=("out", "vec", "self"),
        names=(("vec", "self"), ("self", "mat")),
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
        Check.WRAPPER,
        "ReduceOps.cpp, logcumsumexp_out: calls _logcumsumexp_out",
        method="wrapper_CUDA_out__logcumsumexp_out",
        order=("out", "self"),
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
    *_family(
        "all.all_out any.all_out",
        Check.ITERATOR_STRICT,
        "ReduceOps.cpp, all_out and any_out: a reduction's iterator",
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
        "self grads exp_avgs exp_avg_sqs max_exp_avg_sqs",
        "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout",
    ),
    _fused(
        "_fused_adamw_.tensor_lr",
        "self grads exp_avgs exp_avg_sqs max_exp_avg_sqs",
        "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout",
    ),
    _fused(
        "_fused_adagrad_.tensor_lr",
        "self grads state_sums",
        "params and grads must have same dtype, device, and layout",
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
