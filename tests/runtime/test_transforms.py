"""`torch.func` and forward-mode differentiation: the numbers and devices of the same program on the host."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine


def energy(x):
    return (torch.where(x > 0, x, 0.5) ** 3).sum() + F.softmax(x, 0).log().mean()


def _dual(x):
    with forward_ad.dual_level():
        made = forward_ad.make_dual(x, torch.ones_like(x))
        found = forward_ad.unpack_dual(F.layer_norm(made, (4,)).sin())
        return found.primal, found.tangent


def _per_sample(x):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view(parameter.shape))
    model = model.to(x.device)
    state = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(state, row, label):
        return F.cross_entropy(functional_call(model, state, (row.unsqueeze(0),)), label.unsqueeze(0))

    rows = torch.stack([x, x * 2, -x])
    found = vmap(grad(loss), in_dims=(None, 0, 0))(state, rows, torch.tensor([0, 1, 2], device=x.device))
    return tuple(found.values())


def _ensemble(x):
    models = [nn.Linear(4, 2).to(x.device) for _ in range(3)]
    with torch.no_grad():
        for number, model in enumerate(models):
            model.weight.fill_(number)
            model.bias.fill_(1)
    state, buffers = stack_module_state(models)
    base = nn.Linear(4, 2).to("meta")
    return vmap(lambda s, b: functional_call(base, (s, b), (x,)))(state, buffers).detach()


PROGRAMS = {
    "grad": grad(energy),
    "vjp": lambda x: vjp(torch.sin, x)[1](x)[0],
    "jvp": lambda x: jvp(energy, (x,), (x,)),
    "jacfwd": jacfwd(torch.sin),
    "jacrev": jacrev(torch.sin),
    "hessian": hessian(energy),
    "linearize": lambda x: linearize(torch.sin, x)[1](x),
    "vmap": lambda x: vmap(lambda a, b: a * b + torch.arange(4, device=a.device), in_dims=(0, None))(
        torch.outer(x, x), x
    ),
    "vmap of columns": lambda x: vmap(torch.dot, in_dims=(1, None), out_dims=0)(torch.outer(x, x), x),
    "same noise": lambda x: vmap(lambda a: torch.rand(4, device=a.device), randomness="same")(
        torch.outer(x, x)
    ).diff(dim=0),
    "per sample": _per_sample,
    "ensemble": _ensemble,
    "dual numbers": _dual,
    "numbers beside it": lambda x: jvp(lambda a: (a * 2.0 + 1) / 3 - a**2 * 1j, (x,), (x,)),
    "numbers and sums": hessian(lambda a: 3 * a.sum() * a.prod() - a.sin().sum() / 2),
    "jacobian": lambda x: torch.autograd.functional.jacobian(
        torch.exp, x, vectorize=True, strategy="forward-mode"
    ),
    "batch norm": lambda x: jvp(
        lambda a: F.batch_norm(a, None, None, training=True), (torch.outer(x, x),), (torch.outer(x, x),)
    ),
}


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_transform_gives_the_numbers_of_the_host_wherever_it_runs(name, device):
    values = [0.5, -1.0, 2.0, 0.25]
    expected = PROGRAMS[name](torch.tensor(values))
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        found = PROGRAMS[name](torch.tensor(values, device=device))
        assert not machine.events
        for ours, torchs in zip(
            *[value if isinstance(value, tuple) else (value,) for value in (found, expected)], strict=True
        ):
            assert str(ours.device) == device
            assert torch.allclose(ours.cpu(), torchs, atol=1e-6)


@pytest.mark.parametrize("transform", [vmap, jacrev, jacfwd])
def test_a_mismatch_under_a_transform_is_found(transform):
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        elsewhere = torch.ones(4, device="cuda:0")
        transform(lambda x: x * elsewhere)(
            torch.ones(4, device="cuda:1") if transform is not vmap else torch.ones(2, 4, device="cuda:1")
        )
        assert [event.op for event in machine.events][:1] == ["aten.mul.Tensor"]


def test_different_noise_differs():
    with VirtualMachine(parse_machine("2x24GB")):
        made = vmap(lambda a: torch.rand(4, device=a.device), randomness="different")(
            torch.ones(2, 4, device="cuda:1")
        )
        assert not torch.equal(made[0], made[1])
