"""What a run copies between devices, and what it copies again."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state import storage_of
from samedevice.timeline import Copies


def copied(program):
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        with machine.counted_copies() as copies:
            program()
            return copies()


def new_each_time():
    for _ in range(3):
        torch.ones(4).to("cuda:0")


def kept_and_sent_each_time():
    table = torch.ones(4)
    for _ in range(3):
        table.to("cuda:0")


def sent_by_two_statements():
    table = torch.ones(4)
    table.to("cuda:0")
    table.to("cuda:0")


def sent_to_two_devices():
    table = torch.ones(4)
    for device in ("cuda:0", "cuda:1"):
        table.to(device)


def filled_each_time():
    staged, there = torch.ones(4), torch.empty(4, device="cuda:0")
    for value in range(3):
        staged.fill_(value)
        there.copy_(staged)


def weight_after_each_step():
    weight = torch.nn.Parameter(torch.ones(4))
    for _ in range(3):
        weight.to("cuda:0").sum().backward()
        with torch.no_grad():
            weight -= weight.grad


def parts_of_one_memory():
    rows = torch.ones(3, 4)
    for row in rows:
        row.to("cuda:0")


@pytest.mark.parametrize(
    ("program", "count", "again"),
    [
        (new_each_time, 3, 0),
        (kept_and_sent_each_time, 3, 2),
        (sent_by_two_statements, 2, 0),
        (sent_to_two_devices, 2, 0),
        (filled_each_time, 3, 0),
        (parts_of_one_memory, 3, 0),
    ],
)
def test_what_is_copied_again_is_the_same_memory_by_the_same_statement(program, count, again):
    assert copied(program) == Copies(count, 16 * count, again, 16 * again)


def test_a_weight_that_an_optimizer_writes_to_is_copied_again():
    forward = copied(weight_after_each_step)
    assert forward.again >= 2 and forward.again < forward.count


def test_nothing_lives_longer():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        with machine.counted_copies():
            table = torch.ones(4)
            alive = weakref.ref(storage_of(table))
            table.to("cuda:0")
            del table
            gc.collect()
            assert alive() is None
