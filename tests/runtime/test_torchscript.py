"""TorchScript on virtual GPUs: scripted code, its files, and what the tracer refuses."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import nn

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

pytestmark = pytest.mark.virtual(on_mismatch="record", finds_nothing=True)

GPU = torch.device("cuda:1")


class Steps(nn.Module):
    """Control flow, and a tensor made beside its input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            x = self.layer(nn.functional.dropout(x, 0.1, self.training)) * self.scale + torch.zeros(
                4, device=x.device
            )
        return x


def scripted(device=GPU):
    torch.manual_seed(0)
    return torch.jit.script(Steps().to(device).eval())


def test_a_scripted_module_runs_as_the_module_that_it_is_made_of(machine):
    module = Steps().to(GPU)
    made = torch.jit.script(module)
    made.eval()
    assert isinstance(made, Steps)
    assert not module.training
    assert made(torch.ones(2, 4, device=GPU), 2).device == GPU
    assert "aten::zeros" in str(made.inlined_graph)
    assert "def forward" in made.code


def test_a_scripted_module_is_one_for_a_program_that_asks(machine):
    made = scripted()
    assert isinstance(made, torch.jit.ScriptModule)
    assert isinstance(made, torch.jit.RecursiveScriptModule)
    assert torch.jit.script(made) is made
    assert not isinstance(Steps(), torch.jit.ScriptModule)
    assert not isinstance(Steps(), torch.jit.RecursiveScriptModule)


def test_a_scripted_function_has_its_graph_and_can_be_called_by_another(machine):
    @torch.jit.script
    def inner(a: torch.Tensor, b: torch.Tensor):
        return a * b + torch.ones_like(a)

    @torch.jit.script
    def outer(a: torch.Tensor):
        return inner(a, a)

    assert outer(torch.full((2,), 3.0, device=GPU)).tolist() == [10, 10]
    assert "prim::CallFunction" in str(outer.graph)
    assert "aten::ones_like" in str(inner.graph)


def test_a_saved_module_comes_back_to_its_gpu(machine, tmp_path):
    made = scripted()
    made.save(str(tmp_path / "m.pt"))
    x = torch.randn(2, 4, device=GPU)
    loaded = torch.jit.load(str(tmp_path / "m.pt"))
    assert {tensor.device for tensor in (*loaded.parameters(), *loaded.buffers())} == {GPU}
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    assert torch.equal(loaded(x, 2), made(x, 2))
    other = torch.jit.load(str(tmp_path / "m.pt"), map_location="cuda:0")
    assert {parameter.device.index for parameter in other.parameters()} == {0}
    assert torch.equal(other(x.to(0), 2).cpu(), made(x, 2).cpu())


def test_a_saved_module_is_read_by_plain_torch(tmp_path):
    with VirtualMachine(parse_machine("2x24GB")):
        made = scripted()
        torch.jit.save(made, str(tmp_path / "m.pt"))
        expected = made(torch.ones(2, 4, device=GPU), 1).cpu()
    assert torch.equal(torch.jit.load(str(tmp_path / "m.pt"))(torch.ones(2, 4), 1), expected)


def test_a_frozen_module_runs(machine):
    made = scripted()
    x = torch.randn(2, 4, device=GPU)
    assert torch.allclose(torch.jit.freeze(made)(x, 2), made(x, 2))


def test_tracing_on_a_gpu_is_refused_in_one_error_of_ours(machine):
    for model, x in ((nn.ReLU(), torch.ones(2, device=GPU)), (nn.Linear(2, 2).to(GPU), torch.ones(2))):
        with pytest.raises(UnsupportedFeatureError, match="which work here"):
            torch.jit.trace(model, x)


def test_what_was_traced_on_the_host_runs_on_a_gpu(machine):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    x = torch.randn(1, 3, 8, 8)
    traced = torch.jit.trace(model, x)
    expected = model(x)
    assert torch.allclose(traced.to(GPU)(x.to(GPU)).cpu(), expected)


def test_constants_of_what_was_traced_are_tensors_for_operators_that_take_nothing_else(machine):
    inner = torch.jit.trace(lambda x: x * 2, torch.ones(2))
    outer = torch.jit.trace(lambda x: torch.jit._wait(torch.jit._fork(inner, x)) + 1, torch.ones(2))
    assert outer(torch.ones(2)).tolist() == [3.0, 3.0]
    assert "{2}" in str(inner.graph)


def test_torchscript_is_as_before_after_the_machine():
    kept = torch.jit.script, torch.jit.trace, torch.jit.load, torch.jit._recursive.try_compile_fn
    with VirtualMachine(parse_machine("2x24GB")):
        assert torch.jit.script is not kept[0]
    assert (torch.jit.script, torch.jit.trace, torch.jit.load, torch.jit._recursive.try_compile_fn) == kept
    assert torch.jit.script(Steps())(torch.ones(1, 4), 1).shape == (1, 4)


@pytest.mark.own_process
def test_a_class_that_torch_scripts_finds_the_names_of_its_module(machine):
    """As `import ignite` does."""
    assert "torch.distributed.optim" not in sys.modules
    importlib.import_module("torch.distributed.optim")
