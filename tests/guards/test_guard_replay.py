"""`sd.guard(replay=True)`: birthplaces for an error as hardware raises it, and nothing worse than without."""

from __future__ import annotations

import copy
import os
import threading
import time

import psutil
import pytest
import torch
from torch import nn

import samedevice as sd
from evidence.engine import on_hardware
from samedevice.events import Event
from samedevice.guards import _replay
from samedevice.guards._live import event_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a replay forks")


@pytest.fixture(autouse=True)
def hardware():
    with on_hardware.as_on_hardware(), sd.machine("2x24GB"):
        yield


def weights(count):
    made = torch.arange(float(count))
    return made


class Helper(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        steps = weights(4)
        return self.layer(x) * steps


def fails(model, *args, replay=True):
    with pytest.raises(RuntimeError) as caught, sd.guard(replay=replay):
        model(*args)
    assert not hasattr(caught.value, "samedevice_event")
    return caught.value.finding


def x(device="cuda:0"):
    return torch.ones(2, 4, device=device)


def test_what_the_call_made():
    plain = fails(Helper().to("cuda:0"), x(), replay=False)
    finding = fails(Helper().to("cuda:0"), x())
    assert all(operand.made is None for operand in plain.operands)
    steps = next(operand for operand in finding.operands if operand.device == "cpu")
    assert steps.made.code == "made = torch.arange(float(count))"
    assert finding.cause == "tensor-created-on-wrong-device"
    assert (finding.message, finding.at, finding.user_at) == (plain.message, plain.at, plain.user_at)
    assert finding.notes == ()


def test_a_program_that_sees_some_of_the_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with sd.machine("2x24GB"):
        assert torch.cuda.device_count() == 1
        finding = fails(Helper().to("cuda:0"), x())
    assert all(operand.made for operand in finding.operands)
    assert finding.notes == ()


def test_a_spread_transformer():
    """S2: the rotary table is made on one GPU, and used in a layer on another."""
    transformers = pytest.importorskip("transformers", minversion="4.48")  # layers had tables of their own
    config = transformers.Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = transformers.Qwen2ForCausalLM(config).eval().to("cuda:0")
    model.model.layers[1].to("cuda:1")
    model.model.layers[1].register_forward_pre_hook(
        lambda module, args: tuple(each.to("cuda:1") for each in args)
    )
    with torch.no_grad():
        finding = fails(model, torch.tensor([[1, 2, 3]], device="cuda:0"))
    table = next(operand for operand in finding.operands if operand.device == "cuda:0")
    assert table.made.file.endswith("modeling_qwen2.py")
    assert "cos" in table.made.code
    assert finding.cause == "rope-table-on-wrong-device"


def test_what_came_from_outside_has_no_birthplace():
    finding = fails(nn.Linear(4, 4).to("cuda:1"), x())
    assert all(operand.made is None and operand.moved is None for operand in finding.operands)
    assert not any(operand.lineage for operand in finding.operands)
    assert finding.notes == ()


def test_the_program_is_as_before():
    model = Helper().to("cuda:0")
    kept = (torch.Tensor.__deepcopy__, nn.Parameter.__deepcopy__)
    before = {name: (id(value), value.tolist()) for name, value in model.state_dict(keep_vars=True).items()}
    fails(model, x())
    assert {
        name: (id(value), value.tolist()) for name, value in model.state_dict(keep_vars=True).items()
    } == before
    assert (torch.Tensor.__deepcopy__, nn.Parameter.__deepcopy__) == kept
    assert torch.equal(copy.deepcopy(model).layer.weight, model.layer.weight)


class Fails(Helper):
    """Fails at once the first time; in the replay it does something else."""

    def __init__(self, otherwise):
        super().__init__()
        self.process, self.otherwise = os.getpid(), otherwise

    def forward(self, x):
        if os.getpid() != self.process:
            self.otherwise()
        return super().forward(x)


def held(amount):
    return [bytearray(b"x" * 1000) * (amount // 1000), time.sleep(60)]


@pytest.mark.parametrize(
    ("otherwise", "seconds", "reason"),
    [
        (lambda: time.sleep(60), 2, "the replay took longer than 2 s"),
        (lambda: held(400 << 20), 40, "the replay needed more than 200.0 MiB"),
        (lambda: os._exit(3), 40, "the replay ended early: EOFError"),
        (os.abort, 40, "the replay ended early: EOFError"),
        (lambda: {}[1], 40, "the replay failed otherwise: KeyError"),
        (lambda: x("cuda:0") + x("cuda:1"), 40, "the replay failed at another statement"),
    ],
)
def test_a_replay_that_goes_wrong(monkeypatch, otherwise, seconds, reason):
    kept = _replay.replayed
    monkeypatch.setattr(
        "samedevice.guards._finding.replayed",
        lambda error, event: kept(error, event, seconds, memory=200 << 20),
    )
    model = Fails(otherwise).to("cuda:0")
    children = psutil.Process().children()
    begin = time.monotonic()
    finding = fails(model, x())
    assert time.monotonic() - begin < 50  # the replay is not waited for to its end
    assert finding.code == "SD101"
    (note,) = finding.notes
    assert note.startswith(f"no birthplaces: {reason}")
    assert psutil.Process().children() == children  # nothing is left behind


def test_a_model_that_cannot_be_copied():
    model = Helper().to("cuda:0")
    model.lock = threading.Lock()
    (note,) = fails(model, x()).notes
    assert note.startswith("no birthplaces: Helper could not be copied: TypeError")


def test_no_module_on_the_traceback():
    with pytest.raises(RuntimeError) as caught, sd.guard(replay=True):
        x("cuda:0") + x("cuda:1")
    assert caught.value.finding.notes == ("no birthplaces: no method of a module is on the traceback",)


def test_a_method_that_is_no_call():
    class Encodes(Helper):
        def encode(self, x, scale=1.0):
            steps = torch.arange(4.0)
            return x * steps * scale

    model = Encodes().to("cuda:0")
    with pytest.raises(RuntimeError) as caught:
        model.encode(x(), scale=2.0)
    event = event_of(caught.value)
    found = _replay.replayed(caught.value, event)
    assert isinstance(found, Event)
    assert [operand.made.code for operand in found.operands if operand.device == "cpu"] == [
        "steps = torch.arange(4.0)"
    ]
