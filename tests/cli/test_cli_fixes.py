"""`run --fix`, `--diff` and `--try-fixes`: what is tried, written and printed, on the real engine."""

from __future__ import annotations

import json
import subprocess

import pytest
from cli_shell import environment

BUG = """\
import torch

x = torch.ones(4, device="cuda:1")


def scaled(x):
    return x * torch.linspace(0.0, 1.0, 4)  # scale


print(scaled(x).shape)
"""
MENDED = BUG.replace("4)  # scale", "4, device=x.device)  # scale")


def fix(shell, *words, env=None):
    return shell.call([*shell.real, "run", *words], env)


def test_a_fix_is_tried_and_written_with_its_line_ends(shell):
    path = shell.folder / "train.py"
    path.write_bytes(BUG.replace("\n", "\r\n").encode())
    path.chmod(0o640)
    got = fix(shell, "--fix", "--try-on", "4xA100-80G", "--json", "out.json", "train.py")
    document = json.loads((shell.folder / "out.json").read_text())
    assert document["fixing"]["machines"] == ["2x24GB", "4xA100-80G"]
    assert got.returncode == 0, got.stderr
    assert path.read_bytes() == MENDED.replace("\n", "\r\n").encode(), got.stderr
    assert path.stat().st_mode & 0o777 == 0o640
    (mended,) = document["findings"][0]["fixes"][:1]
    assert (mended["tried"], mended["safety"], mended["file"]) == ("clean", "safe", str(path))
    assert document["fixing"]["changed"] == [str(path)] and document["fixing"]["left"] == 0


def test_after_a_fix_the_status_is_that_of_the_mended_program(shell):
    shell.write("train.py", BUG)
    got = fix(shell, "--fix", "train.py")
    assert got.returncode == 0, got.stderr
    assert "tried: clean" in got.stderr and "with the fixes nothing is found" in got.stderr
    assert fix(shell, "train.py").returncode == 0


def test_a_diff_alone_is_on_standard_output_and_applies(shell):
    shell.write("pkg/train.py", BUG)
    got = fix(shell, "--diff", "pkg/train.py")
    assert got.returncode == 1
    assert got.stdout.startswith("--- a/pkg/train.py\n+++ b/pkg/train.py\n@@ ")
    assert "torch.Size" in got.stderr, "what the script prints goes elsewhere"
    assert (shell.folder / "pkg/train.py").read_text() == BUG, "nothing is written"
    (shell.folder / "fix.diff").write_text(got.stdout)
    for command in (["git", "apply", "--check", "fix.diff"], ["patch", "-p1", "-i", "fix.diff"]):
        done = subprocess.run(command, cwd=shell.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (shell.folder / "pkg/train.py").read_text() == MENDED


COUNTS = BUG + "open('runs.txt', 'a').write('x')\n"


def test_without_a_trial_the_program_runs_once(shell):
    shell.write("train.py", COUNTS)
    got = fix(shell, "--fix", "--no-try", "train.py")
    assert (shell.folder / "runs.txt").read_text() == "x"
    assert got.returncode == 1, "nobody knows whether the mended program is clean"
    assert (shell.folder / "train.py").read_text() == COUNTS.replace(BUG, MENDED)


def test_a_trial_changes_no_file_of_the_program(shell):
    """The second run, with the change, reads its own file from disk and finds what was there before."""
    source = (
        BUG + 'assert ".to(" not in open(__file__).read()\nassert "device=x." not in open(__file__).read()\n'
    )
    shell.write("train.py", source)
    got = fix(shell, "--try-fixes", "--json", "out.json", "train.py")
    document = json.loads((shell.folder / "out.json").read_text())
    assert document["findings"][0]["fixes"][0]["tried"] == "clean", got.stderr
    assert document["fixing"] == {
        "runs": 1,
        "machines": ["2x24GB"],
        "changed": [],
        "left": 0,
        "left_with_patches": 0,
    }
    assert (shell.folder / "train.py").read_text() == source
    assert got.returncode == 1, "the program on disk is as it was"


def test_a_fix_that_ends_the_program_is_told_and_left_out(shell):
    source = BUG + "import inspect\nassert 'device=x' not in inspect.getsource(scaled)\n"
    shell.write("train.py", source)
    got = fix(shell, "--fix", "train.py")
    assert got.returncode == 1, got.stderr
    assert "tried: fails" in got.stderr and "no safe fix to apply" in got.stderr
    assert (shell.folder / "train.py").read_text() == source


def test_a_library_gets_a_patch_and_stays_as_it_is(shell):
    body = "import torch\n\n\ndef scaled(x):\n    return x * torch.linspace(0.0, 1.0, 4)\n"
    library = shell.write("site-packages/scales/__init__.py", body)
    shell.write("app/train.py", "import scales, torch\nscales.scaled(torch.ones(4, device='cuda:1'))\n")
    got = fix(shell, "--fix", "app/train.py", env=_with(shell))
    assert got.returncode == 1, got.stderr
    assert library.read_text() == body
    patch = shell.folder / "samedevice-patches" / "scales.patch"
    assert patch.is_file(), got.stderr
    told = patch.with_suffix(".md").read_text()
    for part in ("## What happens", "samedevice run --machine 2x24GB app/train.py", "cuda:1", "```diff"):
        assert part in told
    done = subprocess.run(
        ["patch", "-p1", "-d", "site-packages", "-i", str(patch)],
        cwd=shell.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert fix(shell, "app/train.py", env=_with(shell)).returncode == 0


def _with(shell):
    return {"PYTHONPATH": f"{environment()['PYTHONPATH']}:{shell.folder / 'site-packages'}"}


def test_fixes_of_a_launched_program_are_tried_on_all_ranks(shell):
    source = (
        "import os, torch\nimport torch.distributed as dist\n\n"
        'rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(rank)\n'
        'dist.init_process_group("nccl")\n\n\n'
        "def scaled(x):\n    return x * torch.linspace(0.0, 1.0, 4)\n\n\n"
        'scaled(torch.ones(4, device=f"cuda:{rank}"))\ndist.destroy_process_group()\n'
    )
    shell.write("train.py", source)
    got = fix(shell, "--fix", "torchrun", "--nproc_per_node", "2", "train.py")
    assert got.returncode == 0, got.stderr
    assert "device=x.device" in (shell.folder / "train.py").read_text()


@pytest.mark.parametrize(
    "words",
    [("--fix", "--diff"), ("--no-try",), ("--try-fixes", "--no-try"), ("--try-on", "4x24GB")],
)
def test_options_that_do_not_go_together_are_refused(shell, words):
    shell.write("train.py", BUG)
    assert fix(shell, *words, "train.py").returncode == 2


def test_a_wrong_machine_to_try_on_is_refused_before_the_program_runs(shell):
    shell.write("train.py", COUNTS)
    got = fix(shell, "--fix", "--try-on", "many", "train.py")
    assert got.returncode == 2 and not (shell.folder / "runs.txt").exists()
