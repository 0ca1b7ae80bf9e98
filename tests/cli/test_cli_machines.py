"""`samedevice machines`: the GPUs by their names."""

from __future__ import annotations

import json

import pytest

from samedevice.machines import gpu_table


def machines(shell, *words, **env):
    return shell.call([*shell.real, "machines", *words], env=env)


def test_all_of_them(shell):
    done = machines(shell)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["--machine", "memory", "capability", "name", "also"]
    assert [line.split()[0] for line in lines[1:-1]] == [gpu.key for gpu in gpu_table()]
    assert lines[-1].startswith(f"{len(gpu_table())} GPUs; ")
    found = json.loads(machines(shell, "--json").stdout)
    assert found["schema"] == 1
    assert found["gpus"] == [gpu.describe() for gpu in gpu_table()]


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("h100", {"H100-80G", "H100-80G-PCIe"}),
        ("NVIDIA A100-SXM4-80GB", {"A100-80G"}),
        ("rtx 3090", {"RTX3090"}),
        ("RTX-PRO-6000-Blackwell", {"RTX-PRO-6000"}),
        ("2x24GB+A100-40G", {"24GB", "A100-40G"}),
        ("A100-[48]0G", {"A100-40G", "A100-80G"}),
    ],
)
def test_by_pattern(shell, pattern, keys):
    found = json.loads(machines(shell, pattern, "--json").stdout)["gpus"]
    assert keys <= {gpu["key"] for gpu in found}
    assert len(found) < 20


def test_few_have_their_source(shell):
    source = next(gpu.source for gpu in gpu_table() if gpu.key == "A100-80G")
    done = machines(shell, "A100-80G")
    assert f"A100-80G: {source}" in done.stdout
    assert " 79.1 GiB " in done.stdout
    assert " 8.0 " in done.stdout


@pytest.mark.parametrize(
    ("pattern", "said"), [("h1000", "did you mean one of these: H100"), ("zzzzz", "no GPU is named zzzzz;")]
)
def test_unknown(shell, pattern, said):
    done = machines(shell, pattern)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_chinese(shell):
    done = machines(shell, "a100", "--lang", "zh")
    assert done.stdout.split()[1:3] == ["显存", "计算能力"]
