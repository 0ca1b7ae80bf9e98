"""`samedevice run` takes what people type: Python, a launcher, assignments, standard input."""

from __future__ import annotations

import os
import sys

import pytest

PROBE = """\
import os, sys
print(sys.argv, repr(sys.path[0]), __name__, "__file__" in globals(), *map(os.environ.get, "AB"))
print(sys.flags.optimize, sys.flags.dont_write_bytecode, sys.warnoptions, hash("x"), sys.stdin.read())
"""
ARGS = ("--json", "-m", "--", "a b")


@pytest.mark.parametrize(
    "words",
    [
        ["python", "probe.py"],
        ["python", "-m", "probe"],
        ["python", "-c", PROBE],
        ["python", "-OB", "-W", "ignore::UserWarning", "probe.py"],
        ["python", "-OBm", "probe"],
        ["A=1", "B=x y", "python", "probe.py"],
        ["env", "A=1", "PYTHONHASHSEED=7", "python", "probe.py"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_the_program_sees_what_python_gives_it(shell, words):
    shell.write("probe.py", PROBE)
    assignments = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("ignore"))
    behind = words[words.index("python") + 1 :]
    if "-c" in words:
        assignments = {}
    theirs = shell.python(*behind, *ARGS, input="piped", env={"PYTHONHASHSEED": "0", **assignments})
    ours = shell.run(*words, *ARGS, input="piped")
    assert theirs.returncode == 0, theirs.stderr
    assert ours.stdout == theirs.stdout
    assert ours.returncode == 0


@pytest.mark.parametrize("words", [["-"], ["python", "-"], ["python", "-u", "-"]])
def test_a_program_on_standard_input(shell, words):
    theirs = shell.python("-", *ARGS, input=PROBE)
    ours = shell.run(*words, *ARGS, input=PROBE)
    assert (ours.stdout, ours.returncode) == (theirs.stdout, 0)


LINES = "import linecache, stand_in\nstand_in.see(); print(linecache.getline(__import__('sys')._getframe()"
LINES += ".f_code.co_filename, 2))\n1 / 0\n"


@pytest.mark.parametrize(("words", "name"), [(["-c", LINES], "<string>"), (["-"], "<stdin>")])
def test_lines_of_text_are_known_to_findings(shell, words, name):
    python = [word.replace("stand_in.see(); ", "") for word in words]
    theirs = shell.python(*python, input=LINES.replace("stand_in.see(); ", ""))
    ours = shell.run("python", *words, input=LINES)
    assert ours.returncode == 1
    assert ours.stdout.startswith("stand_in.see(); print(")
    assert ours.stderr.startswith(theirs.stderr)
    assert f"{name}:2 in <module>" in ours.stderr


def test_what_is_passed_over_is_told(shell):
    shell.write("probe.py", "print('ran')")
    done = shell.run("nohup", "uv", "run", "python", "probe.py")
    assert done.stdout == "ran\n"
    assert f"uv run is passed over: {sys.executable} runs the program" in done.stderr
    assert "nohup: passed over" in done.stderr
    (shell.folder / ".venv").symlink_to(sys.prefix)
    assert "uv run" not in shell.run("uv", "run", "python", "probe.py").stderr


def other_python(shell, folder):
    """A folder with another `python`, first on the PATH."""
    shell.write(f"{folder}/python", "#!/bin/sh\nexit 9\n").chmod(0o755)
    return {"PATH": f"{shell.folder / folder}{os.pathsep}{os.environ['PATH']}"}


def test_another_python(shell):
    shell.write("probe.py", "print('ran')")
    env = other_python(shell, "bin")
    done = shell.run("python", "probe.py", env=env)
    assert done.stdout == "ran\n"
    assert f"python is {shell.folder}/bin/python at the prompt; here {sys.executable}" in done.stderr
    done = shell.run("./bin/python", "probe.py")
    assert done.returncode == 2
    assert "./bin/python is another Python" in done.stderr
    assert not done.stdout
    assert "Python" not in shell.run("python", "probe.py", env=other_python(shell, "shims")).stderr


@pytest.mark.parametrize(
    "first",
    [
        f"#!{sys.executable}\n",
        "#!/usr/bin/env python3\n",
        f"#!/bin/sh\n'''exec' {sys.executable} \"$0\" \"$@\"\n' '''\n",
    ],
    ids=["python", "env", "long path"],
)
def test_a_command_that_a_package_installed(shell, first):
    command = shell.write("bin/some-cli", f"{first}{PROBE}")
    command.chmod(0o755)
    env = {"PATH": f"{shell.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    theirs = shell.python(str(command), *ARGS, input="piped", env=env)
    ours = shell.run("some-cli", *ARGS, input="piped", env=env)
    assert (ours.stdout, ours.returncode) == (theirs.stdout, 0), ours.stderr


def test_a_command_that_is_not_installed_for_this_python(shell):
    env = other_python(shell, "bin")
    shell.write("bin/foreign", f"#!{shell.folder}/bin/python\nprint('ran')\n").chmod(0o755)
    shell.write("bin/machine-code", "\x7fELF").chmod(0o755)
    shell.write("bin/starts", SCRIPT).chmod(0o755)
    for words, said in (
        (["foreign"], f"foreign is run by another Python, {shell.folder}/bin/python, than samedevice"),
        (["machine-code", "--lang"], f"machine-code ({shell.folder}/bin/machine-code) is no Python program"),
        (["starts"], "samedevice run CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --lr 1"),
        (["nowhere-at-all"], "nowhere-at-all is no file, and no command that is installed"),
    ):
        done = shell.run(*words, env=env)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr


SCRIPT = """\
#!/bin/bash
export CUDA_VISIBLE_DEVICES=0,1
pip install -r requirements.txt
N=${1:-2}
torchrun --nproc_per_node $N \\
    train.py --lr 1
"""


@pytest.mark.parametrize("words", [["train.sh"], ["./train.sh"], ["bash", "-x", "train.sh"], ["start"]])
def test_a_shell_script_is_refused_with_what_it_starts(shell, words):
    shell.write("train.sh", SCRIPT)
    shell.write("start", SCRIPT)
    done = shell.run(*words)
    assert done.returncode == 2
    line = "samedevice run CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --lr 1\n"
    assert line in done.stderr


def test_a_shell_script_that_cannot_be_read(shell):
    shell.write("empty.sh", "echo nothing")
    done = shell.run("empty.sh")
    assert done.returncode == 2
    assert "no command in it" in done.stderr
    shell.write("asks.sh", "torchrun --nproc_per_node $(count) train.py")
    done = shell.run("asks.sh", "--lang")
    assert "samedevice run torchrun --nproc_per_node ... train.py" in done.stderr
    assert "the value that the shell has for each ..." in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["torchrun", "--nnodes", "2", "probe.py"], "torchrun is told to use 2 machines"),
        (["accelerate", "launch", "--config_file", "two.yaml", "probe.py"], "told to use 2 machines"),
        (["accelerate", "launch", "--config_file", "no.yaml", "probe.py"], "there is no file no.yaml"),
        (["torchrun", "missing.py"], "can't open script missing.py"),
        (["torchrun", "-m", "nowhere.at.all"], "no module named nowhere.at.all"),
        (["torchrun", "--nproc_per_node", "2"], "names no program to run"),
        (["--launcher", "torchrun", "torchrun", "probe.py"], "--launcher and a command that starts with"),
        (["--launcher", "torchrun", "python", "-c", "pass"], "starts scripts and modules only"),
        (["--ranks", "one", "probe.py"], "--ranks needs a launcher"),
        (["srun", "-n", "2", "probe.py"], "srun starts tasks"),
        (["python", "-E", "probe.py"], "the option -E is not understood"),
        (["python", "missing.py"], "can't open script missing.py"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_refused_before_anything_runs(shell, words, said):
    shell.write("probe.py", "print('ran')")
    shell.write("two.yaml", "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 4\n")
    done = shell.call([*shell.real, "run", *words])
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout
