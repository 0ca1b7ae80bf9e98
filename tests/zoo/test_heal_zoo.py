"""How healed runs are compared with a run on one device."""

import ast

import pytest
import torch

from evidence.zoo import heal_zoo
from evidence.zoo.heal_zoo import End, on_one_device, tensors_held, unequal, verdict

ONE = {"x": ("torch.float32", (2,), b"12345678")}


@pytest.mark.parametrize(
    ("other", "paths"),
    [
        (ONE, []),
        ({"x": ("torch.float32", (2,), b"12345679")}, ["x"]),
        ({"x": ("torch.float16", (2,), b"12345678")}, ["x"]),
        ({"x": ("torch.float32", (2, 1), b"12345678")}, ["x"]),
        ({}, ["x"]),
        ({**ONE, "y": ONE["x"]}, ["y"]),
    ],
)
def test_every_bit_counts(other, paths):
    assert unequal(ONE, other) == paths
    assert verdict(ONE, End(other)) == ("OTHER NUMBERS" if paths else "equal")


def test_how_a_run_failed():
    assert verdict(ONE, End(None, "RuntimeError")) == "failed"
    assert verdict(ONE, End(None, "RuntimeError not healed: because")) == "refused"


def test_every_device_of_a_script():
    source = 'f("cuda:1", "cuda", map={"a": 0, "b": 1}, size={"height": 28}, text="cudax")'
    assert (
        ast.unparse(on_one_device(source, "cpu"))
        == "f('cpu', 'cpu', map={'a': 'cpu', 'b': 'cpu'}, size={'height': 28}, text='cudax')"
    )


def test_everything_that_a_script_holds():
    model = torch.nn.Linear(2, 1)
    model(torch.ones(2)).backward()
    model.register_buffer("table", torch.ones(1))

    class Pipe:
        def __init__(self):
            self.part = torch.nn.Linear(1, 1, bias=False)

    held = dict(
        tensors_held(
            {
                "model": model,
                "out": {"logits": [torch.ones(1)]},
                "pipe": Pipe(),
                "_own": torch.ones(1),
                "n": 3,
            }
        )
    )
    assert sorted(held) == [
        "model.bias",
        "model.bias.grad",
        "model.table",
        "model.weight",
        "model.weight.grad",
        "out.logits[0]",
        "pipe.part.weight",
    ]


def test_statements_that_call_a_model_are_repeated():
    source = "model = make()\nout = model.generate(1)\nfor _ in (1, 2):\n    model(1)\n"
    text = ast.unparse(heal_zoo.healed_by_hand(source))
    assert text.count("for _ in _repeat():") == 2
    assert text.count("_heal(globals().get('model'))") == 2
