"""The command line and `samedevice.machine` with the real engine."""

from __future__ import annotations

import json
import sys

import pytest

import samedevice as sd
from samedevice.diagnosis import combined
from samedevice.errors import MachineSpecError

SCRIPT = """\
import torch

def join(a, b):
    return a + b

here = torch.ones(3, device="cuda:0")
for _ in range(3):
    total = join(here, torch.ones(3).to("cuda:1"))
print(total.tolist(), torch.cuda.device_count())
"""


def real(shell, *args):
    return shell.call([*shell.real, "run", *args])


def test_all_bugs_of_one_run(shell):
    shell.write("script.py", SCRIPT + "torch.ones(2, device='cuda') @ torch.ones(2)\n")
    got = real(shell, "--json", "out.json", "script.py")
    assert (got.stdout, got.returncode) == ("[2.0, 2.0, 2.0] 2\n", 1), got.stderr
    first, second = json.loads((shell.folder / "out.json").read_text())["findings"]
    assert (first["code"], first["at"]["line"], first["user_at"]["line"], first["count"]) == (
        "SD101",
        4,
        4,
        3,
    )
    assert (second["op"].split(".")[1], second["at"]["line"]) == ("dot", 10)
    assert "  script.py:4 in join      return a + b\n  count    3 times\n" in got.stderr


def test_clean_script(shell):
    shell.write("script.py", "import torch\nprint((torch.ones(2).cuda() + 1).sum().item())\n")
    got = real(shell, "--machine", "1x8GB", "script.py")
    assert (got.stdout, got.returncode) == ("4.0\n", 0), got.stderr


def test_fail_fast_shows_only_the_scripts_frames(shell):
    shell.write("script.py", SCRIPT)
    got = real(shell, "--fail-fast", "script.py")
    assert (got.stdout, got.returncode) == ("", 1)
    assert [line.strip() for line in got.stderr.splitlines() if line.startswith("  File")] == [
        f'File "{shell.folder}/script.py", line 8, in <module>',
        f'File "{shell.folder}/script.py", line 4, in join',
    ]
    assert "RuntimeError: Expected all tensors to be on the same device" in got.stderr
    assert "SD101" in got.stderr


def test_out_of_memory(shell):
    shell.write("script.py", "import torch\ntorch.empty(30 << 30, dtype=torch.uint8, device='cuda:1')\n")
    got = real(shell, "--json", "out.json", "script.py")
    assert got.returncode == 1
    document = json.loads((shell.folder / "out.json").read_text())
    assert document["status"] == "out-of-memory"
    assert [finding["title"] for finding in document["findings"]] == ["30.00 GiB more does not fit on cuda:1"]
    assert "torch.OutOfMemoryError: CUDA out of memory" in got.stderr


def test_out_of_memory_that_the_script_survives(shell):
    shell.write(
        "script.py",
        "import torch\ntry:\n    torch.empty(30 << 30, dtype=torch.uint8, device='cuda')\nexcept "
        "torch.OutOfMemoryError:\n    pass\n",
    )
    got = real(shell, "--json", "out.json", "script.py")
    assert got.returncode == 1
    assert json.loads((shell.folder / "out.json").read_text())["status"] == "completed"


def test_unknown_machine(shell):
    shell.write("script.py", "print('ran')")
    got = real(shell, "--machine", "2xNOTHING", "script.py")
    assert (got.stdout, got.returncode) == ("", 2)
    assert got.stderr.startswith("samedevice: ")
    assert "Traceback" not in got.stderr


def test_machine_records():
    import torch

    with sd.machine("2x24GB", on_mismatch="record") as vm:
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
    assert [finding.title for finding in vm.findings] == ["add got operands on cuda:0 and cuda:1"]
    assert vm.findings[0].at.file == __file__
    assert vm.memory()["cuda:1"].peak_allocated > 0


def test_machine_raises_with_the_finding():
    import torch

    with pytest.raises(RuntimeError, match="found at least two devices") as caught, sd.machine("2x24GB"):
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
    assert caught.value.finding.code == "SD101"
    assert len(caught.value.__notes__) == 1
    assert caught.value.__notes__[0].startswith(
        "SD101 cross-device-operands: add got operands on cuda:0 and cuda:1\n"
    )


def test_other_errors_stay_as_they_are():
    with pytest.raises(ZeroDivisionError) as caught, sd.machine("2x24GB"):
        _ = 1 / 0
    assert not hasattr(caught.value, "finding")
    assert not hasattr(caught.value, "__notes__")


def test_machine_refuses_what_it_cannot_read():
    with pytest.raises(MachineSpecError):
        sd.machine("2xNOTHING")
    with pytest.raises(ValueError, match='"raise" or "record"'):
        sd.machine("2x24GB", on_mismatch="rais")
    assert sd.machine("2x24GB").findings == []


def test_public_names():
    assert sd.__all__ == sorted(sd.__all__)
    assert all(getattr(sd, name) for name in sd.__all__)
    assert set(sd.__all__) <= set(dir(sd))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sd.nothing


def test_a_failure_after_assumed_values_says_so(shell):
    shell.write(
        "assumed.py", 'import torch\nlarge = torch.ones(1 << 20, device="cuda")\nassert large.sum() > 1\n'
    )
    done = shell.call([*shell.real, "run", "assumed.py"])
    assert done.returncode == 3
    assert (
        "samedevice: values that nobody computed were read at assumed.py:3: tensors above "
        "SAMEDEVICE_VALUE_LIMIT" in done.stderr
    )
    shell.write(
        "known.py", 'import torch\nlarge = torch.ones(1 << 10, device="cuda")\nassert large.sum() < 1\n'
    )
    assert "nobody computed" not in shell.call([*shell.real, "run", "known.py"]).stderr


@pytest.mark.parametrize(
    ("statement", "code", "cause"),
    [
        ("numpy.argsort(torch.ones(3, device='cuda'))", "SD143", "numpy-of-gpu-tensor"),
        ("torch.nn.Linear(2, 2).to('cuda:5')", "SD137", "device-ordinal-out-of-range"),
    ],
)
def test_an_error_about_devices_that_ends_the_script_is_a_finding(shell, statement, code, cause):
    shell.write("ends.py", f"import numpy, torch\n{statement}\n")
    done = shell.call([*shell.real, "run", "--json", "out.json", "ends.py"])
    document = json.loads((shell.folder / "out.json").read_text())
    (finding,) = document["findings"]
    assert (done.returncode, document["status"]) == (1, "script-error")
    assert (finding["code"], finding["cause"], finding["at"]["file"] != "") == (code, cause, True)


@pytest.mark.parametrize(
    ("statement", "repaired", "safety"),
    [
        ("y = x.numpy()", "y = x.cpu().numpy()", "safe"),
        ("y = {'a': (x * 2).numpy()}", "y = {'a': (x * 2).cpu().numpy()}", "safe"),
        ("y = w.numpy()", "y = w.detach().cpu().numpy()", "safe"),
        ("y = np.asarray(x)", "y = np.asarray(x.cpu())", "safe"),
        ("y = np.asarray(w, dtype=float)", "y = np.asarray(w.detach().cpu(), dtype=float)", "safe"),
        ("y = np.array(kept)", "y = np.array([each.cpu() for each in kept])", "safe"),
        ("y = np.asarray(of.x)", "y = np.asarray(of.x.cpu())", "check"),
    ],
)
def test_what_numpy_reads_is_brought_to_the_host(shell, statement, repaired, safety):
    head = "import torch\nimport numpy as np\nx = torch.ones(2).cuda()\nw = (x * 1).requires_grad_()\n"
    head += "kept = [x, x]\n\nclass of:\n    x = x\n\ndef read():\n"
    source = f"{head}    {statement}\n\nread()\n"
    shell.write("ends.py", source)
    shell.call([*shell.real, "run", "--json", "out.json", "ends.py"])
    (finding,) = json.loads((shell.folder / "out.json").read_text())["findings"]
    fix = finding["fixes"][0]
    text, refused = combined(source, [fix["diff"]])
    assert (text, refused, fix["safety"]) == (f"{head}    {repaired}\n\nread()\n", {}, safety)
    shell.write("ends.py", text)
    assert shell.call([*shell.real, "run", "ends.py"]).returncode == 0


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2).double().cuda())", True),
        ("raise ValueError('text')", False),
    ],
)
def test_an_error_about_something_else_is_told_apart(shell, statement, said):
    shell.write("ends.py", f"import torch\n{statement}\n")
    done = shell.call([*shell.real, "run", "ends.py"])
    assert done.returncode == 3
    assert ("not a device error: it is about types of numbers; bring both" in done.stderr) == said


@pytest.mark.parametrize(
    "statement", ["raise ValueError('shapes do not match')", "torch.ones(2, 3) @ torch.ones(2)"]
)
def test_another_error_is_none(shell, statement):
    shell.write("ends.py", f"import torch\n{statement}\n")
    done = shell.call([*shell.real, "run", "ends.py"])
    assert done.returncode == 3 and "nothing found" in done.stderr


def test_a_moved_copy_that_is_thrown_away_is_told(shell):
    """No operator fails where everything stays on the host."""
    source = "import torch\nx = torch.ones(2)\n{}\nprint(x.sum().item())\n"
    for line, told in (
        ('x.to("cuda")', True),
        ('x = x.to("cuda")', False),
        ('x.to("cuda")  # samedevice: ignore[SD210] to see that it fits', False),
    ):
        shell.write("script.py", source.format(line))
        got = real(shell, "script.py")
        assert got.returncode == 0
        assert ("script.py:3: x.to('cuda') leaves x where it is" in got.stderr) == told, got.stderr


@pytest.mark.parametrize("last", ["", "raise KeyboardInterrupt"])
def test_values_that_nobody_computed_are_told_also_of_a_script_that_was_interrupted(shell, last):
    source = "import torch\nx = torch.randn(2000, 2000, device='cuda')\nprint((x @ x).sum().item())\n"
    shell.write("script.py", f"{source}{last}\n")
    assert "nobody computed the values that were asked for at script.py:3" in real(shell, "script.py").stderr


def test_the_limit_of_values_is_a_number_or_a_size(shell):
    shell.write("sums.py", 'import torch\nprint(torch.ones(1 << 20, device="cuda").sum().item())\n')
    for limit, printed in (("64MiB", "1048576.0"), (str(8 << 20), "1048576.0"), ("1MiB", "0.5")):
        fresh = [sys.executable, "-m", "samedevice", "run", "sums.py"]  # it is read when torch is loaded
        done = shell.call(fresh, env={"SAMEDEVICE_VALUE_LIMIT": limit})
        assert done.stdout.strip() == printed


@pytest.mark.parametrize("words", [["x.py"], ["torchrun", "--nproc_per_node", "2", "x.py"]])
def test_a_limit_of_values_that_cannot_be_read_is_wrong_usage(shell, words):
    shell.write("x.py", "print(1)\n")
    done = shell.call([*shell.real, "run", *words], env={"SAMEDEVICE_VALUE_LIMIT": "much"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "SAMEDEVICE_VALUE_LIMIT" in done.stderr
