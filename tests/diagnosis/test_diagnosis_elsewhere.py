"""Whether a text is about devices at all, what it is about else, and what would decide what stays open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samedevice.diagnosis import explain_text
from samedevice.diagnosis.paste._elsewhere import ROWS
from samedevice.diagnosis.paste._kinds import KINDS
from samedevice.report import render, render_finding

HOST, GPU = "torch.FloatTensor", "torch.cuda.FloatTensor"
MISMATCH = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu!"
)


def only(text):
    (finding,) = explain_text(text)
    return finding


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (77x768 and 4096x5120)", "shape"),
        ("RuntimeError: expected scalar type Half but found Float", "dtype"),
        ("KeyError: 'qwen2_5_vl'", "python"),
        ("ZeroDivisionError: division by zero", "python"),
        (
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED",
            "launcher-exit",
        ),
        ('Error(s) in loading state_dict for ResNet: Missing key(s) in state_dict: "a.b"', "state-dict"),
    ],
)
def test_something_else(text, topic):
    beside = f"{text}\n2 GPUs, cuda:0 and cuda:1, device_map='auto', DataParallel, lora, past_key_values"
    for each in (text, beside):
        finding = only(each)
        assert (finding.cause, finding.verdict, finding.topic) == (
            "not-a-device-error",
            "not-a-device-error",
            topic,
        )
        assert finding.operands == ()
        assert render(finding.title, "zh") != render(finding.title)
        assert render_finding(finding).as_json()["topic"] == topic


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        (GPU, "torch.cuda.HalfTensor", "not-a-device-error"),
        ("c10::Half", "float", "not-a-device-error"),
        ("float", "CUDABFloat16Type", "not-a-device-error"),
        (GPU, HOST, "module-left-on-other-device"),
        ("torch.cuda.HalfTensor", "torch.HalfTensor", "module-left-on-other-device"),
    ],
)
def test_both_types_are_compared(first, second, cause):
    finding = only(f"RuntimeError: Input type ({first}) and weight type ({second}) should be the same")
    assert finding.cause == cause


def test_a_worker_before_its_launcher():
    launcher = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED"
    finding = only(f"{MISMATCH}\n{launcher}")
    assert (finding.kind, finding.verdict) == ("same-device", "device-error")
    finding = only(f"RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)\n{launcher}")
    assert finding.topic == "shape"


def test_a_replica_that_fails_for_another_reason():
    text = "RuntimeError: Caught RuntimeError in replica 0 on device 0."
    assert only(text).cause == "data-parallel-replica-device"
    shape = "RuntimeError: shape '[1, 2]' is invalid for input of size 3"
    finding = only(f"{text}\n{shape}")
    assert finding.topic == "shape"
    assert "torchrun" in render(finding.cure)
    assert "torchrun" not in render(only(shape).cure)


def test_the_first_of_a_chain_is_first():
    chained = (
        "Traceback (most recent call last):\n"
        f"{MISMATCH}\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        "NotImplementedError: Cannot copy out of meta tensor; no data!\n"
    )
    assert [finding.kind for finding in explain_text(chained)] == ["same-device", "meta-copy"]
    apart = chained.replace("During handling of the above exception, another exception occurred:", "retry")
    assert [finding.kind for finding in explain_text(apart)] == ["meta-copy", "same-device"]


OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 264.00 MiB (GPU 1; 2.00 GiB total capacity; "
    "788.51 MiB already allocated; 145.93 MiB free; 1.50 GiB reserved in total by PyTorch)"
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 3 has a total capacity of "
    "10.00 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 2.00 GiB memory "
    "in use. Process 77 has 7.50 GiB memory in use. Of the allocated memory 1.50 GiB is allocated by "
    "PyTorch, and 128.00 MiB is reserved by PyTorch but unallocated."
)
GIB = 1 << 30


def test_amounts_of_memory():
    old, new = only(OLD), only(NEW)
    assert (old.code, old.verdict, old.topic) == ("SD104", "not-a-device-error", "out-of-memory")
    assert old.amounts["total"] == 2 * GIB
    assert new.amounts == {
        "asked": GIB,
        "total": 10 * GIB,
        "free": GIB // 2,
        "allocated": GIB + GIB // 2,
        "reserved": GIB // 8,
        "in_use": 2 * GIB,
        "others": 7 * GIB + GIB // 2,
    }
    assert "cuda:3" in render(new.title)
    assert "7.5 GiB" in render(new.cure)  # another process has it
    assert "expandable_segments" in render(old.cure)
    assert "2x2GB" in render(old.ask)
    assert "10.0 GiB in all" in render_finding(new).notes[0]


def test_an_amount_that_can_never_fit():
    finding = only(NEW.replace("Tried to allocate 1.00 GiB", "Tried to allocate 55.57 GiB"))
    assert "55.6 GiB" in render(finding.cure)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (MISMATCH, "2>&1 | samedevice explain -"),
        (
            'File "/home/user/run.py", line 3, in <module>\n    y = a + b\n'
            + MISMATCH.replace("cuda:0", "cuda:5"),
            "samedevice run --machine 6x24GB run.py",
        ),
        ("RuntimeError: CUDA error: device-side assert triggered", "CUDA_LAUNCH_BLOCKING=1 python script.py"),
    ],
)
def test_what_is_open_asks_for_one_command(text, command):
    finding = only(text)
    assert finding.confidence == "guess"
    assert command in render(finding.ask)
    assert command in render(finding.ask, "zh")


def test_nothing_is_asked_where_the_message_has_one_cause():
    assert only("RuntimeError: CUDA error: invalid device ordinal").ask is None


def test_ranks_on_one_gpu():
    for text in (
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4000",
        "Multiple ranks detected using the same GPU on this node",
    ):
        finding = only(f"torch.distributed.DistBackendError: NCCL error\nLast error:\n{text}")
        assert finding.code == "SD107"


def test_numpy():
    finding = only("TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
    assert finding.cause == "numpy-of-gpu-tensor"


TEXTS = Path(__file__).parent
REPOSITORY = TEXTS.parents[1]


def test_the_words_that_a_row_is_looked_for_by_leave_nothing_out():
    texts = [path.read_text("utf-8") for path in sorted(REPOSITORY.glob("corpus/**/pasted/*.txt"))]
    texts += [each["text"] for each in json.loads((TEXTS / "texts_of_users.json").read_text("utf-8"))]
    rows = [(row.words, row.pattern) for row in (*KINDS, *ROWS)]
    for text in texts:
        small = text.lower()
        for words, pattern in rows:
            if not any(word in small for word in words):
                assert pattern.search(text) is None, (words, text)


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        ("ModuleNotFoundError: No module named 'peft'", "python -m pip install peft"),
        ("ModuleNotFoundError: No module named 'cv2'", "python -m pip install opencv-python"),
        ("ModuleNotFoundError: No module named 'peft.vera'", "the installed peft has no peft.vera"),
        ("ImportError: cannot import name 'Vera' from 'peft' (/x/peft.py)", "the installed peft has no Vera"),
        (
            "ImportError: cannot import name 'A' from partially initialized module 'utils' "
            "(most likely due to a circular import) (/x/utils.py)",
            "two files import each other",
        ),
        ("ImportError: libcudart.so.11.0: cannot open shared object file", "for this Python, torch and CUDA"),
    ],
)
def test_what_is_missing_is_named(message, cure):
    said = only(message).cure
    assert said is not None
    assert cure in render(said)
    assert render(said, "zh") != render(said)
