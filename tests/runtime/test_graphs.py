"""CUDA graphs of virtual GPUs: replays, what a capture may not do, and what it leaves behind."""

from __future__ import annotations

import threading

import pytest
import torch

import samedevice as sd
from samedevice.errors import UnsupportedFeatureError, UsageError
from samedevice.torch_versions.adapter import TORCH


def captured(function):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return graph, result


def test_a_replay_reads_its_inputs_anew_and_writes_its_own_results(machine):
    x, weight = torch.ones(4, device="cuda"), torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda")
    graph, result = captured(lambda: (x * weight).view(2, 2).sum(0))
    address = result.data_ptr()
    x.copy_(torch.tensor([1.0, 0.0, 2.0, 0.0], device="cuda"))
    graph.replay()
    assert result.tolist() == [7.0, 0.0]
    assert result.data_ptr() == address
    weight.zero_()
    graph.replay()
    assert result.tolist() == [0.0, 0.0]


def test_a_view_and_what_is_written_through_it_are_the_results_memory(machine):
    x = torch.arange(4.0, device="cuda")

    def work():
        made = torch.zeros(2, 4, device="cuda")
        made[1] = x + 1
        return made, made[1]

    graph, (whole, row) = captured(work)
    x.fill_(5)
    graph.replay()
    assert row.tolist() == [6.0] * 4
    assert whole.tolist() == [[0.0] * 4, [6.0] * 4]


def test_a_capture_runs_nothing(machine):
    steps = torch.zeros(1, device="cuda")
    graph, _ = captured(lambda: steps.add_(1))
    assert steps.item() == 0
    graph.replay()
    graph.replay()
    assert steps.item() == 2


def test_a_number_of_the_host_is_kept_as_it_was(machine):
    x, factor = torch.ones(2, device="cuda"), torch.tensor(3.0)
    graph, result = captured(lambda: x * factor)
    factor.fill_(100)
    graph.replay()
    assert result.tolist() == [3.0, 3.0]


def test_random_numbers_go_on(machine):
    graph, result = captured(lambda: torch.rand(8, device="cuda"))
    graph.replay()
    first = result.tolist()
    graph.replay()
    assert result.tolist() != first


def test_replays_draw_what_the_same_calls_draw_one_by_one(machine):
    x = torch.ones(16, device="cuda")

    def step():
        return torch.nn.functional.dropout(x, 0.5)

    torch.cuda.manual_seed(5)
    plain = [step().tolist() for _ in range(3)]
    torch.cuda.manual_seed(5)
    graph, result = captured(step)
    replayed = []
    for _ in plain:
        graph.replay()
        replayed.append(result.tolist())
    assert replayed == plain


def test_memory_that_nobody_holds_is_not_kept(machine):
    x = torch.ones(1024, 256, device="cuda")
    before = torch.cuda.memory_allocated()
    graph, result = captured(lambda: torch.sum((x + 1) * 2))
    graph.replay()
    assert (
        torch.cuda.memory_allocated() - before == 3 * 512
    )  # the result, and what the generator keeps for graphs
    assert result.item() == 4 * 1024 * 256


def test_each_state_of_a_generator_keeps_two_numbers_for_all_its_graphs(machine):
    generator = torch.cuda.default_generators[0]
    states = [generator.graphsafe_get_state(), generator.clone_state(), generator.clone_state()]
    before = torch.cuda.memory_allocated()
    graphs = [torch.cuda.CUDAGraph() for _ in range(4)]
    for graph in graphs:
        for state in (*states, states[1]):
            graph.register_generator_state(state)
        with torch.cuda.graph(graph):
            torch.rand(1, device="cuda")
    assert torch.cuda.memory_allocated() - before == 3 * 2 * 512
    del graphs[1:], graph
    assert torch.cuda.memory_allocated() - before == 3 * 2 * 512
    graphs.clear()
    assert torch.cuda.memory_allocated() == before
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.cuda.CUDAGraph().register_generator_state(torch.Generator())


def test_graphed_callables_train_like_the_module(machine):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).cuda()
    twin = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).cuda()
    twin.load_state_dict(model.state_dict())
    graphed = torch.cuda.make_graphed_callables(
        model, (torch.randn(3, 4, device="cuda", requires_grad=True),)
    )
    for _ in range(2):
        x = torch.randn(3, 4, device="cuda", requires_grad=True)
        y = x.detach().clone().requires_grad_()
        model.zero_grad()
        twin.zero_grad()
        graphed(x).sum().backward()
        twin(y).sum().backward()
        assert torch.equal(x.grad.cpu(), y.grad.cpu())
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            assert torch.equal(ours.grad.cpu(), theirs.grad.cpu())


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x.cpu(),
        lambda x: x.copy_(torch.ones(2)),
        lambda x: torch.ones(2).to("cuda", non_blocking=True),
    ],
)
def test_what_waits_for_the_gpu_breaks_a_capture(machine, wait):
    x = torch.ones(2, device="cuda")
    with (
        pytest.raises(
            TORCH.accelerator_error, match="failed due to a previous error during capture"
        ) as caught,
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        wait(x)
    assert "not permitted when stream is capturing" in str(caught.value.__context__)
    assert x.sum().item() == 2  # the machine goes on


def test_a_pinned_copy_that_does_not_wait_is_read_anew(machine):
    source, x = torch.ones(2).pin_memory(), torch.zeros(2, device="cuda")
    graph, _ = captured(lambda: x.copy_(source, non_blocking=True))
    source.fill_(7)
    graph.replay()
    assert x.tolist() == [7.0, 7.0]


def test_a_pinned_move_that_does_not_wait_is_read_anew(machine):
    source = torch.ones(2).pin_memory()
    graph, moved = captured(lambda: source.to("cuda", non_blocking=True) + 1)
    source.fill_(3)
    graph.replay()
    assert moved.tolist() == [4, 4]


def test_a_backward_in_mixed_precision_is_captured(machine):
    weight = torch.ones(4, device="cuda", requires_grad=True)
    given = torch.ones(4, device="cuda")
    weight.grad = torch.zeros_like(weight)
    graph, _ = captured(lambda: (weight.half() * given).sum().backward())
    weight.grad.zero_()
    given.fill_(3)
    graph.replay()
    assert weight.grad.tolist() == [3, 3, 3, 3]


def test_a_capture_that_an_error_ended_is_over_with_its_graph(machine):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        assert torch.cuda.is_current_stream_capturing()
    del graph
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.ones(1, device="cuda").item() == 1


def test_other_threads_are_not_captured(machine):
    x, other = torch.ones(2, device="cuda"), torch.ones(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = x + 1
        thread = threading.Thread(target=lambda: other.add_(1))
        thread.start()
        thread.join()
    graph.replay()
    assert other.tolist() == [2.0, 2.0]
    assert result.tolist() == [2.0, 2.0]


def test_the_stream_says_whether_it_captures(machine):
    seen = []
    captured(
        lambda: seen.append(
            (torch.cuda.is_current_stream_capturing(), torch.cuda.current_stream().is_capturing())
        )
    )
    assert seen == [(True, True)]
    assert not torch.cuda.is_current_stream_capturing()


def test_wrong_use_is_refused_as_by_torch(machine):
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(UnsupportedFeatureError, match="CUDAGraph"):
        graph.debug_dump("graph.dot")


def test_what_outlives_its_machine_says_so():
    with sd.machine("1x24GB"):
        kind, stream = torch.cuda.CUDAGraph, torch.cuda.Stream()
        x = torch.ones(2, device="cuda")
        graph, _ = captured(lambda: x + 1)
    for use in (kind, stream.synchronize, kind.capture_begin.__get__(graph)):
        with pytest.raises(UsageError, match="a virtual machine that was left"):
            use()
    with sd.machine("1x24GB"), pytest.raises(UsageError, match="captured was left"):
        graph.replay()


def test_a_mismatch_in_a_capture_is_the_error_of_the_kernel(machine):
    x, y = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    with pytest.raises(RuntimeError, match="same device"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        x + y
