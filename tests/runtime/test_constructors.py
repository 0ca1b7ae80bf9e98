"""Old ways to make tensors and storages, and classes of one's own: as plain torch has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytestmark = [pytest.mark.virtual(finds_nothing=True), pytest.mark.usefixtures("machine")]


class Subclass(torch.Tensor):
    pass


class WithName(torch.Tensor):
    def __new__(cls, data, name):
        made = super().__new__(cls, data)
        made.label = name
        return made


def test_classes_of_ones_own_are_made_over_sizes_data_and_tensors():
    assert type(Subclass(2, 3)) is Subclass
    assert Subclass([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert Subclass(torch.ones(2)).add(1).tolist() == [2.0, 2.0]
    named = WithName([3.0], "x")
    assert (type(named), named.label, named.item()) == (WithName, "x", 3.0)
    x = torch.arange(3.0, device="cuda:1")
    alias = Subclass(x)
    assert (alias.device, alias.data_ptr()) == (x.device, x.data_ptr())
    alias.mul_(2)
    assert x.tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_new(device):
    x, y = torch.zeros(0, device=device), torch.arange(4.0, device=device)
    z = torch.tensor([1, 2, 3], dtype=torch.int32, device=device)
    assert [tuple(made.shape) for made in (x.new(), x.new(1, 2), x.new(torch.Size([3, 4])), x.new(size=(3,
    4)), x.new(()))] == [
        (0,), (1, 2), (3, 4), (3, 4), (0,),
    ]  # fmt: skip
    for data in ([3, 4], (3, 4), [np.int32(3), np.float64(4)], np.array((3, 4)), [z[2], z[0] + 3]):
        assert x.new(data).tolist() == [3.0, 4.0]
        assert x.new(data).device == x.device
    assert x.new(y.untyped_storage()).data_ptr() == x.new(y).data_ptr() == y.data_ptr()
    assert x.new(y) is not y
    with pytest.raises(TypeError):
        x.new(z)


def test_type_takes_every_name():
    x = torch.zeros(2, dtype=torch.int32, device="cuda:1")
    assert x.type(torch.Tensor).type() == "torch.FloatTensor"
    assert x.type("torch.cuda.ByteTensor").device == x.device
    assert x.cpu().type("torch.CharTensor").dtype == torch.int8
    assert x.cpu().type(torch.cuda.HalfTensor).type() == "torch.cuda.HalfTensor"
    for name in ("torch.foo", "FloatTensor", "torch.nn.FloatTensor"):
        with pytest.raises(ValueError, match=f"invalid type: '{name}'"):
            x.type(name)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_by_their_old_names():
    storage = torch.cuda.FloatStorage([1.0, 2.0])
    assert (storage.device, storage.dtype, storage.tolist()) == (
        torch.device("cuda", 0),
        torch.float32,
        [1.0, 2.0],
    )
    storage[0] = 5
    assert storage[0] == 5.0
    assert torch.cuda.LongStorage(3).size() == 3
    with pytest.raises(RuntimeError, match="'device' cannot be specified"):
        torch.cuda.ByteStorage(device="cpu")


def test_a_slice_of_a_storage_shares_its_bytes():
    storage = torch.arange(4, dtype=torch.uint8, device="cuda").untyped_storage()
    part = storage[1:3]
    assert (part.device, part.tolist(), part.data_ptr()) == (storage.device, [1, 2], storage.data_ptr() + 1)
    part[0] = 9
    assert storage.tolist() == [0, 9, 2, 3]
    storage.fill_(7)
    assert part.tolist() == [7, 7]
    storage.copy_(torch.UntypedStorage([1, 2, 3, 4]))
    assert part.tolist() == [2, 3]
    assert torch.empty(0, dtype=torch.uint8, device="cuda").set_(part).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="slice with a step of 2, but only a step of 1"):
        storage[::2]


def test_a_slice_of_a_storage_forgets_with_it(machine):
    target = torch.zeros(4, device="cuda")
    part = target.untyped_storage()[:4]
    target.copy_(torch.ones(1 << 20, device="cuda")[:4] * 2)  # of these nobody knows the values
    assert torch.empty(0, device="cuda").set_(part).mul(1).__repr__().startswith("tensor(...")


def test_storages_of_meta_hold_no_data():
    storage = torch.UntypedStorage(4, device="meta")
    for read in (storage.cpu, storage.cuda, lambda: torch.UntypedStorage(4, device="cuda").copy_(storage)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            read()
    with pytest.raises(RuntimeError, match="only available on CUDA"):
        storage._share_cuda_()


@pytest.mark.virtual(finds_nothing=False)
@pytest.mark.parametrize(
    "move",
    [
        lambda: torch.empty(3, device="meta").to("cuda:0"),
        lambda: torch.zeros(3, device="meta").cuda(),
        lambda: torch.ones(3, device="meta").cpu(),
        lambda: torch.nn.Linear(2, 2, device="meta").to("cuda:1"),
        lambda: torch.ones(3, device="cuda").to("meta").to("cuda"),
    ],
)
def test_a_meta_tensor_of_the_program_cannot_be_moved(move):
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        move()


def test_what_is_copied_to_a_meta_tensor_is_nowhere():
    layer = torch.nn.Linear(2, 2, device="meta")
    layer.load_state_dict({"weight": torch.ones(2, 2), "bias": torch.ones(2)})
    assert layer.weight.is_meta
    layer.to_empty(device="cuda:0")
    assert layer.weight.device == torch.device("cuda:0")


def test_storages_that_come_over_without_blocking_are_pinned():
    storage = torch.ones(2, device="cuda").untyped_storage()
    assert storage.to(device="cpu", non_blocking=True).is_pinned()
    assert not storage.to(device="cpu").is_pinned()


def test_pinned_data():
    assert torch.tensor([1, 2], pin_memory=True).is_pinned()
    assert torch.tensor(data=[1, 2]).tolist() == [1, 2]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        torch.tensor()


def test_a_lazy_clone_shares_its_bytes_until_one_is_written():
    x = torch.tensor([[0, 1], [2, 3]], device="cuda")
    address = torch._C._data_address(x)
    clone, view = x._lazy_clone(), x.view(4)
    assert [torch._C._is_cow_tensor(each) for each in (x, clone, view)] == [True] * 3
    assert torch._C._data_address(clone) == address
    view += 1
    assert [torch._C._is_cow_tensor(each) for each in (x, clone, view)] == [False, True, False]
    assert (x.tolist(), clone.tolist()) == ([[1, 2], [3, 4]], [[0, 1], [2, 3]])


def test_what_the_cpu_finds_wrong_in_values_is_told_in_its_words():
    shared = torch.zeros(4, device="cuda")._lazy_clone()
    with pytest.raises(
        RuntimeError, match="Materializing a storage in the loop function of at::parallel_for is forbidden"
    ):
        torch._test_parallel_materialize(shared, 1)
