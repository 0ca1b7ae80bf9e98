"""The action, the workflows, the hook, the Dockerfile and the page about CI: they do what they say, and name
only what exists.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML

from samedevice.cli._app import app

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")
REFUSED = "examples/preflight/refused/transformers_31557/launch.sh"
CORRECT = "examples/preflight/correct/trainer_torchrun/launch.sh"
MISMATCH = """
import sys, torch
print(sys.argv[1:])
torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
"""


def loaded(text):
    return YAML(typ="safe").load(text)


ACTION = loaded((ROOT / "action.yml").read_text("utf-8"))
STEPS = ACTION["runs"]["steps"]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def options_of(command):
    return {
        option
        for parameter in typer.main.get_command(app).commands[command].params
        for option in parameter.opts
    }


def step(name, folder, **inputs):
    """Run the shell of one step of the action in `folder`, as GitHub does; its result and its outputs."""
    chosen = next(each for each in STEPS if each.get("name") == name)
    given = {key: value["default"] for key, value in ACTION["inputs"].items()} | inputs
    variables = {
        variable: given[re.fullmatch(r"\$\{\{ inputs\.(\S+) \}\}", text)[1]]
        for variable, text in chosen["env"].items()
    }
    outputs = folder / "outputs.txt"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", chosen["run"]],
        cwd=folder,
        env={
            **os.environ,
            **variables,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_WORKSPACE": str(folder),
            "RUNNER_TEMP": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done, outputs.read_text("utf-8") if outputs.exists() else ""


def check(folder, **inputs):
    return step("Look for device bugs", folder, **inputs)


def test_a_refused_launch_is_annotated_and_fails(tmp_path):
    done, outputs = check(tmp_path, command="preflight", script=str(ROOT / REFUSED), machine="8xA100-80G")
    assert done.returncode == 1
    assert outputs == "status=1\n"
    assert "\n::error " in done.stdout


def test_sources_are_linted(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text('import torch\n\nstate = torch.load("model.pt")\n')
    done, _ = check(tmp_path, command="lint", script=str(bad), machine="2x24GB", args="--select SD205")
    assert done.returncode == 1
    assert "SD205 load-without-map-location" in done.stdout


def test_a_correct_launch_passes_without_an_annotation(tmp_path):
    done, outputs = check(tmp_path, command="preflight", script=str(ROOT / CORRECT), machine="2xA100-80G")
    assert done.returncode == 0, done.stdout + done.stderr
    assert outputs == "status=0\n"
    assert "::error" not in done.stdout


def test_a_script_gets_its_arguments_as_words_and_its_finding_on_its_line(tmp_path):
    (tmp_path / "train.py").write_text(MISMATCH, "utf-8")
    done, outputs = check(tmp_path, script="train.py", args="--name 'two words' $(touch made) `touch made`;")
    assert "['--name', 'two words', '$(touch', 'made)', '`touch', 'made`;']" in done.stdout
    assert re.search(r"::error file=train\.py,line=4\b", done.stdout), done.stdout
    assert outputs == "status=1\n"
    assert not (tmp_path / "made").exists()


def test_no_input_is_read_by_the_shell(tmp_path):
    script = '"; touch made; "$(touch made)'
    done, _ = check(tmp_path, script=script, machine="$(touch made)", baseline="`touch made`")
    assert done.returncode == 2
    assert not (tmp_path / "made").exists()


def test_findings_go_into_a_sarif_file(tmp_path):
    (tmp_path / "train.py").write_text(MISMATCH, "utf-8")
    done, outputs = check(tmp_path, script="train.py", sarif="found.sarif")
    assert outputs == "status=1\n", done.stderr
    assert loaded((tmp_path / "found.sarif").read_text("utf-8"))["version"] == "2.1.0"
    assert "::error" not in done.stdout


def test_tests_run_on_the_machine(tmp_path):
    (tmp_path / "test_two.py").write_text(
        f"def test_two():\n    {MISMATCH.strip().splitlines()[-1]}\n", "utf-8"
    )
    text = (tmp_path / "test_two.py").read_text("utf-8")
    (tmp_path / "test_two.py").write_text(f"import torch\n\n{text}", "utf-8")
    done, outputs = check(tmp_path, command="pytest", script="test_two.py", machine="2x24GB", args="-q")
    assert outputs == "status=1\n", done.stdout + done.stderr
    assert "SD101" in done.stdout
    done, _ = check(
        tmp_path, command="pytest", script="test_two.py", machine="2x24GB", baseline="missing.json"
    )
    assert "there is no baseline" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"command": "sweep"}, "command: 'sweep' is not one of run, preflight, lint, pytest"),
        ({}, "script: run needs one"),
        ({"command": "pytest"}, "machine: pytest needs one"),
        ({"script": "--help"}, "script: '--help' is an option"),
        ({"script": "a.py", "args": "'open"}, "args: No closing quotation"),
    ],
)
def test_a_wrong_input_is_told_as_an_error(tmp_path, inputs, told):
    done, _ = check(tmp_path, **inputs)
    assert done.returncode == 2
    assert f"::error title=samedevice::{told}" in done.stdout


@pytest.mark.parametrize(
    ("inputs", "installed"),
    [
        ({}, [["--index-url", "https://download.pytorch.org/whl/cpu", "torch"], [str(ROOT)]]),
        ({"torch": "pypi"}, [[f"{ROOT}[torch]"]]),
        ({"torch": "none", "command": "pytest"}, [[str(ROOT), "pytest"]]),
        ({"torch": "none", "requirements": "a b.txt"}, [["--requirement", "a b.txt"], [str(ROOT)]]),
    ],
)
def test_what_the_step_installs(tmp_path, inputs, installed):
    (tmp_path / "pip.py").write_text("import sys; print('PIP', *map(repr, sys.argv[1:]))", "utf-8")
    done, _ = step("Install samedevice", tmp_path, **inputs)  # `-m pip` finds the stand-in first
    assert done.returncode == 0, done.stderr
    words = [shlex.split(line)[3:] for line in done.stdout.splitlines() if line.startswith("PIP ")]
    assert words == installed


@pytest.mark.parametrize("path", [ROOT / "action.yml", *WORKFLOWS], ids=lambda path: path.name)
def test_shell_of_a_workflow_has_no_expression_in_it(path):
    jobs = loaded(path.read_text("utf-8"))
    steps = (
        STEPS
        if path.name == "action.yml"
        else [each for job in jobs["jobs"].values() for each in job["steps"]]
    )
    assert any("run" in each or "uses" in each for each in steps)
    assert not [each["run"] for each in steps if "${{" in each.get("run", "")]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_reads_only_unless_a_job_says_why(path):
    assert loaded(path.read_text("utf-8"))["permissions"] == {"contents": "read"}


def test_the_page_is_yaml_that_names_inputs_hooks_and_options_that_exist():
    documents = [loaded(body) for kind, body in BLOCKS if kind == "yaml"]
    assert len(documents) == 4
    used = [
        each
        for document in documents
        for job in document.get("jobs", {}).values()
        for each in job["steps"]
        if "samedevice@" in each["uses"]
    ]
    assert len(used) == 2
    for each in used:
        assert set(each["with"]) <= set(ACTION["inputs"])
    (hook,) = documents[-1]["repos"][0]["hooks"]
    assert hook["id"] in {each["id"] for each in loaded((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    assert {word for word in hook["args"] if word.startswith("-")} <= options_of("preflight")


def test_every_input_of_the_action_is_in_the_table_of_the_page():
    rows = set(
        re.findall(r"^\| `([a-z-]+)` \|", PAGE.partition("| input |")[2].partition("\n\n")[0], re.MULTILINE)
    )
    assert rows == set(ACTION["inputs"])


def test_commands_on_the_page_have_only_options_that_exist():
    lines = [line.strip(" -") for _, body in BLOCKS for line in body.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("samedevice ")]
    assert len(commands) >= 4
    for words in commands:
        program = next(at for at, word in enumerate(words) if word.endswith((".py", ".sh")))
        options = {word for word in words[2:program] if word.startswith("-")}
        assert options <= options_of(words[1]), words


def test_the_dockerfile_copies_what_is_there():
    text = (ROOT / "Dockerfile").read_text("utf-8")
    copied = [word for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert "src/samedevice" in copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
