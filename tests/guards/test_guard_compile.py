"""`sd.heal` and `sd.guard` beside torch's compilers, on the CPU; `python -m evidence compile-proof` has two
devices that are real for them.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.guards._heal import QUIET_CALLS


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.second(torch.tanh(self.first(x))))


@pytest.fixture(autouse=True)
def forgotten():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def in_place(model, **options):
    model.compile(**options)
    return model


@pytest.mark.parametrize("compiled", [torch.compile, in_place])
@torch.no_grad()
def test_a_healthy_model_stays_one_graph(compiled):
    expected = Pair()(torch.ones(2, 4))
    model = compiled(Pair(), backend="eager", fullgraph=True)
    healing = sd.heal(model)
    with sd.guard(model):
        found = [model(torch.ones(2, 4)) for _ in range(QUIET_CALLS + 2)]
    healing.remove()
    assert all(torch.equal(each, expected) for each in found)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not torch._dynamo.utils.counters["graph_break"]
    assert not healing.repairs


@torch.no_grad()
def test_what_is_not_healed_says_so_when_it_is_compiled():
    model = torch.compile(Pair().to("meta"), backend="eager")
    sd.heal(model)
    with pytest.raises(RuntimeError) as caught:
        model(torch.ones(2, 4))
    assert any("not healed" in note for note in caught.value.__notes__)


@torch.no_grad()
def test_the_compilers_error_has_the_statement_that_was_traced():
    model = torch.compile(Pair(), backend="eager")
    model._orig_mod.second.to("meta")
    with pytest.raises(RuntimeError) as caught, sd.guard(model):
        model(torch.ones(2, 4))
    finding = caught.value.finding
    assert (finding.code, finding.at.function) == ("SD102", "forward")
    assert "self.second(" in finding.at.code
    assert {operand.device for operand in finding.operands} == {"cpu", "meta"}


def test_other_errors_of_the_compiler_are_left_alone():
    model = torch.compile(Pair(), backend="eager")
    with pytest.raises(RuntimeError) as caught, sd.guard(model):
        model(torch.ones(2, 5))
    assert not hasattr(caught.value, "finding")


def test_healing_inside_of_a_full_graph_is_refused():
    model = Pair()
    sd.heal(model)
    with pytest.raises(RuntimeError, match=r"samedevice heals here|call torch\._dynamo\.disable\(\)"):
        torch.compile(model, backend="eager", fullgraph=True)(torch.ones(2, 4))


@torch.no_grad()
def test_nothing_is_learned_while_a_graph_is_recorded():
    model = Pair().eval()
    healing = sd.heal(model)
    traced = torch.jit.trace(model, (torch.ones(2, 4),))
    exported = torch.export.export(model, (torch.ones(2, 4),), strict=False).module()
    healing.remove()
    assert torch.equal(traced(torch.ones(2, 4)), model(torch.ones(2, 4)))
    assert torch.equal(exported(torch.ones(2, 4)), model(torch.ones(2, 4)))
    broken = Pair().eval()
    broken.second.to("meta")
    sd.heal(broken)
    with pytest.raises(RuntimeError) as caught:
        torch.export.export(broken, (torch.ones(2, 4),), strict=False)
    assert any("nothing is learned" in note for note in caught.value.__notes__)


@torch.no_grad()
def test_what_was_learned_is_part_of_an_exported_graph():
    with sd.machine("2x24GB"):
        model = Pair().eval()
        model.first.to("cuda:0")
        model.second.to("cuda:1")
        x = torch.ones(2, 4, device="cuda:0")
        healing = sd.heal(model)
        wanted = model(x)
        exported = torch.export.export(model, (x,), strict=False).module()
        healing.remove()
        assert torch.equal(exported(x), wanted)
