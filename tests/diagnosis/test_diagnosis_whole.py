"""A block that automatic placement cut is named in the list of its model."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from samedevice.diagnosis import judge
from samedevice.diagnosis._failure import Failure
from samedevice.events import Decision, Event, EventKind, Operand, Place, Running

BASE = "class Base:\n    _no_split_modules: list[str] | None = None\n"
MODEL = """\
from ..base import Base


class Mixer:
    pass


class Layer:
    def __init__(self):
        self.mixer = Mixer()

    def forward(self, x):
        y = self.first(x)
        return x + y


class Later:
    def __init__(self):
        self.mixer = Mixer()


class Tower:
    def __init__(self):
        self.mixer = Mixer()
        self.layers = [Later()]


class Parent(Base):
    prefix = "model"
{given}

class Model(Parent):
    def __init__(self):
        self.mixer = Mixer()

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
    part = Running("layers.0.first", "First", None, (), both)
    layer = Running("layers.0", "Layer", None, (), both)
    model = Running("Model", "Model", "cuda:0", (), both, repeated=2)
    first = judge(failing(running=(part, layer, model))).fixes[0]
    assert f"+{LINE.rstrip()}" in first.diff.splitlines()


def test_layers_that_have_the_failing_part_in_common_are_named_together(failing):
    both = ("cuda:0", "cuda:1")
    part = Running("layers.0.mixer", "Mixer", None, (), both)
    layer = Running("layers.0", "Layer", None, (), both)
    model = Running("Model", "Model", "cuda:0", (), both, repeated=2)
    for given in ("", '    _no_split_modules = ["Later"]\n'):
        added = judge(failing(given, (part, layer, model))).fixes[0].diff
        (line,) = [each for each in added.splitlines() if each.startswith("+    ")]
        assert sorted(re.findall(r'"(\w+)"', line)) == ["Later", "Layer"]
    assert f"+{LINE.rstrip()}" in judge(failing()).fixes[0].diff.splitlines(), "the layer itself fails"


def test_a_block_of_another_file_than_the_list_is_named_itself(failing, tmp_path):
    event = failing()
    at = tmp_path / "site-packages" / "lib" / "models" / "blocks.py"
    at.write_text("class Apart:\n    def forward(self, x):\n        return x + self.first(x)\n", "utf-8")
    both = ("cuda:0", "cuda:1")
    block, around = Running("wrap.apart", "Apart", None, (), both), Running("wrap", "Layer", None, (), both)
    model = Running("Model", "Model", "cuda:0", (), both)
    place = Place(str(at), 3, "forward", "return x + self.first(x)", "x + self.first(x)")
    event = replace(event, at=place, stack=(*event.stack, place), running=(block, around, model))
    assert '+    _no_split_modules = ["Apart"]' in judge(event).fixes[0].diff.splitlines()


def parametrized(failing, weights):
    """A convolution with parametrized weights, in a layer that is in no list."""
    both = ("cuda:0", "cuda:1")
    conv = Running("layer.conv", "ParametrizedConv1d", None, (), both)
    layer = Running("layer", "Layer", None, (), both)
    model = Running("Model", "Model", "cuda:0", (), both)
    event = failing(running=(conv, layer, model))
    operands = (
        replace(event.operands[0], name="input"),
        Operand("weight", weights, (2,), "float32", lineage=(own("layer.conv.weight.original1", weights),)),
        Operand("bias", "cuda:0", (2,), "float32", parameter="layer.conv.bias", role="parameter"),
    )
    return replace(event, op="aten.convolution.default", operands=operands)


def own(name, device):
    return Decision("placed", device, None, name=name)


def test_weights_of_one_layer_on_two_gpus_are_a_cut_and_the_class_of_the_library_is_named(failing):
    finding = judge(parametrized(failing, "cuda:1"))
    assert (finding.cause, finding.confidence) == ("block-split-across-devices", "likely")
    assert f"+{LINE.rstrip()}" in finding.fixes[0].diff.splitlines()
    assert judge(parametrized(failing, "cuda:0")).cause != "block-split-across-devices"


def test_a_mask_beside_what_a_cut_part_computed_is_of_the_cut(failing):
    event = failing()
    mask = Operand("mask", "cuda:0", (2,), "bool", local="y", argument="y")
    masked = replace(event, op="aten.masked_fill.Scalar", operands=(event.operands[1], mask))
    assert judge(masked).cause == "block-split-across-devices"


def test_the_buffer_of_a_cut_layer_that_no_key_reaches_stays_with_its_layer(failing):
    event = failing()
    buffer = Operand("other", "cpu", (2,), "float32", parameter="layers.0.bias", role="buffer", local="y")
    finding = judge(replace(event, operands=(event.operands[0], buffer)))
    assert finding.cause == "device-map-incomplete-or-wrong"
    assert f"+{LINE.rstrip()}" in finding.fixes[0].diff.splitlines()


def test_other_weights_of_a_spread_model_that_the_line_reads_come_along(tmp_path):
    file = tmp_path / "site-packages" / "lib" / "model.py"
    file.parent.mkdir(parents=True)
    line = "y = y * self.scale + self.shift - self.steps"
    file.write_text(
        "class Model:\n"
        "    def __init__(self):\n"
        "        self.scale = nn.Parameter(torch.ones(2))\n"
        "        self.shift = nn.Parameter(torch.ones(2))\n"
        "        self.steps = 3\n\n"
        "    def forward(self, x):\n"
        "        y = self.layers(x)\n"
        f"        {line}\n",
        "utf-8",
    )
    at = Place(str(file), 9, "forward", line, "y * self.scale")
    computed = Operand(
        "self", "cuda:1", (2,), "float32", local="y", lineage=placed("cuda:1", "layers.1.bias")
    )
    scale = Operand("other", "cuda:0", (2,), "float32", "scale", role="parameter", local="self.scale")
    for homes, added in ((("cuda:0",), True), (("cuda:0", "cuda:1"), False)):
        model = Running("Model", "Model", "cuda:0", homes, ("cuda:0", "cuda:1"))
        event = Event(
            EventKind.MISMATCH,
            "aten.mul.Tensor",
            "found two",
            at,
            None,
            "Model",
            (computed, scale),
            stack=(at,),
            running=(model,),
            device_map={"layers.1": "cuda:1", "scale": "cuda:0"},
        )
        diff = judge(event).fixes[0].diff
        assert "self.scale.to(y.device)" in diff
        assert ("self.shift.to(y.device) - self.steps" in diff) is added


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
