"""`DataLoader`, forked processes and queues on a virtual machine."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

pytestmark = [
    pytest.mark.usefixtures("machine"),
    pytest.mark.filterwarnings("ignore:.*pin_memory_device:UserWarning"),
]


class Numbers(Dataset):
    def __init__(self, item=None):
        self.item = item or (lambda index: torch.tensor(float(index)))

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.item(index)


def batches(loader):
    return [batch.tolist() for batch in loader]


EXPECTED = [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin_memory", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches(workers, pin_memory, persistent):
    loader = DataLoader(
        Numbers(),
        4,
        num_workers=workers,
        pin_memory=pin_memory,
        persistent_workers=persistent and workers > 0,
    )
    for _ in range(2):
        assert batches(loader) == EXPECTED
        for batch in loader:
            assert batch.device.type == "cpu"
            assert batch.is_pinned() == pin_memory
            assert batch.to("cuda:1", non_blocking=True).device.index == 1


def test_pinned_for_a_named_device():
    loader = DataLoader(Numbers(), 4, num_workers=1, pin_memory=True, pin_memory_device="cuda:1")
    assert all(batch.is_pinned() for batch in loader)


def test_numpy_is_collated():
    loader = DataLoader(
        Numbers(lambda index: {"x": np.full(2, index), "y": index}), 4, num_workers=2, pin_memory=True
    )
    first, second = loader
    assert first["x"].tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert first["x"].is_pinned()
    assert second["y"].cuda().tolist() == [4, 5, 6, 7]


def test_pinning():
    x = torch.ones(2)
    pinned = x.pin_memory()
    assert (x.is_pinned(), pinned.is_pinned()) == (False, True)
    assert torch.empty(2, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="cuda").pin_memory()


def test_nothing_is_left_behind():
    before = set(threading.enumerate())
    batches(DataLoader(Numbers(), 4, num_workers=2, pin_memory=True))
    left = [
        thread
        for thread in set(threading.enumerate()) - before
        if not thread.name.startswith("QueueFeederThread")
    ]
    assert left == []
    assert torch.ones(1, device="cuda").device.index == 0


def test_a_gpu_dataset_without_workers():
    loader = DataLoader(TensorDataset(torch.arange(4.0, device="cuda:1")), 2)
    assert [batch[0].device.index for batch in loader] == [1, 1]


def test_a_worker_that_touches_cuda():
    torch.cuda.init()
    loader = DataLoader(Numbers(lambda index: torch.ones(1, device="cuda")), 4, num_workers=1)
    with pytest.raises(RuntimeError, match="Caught RuntimeError in DataLoader worker process 0") as caught:
        list(loader)
    assert "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing" in str(
        caught.value
    )


def test_a_worker_that_uses_its_parents_gpu_tensors():
    held = torch.arange(8.0, device="cuda:1")
    with pytest.raises(RuntimeError, match="CUDA error: initialization error"):
        list(DataLoader(Numbers(lambda index: held[index] * 2), 4, num_workers=1))
    with pytest.raises(RuntimeError, match="CUDA error: initialization error"):
        list(DataLoader(Numbers(lambda index: held.cpu()), 4, num_workers=1))


def test_a_worker_that_returns_gpu_tensors_does_not_hang():
    held = torch.arange(8.0, device="cuda:1")
    with pytest.raises(RuntimeError, match="CUDA error: initialization error"):
        list(DataLoader(Numbers(lambda index: held[index]), None, num_workers=1, timeout=60))


def test_queues_and_shared_memory():
    x = torch.ones(2, device="cuda:1")
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(x)
    received = queue.get()
    assert (received.device, received.tolist()) == (x.device, [1.0, 1.0])
    host = torch.arange(3.0).share_memory_()
    assert host.is_shared()
    queue.put(host)
    received = queue.get()
    received[0] = 5
    assert host[0].item() == 5
    assert x.is_shared()
    assert x.share_memory_() is x


@pytest.mark.parametrize("rows", [4, 600])  # 600 rows are too large to hold values; they arrive as zeros
def test_a_server_answers_its_forked_handlers_through_shared_memory(rows):
    context = torch.multiprocessing.get_context("fork")
    weight = torch.full((1024,), 3.0, device="cuda:1")
    tasks, answers, seen = context.SimpleQueue(), context.SimpleQueue(), context.SimpleQueue()

    def handler():
        tasks.put(torch.ones(rows, 1024).share_memory_())
        answer = answers.get()
        seen.put((str(answer.device), tuple(answer.shape), answer[0, 0].item(), answer.is_shared()))

    process = context.Process(target=handler, daemon=True)
    process.start()
    result = (tasks.get().to("cuda:1") * weight).to("cpu").share_memory_()
    assert result.is_shared()
    answers.put(result)
    assert seen.get() == ("cpu", (rows, 1024), 3.0 if rows == 4 else 0.0, True)
    process.join()
    assert process.exitcode == 0


def test_the_parent_may_go_on_after_a_fork():
    context = torch.multiprocessing.get_context("fork")
    x = torch.ones(2, device="cuda:1")
    queue = context.SimpleQueue()

    def child():
        try:
            queue.put(str(x + 1))
        except RuntimeError as error:
            queue.put(str(error).splitlines()[0])

    process = context.Process(target=child)
    process.start()
    process.join()
    assert queue.get() == "CUDA error: initialization error"
    assert (x + 1).tolist() == [2, 2]
