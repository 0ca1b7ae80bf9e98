"""Every tensor knows the decision that put it on its device, and results inherit it."""

import os

import pytest
import torch
from accelerate import dispatch_model

from samedevice.runtime.state import memory_of

pytestmark = pytest.mark.virtual(on_mismatch="record")


def chains(machine):
    """Per operand of the last event: kind, device, what names the device, whether it is inherited."""
    return [
        [(step.kind, step.device, step.source, step.said, step.inherited) for step in operand.lineage]
        for operand in machine.events[-1].operands
    ]


def on_device(device):
    return torch.arange(3, device=device)


def test_a_move_by_the_script(machine):
    moved = torch.ones(3).to("cuda:1")
    moved + torch.ones(3, device="cuda:0")
    first, second = chains(machine)
    assert first == [
        ("moved", "cuda:1", "literal", "'cuda:1'", False),
        ("created", "cpu", "default", None, False),
    ]
    assert second == [("created", "cuda:0", "literal", "'cuda:0'", False)]


def test_whether_the_program_named_a_number(machine):
    word = "cuda"
    made = (torch.zeros(3, device=word), torch.ones(3).to(word), torch.zeros(3, device=torch.device(word)))
    assert all(memory_of(each).decision.without_index for each in (*made, made[0] * 2))
    named = (torch.zeros(3, device="cuda:0"), torch.ones(3).to(made[0].device), torch.ones(3).cuda(0))
    assert not any(memory_of(each).decision.without_index for each in named)
    with torch.cuda.device(1):
        torch.ones(3).to(word) + named[0]
    step = machine.events[-1].operands[0].decision
    assert (step.device, step.without_index) == ("cuda:1", True)


def test_a_move_that_learns_keeps_what_the_program_named(machine):
    weight = torch.ones(3, requires_grad=True)
    moved = weight.to("cuda")
    moved + torch.ones(3, device="cuda:1")
    assert machine.events[-1].operands[0].lineage[0].without_index
    moved.sum().backward()
    assert weight.grad.device.type == "cpu"


def test_results_inherit_the_decision(machine):
    base = torch.ones(3).cuda(1)
    result = (base * 2).reshape(3, 1).sum(1)
    result + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0] == ("moved", "cuda:1", "literal", "1", True)


def test_large_results_inherit_it_too(machine):
    base = torch.ones(2000, 2000, device="cuda:1")
    (base @ base) + torch.ones(1, device="cuda:0")
    assert chains(machine)[0] == [("created", "cuda:1", "literal", "'cuda:1'", True)]


def test_a_device_taken_from_another_tensor(machine):
    source = torch.ones(3, device="cuda:1")
    torch.zeros(3, device=source.device) + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0] == ("created", "cuda:1", "tensor", "source", False)


def test_a_variable_that_holds_the_device_of_another_tensor(machine):
    source = torch.ones(3, device="cuda:1")
    device = source.device
    torch.zeros(3, device=device) + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0] == ("created", "cuda:1", "tensor", "source", False)


def test_a_tensor_made_like_another_inherits_its_decision(machine):
    source = torch.ones(3, device="cuda:1")
    torch.zeros_like(source) + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0] == ("created", "cuda:1", "literal", "'cuda:1'", True)


def test_a_device_in_an_argument(machine):
    on_device("cuda:1") + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0] == ("created", "cuda:1", "argument", "device", False)


def test_a_default_device(machine):
    with torch.device("cuda:1"):
        made = torch.ones(3)
    made + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0] == ("created", "cuda:1", "context", None, False)


def test_a_name_that_stands_for_a_literal(machine):
    place = "cuda:1" if torch.cuda.is_available() else "cpu"
    torch.ones(3, device=place) + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0] == ("created", "cuda:1", "literal", "place", False)


def test_the_rank_of_the_launcher(machine):
    local_rank = int(os.environ.get("LOCAL_RANK", "1"))
    torch.ones(3, device=f"cuda:{local_rank}") + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0][2] == "launcher"


def test_a_module_that_was_placed(machine):
    model = torch.nn.Linear(3, 3).to("cuda:1")
    model(torch.ones(2, 3, device="cuda:0"))
    operands = {operand.name: operand for operand in machine.events[-1].operands}
    step = operands["mat2"].lineage[0]
    assert (step.kind, step.name, step.source, step.inherited) == ("placed", "weight", "literal", False)
    assert step.at.code == 'model = torch.nn.Linear(3, 3).to("cuda:1")'


def test_an_output_follows_the_weight_that_decided(machine):
    model = torch.nn.Embedding(4, 3).to("cuda:1")
    (model(torch.tensor([1], device="cuda:1")) * 2) + torch.ones(3, device="cuda:0")
    step = machine.events[-1].operands[0].lineage[0]
    assert (step.kind, step.inherited) == ("placed", True)


class Tail(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        x + torch.ones(3, device="cuda:0")
        return x * self.weight


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(3, 3)
        self.two = Tail()

    def forward(self, x):
        first = self.one(x)
        return self.two(first) + first


def test_the_hook_of_a_module(machine):
    model = dispatch_model(Two(), {"one": 0, "two": 1})
    model(torch.ones(1, 3))
    inputs = machine.events[0].operands[0].lineage
    assert (inputs[0].kind, inputs[0].device, inputs[0].name) == ("hook", "cuda:1", "two")
    assert (inputs[1].kind, inputs[1].device, inputs[1].name) == ("placed", "cuda:0", "one.bias")


def test_the_entry_of_a_device_map(machine):
    model = dispatch_model(Two(), {"one": 0, "two": 1})
    model(torch.ones(1, 3))
    second, first = (operand.lineage[0] for operand in machine.events[-1].operands)
    assert (first.kind, first.device, first.name, first.entry) == ("placed", "cuda:0", "one.bias", "one")
    assert (second.kind, second.device, second.name) == ("hook", "cuda:1", "two")
    assert second.inherited


def test_host_memory_from_elsewhere(machine):
    numpy = pytest.importorskip("numpy")
    torch.from_numpy(numpy.ones(3)) + torch.ones(3, device="cuda:0")
    [first, _] = chains(machine)
    assert first == [] or first[0][1] == "cpu"


def test_loaded_weights(machine, tmp_path):
    torch.save({"a": torch.ones(3)}, tmp_path / "a.pt")
    loaded = torch.load(tmp_path / "a.pt", map_location="cuda:1")["a"]
    loaded + torch.ones(3, device="cuda:0")
    assert chains(machine)[0][0][:4] == ("loaded", "cuda:1", "literal", "'cuda:1'")


def test_a_decision_keeps_no_memory_alive(machine):
    before = torch.cuda.memory_allocated(0)
    held = torch.ones(1000, device="cuda:0")
    moved = held.to("cuda:1")
    del held
    assert torch.cuda.memory_allocated(0) == before
    assert moved.device == torch.device("cuda:1")


def gradient(x):
    leaf = x.detach().requires_grad_()
    (leaf * leaf).sum().backward()
    return leaf.grad


def written_into(x):
    out = torch.empty(2, 2, device="cuda:1")
    return torch.add(x, x, out=out)


WAYS = {
    "arithmetic": lambda x: x + 1,
    "reduction": lambda x: x.sum(0),
    "matmul": lambda x: x @ x,
    "view": lambda x: x.t()[0],
    "contiguous": lambda x: x.t().contiguous(),
    "cat": lambda x: torch.cat([x, x]),
    "where": lambda x: torch.where(x > 0, x, 1.0),
    "index": lambda x: x[torch.tensor([0], device="cuda:1")],
    "mask": lambda x: x[x > 0],
    "one_hot": lambda x: torch.nn.functional.one_hot(x.long()),
    "in place": lambda x: x.clone().mul_(2),
    "out": written_into,
    "foreach": lambda x: torch._foreach_mul([x, x], 2)[1],
    "topk": lambda x: x.topk(1).indices,
    "convolution": lambda x: torch.nn.functional.conv1d(x[None], torch.ones(1, 2, 1, device="cuda:1")),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "lstm": lambda x: torch.nn.LSTM(2, 3, device="cuda:1")(x[None])[0],
    "type": lambda x: x.half(),
    "random": torch.rand_like,
    "new": lambda x: x.new_zeros(3),
    "gradient": gradient,
    "host": lambda x: x.cpu() * 2,
    "back again": lambda x: x.cpu().to("cuda:0").to("cuda:1"),
    "storage": lambda x: torch.empty(0).to("cuda:1").set_(x.untyped_storage()),
    "parameter": torch.nn.Parameter,
    "large": lambda x: x.repeat(2000, 2000) * 2,
    "nonzero": lambda x: x.nonzero(),
    "item": lambda x: torch.full((2,), x[0, 0].item(), device="cuda:1"),
    "0-dim of the host": lambda x: torch.tensor(2.0) * x,
}


@pytest.mark.parametrize("way", WAYS)
def test_whoever_makes_a_tensor_its_decision_names_its_device(machine, way):
    result = WAYS[way](torch.ones(2, 2, device="cuda:1"))
    memory = memory_of(result)
    assert memory.decision is not None
    assert memory.decision.device == memory.device


def test_a_result_follows_the_operand_that_is_there_and_no_number_of_the_host(machine):
    value = torch.ones(3).cuda(1).sum()
    (torch.tensor(0.5) * value).reshape(1) + torch.ones(1, device="cuda:0")
    assert chains(machine)[0][0] == ("moved", "cuda:1", "literal", "1", True)


def test_later_decisions_have_larger_numbers(machine):
    early = torch.ones(2, device="cuda:0")
    late = torch.ones(2).to("cuda:1")
    early + late
    first, second = machine.events[-1].operands
    assert 0 < first.lineage[0].order < second.lineage[1].order < second.lineage[0].order


def test_what_one_line_placed_is_one_placement(machine):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model.to("cuda:0")
    model.append(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2, device="cuda:0"))
    moved, made = machine.events[-1].placements
    assert (moved.kind, moved.device, moved.count) == ("placed", "cuda:0", 4)
    assert (made.kind, made.device, made.names) == ("created", "cpu", ("2.weight", "2.bias"))
    assert moved.born < moved.first < moved.last < made.first


def test_the_gradient_of_a_parameter_is_known(machine):
    kept = {"layer": torch.nn.Linear(2, 2).cuda(1)}
    kept["layer"](torch.ones(1, 2, device="cuda:1")).sum().backward()
    (parameters,) = [list(kept["layer"].parameters())]
    for parameter in parameters[:1]:
        torch.ones(2, 2, device="cuda:0") + parameter.grad
    assert [each.gradient for each in machine.events[-1].operands] == [False, True]


def test_arguments_of_a_module_of_torch_are_named(machine):
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 2)).cuda(0)
    model(torch.ones(1, 2))
    assert machine.events[-1].arguments == (("input", "cpu"),)


def test_packed_padded_and_pinned_tensors_keep_the_decision(machine):
    from torch.nn.utils import rnn

    x, host = torch.ones(2, 3, 4).to("cuda:1"), torch.ones(3)
    packed = rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True, enforce_sorted=False)
    padded = rnn.pad_packed_sequence(packed, batch_first=True)[0]
    decision = memory_of(x).decision
    assert memory_of(packed.data).decision is decision
    assert memory_of(padded).decision is decision
    assert memory_of(rnn.pad_sequence([x[0], x[1, :2]])).decision is decision
    assert memory_of(host.pin_memory()).decision is memory_of(host).decision


def test_of_two_views_of_one_memory_the_right_one_is_named(machine):
    source = torch.arange(12.0).view(3, 4).to("cuda:0")
    data, targets = source[:2], source[1:].reshape(-1)[:4]
    len(data) * torch.add(targets, torch.ones(4, device="cuda:1"))
    assert machine.events[-1].operands[0].local == "targets"
