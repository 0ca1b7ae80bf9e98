"""What is said where torch is missing, too old, or newer than any that the tests were run on."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from samedevice.errors import TorchNeededError
from samedevice.torch_versions import NEWEST, installed, installed_version, release_of

no_old_files = pytest.mark.skipif(
    (release_of(installed_version()) or NEWEST) < (2, 10), reason="an old torch cannot pass for a newer one"
)
WITHOUT = "import sys; sys.modules['torch'] = None; "


def test_the_installed_torch_will_do():
    installed.require_torch()


@pytest.mark.parametrize("version", ["2.5.1", "1.13.1+cu117", "2.5.0a0+git1234"])
def test_an_old_torch_is_told(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    with pytest.raises(TorchNeededError, match=rf"needs torch 2\.6 or newer, and torch {version[:3]}"):
        installed.require_torch()


@pytest.mark.parametrize("version", ["2.10.0", "2.15.0+cu132", "3.0", "unknown"])
def test_a_newer_torch_will_do(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    installed.require_torch()


def test_run_without_torch_says_what_to_install(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    code = (
        WITHOUT
        + f"from samedevice.cli import main; sys.argv = ['samedevice', 'run', {str(script)!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'pip install "samedevice[torch]"' in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_launcher_without_torch_says_what_to_install(tmp_path):
    code = (
        WITHOUT
        + "from samedevice.cli import main; "
        + "sys.argv = ['samedevice', 'run', 'torchrun', '--nproc_per_node', '2', 'train.py']; main()"
    )
    (tmp_path / "train.py").write_text("print(1)")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert 'pip install "samedevice[torch]"' in " ".join(done.stderr.split())


def test_a_suite_without_torch_says_what_to_install(tmp_path):
    code = WITHOUT + "import pytest; sys.exit(pytest.main(['-q', '--machine=2x24GB', '-pno:cacheprovider']))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert 'pip install "samedevice[torch]"' in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_explain_works_without_torch():
    text = "RuntimeError: Expected all tensors to be on the same device, but got mat2 is on cpu"
    code = WITHOUT + f"import samedevice as sd; print(len(sd.explain({text!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1", done.stderr


FAKED = """
import importlib.metadata, sys
import torch
{change}
torch.__version__ = "2.99.0"
found = importlib.metadata.version
importlib.metadata.version = lambda name: "2.99.0" if name == "torch" else found(name)
"""
NEWER = (
    FAKED
    + """
from samedevice.cli import main
sys.argv = ["samedevice", "run", *{words!r}]
main()
"""
)


def run_on_a_newer_torch(tmp_path, change="", launcher=()):
    script = tmp_path / "train.py"
    script.write_text("import torch; print(torch.ones(2, device='cuda').tolist())")
    code = NEWER.format(change=change, words=[*launcher, str(script)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, " ".join(done.stderr.split())


@no_old_files
def test_a_run_on_a_torch_that_nobody_tested_says_so_and_goes_on(tmp_path):
    code, out, error = run_on_a_newer_torch(tmp_path)
    assert (code, out) == (0, "[1.0, 1.0]\n")
    assert "torch 2.99.0 is newer than any that samedevice was tested with" in error
    assert "no such name" not in error


@no_old_files
def test_what_a_newer_torch_has_no_name_for_is_off(tmp_path):
    code, out, error = run_on_a_newer_torch(tmp_path, "del torch.serialization._get_restore_location")
    assert (code, out) == (0, "[1.0, 1.0]\n")
    assert "off, because this torch has no such name: torch.serialization._get_restore_location" in error


@no_old_files
def test_a_newer_torch_that_cannot_work_is_refused_by_name(tmp_path):
    code, _, error = run_on_a_newer_torch(tmp_path, "del torch._C._autograd._supported_activities")
    assert code == 2
    assert "does not work with torch 2.99.0" in error
    assert "_supported_activities" in error


@pytest.mark.long
def test_a_launch_says_so_too(tmp_path):
    code, _, error = run_on_a_newer_torch(tmp_path, launcher=("torchrun", "--nproc_per_node", "1"))
    assert code == 0
    assert error.count("torch 2.99.0 is newer than any that samedevice was tested with") == 1


@no_old_files
def test_a_suite_says_so_too(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    code = FAKED.format(change="") + "import pytest; pytest.main(['--machine=2x24GB', '-pno:cacheprovider'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "torch 2.99.0 is newer than any that samedevice was tested with" in done.stdout
