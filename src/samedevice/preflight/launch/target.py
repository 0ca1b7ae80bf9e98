"""The launches that a file names.

The file is a Python script, a shell script, a configuration, a document or build file that holds commands.
"""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from samedevice.errors import UsageError
from samedevice.launchers import (
    ACCELERATE,
    DEEPSPEED,
    PYTHON,
    STARTED,
    TORCHRUN,
    Launcher,
    assigned,
    launcher_named,
)
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.preflight.launch.command import launch_of_command, launch_of_script, start_of
from samedevice.preflight.launch.configuration import (
    is_accelerate,
    is_deepspeed,
    is_training,
    with_configuration,
    with_training,
)
from samedevice.preflight.launch.launch import Launch
from samedevice.preflight.launch.manifest import commands_of_document, shell_of_dockerfile, shell_of_makefile
from samedevice.preflight.launch.shell import Commands, command_of, commands_in
from samedevice.static import UNTOLD, Origin, read_document, read_documents, read_text

SHOWN = 6
"""Commands that one note lists."""
_SHELL = (".sh", ".bash", ".slurm", ".sbatch", ".zsh", ".ksh")


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be judged.

    `target` is a Python script, a shell script, a YAML or JSON configuration; `launcher` is `python`,
    `torchrun`, `accelerate` or `deepspeed` and matters where the target does not say so itself; `processes`
    are those per machine.
    """

    target: Path
    machine: Machine
    launcher: str | None = None
    processes: int | None = None
    configuration: Path | None = None
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    command: tuple[str, ...] = ()
    """A command as it was typed, in place of `target`."""


def launches_of(request: Request) -> list[Launch]:
    """The launches that a request names; raises `UsageError` when the target is not what it claims to be."""
    target, gpus = request.target, len(request.machine.gpus)
    environment = dict(os.environ if request.environment is None else request.environment)
    if request.command:
        return _of_typed(request, environment)
    launcher = PYTHON if request.launcher is None else launcher_named(request.launcher)
    suffix = target.suffix.lower()
    if suffix == ".py":
        _check_python(target)
        if request.configuration is not None and request.launcher is None:
            launcher = DEEPSPEED if is_deepspeed(read_document(request.configuration)) else ACCELERATE
        elif not launcher.starts and (request.configuration is not None or (request.processes or 1) > 1):
            raise UsageError(
                Phrase(
                    "preflight.needs-launcher",
                    option="--config" if request.configuration is not None else "--nproc",
                    known=", ".join(STARTED),
                )
            )
        made = launch_of_script(
            target,
            launcher,
            request.processes,
            request.arguments,
            gpus,
            environment,
            request.configuration,
        )
        return [made]
    if suffix in (".yaml", ".yml", ".json"):
        if (manifest := _of_manifest(request)) is not None:
            return manifest
        return [_of_settings(request, launcher, gpus, environment)]
    source = read_text(target)
    if target.name.lower() in ("makefile", "gnumakefile") or suffix == ".mk":
        source, suffix = shell_of_makefile(source), ".sh"
    elif target.name.lower() in ("dockerfile", "containerfile") or suffix == ".dockerfile":
        source, suffix = shell_of_dockerfile(source), ".sh"
    if request.configuration is not None:
        raise UsageError(Phrase("preflight.own-configuration", path=str(target)))
    if suffix in _SHELL or source.startswith("#!") or suffix == "":
        kept = {name: value for name, value in environment.items() if name == "CUDA_VISIBLE_DEVICES"}
        return _of_commands(commands_in(source, target, gpus, kept), request)
    raise UsageError(Phrase("preflight.unknown-kind", path=str(target)))


def _of_commands(commands: Commands, request: Request) -> list[Launch]:
    """The launches among commands; what starts something that cannot be read is said with the first."""
    target, found = request.target, []
    unread = [f"{file.name}:{line} {words}" for file, line, words in commands.unread]
    for command in commands.found:
        launch = None
        for folder in (target.resolve().parent, Path.cwd(), *target.resolve().parents[1:3]):
            launch = launch_of_command(command, folder, len(request.machine.gpus))
            if (
                launch is not None
                and (launch.script is not None or launch.tool is not None)
                and not launch.missing
            ):
                break
        if launch is not None and launch.missing:
            raise UsageError(Phrase("preflight.no-file", path=launch.missing))
        if launch is not None:
            found.append(
                replace(launch, asked=launch.asked if launch.asked is not None else request.processes)
            )
        elif start_of(command.words) is not None:
            unread.append(f"{target.name}:{command.line} {' '.join(command.words[:8])}")
    if not found and unread:
        raise UsageError(
            Phrase("preflight.only-unread", path=str(target), commands="; ".join(unread[:SHOWN]))
        )
    if not found:
        raise UsageError(Phrase("preflight.no-launch", path=str(target)))
    return [replace(found[0], unread=tuple(unread)), *found[1:]]


def _of_typed(request: Request, environment: Mapping[str, str]) -> list[Launch]:
    """The launch that a typed command names, with what stands in front of it."""
    if request.configuration is not None:
        raise UsageError(Phrase("preflight.own-configuration", path=shlex.join(request.command)))
    words = list(request.command)
    kept = {name: value for name, value in environment.items() if name == "CUDA_VISIBLE_DEVICES"}
    while words and (assignment := assigned(words[0])) is not None:
        kept[assignment[0]] = assignment[1]
        words = words[1:]
    if not words:
        raise UsageError(Phrase("command.no-program", command=" ".join(request.command)))
    origin = Origin(Path("-"), 1, kind="argument")
    launches = _of_commands(command_of(words, kept, origin, len(request.machine.gpus)), request)
    if all(launch.script is None and launch.tool is None and not launch.module for launch in launches):
        raise UsageError(Phrase("preflight.no-launch", path=shlex.join(request.command)))
    return launches


def starts_in(script: Path) -> list[tuple[str, ...]]:
    """The commands of a shell script that start a Python program, as they would be typed.

    `...` stands for what only a run would tell.
    """
    try:
        source = read_text(script)
    except UsageError:
        return []
    found = []
    for command in commands_in(source, script, 1, {}).found:
        if (start := start_of(command.words)) is not None:
            own = {name: value for name, value in command.environment.items() if name not in command.slurm}
            words = (*(f"{name}={value}" for name, value in own.items()), *command.words[start:])
            found.append(tuple(word.replace(UNTOLD, "...") for word in words))
    return found


def _of_manifest(request: Request) -> list[Launch] | None:
    """The launches in a document that holds commands.

    None for one that holds settings, which is read as such.
    """
    documents = read_documents(request.target)
    commands = commands_of_document(documents, request.target, len(request.machine.gpus))
    if not commands.unread and not any(start_of(each.words) is not None for each in commands.found):
        return None
    return _of_commands(commands, request)


def _of_settings(request: Request, launcher: Launcher, gpus: int, environment: Mapping[str, str]) -> Launch:
    settings = read_document(request.target)
    named = request.launcher
    if named is None and (is_accelerate(settings) or is_deepspeed(settings)):
        launcher = ACCELERATE if is_accelerate(settings) else DEEPSPEED
    launch = launch_of_script(
        None,
        launcher,
        request.processes,
        request.arguments,
        gpus,
        environment,
        request.configuration,
    )
    if is_accelerate(settings) or is_deepspeed(settings):
        launch = with_configuration(launch, settings, request.processes)
        return replace(launch, distributed_type="DEEPSPEED") if is_deepspeed(settings) else launch
    if not is_training(settings):
        raise UsageError(Phrase("preflight.no-training", path=str(request.target)))
    if named is None:
        launch = replace(launch, launcher=TORCHRUN, processes=request.processes or max(1, gpus))
    return with_training(launch, settings, Path.cwd())


def _check_python(path: Path) -> None:
    source = read_text(path)
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise UsageError(
            Phrase("preflight.broken", path=str(path), line=error.lineno or 1, reason=error.msg)
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(
            Phrase("preflight.broken", path=str(path), line=1, reason=type(error).__name__)
        ) from None
