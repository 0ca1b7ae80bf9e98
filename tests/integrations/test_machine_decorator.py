"""`@sd.machine(...)`: a function on a virtual machine."""

from __future__ import annotations

import asyncio

import pytest
import torch

import samedevice as sd

OUTSIDE = torch.cuda.device_count()


def mixed(device="cuda:0"):
    return torch.ones(2, device=device) + torch.ones(2)


def test_each_call_has_a_machine_of_its_own():
    @sd.machine("2x24GB", on_mismatch="record")
    def step(count):
        """Some steps."""
        for _ in range(count):
            mixed()
        return torch.cuda.device_count()

    assert step(3) == 2
    assert step.machine.findings[0].count == 3
    first = step.machine
    assert step(0) == 2
    assert step.machine is not first
    assert not step.machine.findings
    assert (step.__name__, step.__doc__) == ("step", "Some steps.")
    assert torch.cuda.device_count() == OUTSIDE


def test_an_error_carries_its_finding():
    with pytest.raises(RuntimeError, match="Expected all tensors") as raised:
        sd.machine("2x24GB")(mixed)()
    assert raised.value.finding.code == "SD101"
    assert torch.cuda.device_count() == OUTSIDE


def test_methods():
    class Trainer:
        count = 3

        @sd.machine("3x24GB")
        def step(self):
            return torch.cuda.device_count() == self.count

        @staticmethod
        @sd.machine("1x24GB")
        def alone():
            return torch.cuda.device_count()

    assert Trainer().step()
    assert Trainer.alone() == 1


def test_async_functions():
    @sd.machine("2x24GB", on_mismatch="record")
    async def step():
        await asyncio.sleep(0)
        mixed()
        return torch.cuda.device_count()

    assert asyncio.run(step()) == 2
    assert len(step.machine.findings) == 1


def generator():
    yield 1


async def stream():
    yield 1


@pytest.mark.parametrize("wrong", [generator, stream, torch.nn.Linear, staticmethod(mixed), 3])
def test_what_is_no_function_is_refused(wrong):
    with pytest.raises(TypeError, match=r"sd\.machine (?:can't decorate a generator|decorates functions)"):
        sd.machine("2x24GB")(wrong)


def test_short_in_a_list():
    machine = sd.machine("2x24GB", on_mismatch="record")
    with machine:
        mixed()
    assert repr(machine) == "<samedevice.machine 2x24GB, findings: 1>"
    assert repr(machine.findings).startswith("[<SD101 cross-device-operands at ")
