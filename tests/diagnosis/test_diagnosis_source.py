"""The source of the failing function as evidence, read from an installed package without importing it."""

from __future__ import annotations

import sys

import pytest

from samedevice.diagnosis import explain_text
from samedevice.diagnosis._sides import handed_beside_kept
from samedevice.diagnosis.paste import Frame
from samedevice.events import Written
from samedevice.report import render
from samedevice.static import written_origins

MODULE = """
raise RuntimeError("this file is read and never run")
import numpy as np
import torch
from torch import nn


def attend(scores, n):
    mask = torch.triu(torch.ones(n, n), diagonal=1)
    mask = mask.bool()
    return scores.masked_fill(mask, -1.0)


def attend_well(scores, n):
    mask = torch.ones(n, n, device=scores.device)
    return scores + mask


def fixed(x, n):
    offset = torch.zeros(n).to("cuda:0")
    return x + offset


def scaled(x):
    factor = torch.tensor(2.0)
    return x * factor


def counted(x, sizes):
    table = torch.from_numpy(np.asarray(sizes))
    return x.index_select(0, table)


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.register_buffer("steps", torch.arange(n))
        self.table = torch.arange(n)

    def forward(self, x):
        x = x * self.weight
        x = x + self.steps
        return x + self.table[: x.shape[0]]
"""
READER = written_origins
HOST = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu!"
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "somebody"
    folder.mkdir()
    (folder / "__init__.py").write_text('raise RuntimeError("not to be imported")')
    (folder / "layers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def origins(function, code, line=None):
    found = written_origins([Frame("somebody/layers.py", line, function, code)])
    return {each.name: each.origin for each in found}


def test_origins(package):
    assert origins("attend", "return scores.masked_fill(mask, -1.0)") == {
        "scores": "argument",
        "mask": "made",
    }
    assert origins("attend_well", "scores + mask") == {"scores": "argument", "mask": "like"}
    assert origins("fixed", "return x + offset") == {"x": "argument", "offset": "literal"}
    assert origins("scaled", "x * factor")["factor"] == "unknown"  # a number on the host may meet a GPU
    assert origins("counted", "x.index_select(0, table)")["table"] == "host"
    assert origins("forward", "x * self.weight") == {"x": "argument", "self.weight": "parameter"}
    assert origins("forward", "x + self.steps")["self.steps"] == "buffer"
    assert origins("forward", "x + self.table[: x.shape[0]]")["self.table"] == "attribute"
    assert "somebody" not in sys.modules


@pytest.mark.parametrize(
    ("file", "function", "code"),
    [
        ("somebody/layers.py", "attend", "something_else(mask, other)"),
        ("somebody/layers.py", "nobody", "scores + mask"),
        ("somebody/absent.py", "attend", "scores + mask"),
        ("nowhere/layers.py", "attend", "scores + mask"),
        ("/etc/passwd.py", "attend", "scores + mask"),
        ("somebody/../somebody/layers.py", "attend", "scores + mask"),
        ("somebody/layers.py", None, "scores + mask"),
        ("somebody/layers.py", "attend", ""),
    ],
)
def test_no_source_no_origins(package, file, function, code):
    assert written_origins([Frame(file, None, function, code)]) == ()


def test_a_file_that_is_no_python(package):
    (package / "broken.py").write_text("def f(:\n" + "(" * 5000)
    assert written_origins([Frame("somebody/broken.py", 1, "f", "a + b")]) == ()


def paste(function, code, line=3):
    path = "/home/user/venv/lib/python3.11/site-packages/somebody/layers.py"
    return f'Traceback:\n  File "{path}", line {line}, in {function}\n    {code}\n{HOST}\n'


@pytest.mark.parametrize(
    ("function", "code", "cause", "guilty"),
    [
        ("forward", "return x + self.table[: x.shape[0]]", "tensor-created-on-wrong-device", "self.table"),
        ("counted", "return x.index_select(0, table)", "tensor-created-on-wrong-device", "table"),
        ("fixed", "return x + offset", "hard-coded-device", "offset"),
    ],
)
def test_the_source_decides(package, function, code, cause, guilty):
    (finding,) = explain_text(paste(function, code), READER)
    assert (finding.cause, finding.confidence, finding.guilty) == (cause, "likely", guilty)
    assert guilty in render(finding.reasons[0])
    assert [each.name for each in finding.written if each.name == guilty]
    (without,) = explain_text(paste(function, code))
    assert without.confidence == "guess"
    assert without.written == ()


def test_a_source_that_says_nothing_changes_nothing(package):
    for code, function in (("x * self.weight", "forward"), ("return scores + mask", "attend_well")):
        with_source, without = (explain_text(paste(function, code), reader)[0] for reader in (READER, None))
        assert (with_source.cause, with_source.confidence) == (without.cause, without.confidence)


SCRIPT = """\
My model fails, here is the forward and the error:

```python
class Net(nn.Module):
    def forward(self, x):
        steps = torch.arange(x.shape[1])
        return x + steps
```

```
Traceback (most recent call last):
  File "train.py", line 40, in <module>
    y = net(x)
  File "train.py", line 12, in forward
    return x + steps
%s
```
"""


def test_code_that_the_paste_shows():
    (finding,) = explain_text(SCRIPT % HOST, READER)
    assert (finding.cause, finding.guilty) == ("tensor-created-on-wrong-device", "steps")
    assert {each.name: each.origin for each in finding.written} == {"x": "argument", "steps": "made"}


TOP = """\
```python
x = batch.to(device)
steps = torch.arange(8)
z = x + steps
```
```
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    z = x + steps
%s
```
"""


def test_code_at_the_top_of_a_script():
    (finding,) = explain_text(TOP % HOST, READER)
    assert finding.guilty == "steps"
    (finding,) = explain_text((TOP % HOST).replace("steps = torch", "other = torch"), READER)
    assert finding.guilty is None


def frame(function, code, file="somebody/layers.py"):
    return Frame(file, None, function, code)


CALLERS = """
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, x, mask=None, *, bias=None):
        if mask is None:
            mask = torch.ones(x.shape[0])
        x = x * mask
        return x + bias


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, x, mask=None):
        bias = torch.zeros(4)
        return self.attention(x, mask, bias=bias)

    def plain(self, x):
        return self.attention(x, bias=torch.zeros(4).to("cuda:0"))

    def turned(self, x, steps):
        steps, x = self.prepare(x, steps)
        return x + steps

    def either(self, x, wide):
        if wide:
            steps = torch.arange(4)
        else:
            steps = torch.arange(4, device=x.device)
        return x + steps

    def branch(self, x, wide):
        if wide:
            steps = torch.arange(4)
        else:
            steps = x + 1
            x = torch.add(x, steps)
        return x


def logged(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper
"""


@pytest.fixture
def callers(package):
    (package / "callers.py").write_text(CALLERS)
    return "somebody/callers.py"


def traced(*frames):
    """The operands; what indexes them is told apart."""
    return {each.name: (each.origin, each.text) for each in written_origins(frames) if each.use != "index"}


def test_an_argument_is_followed_to_the_call_that_hands_it_over(callers):
    inside = frame("forward", "return x + bias", callers)
    outside = frame("forward", "return self.attention(x, mask, bias=bias)", callers)
    assert traced(inside)["bias"] == ("argument", "bias")
    assert traced(outside, inside)["bias"] == ("made", "torch.zeros(4)")
    assert traced(outside, inside)["x"] == ("argument", "x")
    script = frame("<module>", "out = block(hidden.float(), mask)", "train.py")
    assert traced(script, outside, inside)["x"] == ("argument", "hidden.float()")


def test_it_is_followed_through_what_hands_on_all_arguments(callers):
    inside = frame("forward", "return x + bias", callers)
    around = frame("wrapper", "return function(*args, **kwargs)", callers)
    outside = frame("plain", 'return self.attention(x, bias=torch.zeros(4).to("cuda:0"))', callers)
    assert traced(outside, around, inside)["bias"][0] == "literal"
    unknown = frame("inner", "return fn(*args, **kwargs)", "elsewhere/hooks.py")
    assert traced(outside, unknown, inside)["bias"][0] == "literal"
    assert traced(outside, unknown, inside)["x"] == ("argument", "x")


def test_a_default_counts_where_nothing_was_handed_over(callers):
    inside = frame("forward", "x = x * mask", callers)
    without = frame("plain", 'return self.attention(x, bias=torch.zeros(4).to("cuda:0"))', callers)
    handed = frame("forward", "return self.attention(x, mask, bias=bias)", callers)
    assert traced(inside)["mask"][0] == "unknown"
    assert traced(without, inside)["mask"] == ("made", "torch.ones(x.shape[0])")
    assert traced(handed, inside)["mask"][0] == "unknown"
    bare = frame("<module>", "out = block(ids)", "train.py")
    assert traced(bare, handed, inside)["mask"] == ("made", "torch.ones(x.shape[0])")


def test_a_name_that_other_statements_set_is_no_argument(callers):
    assert traced(frame("turned", "return x + steps", callers))["steps"][0] == "unknown"
    assert traced(frame("either", "return x + steps", callers))["steps"][0] == "unknown"
    assert traced(frame("branch", "x = torch.add(x, steps)", callers))["steps"][0] == "argument"


def test_a_script_on_this_computer_is_read(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\nweights = torch.ones(3)\nloss = criterion(out * weights)\n")
    found = traced(frame("<module>", "loss = criterion(out * weights)", str(script)))
    assert found["weights"] == ("made", "torch.ones(3)")
    text = (
        f'Traceback:\n  File "{script}", line 3, in <module>\n    loss = criterion(out * weights)\n{HOST}\n'
    )
    (finding,) = explain_text(text, READER)
    assert (finding.cause, finding.guilty) == ("tensor-created-on-wrong-device", "weights")
    assert "train.py:2" in render(finding.reasons[0])


OPEN = """
import torch
import torch.nn.functional as F
from torch import nn


def moved(x, dev, args, y):
    m = torch.zeros(3).to(dev)
    n = torch.zeros(3).to(args.gpu)
    o = helped(torch.zeros(3), dev)
    p = torch.zeros(3, **args)
    q = torch.zeros(3).type_as(x)
    r = torch.load("a.pt", map_location=dev)
    return x + y + m + n + o + p + q + r


def numbers(x, y):
    a = torch.zeros(3).shape[0]
    b = torch.zeros(3).max().item()
    c = len(torch.arange(3))
    i = torch.arange(3)
    w = torch.ones(3)
    return x[i] * w[2] + y * a * b * c


def bound(x, y, c):
    match c:
        case m:
            pass
    n = torch.zeros(3)
    if (n := y) is not None:
        pass
    o = torch.zeros(3)
    try:
        o = torch.zeros(3, device=x.device)
    except RuntimeError:
        o = torch.zeros(3)
    p = y
    if c:
        p = torch.ones(3)
        return x
    return x + m + n + o + p


def optional(x, mask=None):
    if mask is None:
        mask = torch.ones(3)
    return x + mask


def spread(batch, kwargs):
    return optional(*batch)


def twice(x):
    m = torch.zeros(3)
    x + m


class One(nn.Module):
    def forward(self, x):
        m = torch.zeros(3)
        return x * m


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(3, 3)

    def forward(self, x, m):
        return x * m

    def looked(self, ids, x):
        return F.embedding(ids, self.embed.weight) + x[:, : self.embed.embedding_dim]


def again(x, y=None, n=0):
    if y is None:
        y = torch.ones(3)
    if n == 0:
        return x + y
    return again(x, y, n - 1)
"""


@pytest.fixture
def opened(package):
    (package / "open.py").write_text(OPEN)
    return "somebody/open.py"


def test_what_is_not_known_stays_open(opened):
    code = "return x + y + m + n + o + p + q + r"
    assert {name: origin for name, (origin, _) in traced(frame("moved", code, opened)).items()} == {
        "x": "argument",
        "y": "argument",
        **dict.fromkeys("mnopqr", "unknown"),
    }
    found = traced(frame("bound", "return x + m + n + o + p", opened))
    assert {name: origin for name, (origin, _) in found.items()} == {
        "x": "argument",
        **dict.fromkeys("mno", "unknown"),
        "p": "argument",
    }


def test_numbers_and_indices_are_no_operands(opened):
    found = traced(frame("numbers", "return x[i] * w[2] + y * a * b * c", opened))
    assert set(found) == {"x", "y", "a", "b", "c"}
    assert {found[name][0] for name in "abc"} == {"unknown"}
    found = traced(
        frame(
            "looked", "return F.embedding(ids, self.embed.weight) + x[:, : self.embed.embedding_dim]", opened
        )
    )
    assert found["self.embed"][0] == "module"
    text = paste("looked", "return F.embedding(ids, self.embed.weight) + x[:, : self.embed.embedding_dim]")
    (finding,) = explain_text(text.replace("layers.py", "open.py"), READER)
    assert finding.cause != "lm-head-or-tied-weight-split"


def test_starred_arguments_leave_a_default_open(opened):
    inside = frame("optional", "return x + mask", opened)
    assert traced(frame("spread", "return optional(*batch)", opened), inside)["mask"][0] == "unknown"


def test_of_two_statements_alike_none_is_chosen(opened):
    assert written_origins([frame("forward", "return x * m", opened)]) == ()
    line = OPEN[: OPEN.index("return x * m")].count("\n") + 1
    first = written_origins([Frame(opened, line, "forward", "return x * m")])
    assert {each.name: each.origin for each in first} == {"x": "argument", "m": "made"}


def test_source_that_calls_itself_ends(opened, package):
    calls = [frame("again", "return again(x, y, n - 1)", opened)] * 300
    assert written_origins([*calls, frame("again", "return x + y", opened)])
    (package / "long.py").write_text(
        "def f(a, b):\n    c = " + " + ".join("a" for _ in range(3000)) + "\n    return a + b\n"
    )
    written_origins([frame("f", "return a + b", "somebody/long.py")])
    many = "\n".join(f"        self.x = self.x + self.y + self.x * {n}" for n in range(200))
    (package / "many.py").write_text(f"class A:\n    def f(self, b):\n{many}\n        return self.x + b\n")
    assert written_origins([frame("f", "return self.x + b", "somebody/many.py")])


def test_what_the_script_sent_to_a_gpu_is_where_it_wants_it(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("x = x.cuda()\nloss = F.cross_entropy(model(x), y)\n")
    head = f'Traceback:\n  File "{script}", line 2, in <module>'
    (finding,) = explain_text(f"{head}\n    loss = F.cross_entropy(model(x), y)\n{HOST}\n", READER)
    assert finding.cause == "loss-or-label-on-other-device"


def test_an_old_finding_in_a_text_is_no_answer_to_a_new_error():
    text = (
        "Yesterday: SD101 cross-device-operands: add got operands on cpu and cuda:0\n"
        "  cause    rope-table-on-wrong-device (likely): a table\nI mended that. Today:\n"
        'Traceback (most recent call last):\n  File "/home/user/t.py", line 2, in <module>\n'
        f"    loss = F.cross_entropy(out, labels)\n{HOST}\n"
    )
    assert all(each.cause != "rope-table-on-wrong-device" for each in explain_text(text, READER))


USES = """
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.freq = 1.0 / torch.arange(1, n)

    def forward(self, at):
        angles = at * self.freq
        return angles.cos(), angles.sin()


class Counter:
    def __init__(self, n):
        self.seen = None
        self.seen = torch.zeros(n)

    def update(self, hits):
        self.seen += hits


class Cache:
    def __init__(self, n):
        self.keys = [torch.zeros(n) for _ in range(2)]

    def put(self, k, at):
        self.keys[0][at] = k
        return k + self.keys[0]


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Embedding(n, n)
        self.blocks = nn.ModuleList(nn.Linear(n, n) for _ in range(2))
        self.norm = nn.LayerNorm(n)
        self.offsets = torch.arange(n)

    def forward(self, x):
        skip = self.norm(x)
        for block in self.blocks:
            x = block(x)
        return x + skip

    def head(self, x):
        hidden = self.norm(x)
        return hidden @ self.embed.weight.t()

    def shifted(self, x):
        return x + self.offsets


def resume(x, path):
    mean = torch.load(path)["mean"]
    return x - mean
"""
GPUS = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cuda:1!"
)


@pytest.fixture
def uses(package):
    (package / "uses.py").write_text(USES)
    return package


def explained(function, code, error, *above):
    path = "/home/user/venv/lib/python3.11/site-packages/"
    frames = [*above, ("somebody/uses.py", function, code)]
    lines = [f'  File "{path}{file}", line 3, in {name}\\n    {text}\\n' for file, name, text in frames]
    (finding,) = explain_text(f"Traceback:\\n{''.join(lines)}{error}\\n", READER)
    return finding


@pytest.mark.parametrize(
    ("function", "code", "error", "cause", "guilty"),
    [
        ("forward", "angles = at * self.freq", HOST, "rope-table-on-wrong-device", "self.freq"),
        ("update", "self.seen += hits", HOST, "metric-state-device", "self.seen"),
        ("put", "return k + self.keys[0]", HOST, "cache-or-beam-state-on-wrong-device", "self.keys"),
        ("resume", "return x - mean", GPUS, "checkpoint-map-location", "mean"),
        ("head", "return hidden @ self.embed.weight.t()", GPUS, "lm-head-or-tied-weight-split", "hidden"),
        ("forward", "return x + skip", GPUS, "block-split-across-devices", None),
        ("shifted", "return x + self.offsets", HOST, "tensor-created-on-wrong-device", "self.offsets"),
    ],
)
def test_what_a_class_keeps_and_computes(uses, function, code, error, cause, guilty):
    finding = explained(function, code, error)
    assert (finding.cause, finding.guilty) == (cause, guilty)


def test_what_a_replica_did_not_get(uses):
    above = [
        ("torch/nn/parallel/data_parallel.py", "forward", "outputs = self.parallel_apply(replicas, inputs)"),
        ("torch/nn/parallel/parallel_apply.py", "_worker", "output = module(*input, **kwargs)"),
    ]
    finding = explained("shifted", "return x + self.offsets", HOST, *above)
    assert (finding.cause, finding.guilty) == ("data-parallel-replica-device", "self.offsets")


KEPT = """
import torch
import torch.nn.functional as F
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.zeros(rank, 8))

    def forward(self, x):
        return self.base(x) + x @ self.down.t()


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.layer = nn.Linear(width, width)
        self.register_buffer("taps", torch.zeros(width))
        self.register_buffer("codes", torch.zeros(width).to(torch.int8))

    def load(self, path):
        kept = torch.load(path)
        self.centre = kept["centre"]

    def forward(self, ids, mask, bias):
        h = self.layer(ids)
        y = h @ self.scale
        z = h.masked_fill(mask, 0.0)
        if (h == bias).all():
            z = h + bias
        y = torch.matmul(h, self.codes)
        picked = h[mask]
        y = F.conv1d(ids[:, None], self.taps, stride=2)
        return torch.cdist(h, self.centre)


class Steps:
    def reorder(self, order):
        self.keys = self.keys.index_select(0, order)
"""
MET = "found at least two devices, cuda:0 and cpu!"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    folder = tmp_path / "kept_source"
    folder.mkdir()
    (folder / "__init__.py").write_text("", "utf-8")
    (folder / "layers.py").write_text(KEPT, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "kept_source/layers.py"


ON_HOST = "got mat2 is on cpu, different from other tensors on cuda:0 (when checking argument in method mm)"


def told(function, code, message):
    text = (
        "Traceback (most recent call last):\n"
        f'  File "/env/site-packages/kept_source/layers.py", line 1, in {function}\n    {code}\n'
        f"RuntimeError: Expected all tensors to be on the same device, but {message}"
    )
    if not message.startswith(("got", "found")):
        text = text[: text.index("RuntimeError")] + f"RuntimeError: {message}"
    return explain_text(text, READER)[0]


@pytest.mark.parametrize(
    ("function", "code", "message", "cause"),
    [
        (
            "forward",
            "return self.base(x) + x @ self.down.t()\n                          ^^^^^^^^^^^^^^^^^",
            ON_HOST,
            "adapter-weights-on-other-device",
        ),
        (
            "forward",
            "y = h @ self.scale",
            ON_HOST,
            "module-left-on-other-device",
        ),
        (
            "forward",
            "z = h.masked_fill(mask, 0.0)",
            "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
            "extra-input-on-wrong-device",
        ),
        ("forward", "z = h + bias", MET, "extra-input-on-wrong-device"),
        (
            "forward",
            "picked = h[mask]",
            "indices should be either on cpu or on the same device as the indexed tensor (cuda:1)",
            "extra-input-on-wrong-device",
        ),
        (
            "forward",
            "y = F.conv1d(ids[:, None], self.taps, stride=2)",
            "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
            "module-left-on-other-device",
        ),
        ("forward", "y = torch.matmul(h, self.codes)", MET, "quantized-state-on-other-device"),
        ("forward", "if (h == bias).all():", MET, "extra-input-on-wrong-device"),
        (
            "forward",
            "return torch.cdist(h, self.centre)",
            "found at least two devices, cuda:1 and cuda:0!",
            "checkpoint-map-location",
        ),
        (
            "reorder",
            "self.keys = self.keys.index_select(0, order)",
            "found at least two devices, cuda:1 and cuda:0!",
            "cache-or-beam-state-on-wrong-device",
        ),
    ],
)
def test_what_a_module_keeps_and_was_handed_tells_the_cause(kept, function, code, message, cause):
    assert told(function, code, message).cause == cause


def test_the_first_argument_of_a_module_leaves_open_whether_the_module_moved(kept):
    origins = {each.name: each for each in written_origins([frame("forward", "h = self.layer(ids)", kept)])}
    assert origins["ids"].position == 0
    assert handed_beside_kept([origins["ids"], Written("self.scale", "parameter")]) is None


def test_marks_tell_which_part_of_a_statement_failed(opened):
    whole = frame("numbers", "return x[i] * w[2] + y * a * b * c", opened)
    marked = Frame(whole.file, whole.line, whole.function, whole.code, marked="y * a")
    assert {each.name for each in written_origins([marked])} == {"y", "a"}
