"""The state of a pool of memory is kept and put back, as `torch.compile` does between CUDA graphs."""

from __future__ import annotations

import random

import pytest
import torch

pytestmark = pytest.mark.usefixtures("machine")

_SIZES = (1, 512, 4000, 300_000, 1 << 20, 3 << 20, 12 << 20)


def _tensor(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda:0")


def _blocks(pool):
    """State and size of each block of the pool, by address."""
    return {
        block["address"]: (block["state"], block["size"])
        for segment in pool.snapshot()
        for block in segment["blocks"]
    }


def _live(pool):
    return {address for address, (state, _) in _blocks(pool).items() if state == "active_allocated"}


def _address(tensor):
    return tensor.untyped_storage().data_ptr()


def _restore(state, stale=(), holders=()):
    addresses = [[tensor.untyped_storage()._cdata for tensor in tensors] for tensors in (stale, holders)]
    torch._C._cuda_setCheckpointPoolState(0, state, *addresses)


def _change(random_numbers, held):
    for _ in range(random_numbers.randrange(1, 12)):
        if held and random_numbers.random() < 0.45:
            del held[random_numbers.choice(list(held))]
        else:
            tensor = _tensor(random_numbers.choice(_SIZES))
            held[_address(tensor)] = tensor


@pytest.mark.parametrize("seed", range(40))
def test_every_block_is_as_it_was_and_freed_once(seed):
    random_numbers = random.Random(seed)
    pool, held = torch.cuda.MemPool(), {}
    allocated = torch.cuda.memory_allocated()
    with torch.cuda.use_mem_pool(pool):
        _change(random_numbers, held)
        state, before, then = torch._C._cuda_getCheckpointState(0, pool.id), _blocks(pool), _live(pool)
        _change(random_numbers, held)
    stale = [tensor for address, tensor in held.items() if address not in then]
    _restore(state, stale)
    after = _blocks(pool)
    assert {address: after[address] for address in before} == before
    assert _live(pool) == then
    for address in then - held.keys():  # nobody holds them: the program frees them by their address
        torch._C._cuda_cudaCachingAllocator_raw_delete(address)
    assert _live(pool) == then & held.keys()
    held.clear()
    stale.clear()
    assert not _live(pool)
    assert torch.cuda.memory_allocated() == allocated


def test_a_tensor_that_would_be_freed_must_be_passed():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = _tensor(512)
        state = torch._C._cuda_getCheckpointState(0, pool.id)
        later = _tensor(512)
    with pytest.raises(RuntimeError, match="must be passed"):
        _restore(state)
    assert kept.numel() == later.numel()


def test_a_pool_that_is_not_there():
    with pytest.raises(RuntimeError, match="Could not find private pool id"):
        torch._C._cuda_getCheckpointState(0, (77, 0))


def test_results_of_a_graph_are_found_by_their_address():
    given, graph = torch.ones(4, device="cuda:0"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = given * 2
    graph.replay()
    address, size = _address(result), result.untyped_storage().nbytes()
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    del result
    storage = torch._C._construct_storage_from_data_pointer(address, given.device, size)
    again = torch.empty(0, device="cuda:0").set_(storage, 0, (4,), (1,))
    assert again.tolist() == [2] * 4
    given.fill_(3)
    graph.replay()
    assert again.tolist() == [6] * 4
    allocated = torch.cuda.memory_allocated()
    _restore(state, holders=[again])
    assert torch.cuda.memory_allocated() == allocated + 512
    del again, storage
    assert torch.cuda.memory_allocated() == allocated
