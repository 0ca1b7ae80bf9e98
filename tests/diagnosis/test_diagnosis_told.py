"""Single conditions of texts: what each one tells, and the texts beside it that it must not claim."""

from __future__ import annotations

import pytest

from samedevice.diagnosis import explain_text

MET = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
GPUS = "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!"
OLD_TABLE = "Input, output and indices must be on the current device"
TORCH = "/env/lib/python3.11/site-packages/torch/nn"
HOOK = "/env/lib/python3.11/site-packages/accelerate/hooks.py"


def traceback(*frames, error):
    lines = ["Traceback (most recent call last):"]
    for file, function, code in frames:
        lines += [f'  File "{file}", line 7, in {function}', f"    {code}"]
    return "\n".join([*lines, f"RuntimeError: {error}"])


def cause(text):
    finding = explain_text(text)[0]
    return finding.cause, finding.confidence


def apart(argument, method):
    return (
        f"Expected all tensors to be on the same device, but got {argument} is on cpu, different from other "
        f"tensors on cuda:0 (when checking argument in method {method})"
    )


CALLED = (f"{TORCH}/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)")
EMBEDS = (f"{TORCH}/modules/sparse.py", "forward", "return F.embedding(")


def of_a_call(call, *behind, error):
    return traceback(("train.py", "<module>", call), CALLED, *behind, error=error)


def test_a_model_whose_inputs_all_move_in_the_call_is_what_stayed():
    text = of_a_call("out = bert(input_ids=ids.to(device), mask=mask.to(device))", EMBEDS, error=OLD_TABLE)
    assert cause(text) == ("module-left-on-other-device", "likely")


@pytest.mark.parametrize(
    "text",
    [
        of_a_call("y = net(tokens.to(device), mask)", EMBEDS, error=OLD_TABLE),
        "net.to(device)\n" + of_a_call("y = net(tokens.to(device))", EMBEDS, error=OLD_TABLE),
        "device_map='auto'\n" + of_a_call("y = net(tokens.to(device))", EMBEDS, error=OLD_TABLE),
        of_a_call(
            "y = net(x.to(device))",
            ("train.py", "forward", "return self.fc(x)"),
            (f"{TORCH}/modules/linear.py", "forward", "return F.linear(input, self.weight, self.bias)"),
            error=apart("mat1", "wrapper_CUDA_addmm"),
        ),
        of_a_call(
            "y = net(x.to(device))", ("train.py", "forward", "return x + torch.arange(x.size(1))"), error=MET
        ),
    ],
)
def test_moves_in_a_call_say_nothing_where_the_text_tells_otherwise(text):
    assert cause(text)[0] != "module-left-on-other-device"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x @ self.head.weight.t()", apart("mat2", "wrapper_CUDA_mm")),
        ("x + self.head.weight[0]", MET),
    ],
)
def test_a_weight_on_the_host_that_is_read_past_its_layer(code, error):
    text = traceback(("model.py", "forward", f"return {code}"), error=error)
    assert cause(text)[0] == "offload-hook-bypassed"
    moved = text.replace(".weight", ".weight.to(x.device)")
    assert cause(moved)[0] != "offload-hook-bypassed"


def hooked(*, below):
    hook = (HOOK, "new_forward", "output = module._old_forward(*args, **kwargs)")
    linear = (f"{TORCH}/modules/linear.py", "forward", "return F.linear(input, self.weight, self.bias)")
    frames = (hook, linear) if below else (linear,)
    return traceback(("model.py", "forward", "return self.up(x)"), CALLED, *frames, error=GPUS)


def test_a_layer_with_a_hook_meets_its_own_weight_only_where_that_was_moved():
    assert cause(hooked(below=True))[0] == "dispatched-model-moved"
    assert cause(hooked(below=False))[0] != "dispatched-model-moved"


def test_labels_that_a_layer_looks_up_belong_to_no_loss():
    error = apart("index", "wrapper_CUDA__index_select")
    text = traceback(("gan.py", "forward", "tag = self.tag(labels)"), CALLED, EMBEDS, error=error)
    assert cause(text)[0] == "input-not-on-embedding-device"


def test_what_an_optimizer_wrapper_steps_over():
    text = traceback(
        ("train.py", "<module>", "optimizer.step()"),
        ("/env/lib/python3.11/site-packages/opt/lookahead.py", "step", "self.update(group)"),
        error="Expected all tensors to be on the same device",
    )
    assert cause(text) == ("optimizer-state-on-other-device", "likely")


def test_the_weight_of_a_layer_whose_message_is_cut_off():
    text = traceback(
        ("model.py", "forward", "out = nn.functional.layer_norm("),
        (f"{TORCH}/functional.py", "layer_norm", "return torch.layer_norm("),
        error=f"{MET} (when checking argument for argument weight in met",
    )
    assert cause(text) == ("module-left-on-other-device", "likely")


def test_messages_as_they_are_printed_elsewhere():
    glued = "module must have its parameters and buffers on device cuda:0(device_ids[0])but found one of them"
    assert cause(f"RuntimeError:{glued} on device :cuda:1") == ("data-parallel-replica-device", "certain")
    restored = "don't know how to restore data location of torch.storage.UntypedStorage (tagged with mps:0)"
    assert cause(f"RuntimeError: {restored}")[0] == "checkpoint-map-location"
    shapes = "Placeholder shape mismatches (expected 1 vs got tensorData with 896) at dimIdx = 0"
    assert explain_text(f"on device mps: failed assertion `{shapes}'")[0].verdict == "not-a-device-error"
    old = "RuntimeError: arguments are located on different GPUs at THCTensorMathBlas.cu:479"
    assert (
        cause(traceback(("a.py", "forward", "torch.bmm(x, y)"), error=old[14:]))[0]
        == "data-parallel-replica-device"
    )


STORY = "My script fails on the GPU, and I do not know why. It says that tensors are on different devices. "


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            "The line should be\n```\nmean = torch.tensor(mean, device=tensor.device)\n```\n",
            "tensor-created-on-wrong-device",
        ),
        (
            "It is about a tensor not being on the CPU when converting it to numpy.",
            "numpy-of-gpu-tensor",
        ),
        (
            "The `NodeRepresentation`s which are not for training remain on the CPU.",
            "module-left-on-other-device",
        ),
        ("There is a line `config.get('device', 'cuda:0')` in the trainer.", "hard-coded-device"),
        ("It crashes because only the model, not the features are moved.", "extra-input-on-wrong-device"),
        ("It is torch.binary_cross_entropy_with_logits that raises.", "loss-or-label-on-other-device"),
    ],
)
def test_what_a_story_states(told, expected):
    assert cause(STORY + told)[0] == expected


@pytest.mark.parametrize(
    ("told", "claimed"),
    [
        ("I converted the model on cuda into numpy-free code.", "numpy-of-gpu-tensor"),
        ("My PyTorch tensors stay on the CPU until I call the loader.", "module-left-on-other-device"),
        ("It always works on GPU 0, but not on cuda:1.", "module-left-on-other-device"),
        ("There is a line `cfg.get('device', 'cuda')` in the trainer.", "hard-coded-device"),
        ("Only the inputs and not the model is moved, as intended.", "module-left-on-other-device"),
        (
            "I did replace it with\n```\nm = torch.tensor(m, device=x.device)\n```\nand that did not help.",
            "tensor-created-on-wrong-device",
        ),
    ],
)
def test_what_a_story_does_not_state(told, claimed):
    assert cause(STORY + told) != (claimed, "likely")


def test_a_line_that_is_too_deep_is_left_alone():
    text = traceback(("a.py", "forward", "self.k[0] = torch.cat([self.k" + "+x" * 400 + "])"), error=GPUS)
    assert cause(text)[0]
    assert cause(text.replace("+x" * 400, "-" * 900 + "x"))[0]
