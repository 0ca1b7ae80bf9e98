"""Every claim is a command that is listed with what it claims, its time and its needs, and lists its options
without importing what it runs.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evidence
from evidence.__main__ import listing
from evidence.__main__ import main as entry
from evidence.commands import GROUPS, commands, title

PACKAGE = Path(evidence.__file__).parent
COMMANDS = commands()
HEAVY = ("torch", "transformers", "accelerate", "numpy")


def sources():
    """The package's modules; programs of the zoo and of `cuda-builds` are data."""
    data = {
        PACKAGE / "bugs" / "labelled_programs",
        PACKAGE / "peers" / "cuda_programs",
        PACKAGE / "zoo" / "cases",
    }
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not data.intersection(path.parents)]


def test_every_module_with_a_main_is_a_command():
    mains = {
        path.relative_to(PACKAGE).as_posix()
        for path in sources()
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "main"
    }
    files = {f"{command.module.removeprefix('evidence.').replace('.', '/')}.py" for command in COMMANDS}
    assert mains - {"__main__.py", "peers/torch_tests.py", "peers/pipeline_stand_in.py"} == files
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


def test_every_group_has_a_title():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders == set(GROUPS)
    assert all(title(group).endswith(".") for group in GROUPS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_says_its_claim_time_and_needs(command):
    for text in (command.claim, command.time, command.needs):
        assert text.endswith("."), text
        assert len(text) > len("nothing")
    assert f"  {command.name} " in listing()


def test_a_reader_of_the_listing_may_stop_early():
    process = subprocess.Popen(
        [sys.executable, "-m", "evidence", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait() == 0


def test_help_of_each_command_imports_nothing_heavy():
    """In one process: each command's help, and the heavy modules that were imported after it."""
    code = (
        "import sys\n"
        "from evidence.commands import commands\n"
        "for command in commands():\n"
        "    try:\n"
        "        command.main(['--help'])\n"
        "    except SystemExit as end:\n"
        f"        print('@', command.name, end.code, *[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    ends = [line[2:] for line in done.stdout.splitlines() if line.startswith("@ ")]
    assert ends == [f"{command.name} 0" for command in COMMANDS]
    for command in COMMANDS:
        assert f"usage: python -m evidence {command.name} " in done.stdout
        assert f"Time: {command.time}" in done.stdout


def test_the_entry(capsys):
    assert entry(["--help"]) == 0
    assert capsys.readouterr().out == listing() + "\n"
    assert entry(["zo"]) == 2
    assert "no command 'zo'" in capsys.readouterr().err
    assert entry(["zoo", "--list"]) == 0
    assert "clip-logits-matmul" in capsys.readouterr().out.split()


def test_nothing_changes_the_path_of_imports():
    for path in [*sources(), *PACKAGE.parents[1].glob("tools/*.py")]:
        assert "sys.path" not in path.read_text("utf-8"), path
