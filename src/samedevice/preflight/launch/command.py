"""A launch from a command line, read as its launcher reads it.

That is also how many tasks `srun` and `mpirun` make of it. Options that do not bear on placement are passed
over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from samedevice.launchers import (
    PYTHON,
    TORCHRUN,
    Launcher,
    LauncherCall,
    is_python,
    launcher_at,
    options_of,
    starter_of_tasks,
)
from samedevice.preflight.launch.configuration import (
    beside,
    is_deepspeed,
    with_arguments,
    with_configuration,
    with_deepspeed_file,
)
from samedevice.preflight.launch.launch import Launch, visible_of
from samedevice.preflight.launch.shell import Command
from samedevice.preflight.launch.tools import TOOLS, Tool
from samedevice.static import UNTOLD, Origin, Text, read_document

_TAKES_VARIABLE = ("env", "-e", "--env", "-x", "")
_NO_WRAPPERS = frozenset(
    "echo printf pip pip3 cat cp mv rm ls cd mkdir which type grep sed awk touch chmod git wget curl tar "
    "kill pkill ps alias trap test [ [["
    " apt apt-get tee head tail sleep wait set shift return exit module pushd popd true false find ln".split()
)
"""Commands that start none of the programs they name."""


def launch_of_command(command: Command, folder: Path, gpus: int) -> Launch | None:
    """The launch that a command starts; None when it starts nothing of ours."""
    start = start_of(command.words)
    if start is None:
        return None
    before, words = command.words[:start], list(command.words[start:])
    environment = dict(command.environment)
    for previous, word in pairwise(("", *before)):
        if previous in _TAKES_VARIABLE and (given := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word)):
            environment[given[1]] = given[2]
    shown = environment.get("CUDA_VISIBLE_DEVICES")
    visible = visible_of(shown, gpus)
    if shown is None and command.slurm.get("gpus", "").isdigit():
        visible = visible[: int(command.slurm["gpus"])]
    origin = words[0].origin if words else None
    base = Launch(
        PYTHON,
        1,
        visible,
        environment=environment,
        origin=origin,
        words=command.words,
        unexported=command.unexported,
    )
    base = replace(base, hidden=UNTOLD in (shown or ""))
    if _clustered(command):
        base = replace(base, cluster=True)
    launch = _started(base, words, folder)
    return _in_tasks(launch, before, command.slurm) if launch is not None else None


def start_of(words: Sequence[str]) -> int | None:
    """Where in a command the program stands that starts Python.

    First, or behind what only wraps it (`srun`, `uv run`, `timeout 60`).
    """
    for position, word in enumerate(words):
        name, behind = Path(word).name, words[position + 1 : position + 2]
        if launcher_at(words[position:]) is not None or (name in TOOLS and behind):
            return position
        if (
            is_python(word)
            and behind
            and (not position or behind[0].startswith("-") or behind[0].endswith(".py"))
        ):
            return position
        if (
            word.endswith(".py")
            and not word.startswith("-")
            and (not position or "run" in words[:position] or name == word[2:])
        ):
            return position
        if not position and name in _NO_WRAPPERS:
            return None
    return None


def _started(base: Launch, words: list[Text], folder: Path) -> Launch | None:
    """The launch that a command starts whose first word is the program."""
    if is_python(words[0]):
        rest = words[1:]
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
            rest = rest[2:] if rest[0] in ("-W", "-X") else rest[1:]
        if rest[:1] == ["-m"] and len(rest) > 1:
            if (found := launcher_at(rest[1:], module=True)) is not None:
                return _launched(base, found[0], rest[1 + found[1] :], folder)
            return _program(base, rest[1:], folder, module=True)
        if rest[:1] in (["-c"], ["-"]) or not rest:
            return None
        return _program(base, rest, folder)
    if (found := launcher_at(words)) is not None:
        return _launched(base, found[0], words[found[1] :], folder)
    name = Path(words[0]).name
    if name in TOOLS:
        return _tool(base, TOOLS[name], words[1:], folder)
    return _program(base, words, folder) if name.endswith(".py") else None


def _launched(base: Launch, launcher: Launcher, words: list[Text], folder: Path) -> Launch | None:
    """The launch that a launcher makes of the words behind its name."""
    call = options_of(launcher, words)
    if call is None:
        return None
    if launcher.reads_configuration:
        launch = _configured(replace(base, launcher=launcher), call, folder)
        launch = replace(launch, visible=call.gpus(launch.visible))
    else:
        visible = call.gpus(base.visible)
        asked = call.processes(len(visible))
        on_each_gpu = max(1, len(visible)) if launcher.each_gpu or call.counts else 1
        launch = replace(
            base,
            launcher=launcher,
            processes=asked or on_each_gpu,
            nodes=call.nodes,
            asked=asked,
            visible=visible,
            distributed_type=launcher.distributed_type,
        )
    module = call.flag(*launcher.options.module)
    return _program(launch, call.program, folder, module=module)


def _configured(base: Launch, call: LauncherCall[Text], folder: Path) -> Launch:
    """The launch of a launcher that reads accelerate's configuration."""
    asked = call.processes(len(base.visible))
    launch = replace(base, asked=asked)
    file = call.value(call.launcher.options.configuration)
    path = beside(folder, file) if file is not None else None
    if path is not None:
        launch = with_configuration(launch, read_document(path), asked)
    elif file is not None:
        launch = replace(launch, missing=str(file))
    else:
        several = len(base.visible) > 1 and asked != 1 and not call.flag("cpu")
        launch = replace(
            launch,
            processes=asked or (len(base.visible) if several else 1),
            distributed_type="MULTI_GPU" if several else "NO",
        )
    for flag, kind in call.launcher.options.types:
        if call.flag(flag):
            launch = replace(launch, distributed_type=kind)
    if asked is not None:
        launch = replace(launch, processes=max(1, asked // launch.nodes))
    stage = call.value("zero_stage")
    if stage is not None and stage.isdigit():
        launch = replace(launch, zero_stage=int(stage))
    elif launch.distributed_type == "DEEPSPEED" and launch.zero_stage is None:
        launch = replace(launch, zero_stage=2)
    if (deepspeed := call.value("deepspeed_config_file")) is not None:
        launch = with_deepspeed_file(launch, deepspeed, folder)
    return launch


def _in_tasks(launch: Launch, before: Sequence[Text], slurm: Mapping[str, str]) -> Launch:
    """The launch in as many tasks as `srun` or `mpirun` makes of it."""
    starter = starter_of_tasks(before)
    if starter is None or launch.launcher.starts:
        return launch
    launcher, position = starter
    spelled = launcher.tasks
    assert spelled is not None, "it starts tasks"
    given = list(before[position + 1 :])
    per_node = _given(given, spelled.per_node) or _digits(slurm.get("SLURM_NTASKS_PER_NODE"))
    total = _given(given, spelled.total) or _digits(slurm.get("SLURM_NTASKS"))
    nodes = _given(given, spelled.nodes) or _digits(slurm.get("SLURM_NNODES")) or 1
    if per_node and total and nodes == 1:
        nodes = max(1, total // per_node)
    tasks = per_node or (max(1, total // nodes) if total else 1)
    visible = launch.visible
    if each := _given(given, spelled.gpus_each) or _digits(slurm.get("SLURM_GPUS_PER_TASK")):
        visible = visible[: each * tasks]
    if tasks * nodes < 2:
        return launch
    return replace(launch, launcher=launcher, processes=tasks, nodes=nodes, asked=tasks, visible=visible)


def _given(words: Sequence[str], spellings: Sequence[str]) -> int | None:
    for position, word in enumerate(words):
        head, _, value = word.partition("=")
        if head in spellings:
            return _digits(value or next(iter(words[position + 1 : position + 2]), ""))
        short = next(
            (each for each in spellings if len(each) == 2 and word.startswith(each) and word[2:].isdigit()),
            None,
        )
        if short is not None:
            return int(word[2:])
    return None


def _digits(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and int(text) > 0 else None


def launch_of_script(
    script: Path | None,
    launcher: Launcher,
    processes: int | None,
    arguments: Sequence[str],
    gpus: int,
    environment: Mapping[str, str],
    configuration: Path | None,
) -> Launch:
    """The launch of a Python file by a launcher that the caller names."""
    words = tuple(Text(word, Origin(Path("-"), 1, kind="argument")) for word in arguments)
    kept = {name: value for name, value in environment.items() if name == "CUDA_VISIBLE_DEVICES"}
    visible = visible_of(kept.get("CUDA_VISIBLE_DEVICES"), gpus)
    launch = Launch(launcher, 1, visible, script, words, environment=kept, asked=processes)
    if not launcher.starts:
        return with_arguments(replace(launch, processes=1), Path.cwd())
    launch = replace(launch, processes=processes or len(visible) or 1)
    if configuration is not None:
        settings = read_document(configuration)
        launch = with_configuration(launch, settings, processes)
        launch = replace(launch, distributed_type="DEEPSPEED") if is_deepspeed(settings) else launch
    elif launcher.reads_configuration:
        launch = replace(launch, distributed_type="MULTI_GPU" if launch.processes > 1 else "NO")
    return with_arguments(launch, Path.cwd())


def _clustered(command: Command) -> bool:
    """The script asks the environment for ranks that it never sets.

    A cluster gives them, to the program as well.
    """
    return any(name in command.used and name not in command.unexported for name in ("RANK", "WORLD_SIZE"))


def _tool(base: Launch, tool: Tool, words: list[Text], folder: Path) -> Launch | None:
    """The launch of an installed program for training."""
    if not words or words[0] not in tool.verbs:
        return None
    count = base.environment.get("NPROC_PER_NODE")
    asked = int(count) if count and count.isdigit() else None
    several = asked if asked is not None else len(base.visible) if tool.starts_processes else 1
    launcher = TORCHRUN if several > 1 else PYTHON
    kind = "MULTI_GPU" if several > 1 else "NO"
    launch = replace(
        base,
        launcher=launcher,
        processes=several,
        asked=asked,
        tool=tool,
        arguments=tuple(words[1:]),
        distributed_type=kind,
    )
    return with_arguments(launch, folder)


def _program(base: Launch, words: list[Text], folder: Path, *, module: bool = False) -> Launch | None:
    if not words:
        return None
    name, arguments = words[0], words[1:]
    if module:
        path = beside(folder, name.replace(".", os.sep) + ".py") or beside(
            folder, name.replace(".", os.sep) + "/__main__.py"
        )
    else:
        path = beside(folder, name)
        if path is None and not name.endswith(".py"):
            tool = TOOLS.get(Path(name).name)
            if tool is not None and arguments:
                return with_arguments(replace(base, tool=tool, arguments=tuple(arguments[1:])), folder)
            return None
    return with_arguments(replace(base, script=path, arguments=tuple(arguments), module=module), folder)
