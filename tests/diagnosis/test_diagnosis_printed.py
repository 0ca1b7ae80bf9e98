"""What a caller's printed line moves of what it hands over, and what it does not."""

# ruff: noqa: E501 # messages are one line

from __future__ import annotations

import pytest

from samedevice.diagnosis import explain_text
from samedevice.report import finding_text, render

EXTRA = "extra-input-on-wrong-device"
INPUT = "input-not-on-embedding-device"
LABELS = "loss-or-label-on-other-device"


def traceback(caller, failing, message):
    return (
        "Traceback (most recent call last):\n"
        f'  File "train.py", line 40, in <module>\n    {caller}\n'
        '  File "/opt/py/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _call_impl\n'
        "    return forward_call(*args, **kwargs)\n"
        f'  File "net.py", line 12, in forward\n    {failing}\n'
        f"RuntimeError: {message}\n"
    )


def met(first, second, argument="", op=""):
    tail = f" (when checking argument for argument {argument} in method {op})" if argument else ""
    return (
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!{tail}"
    )


NEWER = (
    "Expected all tensors to be on the same device, but got index is on cpu, different from other tensors on "
    "cuda:0 (when checking argument in method wrapper_CUDA_gather)"
)
HOST = met("cuda:0", "cpu")

FOUND = [
    ("y = net(x.to(dev), m.to(dev), rel)", "p = torch.gather(s, 1, rel[:, None])", NEWER, EXTRA, "rel"),
    ("y = net(x.cuda(), depth=depth)", "x = x + depth", HOST, EXTRA, "depth"),
    ("y = net(x.to(dev), lengths=batch['n'])", "ok = pos < lengths[:, None]", HOST, EXTRA, "batch['n']"),
    (
        "y = net(x.to(dev), batch)",
        "h = s.index_add(0, batch, x)",
        met("cuda:0", "cpu", "index", "index_add"),
        EXTRA,
        "batch",
    ),
    ("l = net(x.to(dev), labels)", "g = e.gather(1, labels[:, None])", NEWER, LABELS, "labels"),
    (
        "y = net(ids, m.to(dev))",
        "h = self.tok(ids)",
        met("cuda:0", "cpu", "index", "index_select"),
        INPUT,
        "ids",
    ),
]


@pytest.mark.parametrize(("caller", "failing", "message", "cause", "guilty"), FOUND)
def test_an_argument_that_is_not_moved_beside_others_that_are(caller, failing, message, cause, guilty):
    finding = explain_text(traceback(caller, failing, message))[0]
    assert (finding.cause, finding.confidence, finding.guilty) == (cause, "likely", guilty)


@pytest.mark.parametrize(
    ("caller", "failing", "message"),
    [
        ("y = net(x.to(dev), t.to(dev))", "e = t * scale", HOST),  # all are moved
        ("y = net(x, t)", "e = t * x", HOST),  # none is
        ("y = net(x.to(dev), t)", "e = x * gain", HOST),  # the statement reads it by no such name
        ("y = net(x.to(dev), t)", "e = x * torch.arange(4)", HOST),  # the statement makes one itself
        ("y = net(x.to(dev), n)", "e = x + self.pe[:n]", HOST),  # a bound of a slice
        ("y = net(x.to(dev), n)", "e = x + pe.narrow(0, 0, n)", met("cuda:0", "cuda:1")),  # not the host
        ("y = net(x.to(torch.half), t)", "e = x + t", HOST),  # a type of numbers
        ("y = net(x.to('cpu'), t)", "e = x + t", HOST),
        ("y = net(x.to(dev), i)", "e = s.index_select(0, i)", met("cpu", "cuda:0", "index", "index_select")),
    ],
)
def test_nothing_is_said_of_a_caller_that_does_not_tell(caller, failing, message):
    finding = explain_text(traceback(caller, failing, message))[0]
    assert "because.printed-not-moved" not in [reason.key for reason in finding.reasons]


@pytest.mark.parametrize(
    ("between", "told"), [("return self.mix(h, t)", True), ("return self.mix(h, s)", False)]
)
def test_a_name_is_followed_from_frame_to_frame(between, told):
    text = traceback("y = net(x.to(dev), t)", "e = h * t[0]", HOST)
    head, _, rest = text.partition('  File "net.py", line 12')
    text = f'{head}  File "net.py", line 9, in forward\n    {between}\n  File "net.py", line 12{rest}'
    finding = explain_text(text)[0]
    assert (finding.guilty == "t") is told


def test_an_attribute_beside_it_may_be_the_one():
    text = traceback("y = net(x.to(dev), scale)", "x = x * scale + self.shift", HOST)
    assert explain_text(text)[0].confidence == "guess"


NOTEBOOK = """\
Cell In[8], line 5
      2 x, y = next(iter(loader))
      3 x = x.cuda()
      4 out = net(x)
----> 5 l = criterion(out, y)

RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""
LOOP = """\
Cell In[31], line 6
      4 for xb, yb in batches:
      5     xb = xb.to(dev)
----> 6     loss = F.mse_loss(model(xb), yb)
      7     loss.backward()

RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""
UNPACKED = """\
Cell In[4], line 12
      9 for x, lens in loader:
     10     x = x.to(dev)
     11     opt.zero_grad()
---> 12     out = net(x, lens)

Cell In[2], line 8, in Net.forward(self, x, lens)
      7 steps = self.steps(x)
----> 8 return steps / lens[:, None]

RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""
RICH = """\
/home/p/train.py:64 in <module>

  61     pts = pts.to(dev)
  62     feats = feats.to(dev)
  63     opt.zero_grad()
\u2771 64     out = net(pts, feats, gates)

/home/p/net.py:29 in forward

  28         # weighted sum
\u2771 29         return (h * gates).sum(1)

RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""


@pytest.mark.parametrize(
    ("text", "cause", "guilty"), [(NOTEBOOK, LABELS, "y"), (LOOP, LABELS, "yb"), (UNPACKED, EXTRA, "lens")]
)
def test_lines_above_the_marked_one_move_the_others(text, cause, guilty):
    finding = explain_text(text)[0]
    assert (finding.cause, finding.confidence, finding.guilty) == (cause, "likely", guilty)


def test_a_line_that_is_not_shown_may_have_moved_it():
    assert explain_text(RICH)[0].confidence == "guess"


def test_a_loop_whose_names_are_all_moved():
    text = NOTEBOOK.replace("x = x.cuda()", "x, y = x.cuda(), y.cuda()")
    assert explain_text(text)[0].guilty is None


def test_a_rank_meets_what_an_object_keeps_on_the_first_gpu():
    text = (
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/s/heads.py", line 18, in __call__\n'
        "[rank3]:     return feat * self.temperature\n"
        f"[rank3]: RuntimeError: {met('cuda:3', 'cuda:0')}\n"
    )
    finding = explain_text(text)[0]
    assert (finding.cause, finding.confidence) == ("hard-coded-device", "guess")
    assert finding.guilty == "self.temperature"
    assert "rank-device-not-set" in finding.candidates


@pytest.mark.parametrize(
    ("devices", "cause"),
    [(("cpu", "cuda:0"), "module-left-on-other-device"), (("cuda:0", "cpu"), INPUT)],
)
def test_without_a_caller_the_side_is_known_and_the_cause_is_a_guess(devices, cause):
    text = (
        "    return forward_call(*args, **kwargs)\n"
        '  File "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", line 114, in forward\n'
        "    return F.linear(input, self.weight, self.bias)\n"
        f"RuntimeError: {met(*devices, 'mat1', 'wrapper_CUDA_addmm')}\n"
    )
    finding = explain_text(text)[0]
    assert (finding.cause, finding.confidence) == (cause, "guess")
    assert finding.guilty == (None if cause.startswith("module") else "mat1")


def test_a_product_that_is_written_out_does_not_say_which_operand_is_the_weight():
    message = "Expected all tensors to be on the same device, but got mat2 is on cuda:0, different from other tensors on cpu (when checking argument in method wrapper_CUDA_mm)"
    finding = explain_text(traceback("y = net(x, adj)", "return torch.spmm(adj, h)", message))[0]
    assert finding.confidence == "guess"


def test_a_state_that_is_carried_from_step_to_step():
    text = traceback("y, h = cell(x.to(dev), h)", "z = torch.sigmoid(self.wx(x) + self.wh(h))", HOST)
    finding = explain_text(text)[0]
    assert (finding.cause, finding.guilty) == ("cache-or-beam-state-on-wrong-device", "h")


def test_a_label_that_is_compared():
    text = NOTEBOOK.replace("l = criterion(out, y)", "n += (out.argmax(1) == y).sum()")
    finding = explain_text(text)[0]
    assert (finding.cause, finding.guilty) == (LABELS, "y")


@pytest.mark.parametrize(
    "failing",
    [
        "y = h * table[n]",
        "y = torch.cat([h, pe], n)",
        "y = torch.cat([h, pe], dim=n)",
        "y = (q @ k) * n",
        "y = (q @ k) * scale",
        "y = (x - mean) / (std + n)",
        "y = h.view(n, -1) + pos",
    ],
)
def test_what_may_be_a_number_is_not_said_to_be_the_one(failing):
    finding = explain_text(traceback("y = net(x.to(dev), n)", failing, HOST))[0]
    assert finding.guilty is None


def test_the_count_of_a_loop_is_no_tensor():
    text = NOTEBOOK.replace("x, y = next(iter(loader))", "for y, (x, z) in enumerate(loader):")
    assert explain_text(text)[0].guilty is None


@pytest.mark.parametrize(
    ("code", "cause", "guilty"),
    [
        ("edges = F.conv2d(img, self.kernels, padding=1)", "tensor-created-on-wrong-device", "self.kernels"),
        ("y = conv_transpose1d(x, weight=taps)", "tensor-created-on-wrong-device", "taps"),
        ("return F.conv2d(x, self.proj.weight, None)", "module-left-on-other-device", None),
        ("return self.conv(x)", "module-left-on-other-device", None),
    ],
)
def test_the_weight_of_a_function_is_no_layer(code, cause, guilty):
    (finding,) = explain_text(
        f'Traceback (most recent call last):\n  File "/home/user/net.py", line 18, in edges\n    {code}\n'
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) "
        "should be the same"
    )
    assert finding.cause == cause
    if guilty is not None:
        assert finding.guilty == guilty


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_finding_of_samedevice_is_taken_as_it_is(language):
    told = explain_text(NOTEBOOK)[0]
    screen = finding_text(told, language)
    (again,) = explain_text(f"my run says\n\n{screen}\n")
    assert (again.cause, again.confidence) == (told.cause, told.confidence)
    assert told.code in render(again.reasons[0])
    (other,) = explain_text(screen.replace(told.cause, "no-such-cause"))
    assert other.reasons == () or told.code not in render(other.reasons[0])
