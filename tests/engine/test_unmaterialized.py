"""An operator that meets a tensor on the meta device does what plain torch does with one."""

from __future__ import annotations

import resource

import pytest
import torch
from torch.nn import functional

from samedevice.events import EventKind
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

GPU = "cuda:0"
CASES = {
    "product": lambda x, w: x @ w.t(),
    "linear": functional.linear,
    "bias": lambda x, w: functional.linear(x, w.new_zeros(4, 8, device=x.device), w[:, 0][:4]),
    "sum": lambda x, w: x + w[:6],
    "from the other side": lambda x, w: w[:6] * x,
    "norm": lambda x, w: functional.layer_norm(x, (8,), w[0], w[0]),
    "norm of squares": lambda x, w: functional.rms_norm(x, (8,), w[0]),
    "norm of squares of what is there": lambda x, w: functional.rms_norm(w, (8,), x[0]),
    "lookup": lambda x, w: functional.embedding(torch.arange(3, device=x.device), w),
    "index": lambda x, w: w[torch.arange(3, device=x.device)],
    "cat": lambda x, w: torch.cat([x, w]),
    "where": lambda x, w: torch.where(x > 0, x, w[:6]),
    "batched": lambda x, w: torch.bmm(x[None], w.t()[None]),
    "convolution": lambda x, w: functional.conv1d(x[None], w[:4, :6, None]),
    "attention": lambda x, w: functional.scaled_dot_product_attention(x[None], w[None], w[None]),
    "in place": lambda x, w: x.add_(w[:6]),
    "a number": lambda x, w: w * x.sum(),
    "loss": lambda x, w: functional.cross_entropy(x, torch.zeros(6, dtype=torch.long, device="meta")),
    "copies of a list": lambda x, w: torch._foreach_copy_([x.clone()], [w[:6]]),
    "filled by a mask": lambda x, w: w[:6].masked_fill(x > 0, torch.ones((), device=x.device)),
    "blocks": torch.block_diag,
    "shapes": lambda x, w: x.clone().resize_as_(w),
    "copy": lambda x, w: x.copy_(w[:6]),
}


def outcome(compute, device):
    x, weight = torch.ones(6, 8, device=device), torch.empty(32, 8, device="meta")
    try:
        return str(compute(x, weight).device).replace("cpu", GPU)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}".replace("cpu", GPU)


@pytest.mark.parametrize("name", CASES)
def test_it_ends_as_plain_torch_does(name):
    theirs = outcome(CASES[name], "cpu")
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise"):
        ours = outcome(CASES[name], GPU)
    if name == "a number":  # one on the host may meet any tensor, one on a GPU may not
        theirs = f"RuntimeError: Tensor on device {GPU} is not on the expected device meta!"
    assert ours == theirs


@pytest.mark.virtual("2x24GB", on_mismatch="record")
def test_what_raises_nothing_is_told(machine):
    x, weight = torch.ones(6, 8, device=GPU), torch.empty(32, 8, device="meta")
    assert functional.linear(x, weight).device == torch.device(GPU)
    functional.embedding(torch.arange(3, device=GPU), weight)
    x + weight[:6]
    assert [(event.kind, event.silent_result, event.message) for event in machine.events] == [
        (
            EventKind.UNMATERIALIZED,
            "unfilled",
            "mm: it raises nothing, and its result on cuda:0 is memory that nobody filled",
        ),
        (EventKind.UNMATERIALIZED, "meta", "embedding: it raises nothing, and its result is on meta"),
        (EventKind.UNMATERIALIZED, None, "Tensor on device meta is not on the expected device cuda:0!"),
    ]


@pytest.mark.virtual("1x80GB", on_mismatch="record")
def test_large_tensors_are_asked_about_without_their_memory(machine):
    x, weight = torch.empty(1 << 16, 1 << 14, device=GPU), torch.empty(1 << 14, 8, device="meta")
    assert (x @ weight).device == torch.device(GPU)
    assert "memory that nobody filled" in machine.events[0].message


@pytest.mark.virtual("2x80GB", on_mismatch="record")
def test_nothing_is_computed_to_find_out(machine):
    size = 1 << 15  # a result of 4 GiB
    x, weight = torch.empty(size, 8, device=GPU), torch.empty(size, 8, device="meta")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    functional.linear(x, weight, torch.zeros(size, device=GPU))
    total = torch.empty(size, size, device=GPU)
    total.addmm_(total, torch.empty(size, size, device="meta"))  # written and read
    total.addmm_(x, weight.t())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
    assert [event.message.partition(":")[2][:19] for event in machine.events[1:]] == [
        " it raises nothing,"
    ] * 2


@pytest.mark.virtual("2x24GB", on_mismatch="record")
def test_what_asks_for_shapes_alone_is_no_finding(machine):
    weight = torch.empty(4, 8, device="meta")
    assert (weight * torch.tensor(2.0)).device.type == "meta"
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.gather(torch.ones(4, 8, device=GPU), 7, torch.zeros(4, 8, dtype=torch.long, device="meta"))
    with pytest.raises(RuntimeError, match=r"same reduction dim|cannot be multiplied"):
        torch.ones(2, 3, device=GPU) @ weight
    assert machine.events == []


@pytest.mark.virtual("2x24GB", on_mismatch="raise")
def test_results_on_meta_are_those_of_torch(machine):
    weight = torch.empty(32, 8, device="meta")
    assert weight[torch.ones(32, dtype=torch.bool, device=GPU)].shape == (32, 8)
    assert functional.embedding(torch.arange(3, device=GPU), weight).device.type == "meta"
    assert len(machine.events) == 2


@pytest.mark.virtual("2x24GB", on_mismatch="raise")
def test_attention_adds_a_mask_on_meta_to_no_memory(machine):
    x = torch.ones(1, 2, 3, 3, device=GPU)  # heads of a size that only the math route takes
    with pytest.raises(RuntimeError, match="Tensor on device meta is not on the expected device cuda:0!"):
        functional.scaled_dot_product_attention(x, x, x, torch.zeros(3, 3, device="meta"))
