"""Kernels that check nothing: reported as a kind of their own, never raised, and the program goes on."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
import torch._dynamo  # before a triton is there that is a stand-in

from samedevice.diagnosis import judge
from samedevice.events import EventKind
from samedevice.machines import parse_machine
from samedevice.report import render_finding
from samedevice.runtime import VirtualMachine
from tests.virtual import machine

JIT = """
class JITFunction:
    launched = []

    def __init__(self, fn):
        self.fn = fn
        self.__name__ = fn.__name__
        self.arg_names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args, grid, warmup, **kwargs):
        JITFunction.launched.append(args)
"""
AUTOTUNER = """
class Autotuner:
    def __init__(self, fn):
        self.fn = fn
        self.arg_names = fn.arg_names

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args, **kwargs):
        raise AssertionError("it would need a GPU")
"""


@pytest.fixture
def triton(tmp_path, monkeypatch):
    """A package with Triton's names; the launcher is Triton's own C code, which no machine without a GPU
    has.
    """
    runtime = tmp_path / "triton" / "runtime"
    runtime.mkdir(parents=True)
    for folder in (runtime.parent, runtime):
        (folder / "__init__.py").write_text("", encoding="utf-8")
    (runtime / "jit.py").write_text(JIT, encoding="utf-8")
    (runtime / "autotuner.py").write_text(AUTOTUNER, encoding="utf-8")
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        del sys.modules[name]


def add_kernel(x, y, n):
    raise AssertionError("never called")


def test_a_launch_on_the_current_device_of_tensors_elsewhere(triton):
    with machine(on_mismatch="raise") as entered:
        from triton.runtime.jit import JITFunction

        x = torch.ones(8, device="cuda:1")
        JITFunction(add_kernel)[(1,)](x, x, 8)
        with torch.cuda.device(1):
            JITFunction(add_kernel)[(1,)](x, x, 8)
    [event] = entered.events
    assert event.kind is EventKind.UNCHECKED
    assert event.op == "triton.add_kernel"
    assert "launched on the current device cuda:0, but x is on cuda:1" in event.message
    assert [operand.name for operand in event.operands] == ["x", "y"]
    assert JITFunction.launched == []


def test_a_host_tensor_is_refused_as_triton_does(triton):
    with machine(on_mismatch="raise") as entered:
        from triton.runtime.jit import JITFunction

        with pytest.raises(
            ValueError, match=r"^Pointer argument \(at 1\) cannot be accessed from Triton \(cpu tensor\?\)$"
        ):
            JITFunction(add_kernel)[(1,)](torch.ones(8, device="cuda"), torch.ones(8), 8)
    assert [event.kind for event in entered.events] == [EventKind.MISMATCH]


def test_what_a_kernel_writes_is_not_known(triton):
    with machine() as entered:
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction

        x = torch.ones(8, device="cuda")
        Autotuner(JITFunction(add_kernel))[(1,)](x, x, 8)
        assert x.sum().cpu().shape == ()
        assert not entered.events


def test_kernels_on_the_host_are_left_alone_and_everything_is_put_back(triton):
    from triton.runtime.jit import JITFunction

    before = JITFunction.run
    with machine():
        JITFunction(add_kernel)[(1,)](torch.ones(2), torch.ones(2), 2)
        assert JITFunction.run is not before
    assert JITFunction.run is before
    assert len(JITFunction.launched) == 1


def test_an_operator_of_another_library():
    library = torch.library.Library("samedevice_test_rules", "DEF")
    library.define("both(Tensor a, Tensor b) -> Tensor")
    library.impl("both", lambda a, b: a + b.sum(), "CPU")
    library.impl("both", lambda a, b: torch.empty_like(a), "Meta")
    with machine(on_mismatch="raise") as entered:
        found = torch.ops.samedevice_test_rules.both(
            torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
        )
        assert found.device == torch.device("cuda:0")
    [event] = entered.events
    assert event.kind is EventKind.UNCHECKED
    assert event.message.endswith(
        "both.default wants all its tensors on one device, but b is on cuda:1 and others on cuda:0"
    )
    assert entered.unlisted == {"samedevice_test_rules.both.default": 1}


VISION = """
import torch
import torch._dynamo  # before a triton is there that is a stand-in

def nms(boxes, scores):
    return torch.ops.samedevice_vision.nms(boxes, scores)
"""
SCRIPT = """
import torch
import torch._dynamo  # before a triton is there that is a stand-in
import vision_of_others

boxes = torch.rand(8, 4, device="cuda:0")
vision_of_others.nms(boxes, torch.rand(8))
"""


def test_the_operand_left_on_the_host_is_the_one_to_move(tmp_path, monkeypatch):
    """The script put the boxes on a GPU and made the scores without one: the boxes are where they belong."""
    library = torch.library.Library("samedevice_vision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores) -> Tensor")
    library.impl("nms", lambda boxes, scores: scores.argsort(), "CPU")
    (tmp_path / "vision_of_others.py").write_text(VISION, encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with VirtualMachine(parse_machine("2x24GB"), script=str(script)) as machine:
        exec(compile(SCRIPT, str(script), "exec"), {"__name__": "__main__"})
    (event,) = machine.events
    finding = render_finding(judge(event))
    assert finding.title == "samedevice_vision.nms wants one device and got tensors on cuda:0 and cpu"
    assert finding.guilty == "scores"
    assert "scores.to(boxes.device)" in finding.fixes[0].diff
    assert "kernel-launched-on-current-device" not in (finding.cause, *finding.candidates)


def test_what_the_default_judged_is_counted_and_noted(caplog):
    library = torch.library.Library("samedevice_unlisted", "DEF")
    library.define("both(Tensor a, Tensor b) -> Tensor")
    library.impl("both", torch.add, "CPU")
    with caplog.at_level("DEBUG", logger="samedevice.rules"), machine() as entered:
        torch.add(torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1"))
        torch.ops.samedevice_unlisted.both(torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1"))
    assert entered.unlisted == {"samedevice_unlisted.both.default": 1}
    assert (
        "no row for samedevice_unlisted.both.default: default: an operator of another library" in caplog.text
    )


def test_types_and_counts_reach_the_table():
    """`x[mask] = value` reads one value on the host; a convolution's refusal names types."""
    with machine() as entered:
        x = torch.zeros(4, device="cuda")
        x[x == 0] = torch.tensor([1.0])
        assert entered.events == []
        torch.nn.functional.conv2d(
            torch.ones(1, 1, 4, 4, device="cuda").half(), torch.ones(1, 1, 2, 2).half()
        )
    assert [event.message for event in entered.events] == [
        "Input type (torch.cuda.HalfTensor) and weight type (torch.HalfTensor) should be the same"
    ]
