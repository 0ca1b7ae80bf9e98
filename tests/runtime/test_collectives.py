"""Collectives in one process whose other ranks are assumed: what c10d refuses, with its text and its type."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
import torch.distributed as dist

import samedevice as sd
from samedevice.runtime.distributed.collectives import _NOT_BOUND
from samedevice.runtime.engine import Engine
from samedevice.runtime.state import current_machine, memory_of
from samedevice.torch_versions.adapter import TORCH

_EACH_CHECKED = TORCH.nccl_checks_each_tensor("nccl")
_OFF = "Expected tensor on cuda:1 but found tensor on cuda:0" if _EACH_CHECKED else _NOT_BOUND


@pytest.fixture
def group(monkeypatch):
    """Makes the default group on a machine of two GPUs, as rank 1 of 2."""
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)

    def make(backend, on_mismatch="raise", **options):
        vm = sd.machine("2x24GB", on_mismatch=on_mismatch, assumed_ranks=2)
        vm.__enter__()
        entered.append(vm)
        torch.cuda.set_device(1)
        dist.init_process_group(backend, **options)
        return vm

    entered: list = []
    yield make
    dist.destroy_process_group()
    entered.pop().__exit__(None, None, None)


@pytest.mark.parametrize(
    ("backend", "device", "error", "text"),
    [
        ("nccl", "cpu", RuntimeError, "No backend type associated with device type cpu"),
        ("cpu:gloo", "cuda:1", RuntimeError, "No backend type associated with device type cuda"),
        ("bound", "cuda:0", RuntimeError if _EACH_CHECKED else dist.DistBackendError, _OFF),
        ("nccl", "cuda:1", None, None),
        ("bound", "cuda:1", None, None),
        ("cpu:gloo,cuda:nccl", "cpu", None, None),
        ("gloo", "cpu", None, None),
    ],
)
def test_what_c10d_raises(group, backend, device, error, text):
    options = {"device_id": torch.device("cuda", 1)} if backend == "bound" else {}
    vm = group("nccl" if backend == "bound" else backend, **options)
    tensor = torch.ones(3, device=device)
    if error is None:
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2.0, 2.0, 2.0] and vm.findings == []
        return
    with pytest.raises(error) as raised:
        dist.all_reduce(tensor)
    assert str(raised.value) == text
    assert raised.value.samedevice_event.operands[-1].name == "group"
    (finding,) = vm.findings
    assert (finding.code, finding.operands[0].device) == ("SD109", device)


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo"])
def test_recorded_calls_go_on(group, backend):
    vm = group(backend, "record")
    tensor = torch.ones(3, device="cpu" if backend == "nccl" else "cuda")
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert tensor.tolist() == [2.0, 2.0, 2.0]
    (finding,) = vm.findings
    assert finding.message.startswith("No backend type associated with device type ")


def test_a_model_on_two_gpus_of_each_rank_is_reduced_gpu_by_gpu(group):
    """Model parallel inside a rank, and DDP around it: torch's buckets hold tensors of one GPU each."""
    vm = group("nccl", "record")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4).to("cuda:1"), torch.nn.Linear(4, 4).to("cuda:0"))
    model[1].register_forward_pre_hook(lambda module, args: (args[0].to("cuda:0"),))
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    wrapped(torch.ones(2, 4, device="cuda:1")).sum().backward()
    assert [parameter.grad.device.index for parameter in model.parameters()] == [1, 1, 0, 0]
    assert model[1].bias.grad.tolist() == [2.0] * 4
    if dist.group.WORLD.bound_device_id is None:
        assert vm.findings == []
    else:  # from torch 2.15 a group belongs to one GPU, also where no program asked for it
        assert {finding.message for finding in vm.findings} == {_OFF}


def test_gathered_tensors_on_another_gpu(group):
    """Torch 2.15 stages them; older releases compare no devices."""
    vm = group("nccl", "record")
    outputs = [torch.empty(2, device="cuda:0") for _ in range(2)]
    dist.all_gather(outputs, torch.ones(2, device="cuda:1"))
    assert [output.tolist() for output in outputs] == [[1.0, 1.0]] * 2
    assert [finding.code for finding in vm.findings] == ([] if _EACH_CHECKED else ["SD105"])


def test_backends_are_made_and_split_as_newer_releases_of_torch_do(group):
    group("nccl")
    nccl = dist.distributed_c10d.ProcessGroupNCCL
    store = dist.HashStore()
    made = nccl(store, 1, 2, nccl.Options(), torch.device("cuda", 1))
    part = made.split(store, [1], nccl.Options())
    assert isinstance(part, nccl) and made.comm_split_count() == 1
    assert made.split(store, [0], None) is None


GPU = torch.device("cuda", 1)


def received(into):
    """Whether what another rank sent is there: it is not known."""
    return memory_of(into).assumed


def lives(reference):
    gc.collect()
    return reference() is not None


def test_work_is_let_go_after_the_wait(group):
    group("nccl")
    into = torch.ones(3, device=GPU)
    work = dist.irecv(into, 0)
    assert not received(into)
    assert work.wait() and received(into)
    assert work.wait()
    held = weakref.ref(work)
    del work
    assert not lives(held)


@pytest.mark.parametrize("waits", [True, False])
def test_no_work_holds_a_machine_that_was_left(monkeypatch, waits):
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)

    def launch():
        with sd.machine("2x24GB", assumed_ranks=2):
            torch.cuda.set_device(1)
            dist.init_process_group("nccl")
            engine = current_machine().part(Engine)
            work = dist.irecv(torch.ones(3, device=GPU), 0)
            if waits:
                work.wait()
            dist.group.WORLD._start_coalescing(GPU)
            dist.irecv(torch.ones(3, device=GPU), 0)
            dist.destroy_process_group()
        return weakref.ref(engine.collectives)

    assert not lives(launch())


def test_a_bracket_that_an_exception_left_takes_nothing_in(group):
    group("nccl")
    lost = torch.ones(3, device=GPU)
    with pytest.raises(KeyError), dist._coalescing_manager(device=GPU):
        dist.irecv(lost, 0)
        raise KeyError
    dist.distributed_c10d._world.pg_coalesce_state.clear()
    alone, into = torch.ones(3, device=GPU), torch.ones(3, device=GPU)
    dist.irecv(alone, 0).wait()
    tensor = weakref.ref(alone)
    del alone
    assert not lives(tensor)
    with dist._coalescing_manager(device=GPU):
        dist.irecv(into, 0)
    assert received(into) and not received(lost)
    dist.group.WORLD._end_coalescing(GPU).wait()
    assert not received(lost)


def test_a_thread_closes_its_own_bracket(group):
    group("nccl")
    world, into = dist.group.WORLD, torch.ones(3, device=GPU)
    opened, closed = threading.Event(), threading.Event()

    def other():
        world._start_coalescing(GPU)
        opened.set()
        closed.wait(10)
        world._end_coalescing(GPU).wait()

    world._start_coalescing(GPU)
    thread = threading.Thread(target=other)
    thread.start()
    assert opened.wait(10)
    dist.irecv(into, 0)
    closed.set()
    thread.join()
    assert not received(into)
    world._end_coalescing(GPU).wait()
    assert received(into)


def test_a_bracket_of_one_group_takes_nothing_of_another(group):
    group("nccl")
    world, other = dist.group.WORLD, dist.new_group([0, 1])
    into = torch.ones(3, device=GPU)
    other._start_coalescing(GPU)
    dist.irecv(into, 0)
    other._end_coalescing(GPU).wait()
    assert not received(into)
    assert world.group_name != other.group_name


def test_what_ranks_are_assumed_to_hold_is_not_copied_where_it_is_large(group):
    group("nccl")
    limit = current_machine().part(Engine).tracker.joined_limit
    shard = torch.cat([torch.ones(1 << 17, device=GPU)] * (3 * limit // 4 >> 19))
    whole, part = torch.empty(2 * shard.numel(), device=GPU), torch.empty(6, device=GPU)
    dist.all_gather_into_tensor(whole, shard)
    dist.all_gather_into_tensor(part, shard[:3])
    assert memory_of(shard).shadow is not None
    assert memory_of(whole).shadow is None
    assert part.tolist() == [1.0] * 6
