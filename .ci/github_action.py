"""What the steps of `action.yml` do: install samedevice, and run one of its commands.

Must guarantee: inputs come from variables and go as words to a program; no shell reads them. What is wrong
with an input is told as an error of GitHub's, before anything runs. Standard library only: it runs before
samedevice is there.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

COMMANDS = ("run", "preflight", "lint", "pytest")
TORCH = ("cpu", "pypi", "none")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROOT = Path(__file__).resolve().parents[1]


class WrongInputError(ValueError):
    """An input of the action that says nothing useful."""


def install_commands(given: Mapping[str, str]) -> list[list[str]]:
    """The commands that install torch, what the project requires, and samedevice from this checkout."""
    torch = _one_of("torch", given.get("INPUT_TORCH") or "cpu", TORCH)
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    commands = [[*pip, "--index-url", CPU_INDEX, "torch"]] if torch == "cpu" else []
    if requirements := given.get("INPUT_REQUIREMENTS", ""):
        commands.append([*pip, "--requirement", requirements])
    own = f"{ROOT}[torch]" if torch == "pypi" else str(ROOT)
    tests = ["pytest"] if given.get("INPUT_COMMAND") == "pytest" else []
    return [*commands, [*pip, own, *tests]]


def check_command(given: Mapping[str, str], annotations: Path) -> list[str]:
    """The command that looks for device bugs, as words."""
    command = _one_of("command", given.get("INPUT_COMMAND") or "run", COMMANDS)
    script, machine = given.get("INPUT_SCRIPT", ""), given.get("INPUT_MACHINE", "")
    try:
        arguments = shlex.split(given.get("INPUT_ARGS", ""))
    except ValueError as error:
        raise WrongInputError(f"args: {error}") from None
    if script.startswith("-"):
        raise WrongInputError(f"script: {script!r} is an option; options of the program belong to args")
    baseline = given.get("INPUT_BASELINE", "")
    if command == "pytest":
        if not machine:
            raise WrongInputError("machine: pytest needs one, such as 2x24GB")
        known = [f"--device-baseline={baseline}"] if baseline else []
        where = [script] if script else []
        return [sys.executable, "-m", "pytest", f"--machine={machine}", *known, *arguments, *where]
    if not script:
        raise WrongInputError(f"script: {command} needs one")
    if command == "lint":
        machine = ""  # sources are the same for each
    sarif = given.get("INPUT_SARIF", "")
    form, file = ("sarif", sarif) if sarif else ("github", str(annotations))
    words = [sys.executable, "-m", "samedevice", command, f"--output-format={form}", f"--output-file={file}"]
    words += [f"--{name}={value}" for name, value in (("machine", machine), ("baseline", baseline)) if value]
    if command == "lint":
        return [*words, *arguments, script]
    between = ["--"] if command == "preflight" and arguments else []
    return [*words, script, *between, *arguments]


def install(given: Mapping[str, str]) -> int:
    """Install; the status of what failed."""
    for words in install_commands(given):
        print(f"::group::{shlex.join(words)}", flush=True)
        status = subprocess.run(words, check=False).returncode
        print("::endgroup::", flush=True)
        if status:
            return status
    return 0


def check(given: Mapping[str, str]) -> int:
    """Run the command, show its annotations, and set the output `status`."""
    with tempfile.TemporaryDirectory(dir=given.get("RUNNER_TEMP") or None) as folder:
        annotations = Path(folder) / "annotations.txt"
        words = check_command(given, annotations)
        print(f"$ {shlex.join(words)}", flush=True)
        status = subprocess.run(words, check=False).returncode
        if annotations.is_file():
            print(annotations.read_text(encoding="utf-8"), end="", flush=True)
    if outputs := given.get("GITHUB_OUTPUT"):
        with Path(outputs).open("a", encoding="utf-8") as stream:
            stream.write(f"status={status}\n")
    return status


def main(arguments: Sequence[str]) -> int:
    """`install` or `check`; the exit status."""
    try:
        return {"install": install, "check": check}[arguments[0]](os.environ)
    except WrongInputError as error:
        print(f"::error title=samedevice::{_escaped(str(error))}", flush=True)
        return 2


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise WrongInputError(f"{name}: {value!r} is not one of {', '.join(known)}")
    return value


def _escaped(text: str) -> str:
    """As a workflow command wants its text."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
