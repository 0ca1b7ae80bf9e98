"""`torch.compile` on a virtual machine: eager code in the wrapper that accelerate and others look for."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("machine")


def test_a_compiled_module_is_wrapped():
    layer = nn.Linear(2, 2).to(1)
    compiled = torch.compile(layer, mode="reduce-overhead")
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert compiled._orig_mod is layer
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    x = torch.ones(1, 2, device=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(x), layer(x))
    assert torch.compile(compiled).train().training
    assert torch.equal(copy.deepcopy(compiled)(x), layer(x))


def test_a_compiled_function_stays_itself():
    @torch.compile
    def bare(x):
        return x + 1

    @torch.compile(fullgraph=True)
    def with_options(x):
        return x + 1

    assert bare(torch.ones(1, device=0)).item() == with_options(torch.ones(1, device=1)).item() == 2
    layer = nn.Linear(2, 2)
    assert torch.compile(layer, disable=True) is layer
    assert isinstance(torch.compile(dynamic=True)(layer), torch._dynamo.OptimizedModule)


def test_accelerate_unwraps_a_compiled_model():
    accelerate_utils = pytest.importorskip("accelerate.utils")
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(0)
    compiled = torch.compile(model)
    assert accelerate_utils.is_compiled_module(compiled)
    assert accelerate_utils.extract_model_from_parallel(compiled, keep_torch_compile=False) is model
    model[1] = torch.compile(model[1])
    assert accelerate_utils.has_compiled_regions(model)
    unwrapped = accelerate_utils.extract_model_from_parallel(model)
    assert hasattr(unwrapped[1], "_orig_mod")
    assert unwrapped(torch.ones(1, 2, device=0)).device == torch.device("cuda", 0)


def test_the_compiler_is_reset():
    torch.compiler.reset()
