"""Which operators CUDA's autocast runs in which type.

Source: `ATen/autocast_mode.h`, which every torch distribution carries (macros `AT_FORALL_*`; a test
compares), with `aten/src/ATen/autocast_mode.cpp` for the banned operator and
`aten/src/ATen/cudnn/AutocastRNN.cpp` for the recurrent layers. A name without a dot is the default overload.
`cudnn_convolution*` have policies too, but only cuDNN's own code calls them.
"""

from __future__ import annotations

from enum import Enum


class Policy(Enum):
    """What happens to the arguments before the operator runs."""

    LOWER = "lower_precision_fp"
    """Floats become the autocast type."""
    FP32 = "fp32"
    """Floats become float32."""
    FP32_OUT = "fp32_set_opt_dtype"
    """The optional `dtype` of the result becomes float32 unless it was given."""
    FP32_APPEND = "fp32_append_dtype"
    """The overload with a `dtype` runs, with float32."""
    PROMOTE = "promote"
    """Floats become the widest type among them: float32 or the autocast type."""
    BANNED = "banned"
    """Refused."""


APPENDED = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}
"""Overloads that take the result's type, for those of `FP32_APPEND`."""

BANNED_TEXT = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\nMany models use "
    "a sigmoid layer right before the binary cross entropy layer.\nIn this case, combine the two layers "
    "using torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss.  "
    "binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
)

RECURRENT = tuple(
    f"{cell}.{form}" for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")
)
"""On a GPU cuDNN runs these whole and autocast casts all it is given."""

POLICIES: dict[Policy, tuple[str, ...]] = {
    Policy.LOWER: (
        "_convolution.deprecated", "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc",
        "conv_transpose1d",
        "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu", "addmm", "addmv", "addr",
        "matmul",
        "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul",
        "linalg_multi_dot",
        "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell",
        "rnn_relu_cell",
        "_scaled_dot_product_flash_attention", "scaled_dot_product_attention",
    ),
    Policy.FP32: (
        "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal",
        "rsqrt", "sinh", "tan",
        "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm",
        "native_layer_norm", "rms_norm",
        "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity",
        "poisson_nll_loss",
        "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
        "smooth_l1_loss",
        "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
        "triplet_margin_loss",
        "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
        "logsumexp",
        "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d", "_upsample_nearest_exact2d",
        "upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
        "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bicubic2d_aa",
    ),
    Policy.FP32_OUT: (
        "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm",
        "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList",
    ),
    Policy.FP32_APPEND: tuple(APPENDED),
    Policy.PROMOTE: (
        "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put",
        "tensordot",
        "scatter_add",
    ),
    Policy.BANNED: ("binary_cross_entropy",),
}  # fmt: skip
