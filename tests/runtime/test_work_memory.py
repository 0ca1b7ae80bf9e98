"""What kernels take beside their results: cuBLAS's workspaces for good, the rest in passing."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.nn import functional as F

import samedevice as sd
from samedevice.machines import blas_workspace, parse_machine
from samedevice.runtime.engine.reductions import taken

MIB = 1 << 20
ROWS, COLUMNS = 3000, 2048
FLOATS = -(-ROWS * COLUMNS * 4 // (2 * MIB)) * 2 * MIB
"""Of one such matrix: a block of its own, with what is left of its segment."""
H100 = (132, 2048)
"""Its multiprocessors, and the threads of each."""
WORKSPACE = blas_workspace(parse_machine("1xH100-80G").gpus[0])


@pytest.fixture
def machine():
    with sd.machine("1xH100-80G", on_mismatch="raise") as machine:
        yield machine


def passing(call):
    """Bytes that were there at most beside the results."""
    call()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    held, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    del result
    return peak - held


def test_a_product_leaves_a_workspace(machine):
    x = torch.ones(8, 8, device="cuda")
    before = torch.cuda.memory_allocated()
    x @ x
    x @ x
    assert torch.cuda.memory_allocated() - before == WORKSPACE == 32 * MIB


def test_a_product_with_a_bias_leaves_that_of_cublaslt_too(machine):
    x = torch.ones(8, 8, device="cuda")
    before = torch.cuda.memory_allocated()
    F.linear(x, x, x[:, 0])  # no contiguous bias: not for Lt
    assert torch.cuda.memory_allocated() - before == WORKSPACE
    F.linear(x, x, x[0])
    assert torch.cuda.memory_allocated() - before == WORKSPACE + MIB


def test_autograd_s_thread_other_threads_and_streams_have_their_own(machine):
    x = torch.ones(8, 8, device="cuda", requires_grad=True)
    (x @ x).sum().backward()
    assert torch.cuda.memory_allocated() // WORKSPACE == 2
    for _ in range(2):  # a thread that ends leaves its handle to the next one
        thread = threading.Thread(target=lambda: x.detach() @ x.detach())
        thread.start()
        thread.join()
    assert torch.cuda.memory_allocated() // WORKSPACE == 3
    with torch.cuda.stream(torch.cuda.Stream()):
        x.detach() @ x.detach()
    assert torch.cuda.memory_allocated() // WORKSPACE == 4
    torch._C._cuda_clearCublasWorkspaces()
    assert torch.cuda.memory_allocated() < WORKSPACE


def test_an_older_gpu_has_a_smaller_one():
    with sd.machine("1xA100-80G"):
        torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
        assert torch.cuda.memory_allocated() == 8519680


def test_the_environment_sets_the_size(machine, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:1:16:2")
    x = torch.ones(8, 8, device="cuda")
    before = torch.cuda.memory_allocated()
    x @ x
    assert torch.cuda.memory_allocated() - before == (4096 + 32) * 1024


@pytest.mark.skipif(not hasattr(torch.backends.cuda, "cublas_workspace_size"), reason="newer than this torch")
def test_the_size_can_be_asked_and_set(machine):
    assert torch.backends.cuda.cublas_workspace_size() == WORKSPACE
    assert torch.backends.cuda.cublas_workspace_size(2 * MIB) == 2 * MIB
    x = torch.ones(8, 8, device="cuda")
    before = torch.cuda.memory_allocated()
    x @ x
    assert torch.cuda.memory_allocated() - before == 2 * MIB


def test_nothing_stays_of_a_machine_that_was_left():
    with sd.machine("1xH100-80G") as machine:
        torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
    assert machine.memory()["cuda:0"].allocated == 0


# Recorded on an H100 with torch 2.11.0 (measurements/memory).


@pytest.mark.parametrize(
    ("sizes", "strides", "reduced", "itemsize", "carried", "expected"),
    [
        ((ROWS, COLUMNS), (COLUMNS, 1), {0}, 4, 4, 50332160),
        ((ROWS, COLUMNS), (COLUMNS, 1), {0}, 2, 4, 50332160),
        ((ROWS, COLUMNS), (COLUMNS, 1), {1}, 4, 4, 0),
        ((ROWS, COLUMNS), (COLUMNS, 1), {0, 1}, 4, 4, 3072),
        ((ROWS, COLUMNS), (COLUMNS, 1), {0, 1}, 2, 2, 2048),
        ((ROWS, COLUMNS), (COLUMNS, 1), {0, 1}, 4, 16, 9216),
    ],
)
def test_blocks_of_a_reduction_leave_their_parts(sizes, strides, reduced, itemsize, carried, expected):
    parts = taken(sizes, strides, frozenset(reduced), itemsize, carried, 4, *H100)

    def block(size):
        return -(-size // (2 * MIB)) * 2 * MIB if size > 10 * MIB else -(-size // 512) * 512

    assert sum(map(block, parts)) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: x.sum(0), 50332160),
        (lambda x: x.sum(-1), 0),
        (lambda x: x.argmax(), 9216),
        (lambda x: x.logsumexp(-1), FLOATS + 12288),
        (lambda x: torch.allclose(x, x), 3 * FLOATS + 4 * ROWS * COLUMNS),
        (lambda x: x.sort(-1), COLUMNS * 8),
        (F.silu, 0),
        (lambda x: F.rms_norm(x, (COLUMNS,)), 12288),
        (lambda x: F.layer_norm(x.t(), (ROWS,)), FLOATS + 2 * 8192),
        (lambda x: torch.multinomial(x, 1), FLOATS + 1024),
        (lambda x: torch.cdist(x, x), 2 * FLOATS),
    ],
    ids=[
        *("sum-of-columns", "sum-of-rows", "argmax", "logsumexp", "allclose", "sort", "silu", "rms-norm"),
        *("layer-norm-of-columns", "multinomial", "cdist"),
    ],
)
def test_a_kernel_takes_in_passing_what_its_source_says(machine, call, expected):
    x = torch.empty(ROWS, COLUMNS, device="cuda")
    assert passing(lambda: call(x)) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (F.silu, 0),
        (lambda x: x.softmax(-1), FLOATS),
        (lambda x: x.index_select(0, torch.zeros(ROWS, dtype=torch.int64, device="cuda")), 0),
        (lambda x: x.gather(1, torch.zeros(ROWS, 64, dtype=torch.int64, device="cuda")), 0),
        (lambda x: x.max(-1).values, 0),
        (lambda x: F.rms_norm(x, (COLUMNS,)), 0),
    ],
    ids=["silu", "softmax", "index-select", "gather", "max", "rms-norm"],
)
def test_a_gradient_takes_in_passing_what_its_kernel_does(machine, call, expected):
    x = torch.empty(ROWS, COLUMNS, device="cuda", requires_grad=True)
    result = call(x)
    gradient = torch.empty_like(result)
    assert passing(lambda: torch.autograd.grad(result, x, gradient, retain_graph=True)) == expected


def test_a_reduced_loss_keeps_the_memory_of_each_loss(machine):
    x = torch.empty(ROWS, COLUMNS, device="cuda")
    before = torch.cuda.memory_allocated()
    loss = F.mse_loss(x, x)
    assert loss.shape == ()
    assert torch.cuda.memory_allocated() - before == FLOATS


def test_a_fused_norm_has_the_numbers_of_its_parts(machine):
    values, weights = torch.randn(4, 6), torch.randn(6)
    found = []
    for device in ("cpu", "cuda"):
        x, w = (each.clone().to(device).requires_grad_() for each in (values, weights))
        y = F.rms_norm(x, (6,), w)
        y.pow(2).sum().backward()
        found.append([y.detach().cpu(), x.grad.cpu(), w.grad.cpu()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_selections_have_the_gradients_of_the_host(machine):
    values, rows = torch.randn(4, 6), torch.tensor([0, 2, 2])
    found = []
    for device in ("cpu", "cuda"):
        x, at = values.clone().to(device).requires_grad_(), rows.to(device)
        taken_out = (x.index_select(0, at), x.gather(1, at[None].expand(4, 3)), x.max(-1).values, x.median())
        found.append([torch.autograd.grad(each.pow(2).sum(), x)[0].cpu() for each in taken_out])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
