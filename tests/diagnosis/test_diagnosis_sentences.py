"""Messages that no row knows: read for what they state of devices, or for what else they are about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samedevice.diagnosis import explain_text
from samedevice.diagnosis.paste import names_a_device, read_paste

MESSAGES = json.loads((Path(__file__).parent / "messages_of_libraries.json").read_text("utf-8"))
"""Short messages that libraries raise, each with whether it is about devices, and its causes or topic."""
_OPPOSITE = {"gpu": "needs-host", "host": "needs-gpu"}


@pytest.mark.parametrize("row", MESSAGES, ids=[row["text"][:60] for row in MESSAGES])
def test_messages_of_libraries(row):
    (finding,) = explain_text(row["text"])
    expected = "device-error" if row["about"] == "device" else "not-a-device-error"
    assert finding.verdict == expected
    if "causes" in row:
        assert finding.cause in row["causes"]
    if "topic" in row:
        assert finding.topic in row["topic"]
    if "wanted" in row:
        assert finding.confidence != "certain"
        assert finding.kind not in ("unknown-message", _OPPOSITE.get(row["wanted"]))


@pytest.mark.parametrize(
    ("message", "kind", "devices", "argument"),
    [
        ("knots must live on CUDA", "needs-gpu", (), "knots"),
        ("expected 'knots' to be a CPU tensor", "needs-host", ("cpu",), "knots"),
        ("spline() is only implemented on CPU tensors", "needs-host", ("cpu",), None),
        ("spline does not support cpu tensors", "needs-gpu", (), None),
        ("Expected knots.is_cuda() to be true, but got false", "needs-gpu", (), "knots"),
        (
            "Expected knots.device().type() == at::kCPU to be true, but got false.",
            "needs-host",
            (),
            "knots",
        ),
        ("Expected knots.device() == values.device() to be true, but got false.", "same-device", (), "knots"),
        ("spline: expected 'knots' to be CUDA, but got CPU", "same-device", ("cuda", "cpu"), "knots"),
        ("knots must have the same shape, dtype and device as values", "same-device", (), None),
        ("knots device mismatch", "same-device", (), None),
        ("spline requires a CUDA device", "gpu-required", (), None),
        ("spline requires a CUDA device, but none is available", "machine", (), None),
        ("spline needs Hopper or later", "machine", (), None),
        ("spline needs a Hopper or newer GPU", "machine", (), None),
        ("spline was not compiled with CUDA support", "cuda-not-compiled", (), None),
        ("device index 3 out of range", "invalid-ordinal", (), None),
        ("4 workers asked for, but only 2 GPUs available", "too-few-gpus", (), None),
        ("knots are still on the meta device", "meta-device", (), None),
        ("cannot read knots from meta storage", "meta-value", (), None),
    ],
)
def test_ways_of_saying_it(message, kind, devices, argument):
    (report,) = read_paste(f"RuntimeError: {message}")
    assert (report.kind, report.devices, report.argument) == (kind, devices, argument)


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: device must be 'cpu' or 'cuda', but got tpu",
        "ValueError: device must be one of cpu, cuda, mps",
        "ValueError: `num_gpus` must be positive",
        "AssertionError: Expected spec in node.meta['val']",
        "ImportError: please install spline-gpu",
        "RuntimeError: spline and torch were compiled with different CUDA versions",
        "RuntimeError: spline_cuda expects int32 dtype",
    ],
)
def test_a_device_in_a_name_or_an_option_is_no_place(message):
    (finding,) = explain_text(message)
    assert finding.verdict == "not-a-device-error"


def test_a_message_that_names_a_device_is_called_something_else_as_a_guess_alone():
    (plain,) = explain_text("ValueError: knots must be positive")
    (named,) = explain_text("ValueError: spline() on cuda got knots of another dtype")
    assert (plain.confidence, named.confidence) == ("likely", "guess")
    assert names_a_device("the weights on cuda")
    assert not names_a_device("the device mesh has 8 entries in node.meta['mesh']")


def test_what_asks_for_a_gpu_is_left_open_between_the_machine_and_a_tensor():
    (finding,) = explain_text("RuntimeError: spline requires a CUDA device")
    assert (finding.cause, finding.confidence) == ("hardware-or-driver", "guess")
    assert "module-left-on-other-device" in finding.candidates


def test_the_first_error_of_a_chain_counts_where_the_last_states_nothing():
    (finding,) = explain_text(
        "ValueError: knots must be on CUDA\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        "SplineError: evaluation failed"
    )
    assert (finding.kind, finding.exception) == ("needs-gpu", "SplineError")


def test_an_unknown_error_above_the_end_of_a_launcher_counts():
    (finding,) = explain_text(
        "[rank1]: ValueError: knots must be on CUDA\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED"
    )
    assert finding.kind == "needs-gpu"


def test_a_plain_exception_keeps_its_name():
    (finding,) = explain_text("Exception: knots must be on CUDA")
    assert (finding.kind, finding.exception) == ("needs-gpu", "Exception")


def test_a_warning_alone_is_read_too():
    (finding,) = explain_text("/a/spline.py:41: UserWarning: knots are not on the same device as values")
    assert finding.kind == "same-device"
