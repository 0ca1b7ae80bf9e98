"""The failing line of a person's own code, as it could be written: right where it is told, and silent else."""

# ruff: noqa: E501 # messages and lines are one line, as they are printed

from __future__ import annotations

import pytest

from samedevice.diagnosis import explain_text
from samedevice.report import render

OLD = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


def old(first, second, argument="", op=""):
    tail = (
        f" (when checking argument for argument {argument} in method wrapper_CUDA_{op})" if argument else ""
    )
    return f"RuntimeError: {OLD.format(first, second)}{tail}"


def traceback(*frames, error):
    lines = ["Traceback (most recent call last):"]
    for number, (file, function, code) in enumerate(frames, 11):
        lines += [f'  File "{file}", line {number}, in {function}', f"    {code}"]
    return "\n".join([*lines, error])


def advice(text):
    return render(explain_text(text)[0].cure)


LIBRARY = "/opt/py/lib/python3.11/site-packages"
NUMPY = "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
CHANGED = {
    "the named argument": (
        traceback(
            ("train.py", "step", "loss = F.cross_entropy(logits, y, weight=w)"),
            error=old("cuda:0", "cpu", "weight", "nll_loss_forward"),
        ),
        "write line 11 as: loss = F.cross_entropy(logits, y, weight=w.to(logits.device))",
    ),
    "by position, in the new wording": (
        traceback(
            ("train.py", "step", "q = online(s).gather(1, a.unsqueeze(1))"),
            error="RuntimeError: Expected all tensors to be on the same device, but got index is on cpu, different "
            "from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_gather)",
        ),
        "write line 11 as: q = online(s).gather(1, a.unsqueeze(1).to(s.device))",
    ),
    "its only partner is the one on the host": (
        traceback(
            ("train.py", "step", "h = torch.matmul(table, queries)"),
            error=old("cpu", "cuda:0", "mat2", "mm"),
        ),
        "write line 11 as: h = torch.matmul(table.to(queries.device), queries)",
    ),
    "an expression is put in brackets": (
        traceback(
            ("train.py", "step", "p = torch.gather(probs, 1, ids + 1)"),
            error=old("cuda:0", "cpu", "index", "gather"),
        ),
        "write line 11 as: p = torch.gather(probs, 1, (ids + 1).to(probs.device))",
    ),
    "beside a tensor whose method is given a number": (
        traceback(
            ("train.py", "loss", "x = F.cross_entropy(logits.view(-1, V), labels.view(-1), weight=self.w)"),
            error=old("cuda:3", "cuda:0", "weight", "nll_loss_forward"),
        ),
        "write line 11 as: x = F.cross_entropy(logits.view(-1, V), labels.view(-1), "
        "weight=self.w.to(logits.device))",
    ),
    "the labels of a criterion": (
        traceback(
            ("train.py", "step", "loss = criterion(model(x), y)"),
            error=old("cuda:0", "cpu", "target", "nll_loss_forward"),
        ),
        "write line 11 as: loss = criterion(model(x), y.to(x.device))",
    ),
    "what a model is called with": (
        traceback(
            ("eval.py", "run", "out = unet(img)"),
            (f"{LIBRARY}/torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)"),
            ("net.py", "forward", "d1 = self.down1(x)"),
            (f"{LIBRARY}/torch/nn/modules/conv.py", "_conv_forward", "return F.conv2d(input, weight, bias)"),
            error="RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        ),
        "write line 11 as: out = unet(img.to(next(unet.parameters()).device))",
    ),
    "what goes to NumPy": (
        traceback(
            ("viz.py", "show", "plt.imshow(grid.permute(1, 2, 0))"),
            (f"{LIBRARY}/torch/_tensor.py", "__array__", "return self.numpy()"),
            error=NUMPY,
        ),
        "write line 11 as: plt.imshow(grid.permute(1, 2, 0).detach().cpu())",
    ),
    "a call of .numpy()": (
        traceback(("viz.py", "show", "ys.append(out.numpy())"), error=NUMPY),
        "write line 11 as: ys.append(out.detach().cpu().numpy())",
    ),
}


@pytest.mark.parametrize(("text", "line"), CHANGED.values(), ids=CHANGED)
def test_the_line_as_it_could_be(text, line):
    assert advice(text) == line


def test_an_attribute_may_be_a_buffer():
    text = traceback(("enc.py", "forward", "x = x + self.pe[:, : x.size(1)]"), error=old("cuda:0", "cpu"))
    told = advice(text)
    assert told.startswith("write line 11 as: x = x + self.pe[:, : x.size(1)].to(x.device); or keep it")
    assert 'self.register_buffer("pe", ...)' in told


SILENT = {
    "two things go to NumPy": traceback(
        ("eval.py", "run", "print(f1_score(y_true, y_pred))"),
        (f"{LIBRARY}/sklearn/metrics/_classification.py", "f1_score", "return fbeta_score(y_true, y_pred)"),
        error=NUMPY,
    ),
    "the failing line is a library's": traceback(
        (f"{LIBRARY}/lib/loss.py", "forward", "return F.cross_entropy(logits, y, weight=w)"),
        error=old("cuda:0", "cpu", "weight", "nll_loss_forward"),
    ),
    "one of several partners is on the host": traceback(
        ("train.py", "step", "t = table.scatter(1, ids, values)"),
        error=old("cpu", "cuda:0", "src", "scatter"),
    ),
    "which of two names is on the host": traceback(
        ("run.py", "render", "pts = origin + direction * depth"), error=old("cuda:0", "cpu")
    ),
    "the message names no argument of the line": traceback(
        ("train.py", "step", "loss = criterion(out, aux, y)"),
        error=old("cuda:0", "cpu", "target", "nll_loss_forward"),
    ),
    "the input is where it must be": traceback(
        ("eval.py", "run", "out = unet(img.cuda())"),
        ("net.py", "forward", "d1 = self.down1(x)"),
        error="RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    "half a statement": traceback(
        ("train.py", "step", "loss = F.cross_entropy(logits, y, weight=w,"),
        error=old("cuda:0", "cpu", "weight", "nll_loss_forward"),
    ),
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_what_is_open_is_not_written(text):
    assert "write line" not in advice(text)


def test_reasons_show_whole_names_and_no_repetition():
    text = traceback(
        ("loss.py", "build", "layers = layers[foreground_mask]"),
        error="RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    )
    told = [render(each) for each in explain_text(text)[0].reasons]
    assert told == ["a printed line has: layers[foreground_mask]"]


def test_a_gradient_is_made_where_the_backward_of_the_persons_own_makes_it():
    error = "RuntimeError: Function SurrogateBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu"
    (finding,) = explain_text(traceback(("snn.py", "<module>", "loss.backward()"), error=error))
    assert (finding.cause, finding.confidence) == ("tensor-created-on-wrong-device", "likely")
    assert render(finding.cure) == "make the gradient that Surrogate.backward returns on grad_output.device"


def test_a_gradient_of_a_function_of_torch_is_nobodys_own():
    error = "RuntimeError: Function AddBackward0 returned an invalid gradient at index 1 - expected device cuda:0 but got cpu"
    (finding,) = explain_text(traceback(("train.py", "<module>", "loss.backward()"), error=error))
    assert finding.confidence == "guess"
    assert "AddBackward0" not in render(finding.cure)


REPLICA = "RuntimeError: Caught RuntimeError in replica 1 on device 1.\nOriginal Traceback (most recent call last):\n"


def test_what_a_replica_does_not_get_is_a_plain_attribute():
    text = REPLICA + traceback(
        ("net.py", "forward", "h = torch.matmul(self.adj, h)"), error=old("cuda:0", "cuda:1", "mat2", "mm")
    )
    told = [render(each.cure) for each in explain_text(text)]
    assert any('self.register_buffer("adj", ...)' in each for each in told)


def test_two_names_that_are_joined_on_two_gpus():
    text = traceback(
        ("unet.py", "forward", "x = torch.cat([skip, up], dim=1)"),
        error=old("cuda:1", "cuda:0", "tensors", "cat"),
    )
    assert advice(text) == "write line 11 as: x = torch.cat([skip.to(up.device), up], dim=1)"


def test_a_list_has_no_operand_that_the_message_means():
    text = traceback(("a.py", "f", "x = torch.cat(parts)"), error=old("cuda:1", "cpu", "tensors", "cat"))
    (finding,) = explain_text(text)
    assert finding.guilty is None
    assert {each.name for each in finding.operands} == {"?"}


def test_the_class_weights_of_a_loss_in_a_traceback_without_own_lines():
    text = traceback(
        (
            f"{LIBRARY}/torch/nn/functional.py",
            "cross_entropy",
            "return torch._C._nn.cross_entropy_loss(input)",
        ),
        error=old("cuda:0", "cpu", "weight", "nll_loss_forward"),
    )
    assert advice(text).startswith("move the class weights of the loss")


def test_state_that_a_rank_keeps_by_names():
    lines = traceback(
        ("ema.py", "update", "self.shadow[name].mul_(d).add_(p.data)"), error=old("cuda:0", "cuda:1")
    )
    (finding,) = explain_text("\n".join(f"[rank1]: {line}" for line in lines.split("\n")))
    assert (finding.cause, finding.confidence) == ("checkpoint-map-location", "guess")
    assert finding.guilty == "self.shadow[name]"
    assert "map_location" in render(finding.cure)
