"""The device that a patch of library code names is that of what the statement meets, each time it runs."""

from __future__ import annotations

import pytest

from samedevice.diagnosis import judge
from samedevice.events import Decision, Event, EventKind, Ingredient, Operand, Place, Running

ELSEWHERE = Place("/x/site-packages/accelerate/utils.py", 3, "f", "x.to(device)")


def diffs(tmp_path, source, call, left, right, read=(), parts=()):
    """The patches for a statement; each operand is a name, a device and the text of the line that made it."""
    file = tmp_path / "site-packages" / "lib" / "model.py"
    file.parent.mkdir(parents=True)
    file.write_text(source, "utf-8")
    lines = [line.strip() for line in source.splitlines()]

    def place(text, ran=""):
        return Place(str(file), lines.index(text) + 1, "forward", text, ran)

    def operand(name, local, device, made):
        lineage = (Decision("placed", device, ELSEWHERE, name=f"{local}.bias", inherited=True),)
        at = place(made, made.partition(" = ")[2])
        given = "x" if local == "x" else None
        made_of = [Ingredient(n, device, place(t, t.partition(" = ")[2]), dtype=d) for n, t, d in parts]
        return Operand(
            name, device, (2, 3), "float32", local=local, argument=given, made=at, lineage=lineage,
            ingredients=() if local else tuple(made_of),
        )  # fmt: skip

    at = place(*call)
    both = ("cuda:0", "cuda:1")
    event = Event(
        EventKind.MISMATCH, "aten.add.Tensor", "found two", at, None, "layer",
        (operand("self", *left), operand("other", *right)),
        stack=(at,),
        running=(Running("layer", "Layer", None, (), both), Running("M", "M", "cuda:0", (), both)),
        device_map={"layer.a": "cuda:0", "layer.b": "cuda:1"},
        read=tuple(Ingredient(name, device) for name, device in read),
    )  # fmt: skip
    return [fix.diff for fix in judge(event).fixes if fix.diff]


RESIDUAL = """\
class Layer:
    def forward(self, x):
        shortcut = x
        x = self.attention(x)
        x = shortcut + x
        x = self.norm(x)
        return x
"""


def test_what_an_earlier_run_of_a_function_made_is_moved_where_it_is_used(tmp_path):
    made = diffs(
        tmp_path, RESIDUAL, ("x = shortcut + x", "shortcut + x"),
        ("shortcut", "cuda:0", "x = self.norm(x)"), ("x", "cuda:1", "x = self.attention(x)"),
    )  # fmt: skip
    assert ["+        x = shortcut.to(x.device) + x" in diff for diff in made] == [True]


PYRAMID = """\
class Layer:
    def forward(self, x):
        for i in range(3, 0, -1):
            x[i - 1] = x[i - 1] + self.grow(x[i])
        return x
"""


def test_one_turn_of_a_loop_is_not_written_into_it(tmp_path):
    line = "x[i - 1] = x[i - 1] + self.grow(x[i])"
    made = diffs(
        tmp_path, PYRAMID, (line, "x[i - 1] + self.grow(x[i])"),
        ("x[2]", "cuda:1", line), ("self.grow(x[i])", "cuda:0", line),
        read=[("x[2]", "cuda:1")],
    )  # fmt: skip
    assert made and not any("x[2]" in diff for diff in made)
    assert "self.grow(x[i]).to(x[i - 1].device)" in made[0]


TYPED = """\
class Layer:
    def forward(self, x, dtype):
        y = self.other(x)
        mask = self.make(dtype=dtype)
        mask = mask.to(dtype)
        mask = torch.flip(mask)
        x = self.attention(y)
        return x + mask
"""


@pytest.mark.parametrize("made", ["mask = mask.to(dtype)", "mask = torch.flip(mask)"])
def test_a_type_is_no_device(tmp_path, made):
    found = diffs(
        tmp_path, TYPED, ("return x + mask", "x + mask"),
        ("x", "cuda:1", "x = self.attention(y)"), ("mask", "cuda:0", made),
    )  # fmt: skip
    assert found and not any(f"to({word})" in diff for diff in found for word in ("dtype", "y.device"))


CHOSEN = """\
class Layer:
    def forward(self, x, labels, mask):
        x = self.attention(x)
        keep = mask.view(-1) == 1
        chosen = labels[keep]
        return x + chosen.float()
"""


def test_what_a_mask_chose_is_moved_and_not_the_mask(tmp_path):
    parts = [("chosen", "chosen = labels[keep]", "int64"), ("keep", "keep = mask.view(-1) == 1", "bool")]
    made = diffs(
        tmp_path, CHOSEN, ("return x + chosen.float()", "x + chosen.float()"),
        ("x", "cuda:1", "x = self.attention(x)"), (None, "cuda:0", "return x + chosen.float()"),
        parts=parts[::-1],
    )  # fmt: skip
    assert not any("+        keep" in diff for diff in made)
    assert "+        chosen = labels[keep].to(x.device)" in made[0]
