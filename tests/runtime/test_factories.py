"""Factories on virtual GPUs: every one takes every way to name a device, and a default tensor type says where
the rest go.
"""

from __future__ import annotations

import warnings

import pytest
import torch

from samedevice.events import EventKind

FACTORIES = {
    "arange": lambda **how: torch.arange(3, **how),
    "bartlett_window": lambda **how: torch.bartlett_window(3, **how),
    "empty": lambda **how: torch.empty(2, **how),
    "empty_permuted": lambda **how: torch.empty_permuted((2, 3), (1, 0), **how),
    "empty_strided": lambda **how: torch.empty_strided((2, 3), (1, 2), **how),
    "eye": lambda **how: torch.eye(2, **how),
    "fftfreq": lambda **how: torch.fft.fftfreq(4, **how),
    "full": lambda **how: torch.full((2,), 1.0, **how),
    "linspace": lambda **how: torch.linspace(0, 1, 4, **how),
    "normal": lambda **how: torch.normal(0.0, 1.0, (3,), **how),
    "rand": lambda **how: torch.rand(2, **how),
    "randint": lambda **how: torch.randint(3, (2,), **how),
    "randperm": lambda **how: torch.randperm(4, **how),
    "range": lambda **how: torch.range(0, 4, **how),
    "range by name": lambda **how: torch.range(start=0, end=4, step=2, dtype=torch.float64, **how),
    "scalar_tensor": lambda **how: torch.scalar_tensor(3.0, **how),
    "tensor": lambda **how: torch.tensor([1.0, 2.0], **how),
    "as_tensor": lambda **how: torch.as_tensor([1.0, 2.0], **how),
    "asarray": lambda **how: torch.asarray([1.0, 2.0], **how),
    "tril_indices": lambda **how: torch.tril_indices(3, 3, **how),
    "zeros": lambda **how: torch.zeros(2, **how),
}
UNDEFINED = {"empty", "empty_permuted", "empty_strided"}


@pytest.fixture(autouse=True)
def as_it_was(machine):
    """Only generators are found, and the default type is put back."""
    dtype = torch.get_default_dtype()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `torch.range` and `torch.set_default_tensor_type` are deprecated
        yield
        torch.set_default_dtype(dtype)
    assert not [event for event in machine.events if event.kind is not EventKind.GENERATOR]


@pytest.mark.parametrize("name", FACTORIES)
def test_a_device_is_named_by_number_text_object_or_context(name):
    make = FACTORIES[name]
    for device in (1, "cuda:1", torch.device("cuda", 1)):
        assert make(device=device).device == torch.device("cuda", 1)
    with torch.device("cuda:1"):
        assert make().device == torch.device(
            "cpu" if name == "normal" else "cuda:1"
        )  # torch's contexts leave that one out
    assert make().device == torch.device("cpu")
    assert make(device="cuda").dtype == make().dtype


@pytest.mark.parametrize("name", sorted(FACTORIES.keys() - UNDEFINED))
def test_equal_seeds_give_a_factory_and_its_out_variant_the_same_values(name):
    make = FACTORIES[name]
    torch.manual_seed(3)
    made = make(device="cuda")
    assert made.cpu().equal(make()) or name in ("normal", "rand", "randint", "randperm")
    if name in (
        "arange",
        "eye",
        "full",
        "linspace",
        "normal",
        "rand",
        "randint",
        "randperm",
        "range",
        "zeros",
    ):
        torch.manual_seed(3)
        out = torch.empty_like(made)
        assert make(out=out, device="cuda") is out
        assert out.equal(made)


def test_a_host_destination_for_a_gpu_is_refused_as_torch_does():
    with pytest.raises(
        RuntimeError, match=r"device type cuda does not match device type of out parameter \(cpu\)"
    ):
        torch.normal(0.0, 1.0, (3,), out=torch.empty(3), device="cuda")
    with pytest.raises(
        RuntimeError, match=r"device type cpu does not match device type of out parameter \(cuda\)"
    ):
        torch.normal(0.0, 1.0, (3,), out=torch.empty(3, device="cuda"), device="cpu")


def test_a_tensor_that_is_there_already_is_taken_as_it_is():
    x = torch.arange(4.0, device="cuda", requires_grad=True)
    assert torch.as_tensor(x, device="cuda") is x
    assert torch.as_tensor(x, device="cuda:0", dtype=torch.float32) is x
    assert torch.asarray(x, device="cuda", requires_grad=True).data_ptr() == x.data_ptr()
    assert torch.asarray(x, copy=True, requires_grad=True).data_ptr() != x.data_ptr()
    assert torch.as_tensor(x, device="cuda:1").device == torch.device("cuda", 1)
    assert torch.asarray(x, device="cuda:1", dtype=torch.float64, requires_grad=True).dtype == torch.float64
    torch.as_tensor(x, device="cuda:1").sum().backward()
    assert x.grad is not None
    assert x.grad.device == torch.device("cuda", 0)


def test_asarray_refuses_what_is_no_alias():
    x = torch.zeros(2, device="cuda")
    with pytest.raises(ValueError, match="can't alias tensor from device 'cuda:0' to 'cuda:1'"):
        torch.asarray(x, device="cuda:1", copy=False)
    with pytest.raises(ValueError, match="can't alias tensor from device 'cpu' to 'cuda:0'"):
        torch.asarray(x.cpu(), device="cuda", copy=False)
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'"):
        torch.asarray(x, dtype=torch.float64, copy=False)


@pytest.mark.parametrize("name", FACTORIES)
def test_a_default_tensor_type_on_the_gpu_places_what_nobody_places(name):
    make = FACTORIES[name]
    torch.set_default_tensor_type("torch.cuda.DoubleTensor")
    assert make().device == torch.device("cuda", 0)
    assert make(device="cpu").device == torch.device("cpu")
    with torch.device("cpu"):
        assert make().device == torch.device("cpu")
    with torch.cuda.device(1):
        assert make().device == torch.device("cuda", 1)
    torch.set_default_tensor_type(torch.FloatTensor)
    assert make().device == torch.device("cpu")
    assert torch.get_default_dtype() == torch.float32


def test_a_default_tensor_type_on_the_gpu_leaves_given_tensors_where_they_are():
    host = torch.ones(2)
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    for made in (
        torch.as_tensor(host),
        torch.zeros_like(host),
        torch.empty_like(host),
        host.new_zeros(2),
        torch.normal(host, host),
    ):
        assert made.device == torch.device("cpu")
    assert (
        torch.Tensor(2, 3).device
        == torch.Tensor([1.0]).device
        == torch.nn.Linear(1, 1).weight.device
        == torch.device("cuda", 0)
    )
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        torch.set_default_tensor_type(torch.cuda.LongTensor)


def test_cuda_takes_no_host_device():
    with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
        torch.zeros(2).cuda("cpu")


@pytest.mark.parametrize(
    "data",
    [
        lambda x: [x, x[:1] * 2],
        lambda x: [(x, 1), (2.5, x.view(1, 1))],
        lambda x: [x.long(), x > 0],
        lambda x: [x.expand(2), x.expand(2)],
        lambda x: [x.expand(2).long(), x.expand(2).long()],
        lambda x: [x[:0]],
    ],
)
@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.asarray])
def test_nested_data_is_read_as_torch_reads_it(make, data):
    def told(device):
        try:
            made = make(data(torch.ones(1, device=device)))
        except (TypeError, ValueError) as error:
            return type(error), str(error)
        return made.dtype, made.tolist()

    assert told("cuda") == told("cpu")


def test_generators_of_another_kind_of_device_are_refused_where_something_is_drawn():
    cpu, cuda = torch.Generator(), torch.Generator("cuda")
    for draw in (
        lambda: torch.randperm(3, device="cuda", generator=cpu),
        lambda: torch.randperm(3, generator=cuda),
        lambda: torch.randperm(3, generator=cuda, out=torch.tensor(3)),
        lambda: torch.rand(3, device="cuda", generator=cpu),
        lambda: torch.zeros(3).normal_(generator=cuda),
        lambda: torch.zeros(3, device="cuda").normal_(generator=cpu),
        lambda: torch.ones(3).bernoulli(generator=cuda),
        lambda: torch.multinomial(torch.ones(3, device="cuda"), 1, generator=cpu),
    ):
        with pytest.raises(RuntimeError, match=r"Expected a '\w+' device type for generator but found '\w+'"):
            draw()
    for draw_nothing in (
        lambda: torch.randperm(0, device="cuda", generator=cpu),
        lambda: torch.randperm(0, generator=cuda),
        lambda: torch.rand(3, 0, device="cuda", generator=cpu),
        lambda: torch.zeros(0).normal_(generator=cuda),
    ):
        assert draw_nothing().numel() == 0
