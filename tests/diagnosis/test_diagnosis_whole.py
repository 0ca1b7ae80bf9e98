"""A block that automatic placement cut is named in the list of its model."""

from __future__ import annotations

import pytest

from samedevice.diagnosis import judge
from samedevice.diagnosis._failure import Failure
from samedevice.events import Decision, Event, EventKind, Operand, Place, Running

BASE = "class Base:\n    _no_split_modules: list[str] | None = None\n"
MODEL = """\
from ..base import Base


class Layer:
    def forward(self, x):
        y = self.first(x)
        return x + y


class Parent(Base):
    prefix = "model"
{given}

class Model(Parent):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
LINE = '    _no_split_modules = ["Layer"]\n'


def placed(device, name):
    at = Place("/x/site-packages/accelerate/utils.py", 3, "f", "x.to(device)")
    return (Decision("placed", device, at, name=name, inherited=True),)


@pytest.fixture
def failing(tmp_path):
    """The residual of a layer whose first part is on another GPU."""

    def make(given="", running=None, base=BASE):
        folder = tmp_path / "site-packages" / "lib" / "models"
        folder.mkdir(parents=True, exist_ok=True)
        folder.with_name("base.py").write_text(base, "utf-8")
        file = folder / "model.py"
        file.write_text(MODEL.replace("{given}\n", given), "utf-8")
        lines = file.read_text("utf-8").splitlines()
        at, outer = ("return x + y", "x = layer(x)")
        places = {text: [line.strip() for line in lines].index(text) + 1 for text in (at, outer)}
        stack = (
            Place(str(file), places[outer], "forward", outer, "layer(x)"),
            Place(str(file), places[at], "forward", at, "x + y"),
        )
        both = ("cuda:0", "cuda:1")
        return Event(
            EventKind.MISMATCH,
            "aten.add.Tensor",
            "found two",
            stack[-1],
            None,
            "layers.0",
            (
                Operand("self", "cuda:0", (2,), "float32", local="x", lineage=placed("cuda:0", "embed.bias")),
                Operand(
                    "other",
                    "cuda:1",
                    (2,),
                    "float32",
                    local="y",
                    lineage=placed("cuda:1", "layers.0.first.bias"),
                ),
            ),
            stack=stack,
            running=running
            or (
                Running("layers.0", "Layer", None, (), both),
                Running("Model", "Model", "cuda:0", (), both, repeated=2),
            ),
            device_map={"embed": "cuda:0", "layers.0.second": "cuda:0", "layers.0.first": "cuda:1"},
        )

    return make


def test_a_class_without_a_list_gets_one(failing):
    first = judge(failing()).fixes[0]
    assert first.diff.splitlines()[-3:-1] == ['     prefix = "model"', f"+{LINE.rstrip()}"]
    assert first.safety == "check"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ('    _no_split_modules = ["Other"]\n', '+    _no_split_modules = ["Other", "Layer"]'),
        ("    _no_split_modules = []\n", '+    _no_split_modules = ["Layer"]'),
        ("    _no_split_modules = None\n", '+    _no_split_modules = ["Layer"]'),
        ('    _no_split_modules = [\n        "Other",\n    ]\n', '+        "Layer",'),
    ],
)
def test_a_list_that_is_there_gets_one_name_more(failing, given, added):
    assert added in judge(failing(given)).fixes[0].diff.splitlines()


def keys(event):
    return [dict(fix.title.values).get("what", fix.title).key for fix in judge(event).fixes]


def test_nothing_is_named_twice_or_where_no_base_reads_a_list(failing):
    assert "fix.whole-class" in keys(failing())
    assert "fix.whole-class" not in keys(failing(LINE))
    assert "fix.whole-class" not in keys(failing(base="class Base:\n    pass\n"))


def test_the_layer_of_a_list_is_named_and_no_part_of_it(failing):
    both = ("cuda:0", "cuda:1")
    part = Running("layers.0.mixer", "Mixer", None, (), both)
    layer = Running("layers.0", "Layer", None, (), both)
    model = Running("Model", "Model", "cuda:0", (), both, repeated=2)
    first = judge(failing(running=(part, layer, model))).fixes[0]
    assert f"+{LINE.rstrip()}" in first.diff.splitlines()


def test_a_model_that_a_map_spreads_is_no_block(failing):
    both = ("cuda:0", "cuda:1")
    model = Running("Model", "Model", "cuda:0", (), both, repeated=2)
    body = Running("model", "Body", None, (), both, repeated=2)
    tower = replace_repeated(body, 1)
    for running in ((model,), (body, model)):
        failure = Failure(failing(running=running))
        assert failure.cut is None and failure.block is None
    assert Failure(failing(running=(tower, model))).cut is tower


def test_half_of_a_model_is_named_in_no_list(failing):
    both = ("cuda:0", "cuda:1")
    for repeated, named in ((2, False), (1, True)):
        tower = Running("tower", "Tower", None, (), both, repeated=repeated)
        model = Running("Model", "Model", "cuda:0", (), both, repeated=4)
        assert ("fix.whole-class" in keys(failing(running=(tower, model)))) is named


def replace_repeated(module, count):
    return Running(module.name, module.kind, module.hook, module.own, module.below, repeated=count)


def test_layers_of_a_list_are_counted_and_no_tables():
    torch = pytest.importorskip("torch")
    from samedevice.provenance.surroundings import running

    def layers(count):
        return torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(2, 2)) for _ in range(count)])

    model = torch.nn.Module()
    model.layers, model.single = layers(2), layers(1)
    model.tables = torch.nn.ModuleList([torch.nn.Embedding(2, 2), torch.nn.Embedding(2, 2)])
    records = running([model.layers, model.single, model.tables, model], lambda tensor: tensor.device)
    assert [each.repeated for each in records] == [2, 0, 0, 2]
