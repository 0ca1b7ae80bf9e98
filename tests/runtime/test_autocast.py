"""CUDA autocast on virtual tensors: the published policy, operator by operator, and training steps."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.kernels.autocast_table import APPENDED, POLICIES, Policy

pytestmark = pytest.mark.usefixtures("machine")

HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
LOWER = [torch.float16, torch.bfloat16]
CASTS_RMS_NORM = torch._C._dispatch_has_kernel_for_dispatch_key("aten::rms_norm", "AutocastCUDA")
"""Older releases leave it as it is."""


def gpu(*size, dtype=torch.float32, grad=False):
    return torch.rand(size, device="cuda").add(0.1).to(dtype).requires_grad_(grad)


def lower(*size):
    return gpu(*size, dtype=torch.get_autocast_dtype("cuda"))


def header_names(macro):
    body = re.search(rf"#define {macro}\(_\)(.*?)\n\n", HEADER.read_text() + "\n\n", re.S).group(1)
    entries = re.findall(r"_\(([^()]*)\)", body)
    return {".".join(part.strip() for part in entry.split(",")) for entry in entries}


@pytest.mark.parametrize(
    ("policy", "macro"),
    [
        (Policy.LOWER, "AT_FORALL_LOWER_PRECISION_FP"),
        (Policy.FP32, "AT_FORALL_FP32"),
        (Policy.FP32_OUT, "AT_FORALL_FP32_SET_OPT_DTYPE"),
        (Policy.PROMOTE, "AT_FORALL_PROMOTE"),
    ],
)
def test_the_table_is_that_of_the_installed_torch(policy, macro):
    missing = header_names(macro) - set(POLICIES[policy])
    assert {name for name in missing if "dimname" not in name.lower()} == set()
    if torch.__version__.startswith("2.13"):
        assert header_names(macro) == set(POLICIES[policy])


@pytest.mark.skipif(not hasattr(torch.Tensor, "refine_names"), reason="this torch has no named dimensions")
def test_torch_itself_refuses_named_dimensions_where_something_sees_its_operators():
    """So the table needs no overloads for them."""
    with pytest.raises(RuntimeError, match=r"[Nn]amed tensors"):
        torch.rand(2, 3, names=("rows", "columns"), device="cuda")


def test_each_operator_with_a_policy_has_a_kernel_for_real_cuda_too():
    lacking = {
        name
        for names in POLICIES.values()
        for name in names
        if hasattr(torch.ops.aten, name.split(".", maxsplit=1)[0])
        and not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCUDA")
    }
    assert lacking <= {"rms_norm"}  # older releases leave it as it is
    text = HEADER.read_text()
    assert all(f'"{name}"' in text for name in APPENDED)


# name: (call, result's type: the autocast type, float32, or that of the arguments)
CASES = {
    "linear": (lambda: F.linear(gpu(2, 4), gpu(3, 4), gpu(3)), "lower"),
    "linear of float64": (
        lambda: F.linear(gpu(2, 4, dtype=torch.float64), gpu(3, 4, dtype=torch.float64)),
        torch.float64,
    ),
    "matmul": (lambda: gpu(2, 3) @ gpu(3, 2), "lower"),
    "__rmatmul__": (lambda: gpu(2, 3).__rmatmul__(gpu(4, 2)), "lower"),
    "Tensor.mm": (lambda: gpu(2, 3).mm(gpu(3, 2)), "lower"),
    "mv": (lambda: torch.mv(gpu(2, 3), gpu(3)), "lower"),
    "bmm": (lambda: torch.bmm(gpu(1, 2, 3), gpu(1, 3, 2)), "lower"),
    "baddbmm": (lambda: torch.baddbmm(gpu(1, 2, 2), gpu(1, 2, 3), gpu(1, 3, 2)), "lower"),
    "addmm": (lambda: torch.addmm(gpu(2, 2), gpu(2, 3), gpu(3, 2)), "lower"),
    "addmv": (lambda: torch.addmv(gpu(2), gpu(2, 3), gpu(3)), "lower"),
    "addr": (lambda: torch.addr(gpu(2, 2), gpu(2), gpu(2)), "lower"),
    "einsum": (lambda: torch.einsum("bij,bjk->bik", gpu(1, 2, 3), gpu(1, 3, 2)), "lower"),
    "multi_dot": (lambda: torch.linalg.multi_dot([gpu(2, 3), gpu(3, 2), gpu(2, 2)]), "lower"),
    "chain_matmul": (lambda: torch.ops.aten.chain_matmul([gpu(2, 3), gpu(3, 2)]), "lower"),
    "conv1d": (lambda: F.conv1d(gpu(1, 2, 5), gpu(2, 2, 3)), "lower"),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3).cuda()(gpu(1, 2, 5, 5)), "lower"),
    "conv2d same": (lambda: nn.Conv2d(2, 3, 3, padding="same").cuda()(gpu(1, 2, 5, 5)), "lower"),
    "conv_transpose2d": (lambda: F.conv_transpose2d(gpu(1, 2, 3, 3), gpu(2, 2, 3, 3)), "lower"),
    "prelu": (lambda: nn.PReLU().cuda()(gpu(2, 2)), "lower"),
    "sdpa": (
        lambda: F.scaled_dot_product_attention(gpu(1, 1, 4, 8), gpu(1, 1, 4, 8), gpu(1, 1, 4, 8)),
        "lower",
    ),
    "lstm": (lambda: nn.LSTM(3, 4, num_layers=2).cuda()(gpu(2, 1, 3))[0], "lower"),
    "lstm state": (lambda: nn.LSTM(3, 4).cuda()(gpu(2, 1, 3))[1][1], "lower"),
    "gru": (lambda: nn.GRU(3, 4, bidirectional=True).cuda()(gpu(2, 1, 3))[0], "lower"),
    "rnn": (lambda: nn.RNN(3, 4).cuda()(gpu(2, 1, 3))[0], "lower"),
    "lstm cell": (lambda: nn.LSTMCell(3, 4).cuda()(gpu(1, 3))[0], "lower"),
    "gru cell": (lambda: nn.GRUCell(3, 4).cuda()(gpu(1, 3)), "lower"),
    "multihead": (
        lambda: nn.MultiheadAttention(8, 2).cuda()(gpu(3, 1, 8), gpu(3, 1, 8), gpu(3, 1, 8))[0],
        "lower",
    ),
    "exp of half": (lambda: torch.exp(gpu(2, dtype=torch.float16)), torch.float32),
    "Tensor.log": (lambda: gpu(2, dtype=torch.float16).log(), torch.float32),
    "pow": (lambda: gpu(2, dtype=torch.float16) ** 2, torch.float32),
    "rpow": (lambda: 2 ** gpu(2, dtype=torch.float16), torch.float32),
    "rsqrt": (lambda: gpu(2, dtype=torch.float16).rsqrt(), torch.float32),
    "softplus": (lambda: F.softplus(gpu(2, dtype=torch.float16)), torch.float32),
    "layer_norm": (lambda: nn.LayerNorm(4).cuda()(gpu(2, 4, dtype=torch.float16)), torch.float32),
    "rms_norm": (
        lambda: nn.RMSNorm(4).cuda()(gpu(2, 4, dtype=torch.float16)),
        torch.float32 if CASTS_RMS_NORM else torch.float16,
    ),
    "group_norm": (lambda: nn.GroupNorm(2, 4).cuda()(gpu(2, 4, dtype=torch.float16)), torch.float32),
    "batch_norm": (lambda: nn.BatchNorm1d(4).cuda()(gpu(2, 4, dtype=torch.float16)), torch.float16),
    "mse_loss": (lambda: F.mse_loss(gpu(2, dtype=torch.float16), gpu(2, dtype=torch.float16)), torch.float32),
    "l1_loss": (lambda: F.l1_loss(gpu(2, dtype=torch.float16), gpu(2)), torch.float32),
    "kl_div": (
        lambda: F.kl_div(gpu(2, 2, dtype=torch.float16), gpu(2, 2), reduction="batchmean"),
        torch.float32,
    ),
    "bce with logits": (
        lambda: F.binary_cross_entropy_with_logits(gpu(2, dtype=torch.float16), gpu(2)),
        torch.float32,
    ),
    "cross_entropy": (
        lambda: F.cross_entropy(
            gpu(2, 3, dtype=torch.float16), torch.zeros(2, dtype=torch.long, device="cuda")
        ),
        torch.float32,
    ),
    "cdist": (
        lambda: torch.cdist(gpu(2, 3, dtype=torch.float16), gpu(2, 3, dtype=torch.float16)),
        torch.float32,
    ),
    "cosine_similarity": (
        lambda: F.cosine_similarity(gpu(2, 3, dtype=torch.float16), gpu(2, 3, dtype=torch.float16)),
        torch.float32,
    ),
    "logsumexp": (lambda: torch.logsumexp(gpu(2, dtype=torch.float16), 0), torch.float32),
    "softmax": (lambda: gpu(2, 2, dtype=torch.float16).softmax(-1), torch.float32),
    "softmax to half": (lambda: F.softmax(gpu(2, 2), -1, dtype=torch.float16), torch.float16),
    "log_softmax": (lambda: F.log_softmax(gpu(2, 2, dtype=torch.float16), -1), torch.float32),
    "sum": (lambda: gpu(2, dtype=torch.float16).sum(), torch.float32),
    "sum over a dim": (lambda: gpu(2, 2, dtype=torch.float16).sum(0), torch.float32),
    "sum of double": (lambda: gpu(2, dtype=torch.float64).sum(), torch.float64),
    "sum of integers": (lambda: torch.ones(2, dtype=torch.int32, device="cuda").sum(), torch.int64),
    "cumsum": (lambda: gpu(2, dtype=torch.float16).cumsum(0), torch.float32),
    "prod": (lambda: gpu(2, dtype=torch.float16).prod(), torch.float32),
    "mean": (lambda: gpu(2, dtype=torch.float16).mean(), torch.float16),
    "norm": (lambda: torch.norm(gpu(2, dtype=torch.float16)), torch.float32),
    "norm over a dim": (
        lambda: torch.ops.aten.norm.ScalarOpt_dim(gpu(2, 2, dtype=torch.float16), 2, [0]),
        torch.float32,
    ),
    "norm.Scalar": (lambda: torch.ops.aten.norm.Scalar(gpu(2, dtype=torch.float16)), torch.float32),
    "addcmul": (lambda: torch.addcmul(gpu(2), gpu(2, dtype=torch.float16), gpu(2)), torch.float32),
    "addcmul alike": (lambda: torch.addcmul(*[lower(2)] * 3), "lower"),
    "dot": (lambda: torch.dot(lower(2), gpu(2)), torch.float32),
    "bilinear": (lambda: F.bilinear(gpu(1, 2), gpu(1, 2), gpu(2, 2, 2)), torch.float32),
    "tensordot": (
        lambda: torch.tensordot(lower(2, 2), gpu(2, 2), 1),
        torch.float32,
    ),
    "atan2": (lambda: torch.atan2(lower(2), gpu(2)), torch.float32),
    "index_put": (
        lambda: gpu(3).index_put((torch.zeros(1, dtype=torch.long, device="cuda"),), lower(1)),
        torch.float32,
    ),
    "cat of both": (lambda: torch.cat([gpu(1), gpu(1, dtype=torch.float16)]), torch.float32),
    "stack": (lambda: torch.stack([gpu(1, dtype=torch.float16)] * 2), torch.float16),
    "add": (lambda: gpu(2, dtype=torch.float16) + gpu(2, dtype=torch.float16), torch.float16),
    "gelu": (lambda: F.gelu(gpu(2, dtype=torch.float16)), torch.float16),
    "embedding": (
        lambda: nn.Embedding(3, 2).cuda()(torch.zeros(1, dtype=torch.long, device="cuda")),
        torch.float32,
    ),
    "in place": (lambda: gpu(2, 2).addmm_(gpu(2, 3), gpu(3, 2)), torch.float32),
    "out": (lambda: torch.mm(gpu(2, 3), gpu(3, 2), out=torch.empty(2, 2, device="cuda")), torch.float32),
    "on the host": (lambda: torch.rand(2, 3) @ torch.rand(3, 2), torch.float32),
}


@pytest.mark.parametrize("name", CASES)
def test_types_of_results(name):
    call, wanted = CASES[name]
    for half in LOWER:
        for grad in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with grad(), torch.autocast("cuda", dtype=half):
                assert call().dtype == (half if wanted == "lower" else wanted), (half, grad)


def test_casts_do_not_leave_the_gpu():
    x = gpu(2, 2, dtype=torch.float16, grad=True)
    out = F.softmax(x, -1, dtype=torch.float32)
    assert out.device.type == "cuda"
    (out[:, 0] + x.float()[:, 0]).sum().backward()
    assert x.grad.device.type == "cuda"
    assert x.detach().to("meta").device.type == "meta"


def test_numbers_are_those_of_the_types():
    x, w = torch.rand(3, 4), torch.rand(2, 4)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        got = F.linear(x.cuda(), w.cuda())
    torch.testing.assert_close(got.cpu(), F.linear(x.bfloat16(), w.bfloat16()))


def test_large_tensors_are_cast_without_values():
    with torch.autocast("cuda", dtype=torch.float16):
        out = nn.Linear(2048, 2048).cuda()(torch.empty(1024, 2048, device="cuda"))
        assert out.dtype == torch.float16
        assert F.layer_norm(out, (2048,)).dtype == torch.float32


def test_binary_cross_entropy_is_refused_on_a_gpu_only():
    with torch.autocast("cuda"):
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(gpu(2), gpu(2))
        assert F.binary_cross_entropy(torch.rand(2), torch.rand(2)).dtype == torch.float32


def test_promotion_refuses_the_other_half_type():
    with (
        torch.autocast("cuda", dtype=torch.float16),
        pytest.raises(RuntimeError, match="Unexpected floating ScalarType"),
    ):
        torch.dot(gpu(2, dtype=torch.bfloat16), gpu(2, dtype=torch.bfloat16))


# -- the switch


def product():
    return (gpu(2, 2) @ gpu(2, 2)).dtype


def test_regions_nest_and_end():
    assert product() == torch.float32
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled("cuda")
        assert torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cuda") == torch.float16
        assert product() == torch.float16
        with torch.autocast("cuda", enabled=False):
            assert not torch.is_autocast_enabled("cuda")
            assert product() == torch.float32
            with torch.autocast("cuda", dtype=torch.bfloat16):
                assert product() == torch.bfloat16
            assert product() == torch.float32
        assert product() == torch.float16
    assert product() == torch.float32
    assert not torch.is_autocast_enabled("cuda")


def test_an_exception_ends_the_region():
    with pytest.raises(KeyError), torch.autocast("cuda"):
        raise KeyError
    assert product() == torch.float32
    with torch.autocast("cuda"):
        with pytest.raises(RuntimeError):
            gpu(2, 3) @ gpu(2, 3)
        assert product() == torch.float16


def test_the_default_type_can_be_chosen():
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        with torch.autocast("cuda"):
            assert product() == torch.bfloat16
    finally:
        torch.set_autocast_dtype("cuda", before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_other_spellings():
    with torch.amp.autocast("cuda", torch.bfloat16):
        assert product() == torch.bfloat16
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        assert product() == torch.bfloat16
    torch.set_autocast_enabled(True)
    assert product() == torch.float16
    torch.set_autocast_enabled(False)
    torch.set_autocast_enabled("cuda", True)
    assert product() == torch.float16
    torch.set_autocast_enabled("cuda", False)
    assert product() == torch.float32

    @torch.autocast("cuda")
    def decorated():
        return product()

    assert decorated() == torch.float16


def test_autocast_of_the_cpu_is_torchs_own():
    x = torch.rand(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        assert product() == torch.float32
        with torch.autocast("cuda", dtype=torch.float16):
            assert (x @ x).dtype == torch.bfloat16
            assert product() == torch.float16
    with torch.autocast("cuda"):
        assert (x @ x).dtype == torch.float32


def test_each_thread_has_its_own():
    seen = {}

    def work(enabled):
        seen["start", enabled] = product()
        with torch.autocast("cuda", enabled=enabled):
            seen["region", enabled] = product()

    with torch.autocast("cuda"):
        for enabled in (True, False):
            thread = threading.Thread(target=work, args=(enabled,))
            thread.start()
            thread.join()
        assert product() == torch.float16
    assert seen == {
        ("start", True): torch.float32,
        ("region", True): torch.float16,
        ("start", False): torch.float32,
        ("region", False): torch.float32,
    }


def test_data_parallel_replicas_are_cast():
    parallel = nn.DataParallel(nn.Linear(4, 2).cuda(), device_ids=[0, 1])
    with torch.autocast("cuda", dtype=torch.bfloat16):
        # As on real GPUs: the region is taken over by the replicas' threads, its type is not.
        assert parallel(gpu(4, 4)).dtype == torch.float16


def test_mismatches_are_seen_inside_a_region():
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="cuda:1"):
        F.linear(gpu(2, 4), torch.rand(3, 4, device="cuda:1"))


def test_the_machine_leaves_no_kernel_behind(machine):
    with torch.autocast("cuda"):
        product()
        assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::linear", "AutocastIPU")
        with VirtualMachine(parse_machine("1x24GB")):
            assert product() == torch.float16
        assert product() == torch.float16
    own = torch.set_autocast_enabled
    machine.__exit__(None, None, None)
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::linear", "AutocastIPU")
    assert torch.set_autocast_enabled is not own
    x = torch.rand(2, 2)
    assert (x @ x).dtype == torch.float32


# -- the cache


def test_a_parameter_is_cast_once_in_a_region(machine):
    weight = nn.Parameter(torch.rand(256, 256, device="cuda"))
    x = gpu(1, 256, grad=True)
    F.linear(x, weight)  # cuBLAS takes its workspace
    with torch.autocast("cuda"):
        before = torch.cuda.memory_allocated()
        outs = [F.linear(x, weight) for _ in range(4)]
        with_cache = torch.cuda.memory_allocated() - before
    assert all(out.grad_fn is not None for out in outs)
    after_region = torch.cuda.memory_allocated()
    del outs
    assert torch.cuda.memory_allocated() < after_region
    with torch.autocast("cuda", cache_enabled=False):
        before = torch.cuda.memory_allocated()
        outs = [F.linear(x, weight) for _ in range(4)]
        without = torch.cuda.memory_allocated() - before
        del outs
    assert with_cache < 2 * weight.numel() * 2 < 4 * weight.numel() * 2 <= without


def test_the_cache_ends_with_the_region():
    weight = nn.Parameter(torch.ones(2, 2, device="cuda"))
    x = torch.ones(1, 2, device="cuda")
    with torch.autocast("cuda"):
        assert F.linear(x, weight).tolist() == [[2, 2]]
    with torch.no_grad():
        weight.fill_(2)
    with torch.autocast("cuda"):
        assert F.linear(x, weight).tolist() == [[4, 4]]


# -- training


def test_custom_functions():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cuda")))
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            seen.append((gradient.dtype, torch.is_autocast_enabled("cuda"), product()))
            return gradient * 2

    class Plain(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            seen.append(product())
            return gradient * 2

    seen = []
    x = gpu(2, dtype=torch.float16, grad=True)
    with torch.autocast("cuda"):
        out = Double.apply(x)
        other = Plain.apply(x)
    assert out.dtype == torch.float32
    out.sum().backward()
    other.sum().backward()
    assert seen == [(torch.float32, False), (torch.float32, False, torch.float32), torch.float16]
    assert x.grad.dtype == torch.float16


@pytest.mark.parametrize("half", LOWER)
def test_a_transformer_trains(half):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0).cuda()
    head = nn.Linear(16, 5).cuda()
    parameters = [*layer.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    x = gpu(2, 4, 16)
    targets = torch.randint(0, 5, (2, 4), device="cuda")
    types = {}
    layer.norm1.register_forward_hook(lambda module, args, out: types.update(norm=out.dtype))
    layer.linear1.register_forward_hook(lambda module, args, out: types.update(linear=out.dtype))
    losses = []
    for _ in range(3):
        with torch.autocast("cuda", dtype=half):
            logits = head(layer(x))
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        assert logits.dtype == half
        assert loss.dtype == torch.float32
        optimizer.zero_grad()
        loss.backward()
        assert all(parameter.grad.dtype == torch.float32 for parameter in parameters)
        assert all(parameter.grad.device.type == "cuda" for parameter in parameters)
        optimizer.step()
        losses.append(loss.item())
    assert types == {"norm": torch.float32, "linear": half}
    assert losses[0] > losses[1] > losses[2]


def test_gradients_are_near_those_of_float32():
    torch.manual_seed(0)
    host = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 2))
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 2))
    model.load_state_dict(host.state_dict())
    model.cuda()
    x = torch.rand(4, 8)
    host(x).pow(2).sum().backward()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x.cuda()).float().pow(2).sum()
    loss.backward()
    for ours, theirs in zip(model.parameters(), host.parameters(), strict=True):
        assert ours.grad.dtype == torch.float32
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, atol=0.1, rtol=0.1)


def test_checkpointing_casts_again():
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    layer = nn.Linear(4, 4).cuda()
    types = []
    layer.register_forward_hook(lambda module, args, out: types.append(out.dtype))
    with set_checkpoint_early_stop(False), torch.autocast("cuda", dtype=torch.bfloat16):
        out = checkpoint(layer, gpu(2, 4, grad=True), use_reentrant=False)
    out.float().sum().backward()
    assert types == [torch.bfloat16] * 2
    assert layer.weight.grad.dtype == torch.float32
