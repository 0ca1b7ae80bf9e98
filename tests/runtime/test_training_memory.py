"""What a training step holds, to the byte: as CUDA would."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.runtime.engine import engine
from samedevice.runtime.engine.accumulation import may_add_in_place

MIB = 1 << 20
SIDE = 1024
MATRIX = SIDE * SIDE * 4


def held():
    return torch.cuda.memory_allocated()


def test_a_first_gradient_is_taken_not_copied():
    with sd.machine("1x24GB"):
        weight = torch.zeros(SIDE, SIDE, device="cuda", requires_grad=True)
        loss = (weight * 2).sum()
        before = held()
        torch.cuda.reset_peak_memory_stats()
        loss.backward()
        assert held() - before == MATRIX
        assert torch.cuda.max_memory_allocated() - before <= MATRIX + 512


def test_a_second_gradient_is_added_in_place():
    with sd.machine("1x24GB"):
        weight = torch.zeros(SIDE, SIDE, device="cuda", requires_grad=True)
        (weight * 2).sum().backward()
        first = weight.grad
        loss = (weight * 2).sum()
        before = held()
        torch.cuda.reset_peak_memory_stats()
        loss.backward()
        assert weight.grad is first
        assert held() == before
        assert torch.cuda.max_memory_allocated() - before <= MATRIX + 1024


@pytest.mark.own_process
def test_gradients_of_one_backward_are_added_in_place():
    with sd.machine("1x24GB"):
        weight = torch.zeros(SIDE, SIDE, device="cuda", requires_grad=True)
        rows = torch.zeros(1, SIDE, device="cuda")
        (rows @ weight).sum().backward()  # cuBLAS's workspaces come, of this thread and of autograd's
        weight.grad = None
        loss = (rows @ weight @ weight @ weight).sum()
        before = held()
        torch.cuda.reset_peak_memory_stats()
        loss.backward()
        assert (
            torch.cuda.max_memory_allocated() - before < 2 * MATRIX + MIB
        )  # the sum and the next one, no third


def _chain(device):
    matrix = torch.zeros(64, 64, device=device, requires_grad=True)
    return torch.zeros(4, 64, device=device) @ matrix @ matrix @ matrix


def _layers(device):
    layer = nn.Linear(64, 64, bias=False, device=device)
    return layer(layer(layer(torch.zeros(4, 64, device=device))))


def _tied(device):
    table = nn.Embedding(500, 64, device=device)
    return nn.functional.linear(table(torch.zeros(8, dtype=torch.long, device=device)), table.weight)


def _fork(device):
    layer = nn.Linear(64, 64, bias=False, device=device)
    shared = torch.zeros(4, 64, device=device, requires_grad=True) * 2
    return layer(shared) + layer(shared)


@pytest.mark.own_process
@pytest.mark.parametrize("program", [_chain, _layers, _tied, _fork])
def test_sums_of_gradients_are_in_place_exactly_where_torch_does_it(program, monkeypatch):
    loss = program("cpu").sum()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss.backward()
    expected = [
        event.name == "aten::add_" for event in profile.events() if event.name in ("aten::add", "aten::add_")
    ]
    seen = []

    def watch(args, kwargs):
        answer = may_add_in_place(args, kwargs)
        if torch._C._current_graph_task_id() != -1:
            seen.append(answer)
        return answer

    monkeypatch.setattr(engine, "may_add_in_place", watch)
    with sd.machine("1x24GB"):
        program("cuda").sum().backward()
    assert seen == expected
    assert expected


def test_a_gradient_that_somebody_keeps_is_not_overwritten():
    kept = []
    with sd.machine("1x24GB"):
        weight = torch.full((2, 2), 3.0, device="cuda", requires_grad=True)
        one, two = weight * 1.0, weight * 2.0
        one.register_hook(kept.append)
        two.register_hook(kept.append)
        (one + one * 5.0 + two).sum().backward()
        assert sorted(gradient.mean().item() for gradient in kept) == [1.0, 6.0]
        assert weight.grad.tolist() == [[8.0, 8.0], [8.0, 8.0]]


@pytest.mark.parametrize("retained", [False, True])
def test_sums_are_the_cpu_s(retained):
    def gradients(device):
        torch.manual_seed(0)
        weight = torch.arange(9.0).view(3, 3).to(device).requires_grad_()
        shared = weight * 2
        if retained:
            shared.retain_grad()
        out = (shared @ shared + shared.sum(0) + shared.t() @ weight).sum() + (shared + shared).sum()
        out.backward(retain_graph=True)
        out.backward()
        return weight.grad.tolist(), shared.grad.tolist() if retained else None

    expected = gradients("cpu")
    with sd.machine("1x24GB"):
        assert gradients("cuda") == expected


def test_sums_of_a_graph_for_a_second_derivative_are_not_in_place():
    with sd.machine("1x24GB"):
        weight = torch.tensor([2.0, 3.0], device="cuda", requires_grad=True)
        (first,) = torch.autograd.grad((weight**3 + weight**2).sum(), weight, create_graph=True)
        first.sum().backward()
        assert weight.grad.tolist() == [14.0, 20.0]


def test_dropout_keeps_a_byte_an_element():
    with sd.machine("1x24GB"):
        hidden = torch.zeros(SIDE, SIDE, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        before = held()
        dropped = nn.functional.dropout(hidden, 0.1)
        assert held() - before == SIDE * SIDE * (2 + 1)
        dropped.sum().backward()
        assert hidden.grad.shape == (SIDE, SIDE)


def test_dropout_drops():
    with sd.machine("1x24GB"):
        torch.manual_seed(0)
        dropped = nn.Dropout(0.5)(torch.ones(1000, device="cuda"))
        assert set(dropped.tolist()) == {0.0, 2.0}
        assert nn.Dropout(0.5).eval()(torch.ones(3, device="cuda")).tolist() == [1.0, 1.0, 1.0]
        assert nn.functional.dropout(torch.ones(3, device="cuda"), 1.0).tolist() == [0.0, 0.0, 0.0]
    assert nn.functional.dropout(torch.ones(3, device="meta"), 0.5).is_meta


def test_dropout_knows_a_user_s_meta_tensors():
    with sd.machine("1x24GB"):
        assert nn.functional.dropout(torch.ones(3, device="meta"), 0.5).is_meta
