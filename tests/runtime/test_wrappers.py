"""Tensors around tensors: fake tensors, wrapper classes and the transforms of `torch.func` beside a
machine.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functionalize, grad, jacrev, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

pytestmark = pytest.mark.virtual(on_mismatch="record", finds_nothing=True)

GPU = torch.device("cuda:1")


class Wrapper(torch.Tensor):
    """A wrapper as libraries write them: C++ is told the device of what is inside."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [a.inner if isinstance(a, Wrapper) else a for a in args]
        result = func(*args, **(kwargs or {}))
        return Wrapper(result) if isinstance(result, torch.Tensor) else result


def test_a_wrapper_class_is_where_it_says_and_has_gradients(machine):
    inner = torch.ones(3, device=GPU)
    wrapper = Wrapper(inner).requires_grad_()
    result = (wrapper * 2).sum()
    assert (wrapper.device, result.device, result.is_cuda) == (GPU, GPU, True)
    result.backward()
    assert wrapper.grad.device == GPU
    assert wrapper.grad.inner.tolist() == [2, 2, 2]


def test_what_composite_code_makes_beside_a_wrapper_is_on_its_gpu(machine):
    wrapper = Wrapper(torch.arange(3.0, device=GPU)).requires_grad_()
    result = torch.where(wrapper > 1, wrapper, 7.0)
    assert result.inner.tolist() == [7, 7, 2]
    result.sum().backward()
    assert wrapper.grad.inner.tolist() == [0, 0, 1]


def test_a_wrapper_class_tells_torch_its_device_again_after_the_machine(machine):
    assert Wrapper(torch.ones(3)).device.type == "cpu"


@pytest.mark.parametrize("transform", [vmap, jacrev, functionalize, lambda f: grad(lambda x: f(x).sum())])
def test_functions_under_a_transform_see_the_device(machine, transform):
    seen = []

    def function(x):
        seen.append(
            (x.device, x.is_cuda, x.is_meta, torch.zeros(2, device=x.device).device, x.new_ones(2).device)
        )
        return x * torch.ones(2, device=x.device)

    assert transform(function)(torch.ones(3, 2, device=GPU)).device == GPU
    assert set(seen) == {(GPU, True, False, GPU, GPU)}


def test_a_move_under_a_transform_brings_its_gradient_back(machine):
    gradient = grad(lambda x: (x.to("cuda:0") ** 2).cpu().sum())(torch.arange(3.0, device=GPU))
    assert gradient.device == GPU
    assert gradient.tolist() == [0, 2, 4]


def test_fake_tensors_train_a_model_on_a_gpu(machine):
    with FakeTensorMode():
        model = nn.Sequential(
            nn.Conv2d(3, 4, 3, device=GPU), nn.BatchNorm2d(4, device=GPU), nn.Dropout(), nn.Flatten()
        )
        optimizer = torch.optim.AdamW(model.parameters())
        loss = F.cross_entropy(
            model(torch.randn(2, 3, 8, 8, device=GPU)), torch.randint(0, 5, (2,), device=GPU)
        )
        loss.backward()
        optimizer.step()
        assert type(loss) is FakeTensor
        assert (loss.device, model[0].weight.grad.device) == (GPU, GPU)
    assert machine.memory()["cuda:1"].peak_allocated == 0


def test_what_composite_code_makes_beside_a_fake_tensor_is_on_its_gpu(machine):
    with FakeTensorMode():
        x = torch.randn(4, device=GPU, requires_grad=True)
        y = torch.where(x > 0, x, 1.0)
        (y * 2).sum().backward()
        q = torch.randn(1, 2, 16, 8, device=GPU, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        answers = y, x.grad, F.one_hot(torch.randint(0, 4, (3,), device=GPU), 4), q.grad
    assert {tensor.device for tensor in answers} == {GPU}


def test_a_users_own_meta_tensor_stays_meta_beside_fake_ones(machine):
    with FakeTensorMode():
        x = torch.randn(4, device=GPU) + 1
        made = torch.empty(3, device="meta"), torch.zeros_like(x, device="meta"), x.to("meta")
    assert {tensor.device.type for tensor in made} == {"meta"}


def test_fake_tensors_of_two_gpus_are_refused_by_torch(machine):
    with (
        FakeTensorMode(),
        pytest.raises(
            RuntimeError, match=r"found (at least )?two (different )?devices,? cuda:0(,| and) cuda:1"
        ),
    ):
        torch.ones(2, device="cuda:0") + torch.ones(2, device=GPU)


def test_a_fake_twin_of_a_virtual_tensor_is_on_its_gpu(machine):
    mode = FakeTensorMode()
    twin = mode.from_tensor(torch.ones(3, device=GPU, requires_grad=True))
    with mode:
        (twin * 2).sum().backward()
    assert (twin.device, twin.grad.device) == (GPU, GPU)


@pytest.mark.parametrize("tracing", ["real", "fake", "symbolic"])
def test_a_traced_graph_names_the_gpu_and_computes(machine, tracing):
    def function(x):
        return torch.where(x > 1, x, 0.0) + torch.ones(3, device=x.device)

    graph = make_fx(function, tracing_mode=tracing)(torch.arange(3.0, device=GPU))
    assert "meta" not in graph.code
    assert "device(type='cuda', index=1)" in graph.code
    assert graph(torch.arange(3.0, device=GPU)).tolist() == [1, 1, 3]


def test_an_exported_model_runs_on_its_gpu(machine):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)).to(GPU)
    x = torch.randn(3, 5, device=GPU)
    program = torch.export.export(model, (x,), strict=False)
    assert torch.equal(program.module()(x), model(x))
    assert torch.equal(program.run_decompositions().module()(x), model(x))


def test_aot_autograd_traces_and_runs_both_directions(machine):
    from functorch.compile import aot_function, nop

    graphs = []

    def compiler(graph, inputs):
        graphs.append(graph.code)
        return nop(graph, inputs)

    x = torch.arange(3.0, device=GPU, requires_grad=True)
    aot_function(lambda x: torch.where(x > 0, x * x, 0.5).sin(), fw_compiler=compiler)(x).sum().backward()
    expected = torch.arange(3.0, requires_grad=True)
    torch.where(expected > 0, expected * expected, 0.5).sin().sum().backward()
    assert len(graphs) == 2
    assert not any("meta" in graph for graph in graphs)
    assert x.grad.device == GPU
    assert x.grad.tolist() == expected.grad.tolist()


def test_control_flow_operators_run(machine):
    x = torch.ones(3, device=GPU, requires_grad=True)
    result = torch.cond(x.sum() > 2, lambda a: a * 3, lambda a: a - 1, (x,))
    assert result.device == GPU
    assert result.tolist() == [3, 3, 3]
    result.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    count, _ = torch._higher_order_ops.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, a * 2),
        (torch.zeros((), dtype=torch.long, device=GPU), x.detach()),
    )
    assert count.item() == 4


def test_nothing_is_left_of_it():
    before = {owner: dict(vars(owner)) for owner in (torch.Tensor, FakeTensor, FakeTensorMode)}
    with VirtualMachine(parse_machine("2x24GB")):
        pass
    assert all(dict(vars(owner)) == names for owner, names in before.items())


_TWICE = """
import torch
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from torch._subclasses.fake_tensor import FakeTensorMode
layer = torch.nn.Linear(2, 2)
with VirtualMachine(parse_machine("2x24GB")):
    layer = layer.cuda()
    with FakeTensorMode(allow_non_fake_inputs=True):
        print(layer(torch.ones(2, 2, device="cuda", requires_grad=True)).device)
"""


def test_a_gpu_module_under_fake_tensors_does_not_end_the_process():
    ran = subprocess.run([sys.executable, "-c", _TWICE], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "cuda:0\n"), ran.stderr
