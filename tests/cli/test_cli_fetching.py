"""`samedevice explain --sources` and `--download`: source from elsewhere as evidence."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from samedevice.cli import _fetching
from samedevice.cli._explain import Evidence, explain
from samedevice.cli._reporting import Reporting
from samedevice.diagnosis import explain_text
from samedevice.errors import UsageError

CODE = """
import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.kernel = torch.hann_window(width)

    def forward(self, x):
        taps = self.kernel
        return x * taps
"""
TEXT = """filters-of-nobody 1.2.0, torch 2.4.0
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    y = net(x)
  File "/env/lib/python3.9/site-packages/torch/nn/modules/module.py", line 1553, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
  File "/env/lib/python3.9/site-packages/filters_of_nobody/layers.py", line 13, in forward
    return x * taps
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""
PACKAGE = "filters_of_nobody"


def wheel(folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{PACKAGE}-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{PACKAGE}/layers.py", CODE)
    return path


@pytest.fixture
def pasted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "error.txt").write_text(TEXT, "utf-8")
    return tmp_path / "error.txt"


def answer(capsys, pasted, *sources, download=False):
    status = explain(str(pasted), Evidence(sources, download), Reporting(form="json"), "en")
    out, err = capsys.readouterr()
    return status, json.loads(out)["findings"][0] if status == 0 else None, err


@pytest.fixture
def index(monkeypatch):
    """A package index with one release; what it was asked for."""
    asked = []

    def run(command, **_):
        asked.append(command)
        if command[-1].partition("==")[0] != "filters-of-nobody":
            return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found")
        wheel(Path(command[command.index("--dest") + 1]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(_fetching.subprocess, "run", run)
    return asked


def test_a_wheel_or_a_folder_tells_where_a_tensor_was_made(capsys, pasted, tmp_path):
    assert answer(capsys, pasted)[1]["written"] == []
    path = wheel(tmp_path / "wheels")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "checkout")
    for place in (path, tmp_path / "checkout"):
        status, finding, _ = answer(capsys, pasted, str(place))
        assert (status, finding["cause"]) == (0, "tensor-created-on-wrong-device")
        (made,) = [each for each in finding["written"] if each["name"] == "taps"]
        assert (made["origin"], made["text"]) == ("attribute", "torch.hann_window(width)")


def test_a_release_is_downloaded_once_and_never_installed(capsys, pasted, index):
    for _ in range(2):
        status, finding, _ = answer(capsys, pasted, "filters-of-nobody==1.2.0")
        assert (status, finding["cause"]) == (0, "tensor-created-on-wrong-device")
    (command,) = index
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)


def test_the_text_tells_which_release_to_download(capsys, pasted, index):
    status, finding, err = answer(capsys, pasted, download=True)
    assert (status, finding["cause"]) == (0, "tensor-created-on-wrong-device")
    assert index[0][-1] == "filters-of-nobody==1.2.0"
    assert err == "samedevice: getting filters-of-nobody==1.2.0 from the package index, to read it\n"


def test_a_release_that_cannot_be_had_is_told_and_the_text_explained(capsys, pasted, index):
    pasted.write_text(TEXT.replace(PACKAGE, "gone_of_nobody"), "utf-8")
    status, finding, err = answer(capsys, pasted, download=True)
    assert (status, finding["verdict"]) == (0, "device-error")
    assert "cannot get a wheel of gone-of-nobody: No matching distribution found" in err
    assert [command[-1] for command in index] == ["gone-of-nobody"] * 2
    assert "--python-version" in index[1]  # of the traceback, where this Python has none


def test_what_is_named_on_the_command_line_must_be_there(capsys, pasted, index):
    for place, told in (("nowhere", "no folder, wheel"), ("gone==1.0", "cannot get a wheel of gone==1.0")):
        status, _, err = answer(capsys, pasted, place)
        assert status == 2
        assert told in err


def test_what_is_installed_or_no_library_is_not_downloaded():
    text = TEXT.replace(f"{PACKAGE}/layers.py", "rich/console.py")
    assert _fetching.told_releases(text, explain_text(text)) == []
    text = TEXT.replace("/env/lib/python3.9/site-packages/", "/home/me/")
    assert _fetching.told_releases(text, explain_text(text)) == []


def test_of_no_device_error_nothing_is_downloaded():
    text = TEXT.replace(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
    )
    assert _fetching.told_releases(text, explain_text(text)) == []


@pytest.mark.parametrize("written", ["x", "x==", "==1", "x==1 --index-url=http://there", "-r==1", "x==1;y"])
def test_what_is_no_release(written):
    assert _fetching.asked_release(written) is None


def test_without_pip_the_reason_is_told(pasted, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "/bin/python: No module named pip\n")
    monkeypatch.setattr(_fetching.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(UsageError, match="No module named pip"):
        _fetching.fetch(_fetching.Release("any", "1.0"))


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("attn-lib==0.7.1", "0.7.1"),
        ("attn_lib version 0.7.1", "0.7.1"),
        ("Upgraded from attn-lib 0.5.0 to attn-lib 0.7.1", "0.7.1"),
        ("needs attn-lib==0.1.2 but I have attn-lib 0.9.0", "0.9.0"),
        ("with attn-lib 0.9, everything is fine with attn-lib 0.8.1", "0.9"),
        ("Name: attn-lib\nVersion: 1.2.3rc1\n", "1.2.3rc1"),
        ("flash-attn-lib-2.1.0", None),
        ("attn-lib>=2.0", None),
    ],
)
def test_which_version_a_text_tells(told, version):
    assert _fetching._version("attn-lib", told) == version


def test_offline_is_told_as_that(pasted, monkeypatch):
    failed = subprocess.CompletedProcess(
        [], 1, "", "WARNING: Retrying: NewConnectionError\nERROR: No matching"
    )
    monkeypatch.setattr(_fetching.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(UsageError, match="offline"):
        _fetching.fetch(_fetching.Release("any", "1.0"))


def test_a_place_without_a_file_of_the_traceback_is_told(capsys, pasted, tmp_path):
    (tmp_path / "other").mkdir()
    status, finding, err = answer(capsys, pasted, str(tmp_path / "other"))
    assert (status, finding["verdict"]) == (0, "device-error")
    assert err == f"samedevice: no file of the failing frames is in {tmp_path / 'other'}\n"
