"""Storages of virtual tensors, `set_`, `.data` and what moves modules, against plain torch."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.torch_versions.adapter import TORCH

MEBIBYTE = 1 << 20
pytestmark = pytest.mark.usefixtures("machine")


def gpu(*values):
    return torch.tensor(values, device="cuda:1")


def test_storage_and_tensor_agree():
    x = torch.arange(6.0, device="cuda:1").view(2, 3)
    storage = x.untyped_storage()
    assert storage.device == x.device
    assert storage.is_cuda
    assert storage.get_device() == 1
    assert storage.data_ptr() == x.data_ptr() == x[1].data_ptr() - 12 != 0
    assert storage.nbytes() == storage.size() == len(storage) == 24
    assert storage.tolist() == torch.arange(6.0).untyped_storage().tolist()
    assert bytes(storage) == bytes(torch.arange(6.0).untyped_storage())
    assert x[1].untyped_storage()._cdata == storage._cdata
    assert storage.is_shared()
    assert storage.share_memory_() is storage
    assert not storage.is_pinned()
    assert storage.data_ptr() != torch.empty(6, device="cuda:1").untyped_storage().data_ptr()
    with pytest.raises(TypeError, match="only CPU memory can be pinned"):
        storage.pin_memory()


def test_copies_of_storages():
    storage = gpu(1.0, 2.0).untyped_storage()
    host = storage.cpu()
    assert (host.device.type, host.tolist()) == ("cpu", storage.tolist())
    assert storage.cuda(1) is storage
    other = storage.cuda(0)
    assert (other.device.index, other.tolist()) == (0, storage.tolist())
    assert host.cuda(1).device.index == 1
    assert host.to(device="cuda").device.index == 0
    clone = storage.clone()
    assert clone.device.index == 1
    clone.fill_(0)
    assert clone.tolist() == [0] * 8 != storage.tolist()
    clone.copy_(host)
    assert clone.tolist() == host.tolist()
    clone[0] = 7
    assert clone[0] == 7
    with pytest.raises(RuntimeError, match="size does not match, self was 8 bytes but src was 3 bytes"):
        clone.copy_(torch.UntypedStorage(3))
    assert clone[:2].tolist() == [7, host[1]]


def test_new_storages():
    made = torch.UntypedStorage(12, device="cuda:1")
    assert (made.device.index, made.nbytes()) == (1, 12)
    assert isinstance(made, torch.UntypedStorage)
    assert torch.UntypedStorage([1, 2], device="cuda").tolist() == [1, 2]
    assert torch.UntypedStorage(3).device.type == "cpu"
    assert torch.UntypedStorage(3, device="meta").device.type == "meta"
    with pytest.raises(TORCH.accelerator_error, match="invalid device ordinal"):
        torch.UntypedStorage(3, device="cuda:9")


def test_typed_storages():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        storage = gpu(1.0, 2.0).storage()
        assert storage.tolist() == [1, 2]
        assert storage.device.index == 1
        assert storage.is_cuda
        assert storage.type() == "torch.cuda.FloatStorage"
        storage[0] = 5
        assert list(storage) == [5, 2]
        assert storage.cpu().tolist() == [5, 2]
        assert storage.fill_(3).tolist() == [3, 3]
        assert torch.TypedStorage(2, dtype=torch.float32, device="cuda:1").size() == 2


def test_the_ledger_follows_resizes():
    x = torch.zeros(4 * MEBIBYTE, device="cuda:1")
    base = torch.cuda.memory_allocated(1)
    storage = x.untyped_storage()
    storage.resize_(0)
    assert torch.cuda.memory_allocated(1) == base - 16 * MEBIBYTE
    assert storage.data_ptr() == 0
    assert x.shape == (4 * MEBIBYTE,)
    storage.resize_(16 * MEBIBYTE)
    assert torch.cuda.memory_allocated(1) == base
    assert storage.data_ptr() != 0
    assert (x + 1).device.index == 1
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 30\.00 GiB"):
        storage.resize_(30 << 30)
    assert torch.cuda.memory_allocated(1) == base
    del x, storage
    assert torch.cuda.memory_allocated(1) == base - 16 * MEBIBYTE


def test_small_values_survive_a_resize():
    x = gpu(1.0, 2.0)
    x.untyped_storage().resize_(16)
    assert x.set_(x.untyped_storage(), 0, (4,), (1,)).tolist()[:2] == [1, 2]
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(16)
    x.copy_(torch.arange(4.0))
    assert x.tolist() == [0, 1, 2, 3]


def test_set_shares_memory_and_checks_devices():
    x = gpu(1.0, 2.0)
    alias = torch.empty(0, device="cuda:1").set_(x.untyped_storage())
    alias[0] = 9
    assert x[0].item() == 9
    assert torch.empty(0, device="cuda:1").set_(x).data_ptr() == x.data_ptr()
    text = 'a tensor on device "{}" to a storage on different device "{}"'
    for there in ("cuda:0", "cpu"):
        with pytest.raises(RuntimeError, match=text.format(there, "cuda:1")):
            torch.empty(0, device=there).set_(x.untyped_storage())
    with pytest.raises(RuntimeError, match=text.format("cuda:1", "cpu")):
        torch.empty(0, device="cuda:1").set_(torch.UntypedStorage(4))
    host = torch.empty(0).set_(torch.arange(2.0).untyped_storage())
    assert host.tolist() == [0, 1]
    assert torch.ones(2, device="cuda:1").set_().numel() == 0


@pytest.mark.parametrize("home", ["cpu", "cuda:0", "cuda:1"])
@pytest.mark.parametrize("target", ["cpu", "cuda:0", "cuda:1"])
@pytest.mark.parametrize("with_gradient", [False, True])
def test_data_may_be_replaced(home, target, with_gradient):
    parameter = nn.Parameter(torch.ones(2, device=home))
    calls = []
    parameter.register_hook(lambda gradient: calls.append(gradient.device))
    if with_gradient:
        parameter.sum().backward()
    identity, new = id(parameter), torch.full((2,), 3.0, device=target)
    parameter.data = new
    assert id(parameter) == identity
    assert isinstance(parameter, nn.Parameter)
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert str(parameter.device) == target
    assert parameter.data_ptr() == new.data_ptr()
    if home == target or not with_gradient:
        (parameter * 2).sum().backward()
        assert str(parameter.grad.device) == target
        assert calls[-1] == parameter.device


@pytest.mark.parametrize("home", ["cpu", "cuda:0"])
def test_data_may_come_from_inference_mode_and_go_into_it(home):
    parameter = nn.Parameter(torch.ones(2, device=home))
    parameter.sum().backward()
    with torch.inference_mode():
        made = torch.full((3,), 3.0, dtype=torch.float64, device="cuda:0")[1:]
        inside = torch.ones(2, device="cuda:0")
    parameter.data = made  # as peft merges an adapter into a bias
    assert (str(parameter.device), parameter.dtype, parameter.requires_grad) == (
        "cuda:0",
        torch.float64,
        True,
    )
    assert parameter.data_ptr() == made.data_ptr()
    parameter.grad = None
    (parameter * 2).sum().backward()
    assert parameter.grad.tolist() == [2, 2]
    with torch.no_grad():
        parameter.mul_(2)
    assert made.tolist() == [6, 6]
    other = torch.zeros(4, device="cuda:0")
    inside.data = other
    assert inside.tolist() == other.tolist()


@pytest.mark.parametrize("move", ["to", "cuda", "half", "to_half", "double"])
def test_modules_keep_identity_ties_and_gradients(move):
    model = nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 4, bias=False))
    model[1].weight = model[0].weight
    model[0](torch.tensor([1])).sum().backward()
    before = model[0].weight
    moved = {
        "to": lambda: model.to("cuda:1"),
        "cuda": lambda: model.cuda(1),
        "half": lambda: model.cuda(1).half(),
        "to_half": lambda: model.to("cuda:1", torch.float16),
        "double": lambda: model.cuda(1).double(),
    }[move]()
    assert moved is model
    assert model[0].weight is model[1].weight is before
    assert before.grad.device == before.device == torch.device("cuda", 1)
    assert before.grad.dtype == before.dtype
    assert len(list(model.parameters())) == 1
    model.to("cpu")
    assert model[0].weight is before
    assert before.grad.tolist()[1] == [1, 1, 1]


def test_swaps():
    first, second = nn.Parameter(gpu(1.0)), nn.Parameter(torch.zeros(2))
    torch.utils.swap_tensors(first, second)
    assert (first.device.type, second.device.index) == ("cpu", 1)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 2)
        weight = layer.weight
        layer.to("cuda:1")
        assert layer.weight is weight
        assert weight.device.index == 1
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_empty_modules_get_their_memory():
    with torch.device("meta"):
        layer = nn.Linear(3, 2)
    assert layer.weight.device.type == "meta"
    layer.to_empty(device="cuda:1")
    assert layer.weight.device.index == 1
    layer.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    assert layer(torch.ones(1, 3, device="cuda:1")).tolist() == [[3, 3]]
    with torch.device("meta"):
        other = nn.Linear(3, 2)
    other.load_state_dict(layer.state_dict(), assign=True)
    assert other.weight.device.index == 1
    assert isinstance(other.weight, nn.Parameter)


def test_vectors_and_parametrizations():
    layer = nn.Linear(2, 2).to("cuda:1")
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert (vector.device.index, vector.numel()) == (1, 6)
    nn.utils.vector_to_parameters(torch.arange(6.0, device="cuda:1"), layer.parameters())
    assert layer.bias.tolist() == [4, 5]
    with pytest.raises(TypeError, match="Found two parameters on different devices"):
        nn.utils.parameters_to_vector([*layer.parameters(), nn.Parameter(torch.ones(1, device="cuda:0"))])
    nn.utils.parametrizations.weight_norm(layer)
    expected = layer(torch.ones(1, 2, device="cuda:1"))
    state = layer.state_dict()
    assert all(value.device.index == 1 for value in state.values())
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(layer.weight)
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(torch.ones(1, 2, device="cuda:1")), expected)


def test_ways_out_of_torch():
    x = gpu(1.0, 2.0)
    text = "can't convert cuda:1 device type tensor to numpy"
    with pytest.raises(TypeError, match=text):
        np.asarray(x)
    with pytest.raises(TypeError, match=text):
        np.array([x[0], x[1]])
    if TORCH.dlpack_of_current_gpu_only:
        with pytest.raises(BufferError, match="different CUDA device index"):
            torch.from_dlpack(x)
    else:
        assert torch.from_dlpack(x).data_ptr() == x.data_ptr()
    with torch.cuda.device(1), pytest.raises(UnsupportedFeatureError, match="DLPack"):
        np.from_dlpack(x)
    with pytest.raises((BufferError, RuntimeError), match="require gradient"):  # the latter up to torch 2.9
        torch.from_dlpack(nn.Parameter(x))
    assert x.__cuda_array_interface__["data"] == (x.data_ptr(), False)
    assert not hasattr(torch.ones(1), "__cuda_array_interface__")
    assert torch.from_dlpack(torch.arange(2.0)).tolist() == [0, 1]


def test_all_is_restored():
    plain = torch.UntypedStorage
    names = ["__getitem__", "clone", "cpu", "data_ptr", "resize_", "to", "share_memory_"]
    with VirtualMachine(parse_machine("1x24GB")):
        inside = [getattr(plain, name) for name in names]
    outside = [getattr(plain, name) for name in names]
    assert all(one is not other for one, other in zip(inside, outside, strict=True))
