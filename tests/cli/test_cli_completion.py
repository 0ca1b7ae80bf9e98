"""What shells are offered: commands, options, machines, codes, and files where nothing is known."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from cli_shell import REAL, environment


def offered(shell, words, kind="bash"):
    """What a shell of this kind gets for the last of `words`."""
    if kind == "bash":
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    else:
        asked = {"_TYPER_COMPLETE_ARGS": " ".join(words), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    got = shell.call(REAL, {"_SAMEDEVICE_COMPLETE": f"complete_{kind}", **asked})
    assert got.stderr == "", got.stderr
    return got.stdout


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
@pytest.mark.sample(3)
def test_machines_and_codes(shell, kind):
    assert "8xA100-80G" in offered(shell, ["samedevice", "run", "--machine", "8xA100-"], kind)
    assert "2xH100-80G+2xA100-40G" in offered(
        shell, ["samedevice", "preflight", "--machine", "2xH100-80G+2xA100-4"], kind
    )
    assert "SD101" in offered(shell, ["samedevice", "explain", "SD10"], kind)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "--output-format", "s"], ["sarif"]),
        (["run", "--launcher", "t"], ["torchrun"]),
        (["run", "--lang", "z"], ["zh"]),
        (["run", "train"], []),
        (["explain", "error"], []),
        (["run", "--machine", "24"], []),
    ],
)
def test_values(shell, words, expected):
    assert offered(shell, ["samedevice", *words]).split() == expected


def test_nothing_heavy_is_imported(shell):
    code = (
        "import sys\nfrom samedevice.cli import main\ntry:\n    main()\nfinally:\n"
        "    print(*sorted({'torch', 'numpy'} & set(sys.modules)), file=sys.stderr)\n"
    )
    asked = {
        "_SAMEDEVICE_COMPLETE": "complete_bash",
        "COMP_WORDS": "samedevice run --machine 8xA",
        "COMP_CWORD": "3",
    }
    got = shell.call([sys.executable, "-c", code], asked)
    assert "8xA100-80G" in got.stdout
    assert got.stderr.strip() == ""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_script_and_completes(shell):
    script = shell.call(
        [*REAL, "--show-completion", "bash"], {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    (shell.folder / "samedevice").write_text(f'#!/bin/sh\nexec {sys.executable} -m samedevice "$@"\n')
    (shell.folder / "samedevice").chmod(0o755)
    text = (
        f"{script.stdout}\nCOMP_WORDS=(samedevice run --machine 4xL4); COMP_CWORD=3\n"
        "_samedevice_completion samedevice 4xL4 --machine\necho ${COMPREPLY[@]}\n"
    )
    path = f"{shell.folder}:/usr/bin:/bin"
    got = subprocess.run(
        ["bash", "-c", text],
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    words = got.stdout.split()
    assert {"4xL4", "4xL40S"} <= set(words) and all(word.startswith("4xL4") for word in words), got
