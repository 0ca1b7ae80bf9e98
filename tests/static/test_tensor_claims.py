"""What the static reading claims of devices is what happens: programs drawn at random are read, then
run on a virtual machine.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import samedevice as sd
from samedevice.static.tensors import FUNCTIONS, METHODS, MODULES, Project, Reading, Tensor, parse_source

DEVICES = ("cpu", "cuda:0", "cuda:1")
PLACES = (
    "",
    ', device="cuda:0"',
    ', device="cuda:1"',
    ', device="cpu"',
    ", device=x.device",
    ", device=device",
)
OTHER_FILE = """import torch
from torch import nn


def far(t, u=None):
    if u is None:
        return nearer(t)
    return t.to(u.device)


def nearer(t):
    return t.float() * 2


def far_made(n=2, device=None):
    return torch.ones(n, n, device=device)


def far_last(*all_of_them):
    return [torch.abs(each) for each in all_of_them][-1]


def far_mean(views, weights: torch.Tensor):
    total = torch.zeros(2, 2)
    for view in views:
        total = total + view.cpu() * weights.cpu()
    return total


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x, other: torch.Tensor):
        return x * self.scale + other

    def rows(self, count):
        return torch.ones(count, 2)


class Kept:
    def __init__(self):
        self._fill()

    def _fill(self):
        self.rows = torch.ones(2, 2)

    def scaled(self, t):
        return t * self.rows


def passed_on(function, *args, **kwargs):
    return function(*args, **kwargs)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.ones(2, 2)
        self._start()
        self.register_buffer("table", torch.ones(2, 2))

    def _start(self):
        self.state = torch.zeros(2, 2)

    def based(self, t):
        return t + self.table
"""
"""Another file of the package, `drawn_package/other.py`."""
HEAD = """from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import drawn_package.other
from drawn_package import other as others
from drawn_package.other import Base, Kept, Scale, far, far_made, far_mean, passed_on
from drawn_package.other import *


def made(n, device=None):
    return torch.ones(n, n, device=device)


TABLE = torch.ones(2, 2)
total = torch.sum


def moved(t, other=None):
    if other is None:
        return t * 2
    return t.to(other.device)


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor = None


def swapped(pair):
    pair.first, pair.second = pair.second, pair.first
    return pair


class Part(Base):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.own = Scale()
        self.kept = Kept()
        self.scales = nn.ModuleList([Scale() for _ in range(2)])

    def forward(self, x: torch.Tensor, y: torch.Tensor, device, flag, note, extra):
"""


def drawn(draw, names, depth=0):
    """Lines of a body; every name is of a tensor of two by two."""
    lines = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.integers(0, 38))
        one, two = (draw(st.sampled_from(names)) for _ in range(2))
        new = draw(st.sampled_from(["a", "b", "c", "d", "x"]))
        place = draw(st.sampled_from(PLACES))
        way = draw(st.sampled_from(["float()", "clone()", "unsqueeze(0)[0]", "t()", "cpu()", "abs()"]))
        goal = draw(st.sampled_from([two, two + ".device", "device", "torch.float32", repr("cuda:1")]))
        value = {
            0: f"torch.zeros(2, 2{place})",
            1: f"{one} {draw(st.sampled_from('+*-@<'))} {two}",
            2: f"torch.cat([{one}, {two}])[:2]",
            3: f"{one}.{way}",
            4: f"{one}.to({goal})",
            5: f"torch.ones_like({one}{place})",
            6: f"made(2{place})",
            7: f"moved({one}{draw(st.sampled_from(['', ', ' + two]))})",
            8: f"torch.where({one} > 0, {two}, torch.tensor(0.0{place}))",
            9: f"self.proj({one})",
            10: f"self.{draw(st.sampled_from(['scale', 'table', 'plain']))} * {one}",
            11: f"torch.tensor([[1.0, 2.0], [3.0, 4.0]]{place})",
            12: f"{one} if flag else {two}",
            13: f"{one} {draw(st.sampled_from('+*'))} extra",
            14: f"extra * {one} + {two}",
            15: f"torch.cat([{one}] * 2)[:2]",
            16: f"torch.max({one}, {draw(st.sampled_from([two, '0']))})",
            17: f"{one}.max(0).values[None].repeat(2, 1)",
            18: f"{one} * TABLE",
            19: f"total({one}, 0)[None].repeat(2, 1)",
            20: f"torch.stack([part for part in ({one}, {two})])[0]",
            21: f"F.pad({one}, (0, 0))",
            22: f"extra.to({goal}) if isinstance(extra, torch.Tensor) else {one}",
            23: f"far({one}{draw(st.sampled_from(['', ', ' + two, ', u=' + two]))})",
            24: f"others.far_made(2{place})",
            25: f"far_last({one}, {two})",
            26: f"far_mean([{one}, {two}], {two})",
            27: f"self.own({one}, {two})",
            28: f"self.based({one})",
            29: f"self.scales[0]({one}, torch.ones(2, 2{place}))",
            30: f"far(extra) if isinstance(extra, torch.Tensor) else {two}",
            32: f"self.own.scale * {one}",
            33: "self.own.rows(2)",
            34: f"self.kept.rows {draw(st.sampled_from('+*'))} {one}",
            35: f"passed_on({draw(st.sampled_from(['torch.add', 'moved', 'far']))}, {one}, {two})",
            36: f"passed_on(torch.add, {one}, other={two})",
            37: f"(lambda t, u={two}: t * u)({one})",
            38: f"self.kept.scaled({one}) if flag else self.state",
            31: f"{draw(st.sampled_from(['far_made', 'others.far_made']))}(device={two}.device)",
        }[kind]
        if kind in (16, 17) and value.endswith(", 0)"):
            value += ".values[None].repeat(2, 1)"
        form = draw(st.integers(0, 16))
        if form == 0 and depth < 2:
            lines += ["if flag:", *(f"    {line}" for line in drawn(draw, names, depth + 1))]
        elif form == 1 and depth < 2:
            lines += ["for _ in range(2):", *(f"    {line}" for line in drawn(draw, names, depth + 1))]
            if draw(st.booleans()):
                lines += [f"    if {one}.sum() > 3:", f"        {new} = {value}", "        continue"]
                lines += [f"    {new} = {two}"]
        elif form == 2:
            other = draw(st.sampled_from(["a", "b", "c", "d"]))
            lines += [f"{new}, {other} = {value}, {two}", f"note({len(lines)}, {new})"]
        elif form == 3:
            lines.append(f"{one} += {value}")
        elif form == 4:
            lines += [f"*_, {new} = (*{one}.shape, {value})", f"note({len(lines)}, {new})"]
            lines += [f"_, _, {new} = *{one}.shape, {value}", f"note({len(lines)}, {new})"]
        elif form == 5:
            lines += ["items = []", "for _ in range(2):", f"    items.append({value})"]
            lines += ["if flag:", f"    items.append({two})"]
            lines += [f"{new} = torch.cat(items)[:2]", f"note({len(lines)}, {new})"]
        elif form == 6:
            lines += ["def inner(t, u=None):", f"    return t * {two} if u is None else t.to(u.device)"]
            given = draw(st.sampled_from([one, f"{one}, {two}"]))
            lines += [f"{new} = inner({given})", f"note({len(lines)}, {new})"]
        elif form == 7:
            lines += [
                f"{new} = {value}",
                f"{new}[{one} > 0.5] = {two}[{two} > 0.5]",
                f"note({len(lines)}, {new})",
            ]
        elif form == 8:
            lines += [
                f"{new} = {value}",
                "if x.is_cuda:",
                f"    {new} = {new}.cuda()",
                f"note({len(lines)}, {new})",
            ]
        elif form == 9:
            lines.append(f"pair = Pair({draw(st.sampled_from(['', 'first=']))}{one}, second={value})")
            lines += draw(
                st.sampled_from(
                    [
                        [],
                        [f"pair.first = {two}"],
                        ["other = pair", f"other.second = {two}"],
                        ["if flag:", f"    pair.second = {two}"],
                        ["if flag:", f"    pair = Pair({two}, {one})"],
                        ["pair = swapped(pair)"],
                        ["swapped(pair)"],
                        ["for _ in range(3):", "    pair = swapped(pair)", f"    pair.first = {two}"],
                    ]
                )
            )
            part = draw(st.sampled_from(["first", "second"]))
            lines += [f"{new} = pair.{part}", f"note({len(lines)}, {new})"]
        elif form in (10, 11):
            lines += ["kept = {}", f"kept['one'] = {value}"]
            lines += draw(
                st.sampled_from(
                    [
                        [],
                        ["if flag:", f"    kept['one'] = {two}"],
                        ["other = kept", f"other['one'] = {two}"],
                        [f"kept.update(one={two})"],
                        ["for name in ('one', 'two'):", f"    kept[name] = {two}"],
                        ["def change():", f"    kept['one'] = {two}", "change()"],
                        ["for _ in range(2):", f"    kept['one'] = kept['one'] + {two}"],
                    ]
                )
            )
            lines += [f"{new} = kept['one']", f"note({len(lines)}, {new})"]
        elif form == 12 and draw(st.booleans()):
            lines += ["try:", f"    {new} = {value}", "except RuntimeError:", f"    note(0, {new})"]
            lines += [f"first, *_, last = {one}, {two}, {new}", f"{new} = first * last"]
            lines += [f"note({len(lines)}, {new})"]
        elif form == 12:
            lines += [f"place = {two}.device if flag else 'cpu'", "if x.is_cuda:", "    place = 'cuda'"]
            lines += [f"{new} = torch.zeros(2, 2, device=place)", f"note({len(lines)}, {new})"]
        else:
            lines += [f"{new} = {value}", f"note({len(lines)}, {new})"]
    return lines


PACKAGE = "drawn_package"


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory):
    """The other file, where reading and running find it."""
    folder = tmp_path_factory.mktemp("drawn") / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "other.py").write_text(OTHER_FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder.parent))
        HOME.append(folder / "drawn.py")
        yield
        for name in (PACKAGE, f"{PACKAGE}.other"):
            sys.modules.pop(name, None)


HOME: list[Path] = []
"""Where the drawn program would be."""


@st.composite
def programs(draw):
    body = ["a = x", "b = y", "c = x * 1", "d = y * 1", *drawn(draw, ["a", "b", "c", "d", "x", "y"])]
    return HEAD + "".join(f"        {line}\n" for line in body)


def claims(text):
    """What is claimed of the second argument of each call of `note`, by its line."""
    source = parse_source(HOME[-1], text)
    reading = Reading(source, Project())
    function, around = next(each for each in source.functions if each[0].name == "forward")
    told = reading.of(function, source.class_text(around.owner))
    found = {}
    for call in source.calls.get("note", ()):
        value = told.values.get(id(call.node.args[1]))
        if isinstance(value, Tensor) and value.where.kind in ("default", "literal", "same", "likely"):
            if not any(":" in symbol for symbol in value.where.of if value.where.kind != "literal"):
                found[call.node.lineno] = value.where  # the rest is the device of what cannot be told
    return found


def happened(text, devices, flag, extra=2.0):
    """The devices that were noted, by line, until the program ended or failed."""
    found = {}
    with sd.machine("2x24GB", on_mismatch="raise"):
        space = {}
        exec(compile(text, "drawn.py", "exec"), space)
        part = space["Part"]().to(devices[2])

        def note(_, tensor):
            found.setdefault(sys._getframe(1).f_lineno, set()).add(str(tensor.device))

        x, y = (torch.ones(2, 2, device=device) for device in devices[:2])
        known = {
            "x": devices[0],
            "y": devices[1],
            "device": devices[3],
            "extra": extra if isinstance(extra, str) else "cpu",
            **{f"self.{name}": devices[2] for name in ("proj.weight", "scale", "table", "own.scale")},
        }
        try:
            given = torch.ones(2, 2, device=extra) if isinstance(extra, str) else extra
            part(x, y, torch.device(devices[3]), flag, note, given)
        except RuntimeError:
            pass
    return found, known


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    programs(), st.tuples(*[st.sampled_from(DEVICES)] * 4), st.booleans(), st.sampled_from([*DEVICES, 2.0])
)
def test_a_claim_is_what_happens(text, devices, flag, extra):
    claimed = claims(text)
    found, known = happened(text, devices, flag, extra)
    for line, where in claimed.items():
        for device in found.get(line, ()):
            if where.kind == "default":
                assert device == "cpu", (line, where, text)
            elif where.kind == "literal":
                assert device in where.of or f"{device}".startswith(where.of[0]), (line, where, text)
            else:
                assert device in {known[symbol] for symbol in where.of}, (line, where, text)


def test_most_names_are_claimed():
    text = HEAD + "".join(
        f"        {line}\n"
        for line in (
            "a = torch.zeros(2, 2)", "note(0, a)", "b = made(2, device=x.device)", "note(0, b)",
            "c = moved(y, x)", "note(0, c)", "d = self.proj(x)", "note(0, d)", "e = self.plain", "note(0, e)",
            "for _ in range(3):", "    a = a + 1", "note(0, a)", "f = torch.cat([d, self.table])",
            "note(0, f)",
        )
    )  # fmt: skip
    kinds = [str(where) for where in claims(text).values()]
    assert kinds == [
        "default", "same x", "same x", "same self.proj.weight", "default", "default", "same self.proj.weight",
    ]  # fmt: skip


RECIPES = (
    "x, (0,)", "x", "x, x", "x, 1", "x, (1, 1)", "x, 0, 1", "x, 2, 0", "x, 0, i", "x > 0", "x > 0, x > 0",
    "x > 0, x, x", "x, x, x", "x, 0, i, x", "i, x", "x, x > 0", "x, (4,)", "x, 0.5", "x, i1", "x, c, c",
    "[x, x]", "x.flatten(), x.flatten()", "x, x.flatten()[:2]", "i", "n", "n, x", "x, (2,)", "x, c", "p, k",
    "s, s, s, s", "x, i01", "x, i1, x", "x3, x3", "x3, x3, x3", "x.view(1, 1, 4), x.view(1, 1, 4)",
    "im, im", "im, g", "v, v", "x, 1, 0", "x, 1, i", "x, x, 0.5", "'ij,jk->ik', x, x", "i.bool()",
    "i.bool(), i.bool()", "x, x.flatten()[:2], x", "x[0], x", "vol, vol", "x, m1, m1", "im, c2, c2",
    "x, x.t(), 0", "i, i", "x, 0, i1", "x, 0, i1, x", "x, (2, 2)", "x, 0, i, x.clone()", "x, x > 0, 0.5",
    "x, x > 0, x", "x, 0, 0, 1", "x, 0, i1, x.clone()", "x, 0, (1, 2)", "x, (1, 0)", "im", "im, 1",
    "im, None, 2", "x.view(1, 1, 4), (2, 2), 1", "x[0], x, x[0]", "z", "x.mm(x.t())",
    "x, x, upper=True", "x[0]", "x[None, None], (1, 1)", "x, torch.tensor([0.2], device=D), 0", "x, 2",
    "x[0], x[0]", "torch.eye(2, 3, device=D)[None], (1, 1, 2, 2)", "i, i, 2", "x, i.float()",
    "x, 0, i1, x, 'sum'", "i, 3", "x.view(1, 1, 2, 2), 1", "x, x, x, x", "x, 0.1, 0.2",
)  # fmt: skip
"""Arguments to try; the first that a function takes on the host is its call."""
SETUP = """
x = torch.tensor([[0.2, 0.4], [0.6, 0.8]], device=D)
i = torch.tensor([0, 1], device=D)
c, k, p, s, x3 = i, i, x, x, x.unsqueeze(0)
i1 = torch.tensor([[0], [1]], device=D)
z = torch.complex(x, x)
i01, n = i1, torch.tensor([3, 1], device=D)
im, vol = x.view(1, 1, 2, 2), x.view(1, 1, 1, 2, 2)
g = torch.zeros(1, 2, 2, 2, device=D)
v, m1, c2 = torch.ones(1, 3, device=D), torch.ones(2, device=D), torch.ones(1, device=D)
"""


def result_device(expressions):
    """The device of what the first expression gives that runs on the host, on a virtual GPU."""
    for expression in expressions:
        try:
            space = {"torch": torch, "F": torch.nn.functional, "D": "cpu"}
            exec(SETUP, space)
            eval(expression, space)
        except Exception:
            continue
        with sd.machine("2x24GB", on_mismatch="raise"):
            space = {"torch": torch, "F": torch.nn.functional, "D": "cuda:1"}
            exec(SETUP, space)
            given = eval(expression, space)
            given = given[0] if isinstance(given, (tuple, list)) else given
            return str(given.device)
    return None


def calls_of(name):
    homes = ("torch", "F", "torch.fft", "torch.linalg", "torch.special")
    return [f"{home}.{name}({recipe})" for recipe in RECIPES for home in homes]


def methods_of(name):
    parts = [recipe.partition(",") for recipe in RECIPES if recipe[0] not in "['"]
    return [f"{own}.{name}({rest})" for own, _, rest in parts]


def names_of(table, *kinds):
    return sorted(set().union(*(table[kind] for kind in kinds)))


@pytest.mark.parametrize(
    "name", names_of(FUNCTIONS, "first", "first_several", "first_or_meet", "like", "meet", "meet_strictly")
)
@pytest.mark.sample(4)
def test_a_function_of_the_table_gives_what_is_where_its_arguments_are(name):
    assert result_device(calls_of(name)) == "cuda:1"


@pytest.mark.parametrize("name", names_of(METHODS, "same", "same_several", "meet", "meet_strictly"))
@pytest.mark.sample(4)
def test_a_method_of_the_table_gives_what_is_where_its_tensor_is(name):
    assert result_device(methods_of(name)) == "cuda:1"


@pytest.mark.parametrize("name", sorted(FUNCTIONS["factories"]))
def test_a_factory_obeys_the_default_and_its_keyword(name):
    spaced = "0, 1, 3"
    special = {"full": "(2,), 1.0", "randint": "3, (2,)", "linspace": spaced, "logspace": spaced}
    given = "2, 2" if name.endswith("_indices") else special.get(name, "3")
    with sd.machine("2x24GB"):
        assert eval(f"torch.{name}({given})").device.type == "cpu"
        assert str(eval(f"torch.{name}({given}, device='cuda:1')").device) == "cuda:1"


SIZES = {
    "Bilinear": (2, 2, 2), "GroupNorm": (1, 2), "LayerNorm": (2,), "RMSNorm": (2,), "Embedding": (2, 2),
    "Linear": (2, 2), "EmbeddingBag": (2, 2), "MaxPool2d": (2,), "AvgPool2d": (2,), "AdaptiveAvgPool2d": (2,),
    "MaxPool1d": (2,), "AvgPool1d": (2,), "AdaptiveAvgPool1d": (2,), "AdaptiveMaxPool2d": (2,),
    "ZeroPad2d": (2,),
    "ReflectionPad1d": (2,), "ReflectionPad2d": (2,), "ReplicationPad1d": (2,), "ReplicationPad2d": (2,),
    "PixelShuffle": (2,),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MODULES["placed"] | MODULES["free"]))
def test_the_modules_of_the_table_exist_and_have_parameters_or_none(name):
    given = SIZES.get(name, (2, 2, 1) if name.startswith("Conv") else (2,) if "BatchNorm" in name else ())
    made = getattr(torch.nn, name)(*given)
    assert bool(list(made.parameters())) is (name in MODULES["placed"])


def test_the_check_of_claims_can_fail():
    text = HEAD + "        a = torch.zeros(2, 2)\n        note(0, a)\n"
    assert [where.kind for where in claims(text).values()] == ["default"]
    found, _ = happened(text.replace("2, 2)", '2, 2, device="cuda:1")'), ("cpu",) * 4, True)
    assert set().union(*found.values()) == {"cuda:1"}
    assert ast.parse(text)


def test_the_attributes_of_a_dataclass_are_claimed():
    text = HEAD + "".join(
        f"        {line}\n"
        for line in (
            "pair = Pair(x, second=self.proj(x))", "note(0, pair.first)", "note(0, pair.second)",
            "pair.first = self.table", "note(0, pair.first)", "pair = swapped(pair)", "note(0, pair.first)",
        )
    )  # fmt: skip
    kinds = [str(where) for where in claims(text).values()]
    assert kinds == ["same x", "same self.proj.weight", "same self.table", "same self.proj.weight"]


def test_what_parts_keep_and_what_is_passed_on_is_claimed():
    text = HEAD + "".join(
        f"        {line}\n"
        for line in (
            "a = self.own.scale", "note(0, a)", "b = self.kept.rows", "note(0, b)",
            "c = self.state", "note(0, c)", "d = self.own.rows(2)", "note(0, d)",
            "e = passed_on(torch.mul, x, other=x)", "note(0, e)", "f = (lambda t: t.to(x))(y)", "note(0, f)",
        )
    )  # fmt: skip
    kinds = [str(where) for where in claims(text).values()]
    assert kinds == ["same self.own.scale", "default", "default", "default", "same x", "same x"]
