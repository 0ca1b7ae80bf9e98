"""What C++ says of meta is said of the virtual GPU; what the program has on meta itself stays its own."""

from __future__ import annotations

import sys
import threading
import traceback

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine.wording import reword

LISTENS = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="Python 3.12 tells of errors as they enter Python"
)


class Careless(torch.autograd.Function):
    """A gradient on the host for a tensor on a GPU."""

    @staticmethod
    def forward(ctx, value):
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        return torch.ones(4)


def rnn_with_hidden_state_on_host():
    return nn.GRU(4, 4, device="cuda:1")(torch.randn(3, 2, 4, device="cuda:1"), torch.zeros(1, 2, 4))


def text_of_cpp():
    """What C++ says of such a call, as it says it."""
    return (
        "Input and hidden tensors are not at the same device, found input tensor at meta and hidden tensor "
        "at cpu"
    )


def test_backward_speaks_of_the_gpu():
    with sd.machine("2x24GB"):
        leaf = torch.ones(4, device="cuda:1", requires_grad=True)
        with pytest.raises(RuntimeError, match="expected device cuda:1 but got cpu"):
            Careless.apply(leaf).sum().backward()


def test_an_error_of_cpp_is_reworded_where_it_leaves_the_machine():
    def fails(held):
        raise RuntimeError(text_of_cpp())

    with pytest.raises(RuntimeError, match="found input tensor at cuda:1 and"), sd.machine("2x24GB"):
        fails(torch.ones(2, device="cuda:1"))


def test_an_error_beside_the_programs_own_meta_tensors_stays():
    def fails(held, own):
        raise RuntimeError(text_of_cpp())

    with pytest.raises(RuntimeError, match="found input tensor at meta"), sd.machine("2x24GB"):
        fails(torch.ones(2, device="cuda:1"), torch.ones(2, device="meta"))


@LISTENS
def test_a_script_that_catches_the_error_reads_of_the_gpu():
    with sd.machine("2x24GB", on_mismatch="record"):
        try:
            rnn_with_hidden_state_on_host()
        except RuntimeError as error:
            assert "meta" not in str(error)


def test_uncaught_errors_are_reworded_in_every_thread(monkeypatch):
    told = []
    monkeypatch.setattr(threading, "excepthook", lambda given: told.append(str(given.exc_value)))

    def fails(held):
        raise RuntimeError(text_of_cpp())

    with sd.machine("2x24GB"):
        thread = threading.Thread(target=fails, args=(torch.ones(2, device="cuda:0"),))
        thread.start()
        thread.join()
    assert told == [text_of_cpp().replace("meta", "cuda:0")]


def test_an_operator_without_a_kernel_is_one_error_of_ours():
    with (
        sd.machine("1x24GB"),
        pytest.raises(UnsupportedFeatureError, match=r"[Nn]ested tensors") as caught,
    ):
        torch.nested.nested_tensor([torch.ones(2, 4, device="cuda")])
    assert "meta" not in str(caught.value).lower()


def test_an_operator_of_a_library_without_shapes_is_told_how_to_have_them():
    library = torch.library.Library("samedevice_words", "DEF")
    library.define("plain(Tensor x) -> Tensor")
    library.impl("plain", lambda value: value.clone(), "CUDA")
    with (
        sd.machine("1x24GB"),
        pytest.raises(UnsupportedFeatureError, match=r'register_fake\("samedevice_words::plain"\)'),
    ):
        torch.ops.samedevice_words.plain(torch.ones(2, device="cuda"))


@pytest.mark.parametrize(
    ("text", "there"),
    [
        (
            "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'meta'",
            "device type 'cuda'",
        ),
        (
            "invalid gradient at index 0 - expected device meta but got cpu",
            "expected device cuda:1 but got cpu",
        ),
        (
            "hook has changed the type of value (was MetaFloatType got torch.FloatTensor)",
            "was torch.cuda.FloatTensor got",
        ),
        (
            "cannot pin 'torch.meta.FloatTensor' only dense CPU tensors can be pinned",
            "'torch.cuda.FloatTensor'",
        ),
        (
            "Could not run 'aten::x' with arguments from the 'QuantizedMeta' backend",
            "the 'QuantizedCUDA' backend",
        ),
    ],
)
def test_each_way_of_speaking(text, there):
    with sd.machine("2x24GB"):
        held = torch.ones(2, device="cuda:1")
        try:
            raise RuntimeError(text)
        except RuntimeError as error:
            reword(error)
            assert there in str(error)
            assert held.dim()


def test_words_that_only_begin_alike_stay():
    text = "the metadata of parameter meta_learner in meta.json differ"
    with sd.machine("1x24GB"):
        held = torch.ones(2, device="cuda")
        try:
            raise RuntimeError(text)
        except RuntimeError as error:
            reword(error)
            assert str(error) == text
            assert held.dim()


def test_an_error_of_ours_that_torch_raises_too_keeps_its_text():
    with (
        sd.machine("1x24GB"),
        pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"),
    ):
        torch.ones(2, device="cuda").copy_(torch.ones(2, device="meta"))


# -- frames


def files_of(error):
    return [entry.filename for entry in traceback.extract_tb(error.__traceback__)]


def test_what_leaves_the_machine_has_the_scripts_frames_and_torchs_only():
    with pytest.raises(RuntimeError, match="mat2 is on cuda:1") as caught, sd.machine("2x24GB"):
        torch.ones(2, 2, device="cuda:0") @ torch.ones(2, 2, device="cuda:1")
    assert files_of(caught.value) == [__file__]


def test_the_error_before_it_stays_its_cause():
    with pytest.raises(ValueError, match="later") as caught, sd.machine("2x24GB"):
        try:
            torch.ones(2, device="cuda:7")
        except RuntimeError as error:
            raise ValueError("later") from error
    assert files_of(caught.value) == [__file__]
    assert files_of(caught.value.__cause__) == [__file__]


def test_our_frames_stay_for_who_asks_for_them(monkeypatch):
    monkeypatch.setenv("SAMEDEVICE_DEBUG", "1")
    with pytest.raises(RuntimeError) as caught, sd.machine("2x24GB"):
        torch.ones(2, device="cuda:7")
    assert any("samedevice/runtime" in file for file in files_of(caught.value))


@LISTENS
def test_a_caught_error_has_no_frames_of_ours():
    with sd.machine("2x24GB"):
        try:
            nn.Linear(2, 2).to("cuda")(torch.ones(3, 3, device="cuda"))
        except RuntimeError as error:
            assert not any("samedevice/runtime" in file for file in files_of(error))


def test_an_uncaught_error_is_shown_without_our_frames(monkeypatch):
    shown = []
    monkeypatch.setattr(
        sys, "excepthook", lambda kind, error, trace: shown.append(traceback.extract_tb(trace))
    )
    with sd.machine("2x24GB"):
        try:
            torch.ones(2, device="cuda:7")
        except RuntimeError as error:
            sys.excepthook(type(error), error, error.__traceback__)
    assert [[entry.filename for entry in trace] for trace in shown] == [[__file__]]


class KeepsItsScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = torch.ones(4, device="cuda:0")

    def forward(self, x):
        return self.layer(x) * self.scale


def test_the_error_of_a_replica_is_the_one_that_was_recorded():
    with pytest.raises(RuntimeError, match="in replica 1 on device 1") as caught, sd.machine("2x24GB") as vm:
        nn.DataParallel(KeepsItsScale().cuda())(torch.ones(8, 4, device="cuda"))
    assert "samedevice" not in str(caught.value)
    assert str(caught.value).count("RuntimeError: Expected all tensors to be on the same device") == 1
    (finding,) = vm.findings
    assert caught.value.finding.at == finding.at


class Shared(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise KeyError(index)


def test_what_a_worker_of_a_loader_raises_comes_as_torch_tells_it():
    with sd.machine("1x24GB"), pytest.raises(KeyError, match="Caught KeyError in DataLoader worker"):
        list(torch.utils.data.DataLoader(Shared(), num_workers=1))
