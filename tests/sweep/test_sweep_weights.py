"""Weights that nobody sees the values of: they cost no draws and no copies, and a copy is still a copy."""

from __future__ import annotations

import copy

import torch

from samedevice.runtime.state import VALUE_LIMIT
from samedevice.sweep._weights import copied, large_undrawn


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("table", torch.ones(3))


def test_only_what_no_virtual_gpu_has_the_values_of_is_not_drawn():
    draws = vars(torch.Tensor).get("normal_"), vars(torch.Tensor).get("uniform_")
    small, large = torch.ones(8), torch.ones(VALUE_LIMIT // 4 + 1)
    with large_undrawn():
        for tensor in (small, large):
            torch.nn.init.trunc_normal_(tensor)
            torch.nn.init.normal_(tensor)
    assert not large.any()
    assert small.abs().sum() > 0
    assert (vars(torch.Tensor).get("normal_"), vars(torch.Tensor).get("uniform_")) == draws


def test_what_was_written_in_between_is_zero_after_the_next_draw():
    large = torch.empty(VALUE_LIMIT // 4 + 1)
    with large_undrawn():
        large.normal_()
        large.fill_(3)
        large.normal_()
    assert not large.any()


def test_a_copy_shares_the_memory_of_weights_alone():
    model = Tied()
    made = copied(model)
    assert made.second.weight is made.first.weight
    assert made.first.weight is not model.first.weight
    assert made.first.weight.data_ptr() == model.first.weight.data_ptr()
    assert made.table.data_ptr() != model.table.data_ptr()
    assert made.first.weight.requires_grad


def test_moving_a_copy_leaves_the_model_as_it_was(machine):
    model = Tied()
    before = copy.deepcopy(model.state_dict())
    made = copied(model).to("cuda:0")
    made.first.weight.data.add_(1)
    made.table.add_(1)
    assert {each.device.type for each in model.state_dict().values()} == {"cpu"}
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


def test_a_pipeline_which_is_no_module_is_copied_whole():
    class Pipeline:
        def __init__(self):
            self.part, self.parameters = torch.nn.Linear(3, 3), {"guidance": 1}

    pipeline = Pipeline()
    made = copied(pipeline)
    assert made.parameters == {"guidance": 1}
    assert made.part.weight.data_ptr() != pipeline.part.weight.data_ptr()
