"""How healed runs are compared with a run on one device."""

import ast
from types import SimpleNamespace

import pytest
import torch

from evidence.zoo import heal_zoo
from evidence.zoo.heal_zoo import End, differing, on_one_device, tensors_held, unequal, verdict

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
    assert verdict([End(ONE)], End(other)) == ("OTHER NUMBERS" if paths else "equal")


def test_one_reference_has_to_agree_in_everything():
    one, other = {**ONE, "y": ONE["x"]}, {"x": ("", (), b""), "y": ("", (), b"")}
    assert verdict([End(one), End(other)], End(one)) == verdict([End(one), End(other)], End(other)) == "equal"
    mixed = {"x": one["x"], "y": other["y"]}
    assert verdict([End(one), End(other)], End(mixed)) == "OTHER NUMBERS"
    assert differing([End(one), End(other)], End(mixed)) == ["y"]


def test_how_a_run_failed():
    assert verdict([End(ONE)], End(None, "RuntimeError")) == "failed"
    assert verdict([End(ONE)], End(None, "RuntimeError not healed: because")) == "refused"


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
    source = "model = make()\nout = model.parts[1].encode(1)\nfor _ in (1, 2):\n    model(1)\n"
    text = ast.unparse(heal_zoo.healed_by_hand(source))
    assert text.count("for _ in _repeat():") == 2
    assert text.count("_heal(lambda: model)") == 1
    assert text.count("_heal(lambda: model.parts[1].encode, lambda: model.parts[1])") == 1


def test_what_a_repeated_statement_writes_is_put_back():
    source = """
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
images = torch.ones(3, 2)
out = model(images.add_(1)).sum().backward()
same = model[1].eval()
"""
    names: dict[str, object] = {"torch": torch}
    repeated: list[object] = []
    names |= heal_zoo.by_hand(SimpleNamespace(drawn=0), repeated, names)
    exec(compile(heal_zoo.healed_by_hand(source), "script", "exec"), names)
    model, images = names["model"], names["images"]
    assert len(repeated) == 2  # the model, and the part whose method is called
    assert images.tolist() == [[2.0, 2.0]] * 3
    assert model[1].num_batches_tracked == 1
    once = model[0].weight.grad.clone()
    model[0].weight.grad = None
    model[1].train()
    model(images).sum().backward()
    assert torch.equal(once, model[0].weight.grad)
