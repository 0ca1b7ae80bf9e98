"""Attention on virtual GPUs: the kernel that the GPU would choose, values, memory, gradients and device
errors.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from samedevice.events import EventKind
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.kernels import attention_choice
from samedevice.runtime.kernels.attention_choice import Attention, Kernel, choose

pytestmark = pytest.mark.virtual(on_mismatch="record")

HALF, BRAIN, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
AMPERE, ADA, HOPPER, TURING, VOLTA, PASCAL = (8, 0), (8, 9), (9, 0), (7, 5), (7, 0), (6, 1)


def asked(
    dtype=HALF, size=64, values=None, tokens=16, keys=16, heads=4, key_heads=None, dims=4, mask=None,
    dropout=0.0, causal=False,
    grouped=False, capability=AMPERE, grad=False, transposed=False, offset=0,
):  # fmt: skip
    def tensor(heads, tokens, size):
        shape = (2, heads, tokens, size)[4 - dims :]
        if transposed:
            return torch.empty(*shape[:-2], size, tokens, dtype=dtype, device="meta").mT
        whole = torch.empty(math.prod(shape) + offset, dtype=dtype, device="meta", requires_grad=grad)
        return whole[offset:].view(shape)

    if mask is not None:
        mask = torch.empty(mask, dtype=dtype, device="meta")
    key = tensor(key_heads or heads, keys, size)
    value = tensor(key_heads or heads, keys, values or size)
    return Attention(tensor(heads, tokens, size), key, value, mask, dropout, causal, grouped, capability)


@pytest.fixture(autouse=True)
def build(monkeypatch):
    """Newer builds prefer cuDNN's kernel on some GPUs: all here is about one build."""
    monkeypatch.setattr(attention_choice, "CUDA_VERSION", "12.8")
    monkeypatch.setattr(attention_choice, "CUDNN_VERSION", 91002)


@pytest.mark.skipif(4 not in torch._C._get_sdp_priority_order(), reason="newer than this torch")
def test_a_newer_build_prefers_cudnn_on_hopper(monkeypatch):
    assert choose(asked(capability=HOPPER)) is Kernel.FLASH
    monkeypatch.setattr(attention_choice, "CUDA_VERSION", "13.2")
    monkeypatch.setattr(attention_choice, "CUDNN_VERSION", 92600)
    assert choose(asked(capability=HOPPER)) is Kernel.CUDNN
    assert choose(asked(capability=ADA)) is Kernel.FLASH


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (Kernel.FLASH, {}),
        (Kernel.FLASH, {"dtype": BRAIN}),
        (Kernel.FLASH, {"causal": True}),
        (Kernel.FLASH, {"dropout": 0.1}),
        (Kernel.FLASH, {"size": 60}),
        (Kernel.FLASH, {"size": 256}),
        (Kernel.FLASH, {"size": 256, "grad": True, "capability": ADA}),
        (Kernel.EFFICIENT, {"size": 256, "grad": True, "dropout": 0.1, "capability": ADA}),
        (Kernel.EFFICIENT, {"size": 200, "grad": True, "capability": ADA}),
        (Kernel.FLASH, {"size": 200, "capability": ADA}),
        (Kernel.FLASH, {"heads": 8, "key_heads": 2, "grouped": True}),
        (Kernel.FLASH, {"tokens": 1}),
        (Kernel.FLASH, {"capability": HOPPER}),
        (Kernel.EFFICIENT, {"size": 264}),
        (Kernel.EFFICIENT, {"values": 128}),
        (Kernel.EFFICIENT, {"tokens": 1, "causal": True}),
        (Kernel.EFFICIENT, {"mask": (16, 16)}),
        (Kernel.EFFICIENT, {"dtype": SINGLE}),
        (Kernel.EFFICIENT, {"dtype": SINGLE, "size": 4}),
        (Kernel.EFFICIENT, {"capability": TURING}),
        (Kernel.EFFICIENT, {"dtype": SINGLE, "size": 5, "capability": PASCAL}),
        (Kernel.MATH, {"dtype": BRAIN, "capability": TURING}),
        (Kernel.MATH, {"size": 60, "capability": VOLTA}),
        (Kernel.MATH, {"dtype": SINGLE, "size": 5}),
        (Kernel.MATH, {"dtype": DOUBLE}),
        (Kernel.MATH, {"dims": 3}),
        (Kernel.MATH, {"keys": 0}),
        (Kernel.MATH, {"mask": (16, 16), "size": 60}),
        (Kernel.MATH, {"heads": 8, "key_heads": 2, "grouped": True, "mask": (16, 16)}),
        (Kernel.MATH, {"heads": 8, "key_heads": 1}),
        (Kernel.MATH, {"transposed": True}),
        (Kernel.MATH, {"dtype": SINGLE, "offset": 1}),
    ],
)
def test_the_kernel_of_the_gpu(wanted, given):
    assert choose(asked(**given)) is wanted


def test_the_switches():
    with sdpa_kernel(SDPBackend.MATH):
        assert choose(asked()) is Kernel.MATH
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        assert choose(asked()) is Kernel.EFFICIENT
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        assert choose(asked()) is Kernel.CUDNN
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert choose(asked()) is Kernel.CUDNN
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
        choose(asked(dtype=SINGLE))
    with sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        choose(asked())


# -- values

VALUES = {
    "plain": {},
    "causal": {"is_causal": True},
    "causal, longer keys": {"is_causal": True, "keys": 12},
    "mask": {"mask": "bool"},
    "mask over the heads": {"mask": "row"},
    "bias": {"mask": "float"},
    "one head for all masks": {"mask": "float", "mask_shape": (1, 1, 6, 6)},
    "scale": {"scale": 0.3},
    "negative scale": {"scale": -0.3, "dims": 3},
    "three dimensions": {"dims": 3},
    "three dimensions, causal": {"dims": 3, "is_causal": True},
    "grouped": {"enable_gqa": True, "key_heads": 2},
    "grouped, masked": {"enable_gqa": True, "key_heads": 2, "mask": "bool"},
    "odd size": {"size": 5},
    "padded size": {"size": 12},
    "other values": {"values": 16},
}


def example(
    *, dtype, dims=4, size=8, values=None, keys=6, key_heads=4, mask=None, mask_shape=(6, 6), **options
):
    torch.manual_seed(0)
    shapes = [(2, 4, 6, size), (2, key_heads, keys, size), (2, key_heads, keys, values or size)]
    tensors = [torch.randn(shape[4 - dims :]).to(dtype) for shape in shapes]
    found = None
    if mask == "bool":
        found = (torch.rand(mask_shape) > 0.4) | torch.eye(6, dtype=torch.bool)
    elif mask == "row":
        found = torch.tensor([True, True, True, False, True, False]).expand(2, 1, 6, 6)
    elif mask == "float":
        found = torch.randn(mask_shape).to(dtype)
    return tensors, found, options


@pytest.mark.parametrize("dtype", [SINGLE, HALF, BRAIN, DOUBLE])
@pytest.mark.parametrize("name", VALUES)
def test_small_tensors_have_the_numbers_of_the_cpu(machine, name, dtype):
    tensors, mask, options = example(dtype=dtype, **VALUES[name])
    host = [tensor.double().clone().requires_grad_() for tensor in tensors]
    wide = mask.double() if mask is not None and mask.is_floating_point() else mask
    wanted = F.scaled_dot_product_attention(*host, wide, **options)
    weight = torch.randn(wanted.shape, dtype=torch.float64)
    (wanted * weight).sum().backward()
    near = {"atol": 1e-5, "rtol": 1e-5} if dtype in (SINGLE, DOUBLE) else {"atol": 0.06, "rtol": 0.06}
    kernels = [[SDPBackend(number) for number in range(4)]]
    if dtype in (HALF, BRAIN) and tensors[0].dim() == 4 and tensors[0].size(-1) % 8 == 0:
        kernels.append([SDPBackend.CUDNN_ATTENTION])
    for allowed in kernels:
        ours = [tensor.cuda(1).requires_grad_() for tensor in tensors]
        with sdpa_kernel(allowed):
            got = F.scaled_dot_product_attention(*ours, None if mask is None else mask.cuda(1), **options)
        assert (got.device, got.dtype, got.shape) == (torch.device("cuda:1"), dtype, wanted.shape)
        (got * weight.to("cuda:1", dtype)).sum().backward()
        torch.testing.assert_close(got.detach().cpu().double(), wanted.detach(), **near)
        for own, theirs in zip(ours, host, strict=True):
            assert (own.grad.device, own.grad.dtype, own.grad.shape) == (own.device, dtype, own.shape)
            torch.testing.assert_close(own.grad.cpu().double(), theirs.grad, **near)
    assert machine.events == []


def test_a_bias_gets_its_gradient(machine):
    tensors, mask, _ = example(dtype=SINGLE, mask="float", mask_shape=(1, 4, 6, 6))
    host, own = mask.clone().requires_grad_(), mask.cuda().requires_grad_()
    F.scaled_dot_product_attention(*tensors, host).square().sum().backward()
    F.scaled_dot_product_attention(*[tensor.cuda() for tensor in tensors], own).square().sum().backward()
    torch.testing.assert_close(own.grad.cpu(), host.grad, atol=1e-5, rtol=1e-5)


def test_a_row_that_sees_nothing_is_zero(machine):
    x = torch.ones(1, 1, 2, 8, device="cuda")
    mask = torch.tensor([[True, True], [False, False]], device="cuda")
    assert F.scaled_dot_product_attention(x, x, x, mask)[0, 0, 1].tolist() == [0.0] * 8
    assert F.scaled_dot_product_attention(x[0], x[0], x[0], mask)[0, 1].tolist() == [0.0] * 8


@pytest.mark.parametrize("dtype", [HALF, SINGLE, DOUBLE])
def test_dropout_forgets_the_same_in_the_backward(machine, dtype):
    torch.manual_seed(0)
    value = torch.eye(16, device="cuda", dtype=dtype).expand(1, 1, 16, 16).clone().requires_grad_()
    x = torch.zeros(1, 1, 16, 16, device="cuda", dtype=dtype)
    out = F.scaled_dot_product_attention(x, x, value, dropout_p=0.5)
    kept = out.detach().cpu() != 0
    assert 0.2 < kept.float().mean() < 0.8
    out.sum().backward()
    torch.testing.assert_close(value.grad.cpu()[0, 0, :, 0], out.detach().cpu()[0, 0].sum(0))
    torch.cuda.manual_seed(3)
    first = F.scaled_dot_product_attention(x, x, value, dropout_p=0.5)
    torch.cuda.manual_seed(3)
    assert torch.equal(F.scaled_dot_product_attention(x, x, value, dropout_p=0.5), first)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"dims": 3, "is_causal": True}, {"mask": "bool"}]
)
def test_without_gradients(machine, mode, options):
    tensors, mask, rest = example(dtype=SINGLE, **options)
    wanted = F.scaled_dot_product_attention(*tensors, mask, **rest)
    with mode():
        got = F.scaled_dot_product_attention(
            *[t.cuda() for t in tensors], None if mask is None else mask.cuda(), **rest
        )
        assert torch.ops.aten.scaled_dot_product_attention(*[t.cuda() for t in tensors]).is_cuda
    torch.testing.assert_close(got.cpu(), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"mask": True}], ids=str)
def test_many_scores_of_small_tensors_have_values(machine, options):
    """One limit for values: what goes in and comes out is small, so it is known, however many scores lie
    between.
    """
    tensors = [torch.randn(1, 2, 2500, 8, requires_grad=True) for _ in range(3)]
    copies = [tensor.detach().cuda().requires_grad_() for tensor in tensors]
    options = dict(options)
    mask = torch.rand(1, 1, 1, 2500) > 0.5 if options.pop("mask", False) else None
    wanted = F.scaled_dot_product_attention(*tensors, mask, **options)
    got = F.scaled_dot_product_attention(*copies, None if mask is None else mask.cuda(), **options)
    torch.testing.assert_close(got.cpu(), wanted, atol=1e-5, rtol=1e-4)
    weight = torch.randn(wanted.shape)
    (wanted * weight).sum().backward()
    (got * weight.cuda()).sum().backward()
    for tensor, copied in zip(tensors, copies, strict=True):
        torch.testing.assert_close(copied.grad.cpu(), tensor.grad, atol=1e-4, rtol=1e-3)
    assert machine.assumed_reads == []


# -- memory


def peak_of(call):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = call()
    del out
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
def test_fused_kernels_keep_the_scores_out_of_memory(machine, mode):
    q, k, v = (
        torch.empty(3, 1, 8, 4096, 64, device="cuda", dtype=HALF)
        .requires_grad_(mode is torch.enable_grad)
        .unbind()
    )
    scores = 8 * 4096 * 4096 * 2
    padding = torch.ones(1, 1, 1, 4096, dtype=torch.bool, device="cuda")
    with mode():
        assert peak_of(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)) < scores / 16
        assert peak_of(lambda: F.scaled_dot_product_attention(q, k, v, padding)) < scores / 16
        assert peak_of(lambda: F.scaled_dot_product_attention(q.float(), k.float(), v.float())) < scores / 4
        with sdpa_kernel(SDPBackend.MATH):
            assert peak_of(lambda: F.scaled_dot_product_attention(q, k, v)) > scores
        assert peak_of(lambda: F.scaled_dot_product_attention(q[0], k[0], v[0])) > scores


def test_a_large_training_step(machine):
    q = torch.empty(1, 8, 4096, 64, device="cuda", dtype=BRAIN, requires_grad=True)

    def step():
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

    assert peak_of(step) < 8 * 4096 * 4096 * 2 / 4
    assert (q.grad.shape, q.grad.dtype, q.grad.device) == (q.shape, BRAIN, q.device)


def test_the_capability_of_the_gpu_decides():
    for text, fused in (("1xV100-16G", False), ("1xA100-80G", True)):
        try:
            described = parse_machine(text)
        except ValueError:
            pytest.skip(f"{text} is not listed")
        with VirtualMachine(described):
            x = torch.empty(1, 8, 2048, 60, device="cuda", dtype=HALF)
            assert (peak_of(lambda x=x: F.scaled_dot_product_attention(x, x, x)) < 8 * 2048 * 2048) is fused


# -- devices


def attention_of(query="cuda:0", key="cuda:0", value="cuda:0", mask=None, tokens=8, dtype=HALF, **options):
    tensors = [torch.ones(1, 2, tokens, 8, dtype=dtype, device=device) for device in (query, key, value)]
    mask = None if mask is None else torch.ones(tokens, tokens, dtype=torch.bool, device=mask)
    return F.scaled_dot_product_attention(*tensors, mask, **options)


@pytest.mark.parametrize("tokens", [8, 4096])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"key": "cuda:1"}, "query.device: cuda:0 key.device: cuda:1 and value.device: cuda:0 instead"),
        ({"value": "cpu"}, "query.device: cuda:0 key.device: cuda:0 and value.device: cpu instead"),
        ({"query": "cpu"}, "query.device: cpu key.device: cuda:0 and value.device: cuda:0 instead"),
    ],
)
def test_query_key_and_value_are_together(machine, given, words, mode, tokens):
    with mode():
        out = attention_of(**given, tokens=tokens)
    assert out.device == torch.device("cuda:0")
    [event] = machine.events
    assert (event.kind, event.op) == (EventKind.MISMATCH, "aten.scaled_dot_product_attention.default")
    assert words in event.message
    assert event.at.file == __file__
    assert event.at.function == "attention_of"
    assert [operand.name for operand in event.operands] == ["query", "key", "value"]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "kernel", [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]
)
@pytest.mark.parametrize("mask", ["cuda:1", "cpu"])
@pytest.mark.parametrize("tokens", [8, 4096])
def test_a_mask_is_with_them(machine, mask, kernel, mode, tokens):
    with mode(), sdpa_kernel(kernel):
        out = attention_of(mask=mask, tokens=tokens)
    assert out.device == torch.device("cuda:0")
    [event] = machine.events
    assert event.kind is EventKind.MISMATCH
    assert mask in event.message
    assert event.at.function == "attention_of"
    assert mask in [operand.device for operand in event.operands]


def test_devices_can_be_errors():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise"):
        with pytest.raises(RuntimeError, match="to have the same device type"):
            attention_of(key="cuda:1")
        with pytest.raises(RuntimeError, match="same device"):
            attention_of(mask="cpu")


def test_a_tensor_on_meta(machine):
    out = attention_of(key="meta")
    assert out.device == torch.device("cuda:0")
    assert [event.kind for event in machine.events] == [EventKind.UNMATERIALIZED]


def test_gradients_find_their_way_back(machine):
    query = torch.randn(1, 2, 4, 8, device="cuda:0", requires_grad=True)
    key = torch.randn(1, 2, 4, 8, device="cuda:1", requires_grad=True)
    F.scaled_dot_product_attention(query, key, key).sum().backward()
    assert (query.grad.device.index, key.grad.device.index) == (0, 1)
    assert len(machine.events) == 1


def test_other_refusals():
    with VirtualMachine(parse_machine("2x24GB")):
        x = torch.ones(1, 2, 4, 8, device="cuda")
        with pytest.raises(RuntimeError, match=r"query.dtype: float key.dtype: c10::Half"):
            F.scaled_dot_product_attention(x, x.half(), x)
        with pytest.raises(RuntimeError, match="at least 2 dimensional"):
            F.scaled_dot_product_attention(x[0, 0, 0], x, x)
        with pytest.raises(RuntimeError, match=r"attn_mask.dtype: double and  query.dtype: float"):
            F.scaled_dot_product_attention(x, x, x, torch.ones(4, 4, device="cuda", dtype=torch.float64))
        with pytest.raises(RuntimeError, match="invalid dtype for bias"):
            F.scaled_dot_product_attention(x.half(), x.half(), x.half(), torch.ones(4, 4, device="cuda"))


# -- not ours


def test_the_host_and_meta_are_torchs_own(machine):
    x = torch.randn(1, 2, 4, 8, requires_grad=True)
    out = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert type(out.grad_fn).__name__ == "ScaledDotProductFlashAttentionForCpuBackward0"
    out.sum().backward()
    assert x.grad.device.type == "cpu"
    meta = torch.empty(1, 2, 4, 8, device="meta")
    assert F.scaled_dot_product_attention(meta, meta, meta, is_causal=True).device.type == "meta"
    with torch.inference_mode():
        assert F.scaled_dot_product_attention(x, x, x).device.type == "cpu"
    large = torch.empty(64, 16, 4096, 512)  # too large to be real
    assert F.scaled_dot_product_attention(large, large, large).shape == large.shape
    assert machine.events == []


def test_all_is_put_back(machine):
    machine.__exit__(None, None, None)
    op = torch.ops.aten.scaled_dot_product_attention.default
    assert not op.py_kernels
    for name in ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention_backward"):
        assert not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU")
    meta = torch.empty(1, 2, 4, 8, device="meta", requires_grad=True)
    assert F.scaled_dot_product_attention(meta, meta, meta).device.type == "meta"


# -- layers


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "options", [{}, {"need_weights": False}, {"padding": True}, {"average_attn_weights": False}]
)
def test_multi_head_attention(machine, mode, options):
    torch.manual_seed(0)
    options = dict(options)
    host = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = torch.randn(2, 4, 16)
    padding = (
        torch.tensor([[False, False, False, True], [False] * 4]) if options.pop("padding", False) else None
    )
    module = copy.deepcopy(host).cuda()
    with mode():
        wanted, shares = host(x, x, x, key_padding_mask=padding, **options)
        y = x.cuda()
        got, own = module(y, y, y, key_padding_mask=None if padding is None else padding.cuda(), **options)
    torch.testing.assert_close(got.detach().cpu(), wanted.detach(), atol=1e-5, rtol=1e-5)
    assert (own is None or own.numel() == 0) == (shares is None or shares.numel() == 0)
    if shares is not None and shares.numel():
        torch.testing.assert_close(own.detach().cpu(), shares.detach(), atol=1e-5, rtol=1e-5)
    assert machine.events == []


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
def test_encoder(machine, mode, norm_first, padded):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first, activation="gelu")
    host = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 4, 16)
    padding = torch.tensor([[False, False, False, True], [False] * 4]) if padded else None
    model = copy.deepcopy(host).cuda()
    with mode():
        wanted = host(x, src_key_padding_mask=padding)
        got = model(x.cuda(), src_key_padding_mask=None if padding is None else padding.cuda())
    if padded:  # torch's nested tensors end short batches with zeros
        got, wanted = (
            got.masked_fill(padding.cuda().unsqueeze(-1), 0),
            wanted.masked_fill(padding.unsqueeze(-1), 0),
        )
    torch.testing.assert_close(got.detach().cpu(), wanted.detach(), atol=1e-4, rtol=1e-4)
    assert machine.events == []


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
def test_a_large_encoder(machine, mode, padded):
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dtype=HALF, device="cuda")
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.empty(4, 2048, 512, dtype=HALF, device="cuda")
    padding = torch.zeros(4, 2048, dtype=torch.bool, device="cuda") if padded else None
    with mode():
        peak = peak_of(lambda: model(x, src_key_padding_mask=padding))
        out = model(x, src_key_padding_mask=padding)
    assert (out.shape, out.dtype, out.device) == (x.shape, HALF, x.device)
    assert 4 * 2048 * 2048 * 2 < peak
    if mode is torch.inference_mode:
        assert peak < 4 * 8 * 2048 * 2048 * 2
    heads = nn.MultiheadAttention(512, 8, batch_first=True, dtype=HALF, device="cuda").eval()
    with mode():
        shares = heads(x, x, x)[1]
    assert shares.shape == (4, 2048, 2048)
    assert machine.events == []


@pytest.mark.parametrize("tokens", [4, 4096])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
def test_an_encoder_on_another_gpu(machine, mode, tokens):
    layer = nn.TransformerEncoderLayer(64, 2, 128, batch_first=True).cuda(1).eval()
    with mode():
        layer(torch.ones(2, tokens, 64, device="cuda:0"))
    assert machine.events
    event = machine.events[0]
    assert event.kind is EventKind.MISMATCH
    assert {"cuda:0", "cuda:1"} <= {operand.device for operand in event.operands}


def test_under_autocast(machine):
    x = torch.randn(1, 2, 4, 8, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=BRAIN):
        out = F.scaled_dot_product_attention(x, x, x, torch.zeros(4, 4, device="cuda"))
        plain = F.scaled_dot_product_attention(x, x, x)
    assert out.dtype == BRAIN
    assert type(plain.grad_fn).__name__ == "ScaledDotProductFlashAttentionBackward0"
    plain.sum().backward()
    assert x.grad.dtype == SINGLE


def test_questions_about_kernels(machine):
    from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention

    half, single = torch.ones(1, 2, 4, 8, device="cuda", dtype=HALF), torch.ones(1, 2, 4, 8, device="cuda")
    for x, flash in ((half, True), (single, False), (torch.ones(1, 2, 4, 8), False)):
        asked_for = SDPAParams(x, x, x, None, 0.0, False, False)
        assert can_use_flash_attention(asked_for) is flash
        assert can_use_efficient_attention(asked_for) is x.is_cuda
    assert torch._fused_sdp_choice(half, half, half) == SDPBackend.FLASH_ATTENTION.value


@pytest.mark.parametrize("dtype", [HALF, SINGLE])
def test_causal_biases(machine, dtype):
    from torch.nn.attention.bias import causal_lower_right

    query, key = torch.randn(1, 2, 4, 8).to(dtype), torch.randn(1, 2, 6, 8).to(dtype)
    wanted = F.scaled_dot_product_attention(query, key, key, torch.ones(4, 6, dtype=torch.bool).tril(2))
    own = query.cuda().requires_grad_()
    got = F.scaled_dot_product_attention(own, key.cuda(), key.cuda(), causal_lower_right(4, 6))
    got.sum().backward()
    assert (got.device, got.shape, own.grad.device) == (own.device, wanted.shape, own.device)
    if dtype is HALF:  # float32 takes a kernel that is known by its shape only
        torch.testing.assert_close(got.detach().cpu(), wanted, atol=2e-3, rtol=2e-3)
    assert machine.events == []


def test_flex_attention_computes_as_on_the_host(machine):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    parts = [torch.randn(1, 2, 16, 8) for _ in range(3)]

    def attend(device):
        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device=device)
        moved = [part.to(device) for part in parts]
        return flex_attention(*moved, score_mod=lambda score, b, h, q, k: score * 0.5, block_mask=mask)

    got = attend("cuda:1")
    assert got.device == torch.device("cuda:1")
    torch.testing.assert_close(got.cpu(), attend("cpu"))
    query, key, value = [part.to("cuda:1").requires_grad_() for part in parts]
    flex_attention(query, key, value).sum().backward()
    own = [part.clone().requires_grad_() for part in parts]
    F.scaled_dot_product_attention(*own).sum().backward()
    torch.testing.assert_close(query.grad.cpu(), own[0].grad)
    assert machine.events == []
