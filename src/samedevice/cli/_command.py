"""The program that a command line names: by itself, behind Python, or behind a launcher, as people type it.

Must guarantee: what samedevice cannot start as it was typed is refused before anything runs, and what is
passed over is told.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from samedevice.cli._program import Program, find_code, find_module, find_script, find_stdin
from samedevice.errors import UsageError
from samedevice.launchers import Typed, flag_of, is_python, read_typed
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.ranks import needs_package

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_SHELL_FILES = (".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch")


def read_command(words: tuple[str, ...], module: str | None) -> Typed:
    """What words behind our own options name; `module` is that of our own `-m`."""
    typed = read_typed(words) if module is None else read_typed(("python", "-m", module, *words))
    if module is None:
        typed = _installed(typed)
        _refuse_shell(typed)
        _refuse_other_python(typed)
    return typed


def program_of(typed: Typed) -> Program | None:
    """The Python program of a command; None where its launcher starts any other one."""
    match typed.kind:
        case "command":
            return None
        case "module":
            return find_module(typed.program, typed.arguments)
        case "code":
            return find_code(typed.program, typed.arguments)
        case "stdin":
            return find_stdin(typed.arguments)
    return find_script(typed.program, typed.arguments)


def notes_of(typed: Typed) -> list[Phrase]:
    """What of a command has no effect, and what it was run with instead."""
    notes = []
    if typed.environments and not _is_project_environment():
        words = ", ".join(typed.environments)
        notes.append(Phrase("command.environment", command=words, python=sys.executable))
    if others := [word for word in typed.passed_over if word not in typed.environments]:
        notes.append(Phrase("command.passed-over", command=", ".join(others)))
    if not typed.environments and is_python(typed.starter) and (other := _other_python(typed.starter)):
        notes.append(Phrase("command.another-python", word=typed.starter, path=other, python=sys.executable))
    return notes


def launch_typed(typed: Typed, machine: Machine) -> tuple[tuple[str, ...], int]:
    """The command line of a launch as it was typed, and the number of its processes."""
    assert typed.call is not None, "a launcher was typed"
    launcher = typed.call.launcher
    needs_package(launcher)
    from samedevice.preflight import Request, launches_of

    environment = {**os.environ, **typed.environment}
    request = Request(Path(typed.program), machine, environment=environment, command=typed.words)
    launch = launches_of(request)[0]
    nodes = max(launch.nodes, typed.call.nodes)
    if nodes > 1:
        raise UsageError(Phrase("command.several-machines", command=launcher.name, count=nodes))
    words = (sys.executable, *typed.python_options, *typed.words[1:])
    return words, launch.processes


def started_by_us(typed: Typed, module: str, words: Sequence[str] = ()) -> tuple[str, ...]:
    """A launch as it was typed, in which a module of ours starts each rank's program."""
    assert typed.call is not None, "a launcher was typed"
    of_module = () if typed.kind == "module" else (flag_of(typed.call.launcher.options.module),)
    return (
        *(sys.executable, *typed.python_options, "-m"),
        *(*typed.launcher_module, *of_module, *typed.launcher_options),
        *(f"samedevice.cli.{module}", *words, *(() if words else (typed.program,)), *typed.arguments),
    )


def _is_project_environment() -> bool:
    """Whether this Python is that of the project in the current folder."""
    return Path(sys.prefix).resolve() == Path(".venv").resolve()


def _other_python(word: str) -> str:
    """The path of another Python that a word of a shell means; empty where it is this one, or unknown."""
    path = shutil.which(word)
    if path is None or not sys.executable or "shims" in Path(path).parts:  # pyenv, asdf: any of several
        return ""
    folder, own = Path(path).parent.resolve(), Path(sys.executable).parent.resolve()
    return "" if folder == own else path


def _installed(typed: Typed) -> Typed:
    """A command without Python in front that a package installed, as the file behind it."""
    word = typed.program
    if typed.kind != "script" or typed.starter or "/" in word or word in _SHELLS or Path(word).exists():
        return typed
    beside = str(Path(sys.executable).parent)
    path = shutil.which(word, path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)]))
    if path is None:
        if Path(word).suffix:
            return typed
        raise UsageError(Phrase("command.missing", word=word))
    python = _python_of(Path(path))
    if python is None and not _is_shell_script(Path(path)):
        raise UsageError(Phrase("command.no-python", word=word, path=path))
    if python is not None and "/" in python and (other := _other_python(python)):
        raise UsageError(Phrase("command.installed-elsewhere", word=word, path=other, python=sys.executable))
    return replace(typed, program=path)


def _python_of(path: Path) -> str | None:
    """The Python that a file's first lines name: a path, or what `env` is asked for; None without one.

    Where a path is too long for the system, pip has a shell start Python in the second line.
    """
    try:
        with path.open("rb") as file:
            first, second = (os.fsdecode(file.readline(1000)) for _ in range(2))
    except OSError:
        return None
    words = first.removeprefix("#!").replace('"', "").split() if first.startswith("#!") else []
    if second.startswith("'''exec' "):
        words = second.removeprefix("'''exec' ").replace('"', "").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words and is_python(words[0]) else None


def _refuse_other_python(typed: Typed) -> None:
    if "/" in typed.starter and is_python(typed.starter) and (other := _other_python(typed.starter)):
        raise UsageError(Phrase("command.other-python", path=other, python=sys.executable))


def _refuse_shell(typed: Typed) -> None:
    """A shell script does more than start a program: it is named what of it can be run instead."""
    if typed.kind != "script":
        return
    words = (typed.program, *typed.arguments)
    if Path(typed.program).name in _SHELLS and not Path(typed.program).is_file():
        words = tuple(word for word in typed.arguments if not word.startswith("-"))
    elif not _is_shell_script(Path(typed.program)):
        return
    from samedevice.preflight import starts_in

    found = starts_in(Path(words[0])) if words else []
    if not found:
        raise UsageError(Phrase("command.shell", path=words[0] if words else typed.program))
    lines = "".join(f"\n  samedevice run {shlex.join(each)}" for each in found)
    untold = any("..." in word for each in found for word in each)
    key = "command.shell-starts-untold" if untold else "command.shell-starts"
    raise UsageError(Phrase(key, path=words[0], lines=lines))


def _is_shell_script(path: Path) -> bool:
    if path.suffix in _SHELL_FILES:
        return path.is_file()
    if path.suffix or not path.is_file() or _python_of(path) is not None:
        return False
    try:
        with path.open("rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and any(
        os.fsencode(shell) in first.replace(b"/", b" ").split() for shell in _SHELLS
    )
