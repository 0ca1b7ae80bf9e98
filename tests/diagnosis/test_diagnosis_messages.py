"""Messages in all their wordings: what each names, on which device."""

# ruff: noqa: E501 # a message is one line, as it is printed

from __future__ import annotations

import pytest

from samedevice.diagnosis import explain_text
from samedevice.diagnosis.paste import read_paste
from samedevice.diagnosis.paste._operands import tensor_type

PLACED = [
    (
        "Expected b and A to be on the same device, but found b on cpu and A on cuda:0 instead.",
        {"b": "cpu", "A": "cuda:0"},
    ),
    (
        "grid_sampler(): expected input and grid to be on same device, but input is on cuda:0 and grid is on cpu",
        {"input": "cuda:0", "grid": "cpu"},
    ),
    (
        "index_copy_(): self, index and source expected to be in the same device, but got (self) cuda:0, "
        "(index) cpu, and (source) cpu",
        {"self": "cuda:0", "index": "cpu", "source": "cpu"},
    ),
    (
        "stft input and window must be on the same device but got self on cuda:0 and window on cpu",
        {"self": "cuda:0", "window": "cpu"},
    ),
    (
        "Expected query, key, and value to have the same device type, but got query.device: cpu "
        "key.device: cuda:0 and value.device: cuda:0 instead.",
        {"query": "cpu", "key": "cuda:0", "value": "cuda:0"},
    ),
    (
        "Input and parameter tensors are not at the same device, found input tensor at cuda:0 and parameter "
        "tensor at cpu",
        {"input": "cuda:0", "parameter": "cpu"},
    ),
    (
        'Cannot assign node feature "h" on device cuda:0 to a graph on device cpu. Call DGLGraph.to() to copy',
        {"h": "cuda:0", "graph": "cpu"},
    ),
    ("Expected a 'cuda' device type for generator but found 'cpu'", {"self": "cuda", "generator": "cpu"}),
]


@pytest.mark.parametrize(("message", "operands"), PLACED, ids=[row[0][:30] for row in PLACED])
def test_operands_by_name(message, operands):
    (finding,) = explain_text(f"RuntimeError: {message}")
    assert {each.name: each.device for each in finding.operands} == operands
    assert finding.verdict == "device-error"


NAMED = [
    (
        "Expected object of device type cuda but got device type cpu for argument #1 'self' in call to _th_mm",
        "argument-device",
        ("cpu", "cuda"),
        "self",
        "_th_mm",
    ),
    (
        "Expected object of backend CUDA but got backend CPU for argument #2 'mat2'",
        "argument-device",
        ("cpu", "cuda"),
        "mat2",
        "mm",
    ),
    (
        "Expected object of type torch.cuda.FloatTensor but found type torch.FloatTensor for argument #2 'mat2'",
        "type-combination",
        ("cuda", "cpu"),
        "mat2",
        "mm",
    ),
    (
        "Expected object of type Variable[torch.cuda.FloatTensor] but found type Variable[torch.FloatTensor] "
        "for argument #1 'weight'",
        "type-combination",
        ("cuda", "cpu"),
        "weight",
        None,
    ),
    (
        "Tensor for argument #3 'mat2' is on CPU, but expected it to be on GPU (while checking arguments for "
        "addmm)",
        "argument-device",
        ("cpu", "cuda"),
        "mat2",
        "addmm",
    ),
    (
        "Tensor for 'out' is on CPU, Tensor for argument #1 'self' is on CPU, but expected them to be on GPU "
        "(while checking arguments for addmm)",
        "argument-device",
        ("cpu", "cuda"),
        "out",
        "addmm",
    ),
    (
        "Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'weight'; but "
        "device 0 does not equal 1 (while checking arguments for cudnn_convolution)",
        "same-device",
        ("cuda:0", "cuda:1"),
        "weight",
        "cudnn_convolution",
    ),
    (
        "torch.gradient expected each tensor to be on the same device, but got devices cuda:0 and cpu",
        "same-device",
        ("cuda:0", "cpu"),
        None,
        None,
    ),
    (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:3 and cuda:11! (when "
        "checking argument for argument index in method wrapper_CUDA__index_select)",
        "same-device",
        ("cuda:3", "cuda:11"),
        "index",
        "wrapper_CUDA__index_select",
    ),
    (
        "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
        "device: cpu",
        "data-parallel-module",
        ("cuda:0", "cpu"),
        None,
        None,
    ),
    (
        "Calling `cuda()` is not supported for `4-bit` or `8-bit` quantized models.",
        "move-dispatched",
        (),
        None,
        None,
    ),
    (
        "LlavaModel does not support `device_map='auto'`.",
        "device-map-class-unsupported",
        (),
        "LlavaModel",
        None,
    ),
    (
        "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
        "pin-device",
        (),
        None,
        None,
    ),
]


@pytest.mark.parametrize(
    ("message", "kind", "devices", "argument", "op"), NAMED, ids=[row[0][:40] for row in NAMED]
)
def test_what_a_message_names(message, kind, devices, argument, op):
    (report,) = read_paste(f"RuntimeError: {message}")
    assert (report.kind, report.devices, report.argument, report.op) == (kind, devices, argument, op)


@pytest.mark.parametrize(
    ("text", "device", "number"),
    [
        ("torch.cuda.HalfTensor", "cuda", "float16"),
        ("torch.FloatTensor", "cpu", "float32"),
        ("CUDABFloat16Type", "cuda", "bfloat16"),
        ("CPUFloatType", "cpu", "float32"),
        ("c10::Half", None, "float16"),
        ("float", None, "float32"),
        ("Variable[torch.cuda.LongTensor]", "cuda", "int64"),
        ("CUDA", "cuda", None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_types(text, device, number):
    found = tensor_type(text)
    assert (found.device, found.number) == (device, number)


UNKNOWN_WORDINGS = [
    ("RuntimeError: q must be on CUDA", "needs-gpu", (), "q"),
    ("ValueError: SyncBatchNorm expected input tensor to be on GPU", "needs-gpu", (), "input"),
    ("RuntimeError: input_lengths must be on CPU", "needs-host", ("cpu",), "input_lengths"),
    (
        "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
        "needs-host",
        ("cpu", "cuda:0"),
        "lengths",
    ),
    (
        "RuntimeError: output with device cpu doesn't match the desired device cuda:0",
        "same-device",
        ("cpu", "cuda:0"),
        None,
    ),
    (
        "RuntimeError: Expected attn_mask device to match query device, but got attn_mask.device: cpu and "
        "query.device: cuda:0 instead.",
        "same-device",
        ("cpu", "cuda:0"),
        None,
    ),
    (
        "RuntimeError: attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'.",
        "same-device",
        ("cpu", "cuda"),
        None,
    ),
    (
        "AssertionError: Expects tensor to be on the compute device cuda:0, was on cpu",
        "same-device",
        ("cuda:0", "cpu"),
        None,
    ),
]


@pytest.mark.parametrize(("message", "kind", "devices", "argument"), UNKNOWN_WORDINGS)
def test_a_sentence_that_no_row_knows_is_read_for_what_it_demands(message, kind, devices, argument):
    (report,) = read_paste(message)
    assert (report.kind, report.devices, report.argument) == (kind, devices, argument)


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: Expected one of cpu, cuda, ipu, xpu device type at start of device string: gpu",
        "RuntimeError: bfloat16 convolution is slow on cpu, use cuda",
        "ValueError: Unknown backend 'gloo' for cpu",
        "RuntimeError: expected 3 channels but got 4",
        "RuntimeError: step must be nonzero",
    ],
)
def test_devices_beside_each_other_are_no_mismatch(message):
    (report,) = read_paste(message)
    assert report.kind == "unknown-message"


def test_what_must_stay_on_the_host_is_left_there():
    (finding,) = explain_text(
        "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"
    )
    assert finding.cause == "extra-input-on-wrong-device"
    assert finding.cure is not None and finding.cure.key.endswith("stays-on-host")


def test_what_a_map_leaves_out_is_the_reason():
    text = "ValueError: The device_map provided does not give any device for the following parameters: model.norm.weight"
    (found,) = explain_text(f"device_map = split_model(name)\n{text}")
    assert found.cause == "device-map-incomplete-or-wrong"
    assert dict(found.reasons[0].values)["operand"] == "model.norm.weight"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("RuntimeError: randperm is only implemented for CPU", "generator-or-default-device"),
        ("RuntimeError: torch.cuda.FloatTensor is not enabled.", "hardware-or-driver"),
        (
            "dgl._ffi.base.DGLError: /opt/dgl/src/c_runtime_api.cc:87: Check failed: allow_missing: Device API gpu is not enabled",
            "hardware-or-driver",
        ),
    ],
)
def test_messages_of_builds_and_of_makers(text, cause):
    assert explain_text(text)[0].cause == cause


@pytest.mark.parametrize(("mark", "kind"), [("!", "needs-host"), ("", "needs-gpu")])
def test_an_assertion_about_a_device_names_one(mark, kind):
    text = f"RuntimeError: {mark}t.is_cuda() INTERNAL ASSERT FAILED at ATen/SparseTensorMath.cpp:591"
    (report,) = read_paste(text)
    assert (report.kind, report.argument) == (kind, "t")
    assert explain_text(text)[0].verdict == "device-error"


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        ("nn/modules/instancenorm.py", "module-left-on-other-device"),
        ("nn/utils/stateless.py", "tensor-created-on-wrong-device"),
    ],
)
def test_the_weight_of_a_layer_of_torch_is_its_own(frame, cause):
    text = f"""Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/torch/{frame}", line 36, in run
    return F.instance_norm(
  File "/usr/lib/python3/dist-packages/torch/nn/functional.py", line 2523, in instance_norm
    return torch.instance_norm(
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking argument for argument weight in method wrapper_CUDA__cudnn_batch_norm)
"""
    assert explain_text(text)[0].cause == cause
