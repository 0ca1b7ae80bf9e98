"""Overlays, with a pip that only pretends: names, atomicity, reuse, errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.environments import overlays


class FakePip:
    """Stands in for `python -m pip install`; writes a package folder, or fails as told."""

    def __init__(self):
        self.installed = []
        self.environments = []
        self.fails_on = None
        self.brings = ()
        self.files = {}
        self.meanwhile = None

    def __call__(self, command, **options):
        pin, folder = command[-1], Path(command[command.index("--target") + 1])
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        assert "--no-deps" in command
        self.installed.append(pin)
        self.environments.append(options["env"])
        name, version = pin.split("==")
        (folder / name).mkdir()
        for extra in (f"{name}-{version}.dist-info", *self.brings):
            (folder / extra).mkdir()
        for path, text in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        if self.meanwhile is not None:
            self.meanwhile()
        if pin == self.fails_on:
            output = "\n".join(f"line {i}" for i in range(50)) + "\nERROR: No matching distribution found"
            return subprocess.CompletedProcess(command, 1, stdout=output)
        return subprocess.CompletedProcess(command, 0, stdout="")


@pytest.fixture
def pip(monkeypatch, tmp_path):
    monkeypatch.setenv("SAMEDEVICE_CACHE", str(tmp_path / "cache"))
    fake = FakePip()
    monkeypatch.setattr(overlays.subprocess, "run", fake)
    return fake


def test_cache_is_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SAMEDEVICE_CACHE", str(tmp_path))
    assert overlays.cache_folder() == tmp_path / "overlays"
    monkeypatch.delenv("SAMEDEVICE_CACHE")
    assert overlays.cache_folder() == Path.home() / ".cache" / "samedevice" / "overlays"


def test_folder_name_is_stable_and_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SAMEDEVICE_CACHE", str(tmp_path))
    one = overlays.overlay_folder("huggingface-hub", "0.36.2")
    assert one == overlays.overlay_folder("Huggingface_Hub", "0.36.2")
    assert one != overlays.overlay_folder("huggingface-hub", "0.36.1")
    assert one.name.startswith("huggingface-hub-0.36.2-")


def test_folder_depends_on_the_interpreter(monkeypatch, tmp_path):
    monkeypatch.setenv("SAMEDEVICE_CACHE", str(tmp_path))
    here = overlays.overlay_folder("numpy", "1.26.4")
    monkeypatch.setattr(overlays.sysconfig, "get_config_var", lambda name: "another-abi")
    assert overlays.overlay_folder("numpy", "1.26.4") != here


def test_builds_each_package_once_and_reuses_it(pip):
    first = overlays.ensure({"peft": "0.14.0", "accelerate": "1.15.0"})
    assert [folder.name.rsplit("-", 1)[0] for folder in first] == ["accelerate-1.15.0", "peft-0.14.0"]
    assert all(folder.is_dir() for folder in first)
    second = overlays.ensure({"accelerate": "1.15.0", "peft": "0.13.2"})
    assert sorted(pip.installed) == ["accelerate==1.15.0", "peft==0.13.2", "peft==0.14.0"]
    assert second[0] == first[0]


def test_several_environments_share_their_packages(pip):
    both = overlays.ensure_all([{"peft": "0.14.0", "idna": "3.20"}, {"peft": "0.13.2", "idna": "3.20"}])
    assert both[0][0] == both[1][0]
    assert len(pip.installed) == 3


def test_failed_build_leaves_nothing_and_shows_pips_last_lines(pip):
    pip.fails_on = "peft==9.9.9"
    with pytest.raises(overlays.OverlayError) as raised:
        overlays.ensure({"peft": "9.9.9", "idna": "3.20"})
    text = str(raised.value)
    assert "pip could not install peft==9.9.9 (exit status 1)" in text
    assert text.endswith("ERROR: No matching distribution found")
    assert "line 49" in text
    assert "line 5\n" not in text
    assert [folder.name.rsplit("-", 1)[0] for folder in overlays.cache_folder().iterdir()] == ["idna-3.20"]


def test_interrupted_build_is_never_used(pip):
    def interrupt():
        assert not overlays.overlay_folder("idna", "3.20").exists()
        raise KeyboardInterrupt

    pip.meanwhile = interrupt
    with pytest.raises((KeyboardInterrupt, overlays.OverlayError)):
        overlays.ensure({"idna": "3.20"})
    assert overlays.missing({"idna": "3.20"}) == [("idna", "3.20")]
    assert list(overlays.cache_folder().iterdir()) == []
    pip.meanwhile = None
    assert overlays.ensure({"idna": "3.20"})[0].is_dir()


def test_another_process_may_finish_first(pip):
    target = overlays.overlay_folder("idna", "3.20")

    def other_process():
        target.mkdir()
        (target / "theirs").touch()

    pip.meanwhile = other_process
    assert overlays.ensure({"idna": "3.20"}) == [target]
    assert [entry.name for entry in target.iterdir()] == ["theirs"]
    assert list(overlays.cache_folder().iterdir()) == [target]


def test_torch_that_came_along_is_removed(pip):
    pip.brings = (
        "torch",
        "torch-2.0.0.dist-info",
        "nvidia",
        "nvidia_nccl_cu12-2.0.dist-info",
        "torchvision",
        "triton",
    )
    (folder,) = overlays.ensure({"timm": "1.0.3"})
    assert sorted(entry.name for entry in folder.iterdir()) == ["timm", "timm-1.0.3.dist-info", "torchvision"]


def test_torchvision_declares_what_a_cpu_torch_lacks(pip):
    pip.files = {
        "torchvision/extension.py": "import torch\n\ndef _has_ops():\n    return False\n",
        "torchvision/io/__init__.py": "",
    }
    (folder,) = overlays.ensure({"torchvision": "0.28.0"})
    text = (folder / "torchvision" / "extension.py").read_text()
    assert text.startswith("import torch\n")
    assert "if not _has_ops():" in text
    compile(text, "extension.py", "exec")
    names: dict[str, object] = {}
    exec((folder / "torchvision" / "io" / "__init__.py").read_text(), names)
    assert not isinstance(1, names["VideoReader"])


def test_what_is_added_changes_the_folder(monkeypatch):
    before = overlays.overlay_folder("torchvision", "0.28.0"), overlays.overlay_folder("peft", "0.14.0")
    monkeypatch.setattr(overlays, "_ADDED", {"torchvision": {"torchvision/extension.py": "pass\n"}})
    assert overlays.overlay_folder("torchvision", "0.28.0") != before[0]
    assert overlays.overlay_folder("peft", "0.14.0") == before[1]


@pytest.mark.parametrize("name", ["torch", "Torch", "nvidia-nccl-cu12", "triton"])
def test_torch_cannot_be_asked_for(pip, name):
    with pytest.raises(overlays.OverlayError, match="cannot be overlaid"):
        overlays.ensure({name: "2.0.0"})
    assert pip.installed == []


@pytest.mark.parametrize(
    "text", ["peft", "peft>=0.1", "peft==", "--index-url==1", "../x==1", "peft==1/2", "peft==1 --user"]
)
def test_only_exact_pins_are_accepted(text):
    with pytest.raises(overlays.OverlayError, match="not an exact pin"):
        overlays.parse_pins([text])


def test_pin_given_twice_is_refused():
    assert overlays.parse_pins(["peft==0.1", "Peft==0.1"]) == {"peft": "0.1"}
    with pytest.raises(overlays.OverlayError, match="twice"):
        overlays.parse_pins(["peft==0.1", "peft==0.2"])


def test_environment_puts_overlays_first_and_keeps_the_rest(pip, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/mine")
    env = overlays.environment({"peft": "0.14.0"})
    assert env["PYTHONPATH"] == f"{overlays.overlay_folder('peft', '0.14.0')}{os.pathsep}/mine"
    assert "PYTHONPATH" not in pip.environments[0]
    monkeypatch.delenv("PYTHONPATH")
    assert overlays.environment({"peft": "0.14.0"})["PYTHONPATH"] == str(
        overlays.overlay_folder("peft", "0.14.0")
    )


def test_overlay_hides_the_installed_version(monkeypatch, tmp_path):
    """`importlib.metadata` and `import` must both see the overlay; a plain folder on PYTHONPATH is enough for
    that.
    """
    folder = tmp_path / "rich-0.0.1"
    (folder / "rich").mkdir(parents=True)
    (folder / "rich" / "__init__.py").write_text("overlay = True\n")
    (folder / "rich-0.0.1.dist-info").mkdir()
    (folder / "rich-0.0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: rich\nVersion: 0.0.1\n"
    )
    code = "import importlib.metadata, rich; print(importlib.metadata.version('rich'), rich.overlay)"
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.0.1", "True"]


def test_command_prints_the_path(pip, capsys):
    assert overlays.main(["peft==0.14.0", "idna==3.20"]) == 0
    folders = capsys.readouterr().out.strip().split(os.pathsep)
    assert folders == [
        str(overlays.overlay_folder("idna", "3.20")),
        str(overlays.overlay_folder("peft", "0.14.0")),
    ]
    assert overlays.main(["peft"]) == 1
    assert "not an exact pin" in capsys.readouterr().err
