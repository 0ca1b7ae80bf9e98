"""accelerate's own way of spreading a model, on a virtual machine: same values as on the host, each parameter
where its map says.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

accelerate = pytest.importorskip("accelerate")
hooks = pytest.importorskip("accelerate.hooks")
accelerate_utils = pytest.importorskip("accelerate.utils")

pytestmark = pytest.mark.usefixtures("machine")

HOST, FIRST, SECOND = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)


class Blocks(nn.Module):
    """Its second block has a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.second = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)))


class Tied(nn.Module):
    """The head is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embedding(ids)))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def blocks() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model, x = Blocks().eval(), torch.randn(2, 3)
    with torch.no_grad():
        return model, x, model(x)


def assert_same(output: torch.Tensor, expected: torch.Tensor, device: torch.device) -> None:
    assert output.device == device
    torch.testing.assert_close(output.detach().cpu(), expected)


def test_a_model_is_spread_over_two_devices():
    model, x, expected = blocks()
    spread = accelerate.dispatch_model(model, {"first": 0, "norm": 0, "second": 1})
    assert {name: p.device for name, p in spread.named_parameters() if name.endswith("weight")} == {
        "first.weight": FIRST,
        "norm.weight": FIRST,
        "second.weight": SECOND,
    }
    assert spread.norm.running_mean.device == FIRST
    assert_same(spread(x.to(0)), expected, FIRST)
    assert_same(spread(x), expected, HOST)  # accelerate brings a model's outputs to where its inputs were


def test_parts_on_the_host_and_on_the_disk(tmp_path):
    model, x, expected = blocks()
    spread = accelerate.dispatch_model(
        model, {"first": "cpu", "norm": 0, "second": "disk"}, main_device=0, offload_dir=tmp_path
    )
    assert spread.first.weight.device == spread.second.weight.device == torch.device("meta")
    for _ in range(2):
        assert_same(spread(x), expected, HOST)
        assert spread.first.weight.device == torch.device("meta")


def test_a_model_offloaded_to_the_host():
    model, x, expected = blocks()
    accelerate.cpu_offload(model, execution_device=1, offload_buffers=True)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert model.norm.running_mean.device == torch.device("meta")
    assert_same(model(x), expected, HOST)
    hooks.remove_hook_from_submodules(model)
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    torch.testing.assert_close(model(x), expected)


def test_a_model_offloaded_to_the_disk(tmp_path):
    model, x, expected = blocks()
    accelerate.disk_offload(model, tmp_path, execution_device=0)
    assert_same(model(x), expected, HOST)


def test_a_model_that_goes_back_to_the_host_when_told():
    model, x, expected = blocks()
    weight = model.first.weight
    model, hook = accelerate.cpu_offload_with_hook(model, execution_device=1)
    assert_same(model(x), expected, SECOND)
    assert weight.device == SECOND
    hook.offload()
    assert weight.device == torch.device("cpu")
    assert model.first.weight is weight


def test_offloading_leaves_nothing_on_the_device():
    model, x, _ = blocks()
    accelerate.cpu_offload(model, execution_device=0, offload_buffers=True)
    output = model(x)
    del output
    torch._C._cuda_clearCublasWorkspaces()
    assert torch.cuda.memory_allocated(0) == 0
    assert torch.cuda.max_memory_allocated(0) > 0


@pytest.mark.parametrize("device_map", [{"": 1}, {"embedding": 1, "body": 1, "head": 1}])
def test_tied_weights_stay_tied_on_one_device(device_map):
    model = Tied()
    weight = model.embedding.weight
    accelerate.dispatch_model(model, device_map)
    assert model.embedding.weight is model.head.weight is weight
    assert weight.device == SECOND


def squares(*tied: int) -> nn.Sequential:
    model = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(4)])
    for index in tied:
        model[index].weight = model[0].weight
    return model


def test_tied_weights_take_memory_once():
    model, x = squares(2, 3), torch.randn(2, 256)
    expected = model(x).detach()
    accelerate.dispatch_model(model, {"0": 0, "1": 1, "2": 0, "3": 0})
    assert torch.cuda.memory_allocated(0) == torch.cuda.memory_allocated(1) == 256 * 256 * 4
    assert_same(model(x), expected, HOST)


def test_weights_tied_across_devices_end_on_the_first():
    # accelerate ties them again after it has spread them: a layer's weight is then not where its inputs are
    # sent.
    model = squares(1, 2, 3)
    accelerate.dispatch_model(model, {"0": 0, "1": 1, "2": 0, "3": 0})
    assert model[1].weight is model[0].weight
    with pytest.raises(RuntimeError, match=r"(?=.*mat2)(?=.*cuda:0)(?=.*cuda:1)"):
        model(torch.randn(2, 256))


def test_a_tied_model_with_its_body_on_another_device():
    model, ids = Tied(), torch.tensor([[1, 2, 3]])
    expected = model(ids).detach()
    accelerate.dispatch_model(model, {"embedding": 0, "body": 1, "head": 0}, main_device=0)
    assert model.head.weight.device == FIRST
    assert model.body.weight.device == SECOND
    assert_same(model(ids), expected, HOST)


def test_an_automatic_map_goes_by_the_machines_memory():
    assert accelerate_utils.get_max_memory().keys() == {0, 1, "cpu"}
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(20_000, 20_000, bias=False) for _ in range(24)])  # 1.5 GiB each
    device_map = accelerate.infer_auto_device_map(model)
    assert set(device_map.values()) == {0, 1}
    assert device_map["0"] == 0
    assert device_map["23"] == 1


def test_a_checkpoint_is_loaded_to_the_devices_of_its_map(tmp_path):
    model, x, expected = blocks()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with accelerate.init_empty_weights():
        empty = Blocks()
    device_map = {"first": 0, "norm": "cpu", "second": 1}
    loaded = accelerate.load_checkpoint_and_dispatch(
        empty, str(tmp_path / "pytorch_model.bin"), device_map=device_map
    ).eval()
    assert loaded.first.weight.device == FIRST
    assert loaded.second.weight.device == SECOND
    assert_same(loaded(x), expected, HOST)


def test_inputs_follow_a_hook_and_outputs_come_back():
    layer, x = nn.Linear(3, 3), torch.randn(2, 3)
    expected = layer(x).detach()
    hooks.add_hook_to_module(
        layer, hooks.AlignDevicesHook(execution_device=1, io_same_device=True, place_submodules=True)
    )
    assert layer.weight.device == SECOND
    assert_same(layer(x.to(0)), expected, FIRST)


@pytest.mark.filterwarnings("ignore:You are calling .generate")
def test_generated_tokens_are_those_of_the_host(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=61,
        n_positions=32,
        n_embd=16,
        n_layer=3,
        n_head=2,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=None,
    )
    ids = torch.tensor([[5, 17, 3]])

    def model() -> nn.Module:
        torch.manual_seed(1)
        return transformers.GPT2LMHeadModel(config).eval()

    expected = model().generate(ids, max_new_tokens=10, do_sample=False).tolist()
    device_map = accelerate.infer_auto_device_map(
        model(), {0: 30_000, 1: 10**9}, no_split_module_classes=["GPT2Block"]
    )
    spread = accelerate.dispatch_model(model(), device_map, main_device=0)
    assert {p.device for p in spread.parameters()} == {FIRST, SECOND}
    assert spread.generate(ids.to(0), max_new_tokens=10, do_sample=False).tolist() == expected
    for offloaded in (
        accelerate.cpu_offload(model(), execution_device=0),
        accelerate.disk_offload(model(), tmp_path, execution_device=0),
    ):
        assert offloaded.generate(ids.to(0), max_new_tokens=10, do_sample=False).tolist() == expected
