"""A run over time: phases, what memory is for, transfers; and nothing of it changes the program."""

from __future__ import annotations

import gc

import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.timeline import KINDS, Layer

MiB = 1 << 20


def recorded(program, describe=lambda model: (), most_work=0):
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        with machine.recorded(describe, most_work) as timeline:
            kept = program()
            return timeline(), kept


def at(timeline, moment, device="cuda:0"):
    """Bytes of each kind after an operator."""
    held = [sample for sample in timeline.memory[device] if sample.at <= moment][-1].held
    return dict(zip(KINDS, held, strict=True))


def train():
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(256, 512, device="cuda:1").to("cuda:0")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def test_phases_and_kinds_of_training():
    timeline, (model, _) = recorded(train)
    weights = sum(weight.nbytes for weight in model.parameters())
    names = [phase.name for phase in timeline.phases]
    assert names == ["forward", "backward", "optimizer"] * 2
    forward, backward, optimizer = timeline.phases[3:]
    assert (forward.what, optimizer.what) == ("Sequential", "AdamW")
    assert at(timeline, forward.start - 1)["weights"] == weights
    # The hidden layer before and after ReLU is kept for the backward pass, and the result.
    assert at(timeline, forward.end)["activations"] == 256 * 2048 * 4 + 256 * 512 * 4
    assert at(timeline, backward.end)["gradients"] == weights
    assert at(timeline, optimizer.end)["optimizer"] == 2 * weights
    assert at(timeline, timeline.operators)["gradients"] == 0
    assert at(timeline, backward.end)["activations"] == 0


def test_what_a_forward_pass_without_gradients_leaves_is_kept():
    def program():
        layer = torch.nn.Linear(512, 512, device="cuda")
        with torch.no_grad():
            return [layer(torch.ones(64, 512, device="cuda")) for _ in range(3)]

    timeline, _ = recorded(program)
    assert at(timeline, timeline.operators)["kept"] == 3 * 64 * 512 * 4


def test_transfers_are_summed_by_statement():
    timeline, _ = recorded(train, most_work=1000)
    [between] = [each for each in timeline.transfers if each.source == "cuda:1"]
    assert (between.target, between.count, between.nbytes) == ("cuda:0", 2, 2 * 256 * 512 * 4)
    assert ".to(" in between.place.code
    assert sum(move.nbytes for move in timeline.moves if move.source == "cuda:1") == between.nbytes
    assert timeline.operators == len(timeline.work)


def test_a_model_is_described_once_and_an_error_there_is_not_the_programs():
    seen = []

    def describe(model):
        seen.append(model)
        if isinstance(model, torch.nn.ReLU):
            raise RuntimeError("no idea")
        return (Layer("0", "Linear", "cuda:0", 4),)

    def program():
        model, other = torch.nn.Linear(4, 4, device="cuda"), torch.nn.ReLU()
        return [other(model(torch.ones(2, 4, device="cuda"))) for _ in range(2)]

    timeline, _ = recorded(program, describe)
    assert [type(model).__name__ for model in seen] == ["Linear", "ReLU"]
    assert timeline.layers == {"Linear": (Layer("0", "Linear", "cuda:0", 4),)}


def test_nothing_is_held_and_nothing_stays():
    hooks = len(torch.nn.modules.module._global_forward_pre_hooks)
    backward = torch.autograd._engine_run_backward

    def program():
        x = torch.ones(MiB, device="cuda")
        del x
        gc.collect()
        return torch.cuda.memory_allocated()

    timeline, allocated = recorded(program)
    assert allocated == 0
    assert sum(at(timeline, timeline.operators).values()) == 0
    assert len(torch.nn.modules.module._global_forward_pre_hooks) == hooks
    assert torch.autograd._engine_run_backward is backward


def test_samples_are_few_and_keep_the_peak():
    def program():
        for number in range(3000):
            x = torch.ones(MiB if number == 1700 else 256, device="cuda")
        return x

    timeline, _ = recorded(program)
    samples = timeline.memory["cuda:0"]
    assert len(samples) <= 602
    assert max(sum(sample.held) for sample in samples) >= 4 * MiB


def test_two_models_of_one_class_are_both_there():
    def distil():
        teacher, student = (torch.nn.Sequential(torch.nn.Linear(4, 4)).to(f"cuda:{n}") for n in range(2))
        x = torch.ones(2, 4)
        teacher(x.cuda()), student(x.to("cuda:1")), teacher(x.cuda())

    def where(model):
        return (Layer("", "Sequential", str(next(model.parameters()).device), 1),)

    timeline, _ = recorded(distil, where)
    assert {name: rows[0].device for name, rows in timeline.layers.items()} == {
        "Sequential": "cuda:0", "Sequential (2)": "cuda:1"
    }  # fmt: skip
