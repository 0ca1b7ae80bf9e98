"""A container that registers what a plain one kept takes its keys."""

from __future__ import annotations

import pytest

from samedevice.diagnosis.fixes._attached import TAKEN


def test_the_names_that_a_module_dict_has_itself_are_known():
    nn = pytest.importorskip("torch.nn")
    own = {name for name in dir(nn.ModuleDict()) if not name.startswith("_")}
    added = {name for name in own if not _of_torch(getattr(nn.ModuleDict(), name))}  # by transformers
    assert own - added <= TAKEN


def _of_torch(value):
    return (getattr(value, "__module__", None) or "torch").startswith(("torch", "builtins", "typing"))


PROGRAM = """
import torch
from torch import nn


def make():
    return nn.Linear(4, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(4, 4)
        {kept}

    def _make(self):
        return make()

    def forward(self, x):
        x = self.inp(x)
        {run}
        return x


net = Net()
net.to("cuda:0")
net(torch.ones(2, 4, device="cuda:0"))
"""


@pytest.mark.parametrize(
    ("kept", "run", "lines"),
    [
        (
            "self.parts = [make() for _ in range(3)]",
            "for part in self.parts: x = part(x)",
            ["self.parts = nn.ModuleList([make() for _ in range(3)])"],
        ),
        (
            "self.parts = []; [self.parts.append(self._make()) for _ in range(3)]",
            "for part in self.parts: x = part(x)",
            ["self.parts = nn.ModuleList(); "],
        ),
        (
            "self.parts = tuple(make() for _ in range(3))",
            "for at, part in enumerate(self.parts): x = part(x)",
            ["self.parts = nn.ModuleList(make() for _ in range(3))"],
        ),
        (
            'self.parts = {"a": make(), "b": make()}',
            'x = self.parts["a"](x) + self.parts["b"](x)',
            ['self.parts = nn.ModuleDict({"a": make(), "b": make()})'],
        ),
        (
            "self.parts = {i: make() for i in range(3)}",
            "for part in self.parts.values(): x = part(x)",
            ["self.parts_modules = nn.ModuleList(self.parts.values())"],
        ),
        (
            "self.parts = [make() for _ in range(3)]; self.more = [make(), make()]",
            "for part, other in zip(self.parts, self.more): x = part(x) + other(x)",
            ["nn.ModuleList([make() for _ in range(3)])", "nn.ModuleList([make(), make()])"],
        ),
    ],
)
def test_what_a_function_makes_becomes_part_of_the_module(kept, run, lines, tmp_path):
    pytest.importorskip("torch")
    from samedevice import machine

    script = tmp_path / "net.py"
    script.write_text(PROGRAM.replace("{kept}", kept).replace("{run}", run), "utf-8")
    with machine("2x24GB", on_mismatch="record") as vm:
        exec(compile(script.read_text("utf-8"), str(script), "exec"), {"__name__": "__main__"})
    fix = vm.findings[0].fixes[0]
    assert fix.safety == "safe"
    assert fix.diff is not None
    assert all(line in fix.diff for line in lines)


def test_where_the_container_is_not_found_no_model_is_moved_twice(tmp_path):
    pytest.importorskip("torch")
    from samedevice import machine

    kept, run = "self.parts = list(map(lambda _: make(), range(3)))", "for part in self.parts: x = part(x)"
    script = tmp_path / "net.py"
    script.write_text(PROGRAM.replace("{kept}", kept).replace("{run}", run), "utf-8")
    with machine("2x24GB", on_mismatch="record") as vm:
        exec(compile(script.read_text("utf-8"), str(script), "exec"), {"__name__": "__main__"})
    (fix,) = vm.findings[0].fixes
    assert (fix.safety, fix.diff) == ("check", None)
    assert "nn.ModuleList" in fix.title
