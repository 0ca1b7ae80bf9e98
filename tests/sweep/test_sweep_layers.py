"""Layers and measures that are called alone, on one GPU: a package of our own, and the table."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from samedevice.report import render_finding
from samedevice.sweep import KNOWN, _layers
from samedevice.sweep._case import Untried
from samedevice.sweep._inputs import Sizes, make
from samedevice.sweep._layers import TABLE, LayerPackage, LayersLibrary, layer_packages
from samedevice.sweep._trial import Asked, try_target

LAYERS = """
import abc
import torch

class Layer(torch.nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...

class Right(Layer):
    def __init__(self, in_channels, hidden=3):
        super().__init__()
        self.weight = torch.nn.Linear(in_channels, hidden)
    def forward(self, x):
        return self.weight(x)

class Wrong(Right):
    def forward(self, x):
        return self.weight(x) + torch.ones(3)

class Unknown(Right):
    def __init__(self, graph_of_nowhere):
        super().__init__(4)

class _Private(Right):
    pass
"""
FORM = {"shape": ["batch", 4], "fill": "normal"}


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "layers_of_ours"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "all.py").write_text(LAYERS)
    (folder / "broken.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    row = LayerPackage(
        "layers_of_ours",
        ["layers_of_ours"],
        "torch.nn:Module",
        "forward",
        [{"in_channels": 4, "hidden": 99}],
        [{"y": FORM}, {"1": FORM}],
    )
    monkeypatch.setattr(_layers, "_rows", lambda: {"layers_of_ours": row})
    yield LayersLibrary("layers_of_ours")
    for name in [each for each in sys.modules if each.startswith("layers_of_ours")]:
        del sys.modules[name]


def told_of(library, kind):
    told = []
    name = f"layers_of_ours.all:{kind}"
    try_target(library, name, Asked(actions=("loss",)), told.append, lambda f: render_finding(f).as_json())
    return told


def test_public_classes_of_modules_that_can_be_imported_are_targets(library):
    library.prepare()
    assert [each.name.partition(":")[2] for each in library.targets()] == ["Right", "Unknown", "Wrong"]


def test_what_is_made_on_the_cpu_is_found_on_one_gpu(library):
    told = told_of(library, "Wrong")
    (found,) = [each for each in told if each["kind"] == "finding"]
    assert found["document"]["at"]["line"] == 18
    assert [each["status"] for each in told if each["kind"] == "run"] == ["found"]


def test_what_is_right_runs_and_has_only_what_its_constructor_wants(library):
    assert [each["status"] for each in told_of(library, "Right") if each["kind"] == "run"] == ["ran"]
    assert library.case("layers_of_ours.all:Right", ("loss",)).model.weight.out_features == 3


def test_what_nothing_is_known_of_is_told(library):
    with pytest.raises(Untried, match="nothing is known"):
        library.case("layers_of_ours.all:Unknown", ("loss",))


def test_every_form_of_the_table_makes_a_tensor():
    assert set(layer_packages()) <= set(KNOWN)
    sizes = Sizes(SimpleNamespace(), "", TABLE)
    for package in map(_layers._rows().__getitem__, layer_packages()):
        for forms in package.inputs:
            for name, form in forms.items():
                made = make(form, sizes)
                assert made.dim() == len(form["shape"]), name
