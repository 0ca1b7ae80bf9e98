"""`Module.to` and `.data =` keep Parameter objects, as on real hardware: ties, optimizers and accelerate's
hooks rest on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import weakref

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("machine")

FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


def test_moves_keep_the_parameter_and_its_ties():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    weight = first.weight
    for device in ("cuda:0", "cuda:1", "cpu", "cuda:1"):
        model.to(device)
        assert first.weight is second.weight is weight
        assert weight.device == torch.device(device)
        assert type(weight) is nn.Parameter


def test_a_move_to_meta_makes_new_parameters():
    layer = nn.Linear(2, 2).to(0)
    weight = layer.weight
    layer.to("meta")
    assert layer.weight is not weight
    assert weight.device == FIRST


def test_an_optimizer_made_before_the_move_still_trains_the_model():
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    layer(torch.ones(1, 2)).sum().backward()
    layer.to(1)
    before = layer.weight.detach().clone()
    assert layer.weight.grad.device == SECOND
    layer(torch.ones(1, 2, device=1)).sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight.detach(), before - 2)


def test_a_move_keeps_the_hooks_of_a_parameter():
    layer = nn.Linear(2, 2)
    seen: list[torch.device] = []
    handle = layer.weight.register_hook(lambda gradient: seen.append(gradient.device))
    layer.weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.grad.device))
    layer.to(0)
    layer(torch.ones(1, 2, device=0)).sum().backward()
    assert seen == [FIRST, FIRST]
    handle.remove()
    layer.to(1).zero_grad()
    layer(torch.ones(1, 2, device=1)).sum().backward()
    assert seen == [FIRST, FIRST, SECOND]


def test_weak_references_and_frozen_parameters_outlive_a_move():
    layer = nn.Linear(2, 2).requires_grad_(False)
    reference = weakref.ref(layer.weight)
    layer.cuda()
    assert reference() is layer.weight
    assert not layer.weight.requires_grad


def test_what_may_be_exchanged():
    host, gpu, meta = torch.ones(2), torch.ones(2, device=0), torch.ones(2, device="meta")
    compatible = torch._has_compatible_shallow_copy_type
    assert compatible(host, gpu)
    assert compatible(gpu, host)
    assert compatible(gpu, torch.ones(3, device=1).half())
    assert compatible(meta, meta)
    assert not compatible(host, meta)
    assert not compatible(meta, gpu)
    assert not compatible(host, host.to_sparse())


@pytest.mark.long
def test_dynamo_can_be_imported_inside_a_machine():
    script = (
        "from samedevice.machines import parse_machine\nfrom samedevice.runtime import VirtualMachine\nwith "
        "VirtualMachine(parse_machine('1x24GB')):\n    import torch._dynamo\n    import "
        "torch._dynamo.polyfills.loader\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_more_values_are_computed_on_request():
    script = (
        "import torch\nfrom samedevice.machines import parse_machine\nfrom samedevice.runtime import "
        "VirtualMachine\nwith VirtualMachine(parse_machine('1x24GB')):\n    x = torch.full((1 << 19,), "
        "3.0)\n    print((x.to(0) * 2).max().item())\n"
    )
    for limit, answer in ((None, "0.5"), (4 << 20, "6.0")):
        variables = {**os.environ, **({} if limit is None else {"SAMEDEVICE_VALUE_LIMIT": str(limit)})}
        done = subprocess.run(
            [sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == answer
