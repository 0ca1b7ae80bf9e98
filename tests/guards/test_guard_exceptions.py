"""`sd.guard`: the same exception, with its diagnosis, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import samedevice as sd
from tests.warm_python import CHILDREN

pytestmark = pytest.mark.usefixtures("warm_children")

SOURCES = str(Path(__file__).parents[2] / "src")


class Chat(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 4)

    def forward(self, ids):
        return self.embed(ids)


@pytest.fixture
def model():
    with sd.machine("2x24GB"):
        yield Chat().to("cuda:1")


def fail(model):
    return model(torch.tensor([1], device="cuda:0"))


def strip(error):
    """As real hardware raises it: without the event that the virtual machine attached."""
    vars(error).pop("samedevice_event")
    return error


def fail_as_hardware(model):
    try:
        return fail(model)
    except RuntimeError as error:
        raise strip(error) from None


@pytest.mark.parametrize("run", [fail, fail_as_hardware])
def test_the_same_exception_with_a_finding(model, run):
    with (
        pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as caught,
        sd.guard(model),
    ):
        run(model)
    finding = caught.value.finding
    assert finding.op == "aten.embedding.default"
    assert {operand.name: operand.device for operand in finding.operands} == {
        "weight": "cuda:1",
        "indices": "cuda:0",
    }
    assert finding.operands[0].parameter == "embed.weight" or finding.operands[1].parameter == "embed.weight"
    assert finding.module == "embed"
    assert len(caught.value.__notes__) == 1
    assert caught.value.__notes__[0].startswith("SD101 cross-device-operands: embedding got operands on")


def test_hardware_and_virtual_machine_agree(model):
    found = []
    for run in (fail, fail_as_hardware):
        with pytest.raises(RuntimeError) as caught, sd.guard(model):
            run(model)
        found.append(caught.value.finding)
    for field in ("code", "op", "message", "module"):
        assert getattr(found[0], field) == getattr(found[1], field)
    assert (found[0].at.file, found[0].at.line) == (found[1].at.file, found[1].at.line)
    named = [{(each.name, each.device, each.shape, each.parameter) for each in one.operands} for one in found]
    assert named[0] == named[1]


def test_the_identical_object_comes_out(model):
    raised = RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!"
    )
    with pytest.raises(RuntimeError) as caught, sd.guard(), sd.guard():
        raise raised
    assert caught.value is raised
    assert len(raised.__notes__) == 1


@pytest.mark.parametrize(
    "error",
    [
        ValueError("wrong"),
        KeyError("key"),
        RuntimeError("shapes cannot be multiplied"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
        RuntimeError("expected scalar type Half but found Float"),
    ],
)
def test_other_errors_are_left_alone(error):
    with pytest.raises(type(error)), sd.guard():
        raise error
    assert not hasattr(error, "finding")
    assert not hasattr(error, "__notes__")


def test_a_line_that_names_a_device_makes_no_device_error():
    """Factories, devices and losses stand in most lines of training code, whatever fails there."""
    tr_loss = torch.zeros(())
    for fail in (
        lambda: torch.zeros(2, 3, device="cuda" if not torch else "cpu") @ torch.ones(2, 3),
        lambda: torch.ones(3).to("cpu").view(2, 2),
        lambda: tr_loss.add_(torch.ones(1)),
        lambda: int("cuda:0"),
        lambda: torch.arange(3).backward(),
    ):
        with pytest.raises((RuntimeError, ValueError)) as caught, sd.guard():
            fail()
        assert not hasattr(caught.value, "finding")
        assert not hasattr(caught.value, "__notes__")


def test_interrupts_and_exits_pass():
    for kind in (KeyboardInterrupt, SystemExit):
        with pytest.raises(kind), sd.guard():
            raise kind


def test_an_error_that_cannot_be_looked_at():
    class Odd(RuntimeError):
        def __str__(self):
            raise ZeroDivisionError

    with pytest.raises(Odd), sd.guard():
        raise Odd


def test_a_decorator(model):
    @sd.guard(model)
    def step(ids, factor=1):
        """Doc."""
        return model(ids) * factor

    assert (step.__name__, step.__doc__) == ("step", "Doc.")
    assert step(torch.tensor([1], device="cuda:1"), factor=2).shape == (1, 4)
    with pytest.raises(RuntimeError) as caught:
        step(torch.tensor([1], device="cuda:0"))
    assert caught.value.finding.code == "SD101"


def test_a_decorated_coroutine_and_a_decorated_generator_are_guarded(model):
    @sd.guard(model)
    async def answered(x):
        await asyncio.sleep(0)
        return model(x)

    @sd.guard(model)
    def streamed(x):
        got = yield "first"
        yield model(got if got is not None else x)

    assert inspect.iscoroutinefunction(answered) and inspect.isgeneratorfunction(streamed)
    with pytest.raises(RuntimeError) as raised:
        asyncio.run(answered(torch.tensor([1], device="cuda:0")))
    assert raised.value.finding.code == "SD101"
    values = streamed(None)
    assert next(values) == "first"
    with pytest.raises(RuntimeError) as raised:
        values.send(torch.tensor([1], device="cuda:0"))
    assert raised.value.finding.code == "SD101"


def test_a_generator_that_cannot_be_guarded_is_refused():
    async def values():
        yield 1

    def more():
        yield 1

    with pytest.raises(TypeError, match="async generator"):
        sd.guard()(values)
    with pytest.raises(TypeError, match="record=True"):
        sd.guard(record=True)(more)
    assert list(sd.guard()(more)()) == [1]


def test_the_hook_of_uncaught_exceptions(model, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: shown.append(error))
    before = sys.excepthook
    remove = sd.guard(model).install()
    try:
        fail(model)
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    assert shown[0].finding.code == "SD101"
    remove()
    assert sys.excepthook is before


SCRIPT = """
import sys
import torch
print(sys.argv, __name__)
torch.ones(2) + torch.ones(2, device="meta")
"""


def run_guarded(tmp_path, text, *words):
    (tmp_path / "script.py").write_text(text)
    command = [sys.executable, "-m", "samedevice", "guard", "script.py", *words]
    environment = {"PYTHONPATH": SOURCES, "PATH": "", "LANG": "en_US.UTF-8"}
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command(tmp_path):
    done = run_guarded(tmp_path, SCRIPT, "--flag", "value")
    assert done.stdout == "['script.py', '--flag', 'value'] __main__\n"
    assert done.returncode == 1
    assert "samedevice/cli" not in done.stderr
    assert 'script.py", line 5, in <module>' in done.stderr
    assert "SD102 unmaterialized-weights" in done.stderr


@pytest.mark.parametrize(
    ("text", "status"),
    [("pass", 0), ("raise SystemExit(7)", 7), ("raise ValueError", 1), ("import sys; sys.exit('no')", 1)],
)
def test_the_command_ends_as_python_would(tmp_path, text, status):
    done = run_guarded(tmp_path, text)
    assert done.returncode == status
    assert "SD1" not in done.stderr


def call_guard(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "samedevice", "guard", *words],
        cwd=folder,
        env={"PYTHONPATH": SOURCES, "PATH": "", "LANG": "en_US.UTF-8", CHILDREN: os.environ[CHILDREN]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("words", [["-m", "pkg.mod"], ["A=1", "python", "-Om", "pkg.mod"]])
def test_the_command_takes_a_module(tmp_path, words):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "mod.py").write_text(SCRIPT)
    done = call_guard(tmp_path, *words, "--flag", "-m")
    assert done.stdout == f"['{tmp_path}/pkg/mod.py', '--flag', '-m'] __main__\n"
    assert done.returncode == 1
    assert "SD102 unmaterialized-weights" in done.stderr


@pytest.mark.parametrize(
    "launcher", [["torch.distributed.run"], ["torch.distributed.launch"], ["accelerate.commands.launch"]]
)
def test_each_process_of_a_launcher_is_guarded(tmp_path, launcher):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = call_guard(tmp_path, "python", "-m", *launcher, "script.py", "--flag")
    added = "'--local-rank=0', " if launcher == ["torch.distributed.launch"] else ""
    assert f"['script.py', {added}'--flag'] __main__\n" in done.stdout
    assert done.returncode == 1
    assert "SD102 unmaterialized-weights" in done.stderr


@pytest.mark.parametrize("words", [[], ["torchrun", "--no_python", "ls"], ["torchrun", "missing.py"]])
def test_the_command_refuses(tmp_path, words):
    done = call_guard(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("samedevice: ")
    assert not done.stdout


ON_A_MACHINE = """
import sys
import samedevice as sd
from samedevice.cli._guard import guard_program

with sd.machine("2x24GB"):
    sys.exit(guard_program(("script.py",), None, {language!r}, heal={heal}))
"""
BROKEN = """
import torch

scores = torch.ones(2, 3, device="cuda:0")
for _ in range(2):
    print((scores * torch.arange(3.0)).tolist()[0])
"""


@pytest.mark.parametrize(("heal", "language"), [(False, "en"), (True, "zh")])
def test_the_command_heals_on_request(tmp_path, heal, language):
    (tmp_path / "script.py").write_text(BROKEN)
    command = [sys.executable, "-c", ON_A_MACHINE.format(heal=heal, language=language)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == (0 if heal else 1), done.stderr
    assert done.stdout == "[0.0, 1.0, 2.0]\n" * 2 * heal
    if heal:
        assert done.stderr.count("script.py:6：other cpu -> cuda:0，12 B（") == 1  # noqa: RUF001 # Chinese punctuation
        assert done.stderr.count("\n") == 1
    else:
        assert "SD101 cross-device-operands" in done.stderr


def test_the_command_without_a_script(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", "guard", "missing.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "samedevice: can't open script missing.py: no such file\n")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine without GPUs")
@pytest.mark.parametrize(
    "ask",
    [
        lambda: torch.ones(2).cuda(),
        lambda: torch.nn.Linear(2, 2).to("cuda"),
        lambda: torch.cuda.set_device(0),
    ],
)
def test_a_machine_without_a_gpu_is_said_to_be_one(ask):
    with pytest.raises(Exception) as caught:  # an AssertionError or an AttributeError, as torch was built
        ask()
    (finding,) = sd.explain(caught.value)
    assert (finding.cause, finding.confidence) == ("hardware-or-driver", "certain")
    assert "CUDA" in finding.title or "GPU" in finding.title
    assert not finding.fixes


def raises(x, index):
    if x.device != index.device:
        raise ValueError(f"x and index must be on the same device, got {x.device} and {index.device}")


def asserts(x, index):
    assert x.device == index.device, f"not on the same device, got {x.device} and {index.device}"


@pytest.mark.parametrize("checked", [raises, asserts])
def test_no_change_of_a_check_of_the_program(checked):
    with (
        sd.machine("1x24GB", on_mismatch="raise"),
        pytest.raises((ValueError, AssertionError), match="same device") as caught,
        sd.guard(),
    ):
        checked(torch.ones(2, device="cuda:0"), torch.tensor([0]))
    finding = caught.value.finding
    assert {operand.name for operand in finding.operands} == {"x", "index"}
    assert not any("same device" in (fix.diff or "") for fix in finding.fixes)
