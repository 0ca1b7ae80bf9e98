"""Packages beside transformers: their tables, and a package that is made up on the spot."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from samedevice.machines import parse_machine
from samedevice.sweep import KNOWN, _inputs, _packages
from samedevice.sweep._built import BuiltLibrary, blocks_of
from samedevice.sweep._cuts import walk
from samedevice.sweep._libraries import library_of
from samedevice.sweep._trial import Asked, try_target

pytest.importorskip("accelerate")

SOURCE = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.inner = nn.Linear(16, 16)
        self.outer = nn.Linear(16, 16)

    def forward(self, x):
        return x + self.outer(self.inner(self.norm(x)))


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(16))
        self.blocks = nn.Sequential(*[Block() for _ in range(depth)])
        self.head = nn.Linear(16, 16)

    def forward(self, x):
        return self.head(self.blocks(x)) + self.shift


def small(weights=None, **more):
    assert weights is None and not more
    return Net(2)


def large(weights=None, **more):
    return Net(4)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two models in one file, known to the sweep."""
    (tmp_path / "madeup.py").write_text(SOURCE + "\n\ndef names():\n    return ['large', 'small']\n\n\n"
        "def maker(name):\n    return globals()[name]\n")  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))
    row = _packages.BuiltPackage(
        "madeup", ("madeup",), "madeup:names", "madeup:maker", {"weights": None}, ([2, 5, 3], [2, 5, 16])
    )
    monkeypatch.setattr(_packages, "_rows", lambda: {"madeup": row})
    yield BuiltLibrary("madeup")
    sys.modules.pop("madeup", None)


def test_the_smallest_model_of_a_file_is_tried_and_only_what_no_block_keeps_is_told(package):
    package.prepare()
    (listed,) = package.targets()
    assert listed.name == "madeup:madeup"
    told: list = []
    asked = Asked(actions=("loss",), cuts=20)
    try_target(package, listed.name, asked, told.append, lambda finding: {"code": finding.code})
    (built,) = [each for each in told if each["kind"] == "built"]
    assert built["inputs"] == ["x"]
    assert built["declares"] is False
    runs = [each for each in told if each["kind"] == "run"]
    assert runs[0]["cut"] == ""
    assert runs[0]["status"] == "ran"
    found = {statement for run in runs for statement in run["statements"]}
    line = SOURCE[: SOURCE.index("return self.head(")].count("\n") + 1
    assert {each.rpartition("madeup.py:")[2] for each in found} == {str(line)}
    assert any(each["kind"] == "confirmed" for each in told)


def test_blocks_are_what_stands_several_times_in_a_list():
    from torch import nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([Inner(), Inner()])
            self.end = nn.Linear(2, 2)

    class Chain(nn.Sequential):
        pass

    chains = [Chain(nn.Linear(2, 2), nn.ReLU()) for _ in range(2)]
    model = nn.Sequential(Stage(), Stage(), nn.Linear(2, 2), nn.Linear(2, 2), *chains)
    assert blocks_of(model) == ("Inner",)


@pytest.mark.parametrize("table", [_inputs.INPUTS, "inputs-diffusers.toml"])
def test_every_form_of_the_tables_makes_what_it_says(table):
    sizes = _inputs.Sizes(SimpleNamespace(), "", table)
    rows = _inputs._table(table).inputs
    names = [name for row in rows for name in row.names]
    assert len(rows) > 5
    for row in rows:
        for form in row.forms:
            made = _inputs.make(form, sizes)
            if "value" in form:
                assert made == form["value"]
            else:
                assert list(made.shape) == [sizes.of(each) for each in form["shape"]]
    if table != _inputs.INPUTS:
        assert len(names) == len(set(names))


def test_what_is_needed_is_given_only_to_what_cannot_do_without():
    def names(required):
        asked = _inputs.Asked(
            (), required, ("hidden_states", "timestep", "guidance"), "inputs-diffusers.toml"
        )
        return set(next(_inputs.attempts(asked, SimpleNamespace(), whole=True)))

    assert names(("hidden_states",)) == {"hidden_states", "timestep"}
    assert names(("hidden_states", "guidance")) == {"hidden_states", "timestep", "guidance"}


def test_the_packages_that_are_known_have_a_library():
    assert {
        "transformers",
        "diffusers",
        "peft",
        "sentence-transformers",
        "timm",
        "torchvision",
        "torch_geometric",
        "torchmetrics",
    } == set(KNOWN)
    for name in KNOWN:
        assert callable(library_of(name).case)


def test_a_method_of_peft_is_put_on_the_model_wherever_it_is():
    pytest.importorskip("peft")
    library = library_of("peft")
    library.prepare()
    names = [listed.name for listed in library.targets()]
    assert "peft.LORA:LORA-llama" in names
    from samedevice.runtime import VirtualMachine

    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="record") as machine:
        case = library.case("peft.LORA:LORA-llama", ("loss",))
        total = case.sizes(case.model)[""]
        cuts = walk(total, lambda memory: case.infer(case.model, memory))
        model = case.spread(case.model, cuts[len(cuts) // 2].map)
        parameters = dict(model.named_parameters())
        added = {name: each.device for name, each in parameters.items() if "lora_" in name}
        assert {device.index for device in added.values()} == {0, 1}
        machine.forget()
