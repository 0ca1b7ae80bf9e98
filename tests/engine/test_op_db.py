"""A choice of torch's operator database: the machine answers what CPU torch answers. `python -m
evidence op-db-sweep` runs all of it.
"""

from __future__ import annotations

import pytest

pytest.importorskip("expecttest", reason="torch's own test helpers import it")

import torch

from evidence.engine import op_cases  # only when its imports are there
from samedevice.runtime import VirtualMachine

CHOICE = """
__getitem__ __radd__ abs add addcmul addmm all allclose amax any arange argmax argsort as_strided baddbmm
bernoulli bitwise_and
bmm broadcast_to bucketize cat cdist chunk clamp clone contiguous copysign corrcoef cov cumsum diag diagonal
diff
div.floor_rounding dot einsum empty_like equal exp expand eye fft.fft flatten float floor_divide full gather
index_add index_put
index_select isclose item kthvalue lerp linalg.inv linalg.norm linalg.qr linalg.svd linspace log_softmax
log_softmax.with_dtype
logical_and logsumexp masked_fill masked_scatter masked_select matmul max.reduction_with_dim mean median
meshgrid.list_of_tensors
min.binary mode movedim multinomial nan_to_num narrow native_layer_norm new_zeros nn.functional.batch_norm
nn.functional.binary_cross_entropy_with_logits nn.functional.conv2d nn.functional.cross_entropy
nn.functional.dropout
nn.functional.embedding nn.functional.gelu nn.functional.interpolate.bilinear nn.functional.layer_norm
nn.functional.linear
nn.functional.max_pool2d nn.functional.one_hot nn.functional.pad.constant nn.functional.rms_norm
nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.unfold nonzero normal ones outer
permute pow prod
put quantile rand_like randint randn repeat repeat_interleave reshape roll rsub scatter scatter_reduce.sum
searchsorted select
softmax softmax.with_dtype sort split squeeze stack std stft sub sum take_along_dim to topk trapz tril unbind
unfold unique
unsafe_chunk unsqueeze var_mean vdot view where zeros
""".split()


def test_the_choice_names_operators():
    assert [name for name in CHOICE if name not in op_cases.operators()] == []


@pytest.mark.parametrize("name", CHOICE)
@pytest.mark.sample(4)
def test_forward(name):
    outcome = op_cases.check(op_cases.operators()[name], "forward", 1)
    assert outcome.status == "pass", outcome.note


def applying(kind, step=1):
    return [
        name
        for name in CHOICE
        if name in op_cases.operators() and op_cases.applies(op_cases.operators()[name], kind)
    ][::step]


@pytest.mark.parametrize("name", sorted(applying("backward", 2)))
@pytest.mark.sample(4)
def test_backward(name):
    outcome = op_cases.check(op_cases.operators()[name], "backward", 1)
    assert outcome.status in ("pass", "skip"), outcome.note
    assert outcome.status == "pass" or "NotDifferentiable" in outcome.note


@pytest.mark.parametrize("name", applying("in-place"))
@pytest.mark.sample(4)
def test_in_place(name):
    outcome = op_cases.check(op_cases.operators()[name], "in-place", 1)
    assert outcome.status == "pass", outcome.note


@pytest.mark.parametrize("name", applying("out"))
@pytest.mark.sample(4)
def test_out(name):
    outcome = op_cases.check(op_cases.operators()[name], "out", 1)
    assert outcome.status in ("pass", "skip"), outcome.note


def test_the_sweep_can_fail(monkeypatch):
    """A wrong answer is seen: the machine's result is changed behind its back."""
    described = op_cases.describe
    seen = []

    def wrong(leaf, *, values=True):
        seen.append(leaf)
        return described(leaf + len(seen) - 1, values=values)

    monkeypatch.setattr(op_cases, "describe", wrong)
    assert op_cases.check(op_cases.operators()["exp"], "forward", 1).status == "differs"


TYPES_OF_BOTH = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
TYPES_OF_BOTH |= {torch.float32, torch.float64, torch.complex64, torch.complex128}


def cuda_alone():
    """Pairs of operator and type that the database gives to CUDA and not to the CPU."""
    for op in op_cases.op_db:
        if (
            op.variant_test_name != "without_cudnn"
            and op.name != "torch.ops.aten._efficient_attention_forward"
        ):
            yield from (
                (op.name, op, dtype)
                for dtype in sorted(TYPES_OF_BOTH & (set(op.dtypesIfCUDA) - set(op.dtypes)), key=str)
            )


@pytest.mark.parametrize(("name", "op", "dtype"), list(cuda_alone()))
@pytest.mark.sample(4)
def test_what_only_cuda_has_runs(name, op, dtype):
    with VirtualMachine(op_cases.MACHINE, on_mismatch="raise"):
        sample = next(iter(op.sample_inputs("cuda", dtype, set_seed=False)))
        assert op(sample.input, *sample.args, **sample.kwargs).device.type == "cuda"


def refused() -> type[RuntimeError]:
    """What a kernel without a type raises: older releases of torch have no error of its own for it."""
    try:
        torch.ones(1, dtype=torch.bool).ceil()
    except RuntimeError as error:
        return type(error)
    raise AssertionError("the CPU rounds booleans up")


REFUSED = refused()


@pytest.mark.parametrize("inputs", [lambda one: one, lambda one: [one]])
@pytest.mark.parametrize(
    ("name", "dtype", "word"), [("ceil", torch.bool, "Bool"), ("round", torch.complex64, "ComplexFloat")]
)
def test_what_neither_has_is_refused_in_the_words_of_cuda(name, dtype, word, inputs):
    with VirtualMachine(op_cases.MACHINE, on_mismatch="raise"):
        given = inputs(torch.ones(3, dtype=dtype, device="cuda"))
        function = getattr(torch, name if isinstance(given, torch.Tensor) else f"_foreach_{name}")
        with pytest.raises(REFUSED, match=f"\"{name}_cuda\" not implemented for '{word}'"):
            function(given)


NOT_YET = {
    "_upsample_bilinear2d_aa": "the CPU refuses the samples, too",
    "histc": "its kernel takes halves on neither when the range is given",
    "histogram": "has no CUDA kernel at all",
    "histogramdd": "has no CUDA kernel at all",
    "native_dropout_backward": "integers never have gradients",
    "nn.functional.local_response_norm": "the CPU refuses integers in its average",
    "norm": "complex32 only",
    "scatter_reduce": "booleans reduce on the CPU alone",
    "torch._scaled_mm": "float8 only",
    "torch._scaled_mm_v2": "float8 only",
}
"""Operators whose types that only the CPU has are not refused."""
ORDINARY = TYPES_OF_BOTH | {torch.float16}  # what the database says of bfloat16 hangs on the GPU that it sees


def cpu_alone():
    """Pairs of operator and type that the database gives to the CPU and not to CUDA."""
    for op in op_cases.op_db:
        if op.name not in NOT_YET:
            yield from (
                (op, dtype) for dtype in sorted(ORDINARY & (set(op.dtypes) - set(op.dtypesIfCUDA)), key=str)
            )


def run_some(op, dtype):
    """Samples of an operator on the machine until one is refused."""
    for sample in op.sample_inputs("cuda", dtype, set_seed=False):
        op(sample.input, *sample.args, **sample.kwargs)


@pytest.mark.parametrize(
    ("op", "dtype"), list(cpu_alone()), ids=lambda given: getattr(given, "name", str(given))
)
@pytest.mark.sample(4)
def test_what_only_the_cpu_has_is_refused(op, dtype):
    with (
        VirtualMachine(op_cases.MACHINE, on_mismatch="raise"),
        pytest.raises(RuntimeError, match=r"not implemented for|not supported for"),
    ):
        run_some(op, dtype)


def of_rows():
    """Operators that the database partly gives to the CPU alone, with what both have of the same kind of
    types.
    """
    for op in op_cases.op_db:
        if ORDINARY & (set(op.dtypes) - set(op.dtypesIfCUDA)) and op.name not in NOT_YET:
            both = ORDINARY & set(op.dtypes) & set(op.dtypesIfCUDA)
            yield from ((op, dtype) for dtype in sorted(both, key=str))


@pytest.mark.parametrize(
    ("op", "dtype"), list(of_rows()), ids=lambda given: getattr(given, "name", str(given))
)
@pytest.mark.sample(4)
def test_what_both_have_is_not_refused(op, dtype):
    with VirtualMachine(op_cases.MACHINE, on_mismatch="raise"):
        run_some(op, dtype)


@pytest.mark.parametrize("compare", [torch.lt, torch.le, torch.gt, torch.ge])
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_half_complex_numbers_have_no_order_and_can_be_added_up(compare):
    with VirtualMachine(op_cases.MACHINE, on_mismatch="raise"):
        given = torch.ones(3, dtype=torch.complex32, device="cuda")
        with pytest.raises(REFUSED, match="not implemented for 'ComplexHalf'"):
            compare(given, given)
        assert given.sum().item() == 3
