"""A launch judged before it starts: from its files to findings, a parallel mode, and notes on what could not
be told.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samedevice.diagnosis import rule_named
from samedevice.errors import UsageError
from samedevice.events import Place
from samedevice.findings import SCHEMA, Finding
from samedevice.machines import Machine
from samedevice.messages import Language, say
from samedevice.preflight._files import read_text
from samedevice.preflight._interpreter import Interpreter
from samedevice.preflight._launch import (
    Launch,
    is_accelerate,
    is_deepspeed,
    is_training,
    launch_of_command,
    launch_of_script,
    start_of,
    with_configuration,
    with_training,
)
from samedevice.preflight._manifest import commands_of_document, shell_of_dockerfile, shell_of_makefile
from samedevice.preflight._mode import Mode, mode_of
from samedevice.preflight._process import Process
from samedevice.preflight._refusals import Refusal, refusals
from samedevice.preflight._repairs import fixes_of
from samedevice.preflight._settings import read_documents, read_settings
from samedevice.preflight._shell import UNTOLD, Commands, commands_in
from samedevice.preflight._values import UNKNOWN, Fact

_SHOWN = 6
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


@dataclass(frozen=True, slots=True)
class Judgement:
    """One launch, judged."""

    launch: Launch
    mode: Mode
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    model: Path | None = None
    """The folder that the script loads its first model from, where there is one."""

    def as_json(self, machine: Mapping[str, Any], language: Language) -> dict[str, Any]:
        """The document that `preflight --json` writes."""
        return {
            "schema": SCHEMA,
            "machine": dict(machine),
            "launch": {
                "launcher": self.launch.launcher,
                "script": str(self.launch.script) if self.launch.script is not None else None,
                "processes": self.launch.processes,
                "nodes": self.launch.nodes,
                "visible_devices": list(self.launch.visible),
                "distributed_type": self.launch.distributed_type,
                "zero_stage": self.launch.zero_stage,
            },
            "mode": {"name": self.mode.name, "reason": self.mode.text(language)},
            "findings": [finding.as_json() for finding in self.findings],
            "notes": list(self.notes),
        }


def preflight(request: Request, language: Language = "en") -> tuple[Judgement, ...]:
    """Every launch that the target names, judged; nothing is run, no weight is read, torch is not imported.

    Raises `UsageError` when the target cannot be read as what it claims to be.
    """
    return tuple(_judge(launch, request.machine, language) for launch in _launches(request, language))


def _launches(request: Request, language: Language) -> list[Launch]:
    target, gpus = request.target, len(request.machine.gpus)
    environment = dict(os.environ if request.environment is None else request.environment)
    launcher = request.launcher or "python"
    suffix = target.suffix.lower()
    if suffix == ".py":
        _check_python(target, language)
        if request.configuration is not None and request.launcher is None:
            launcher = (
                "deepspeed" if is_deepspeed(read_settings(request.configuration, language)) else "accelerate"
            )
        elif launcher == "python" and (request.configuration is not None or (request.processes or 1) > 1):
            raise UsageError(
                say(
                    "preflight.needs-launcher",
                    language,
                    option="--config" if request.configuration is not None else "--nproc",
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
            language,
        )
        return [made]
    if suffix in (".yaml", ".yml", ".json"):
        if (manifest := _of_manifest(request, language)) is not None:
            return manifest
        return [_of_settings(request, launcher, gpus, environment, language)]
    source = read_text(target, language)
    if target.name.lower() in ("makefile", "gnumakefile") or suffix == ".mk":
        source, suffix = shell_of_makefile(source), ".sh"
    elif target.name.lower() in ("dockerfile", "containerfile") or suffix == ".dockerfile":
        source, suffix = shell_of_dockerfile(source), ".sh"
    if request.configuration is not None:
        raise UsageError(say("preflight.own-configuration", language, path=target))
    if suffix in _SHELL or source.startswith("#!") or suffix == "":
        kept = {name: value for name, value in environment.items() if name == "CUDA_VISIBLE_DEVICES"}
        return _of_commands(commands_in(source, target, gpus, kept), request, language)
    raise UsageError(say("preflight.unknown-kind", language, path=target))


def _of_commands(commands: Commands, request: Request, language: Language) -> list[Launch]:
    """The launches among commands; what starts something that cannot be read is said with the first."""
    target, found = request.target, []
    unread = [f"{file.name}:{line} {words}" for file, line, words in commands.unread]
    for command in commands.found:
        launch = None
        for folder in (target.resolve().parent, Path.cwd(), *target.resolve().parents[1:3]):
            launch = launch_of_command(command, folder, len(request.machine.gpus), language)
            if (
                launch is not None
                and (launch.script is not None or launch.tool is not None)
                and not launch.missing
            ):
                break
        if launch is not None and launch.missing:
            raise UsageError(say("preflight.no-file", language, path=launch.missing))
        if launch is not None:
            found.append(
                replace(launch, asked=launch.asked if launch.asked is not None else request.processes)
            )
        elif start_of(command.words) is not None:
            unread.append(f"{target.name}:{command.line} {' '.join(command.words[:8])}")
    if not found:
        key = "preflight.only-unread" if unread else "preflight.no-launch"
        raise UsageError(say(key, language, path=target, commands="; ".join(unread[:_SHOWN])))
    return [replace(found[0], unread=tuple(unread)), *found[1:]]


def _of_manifest(request: Request, language: Language) -> list[Launch] | None:
    """The launches in a document that holds commands; None for one that holds settings, which is read as
    such.
    """
    documents, lines = read_documents(request.target, language)
    commands = commands_of_document(documents, request.target, lines, len(request.machine.gpus))
    if not commands.unread and not any(start_of(each.words) is not None for each in commands.found):
        return None
    return _of_commands(commands, request, language)


def _of_settings(
    request: Request, launcher: str, gpus: int, environment: Mapping[str, str], language: Language
) -> Launch:
    settings = read_settings(request.target, language)
    named = request.launcher
    if named is None and (is_accelerate(settings) or is_deepspeed(settings)):
        launcher = "accelerate" if is_accelerate(settings) else "deepspeed"
    launch = launch_of_script(
        None,
        launcher,
        request.processes,
        request.arguments,
        gpus,
        environment,
        request.configuration,
        language,
    )
    if is_accelerate(settings) or is_deepspeed(settings):
        launch = with_configuration(launch, settings, request.processes, language)
        return replace(launch, distributed_type="DEEPSPEED") if is_deepspeed(settings) else launch
    if not is_training(settings):
        raise UsageError(say("preflight.no-training", language, path=request.target))
    if named is None:
        launch = replace(launch, launcher="torchrun", processes=request.processes or max(1, gpus))
    return with_training(launch, settings, Path.cwd(), language)


def _check_python(path: Path, language: Language) -> None:
    source = read_text(path, language)
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise UsageError(
            say("preflight.broken", language, path=path, line=error.lineno or 1, reason=error.msg)
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(
            say("preflight.broken", language, path=path, line=1, reason=type(error).__name__)
        ) from None


def _judge(launch: Launch, machine: Machine, language: Language) -> Judgement:
    ranks = _read_ranks(launch)
    if (again := _launched_by_itself(launch, ranks)) is not None:
        launch, ranks = again, _read_ranks(again)
    found = refusals(launch, ranks)
    facts = ranks[-1] if ranks else []
    findings = tuple(_finding(each, launch, language) for each in found)
    mode = mode_of(launch, facts)
    notes = _notes(launch, machine, facts, language)
    if mode.name == "independent" and any(fact.kind == "optimizer" for fact in facts):
        notes.append(say("preflight.alone", language))
    return Judgement(launch, mode, findings, tuple(notes), _model(facts))


def _read_ranks(launch: Launch) -> list[list[Fact]]:
    """The facts of the first and of the last rank."""
    if launch.script is None:
        return []
    last = max(0, len(launch.visible) - 1)
    ranks = [
        _read(launch, min(rank, last), launch.script) for rank in sorted({0, max(0, launch.processes - 1)})
    ]
    if launch.processes == 1 and launch.distributed_type != "DEEPSPEED" and not launch.cluster:
        ranks.append(_read(launch, 0, launch.script, last=True))
    return ranks


def _launched_by_itself(launch: Launch, ranks: Sequence[Sequence[Fact]]) -> Launch | None:
    """The launch that Lightning makes of a script which plain Python starts; None when it does not."""
    if launch.launcher != "python" or launch.cluster or not ranks:
        return None
    asked = next((fact for fact in ranks[0] if fact.kind == "lightning" and not fact.maybe), None)
    if asked is None or (asked["count"] or 1) * asked["nodes"] < 2:
        return None
    return replace(launch, launcher="lightning", processes=asked["count"] or 1, nodes=asked["nodes"])


def _model(facts: Sequence[Fact]) -> Path | None:
    for fact in facts:
        name = fact["name"]
        if fact.kind == "load" and isinstance(name, str) and (Path(name) / "config.json").is_file():
            return Path(name)
    return None


def _read(launch: Launch, rank: int, script: Path, last: bool = False) -> list[Fact]:
    """The facts of one rank; `last` reads a script that starts processes itself as the last of them."""
    process = Process(launch, rank)
    process.rank_is_last = process.rank_is_last or last
    interpreter = Interpreter(process)
    return interpreter.run(script, Path.cwd() if launch.module else None)


def _finding(refusal: Refusal, launch: Launch, language: Language) -> Finding:
    rule = rule_named(refusal.rule)
    key, values = refusal.reason
    place = Place(str(refusal.file), refusal.line, _function(refusal), _code(refusal))
    return Finding(
        code=rule.code,
        cause=rule.name,
        confidence="certain",
        title=rule.title.zh if language == "zh" else rule.title.en,
        message=None,
        op=None,
        at=place,
        user_at=place,
        module=None,
        fixes=fixes_of(refusal, launch, language),
        reasons=(say(f"because.{key}", language, **values),),
        cure=rule.cure.zh if language == "zh" else rule.cure.en,
    )


def _function(refusal: Refusal) -> str:
    if refusal.file.suffix != ".py" or refusal.node is None:
        return ""
    try:
        tree = ast.parse(refusal.file.read_text("utf-8-sig"))
    except (OSError, ValueError, SyntaxError):
        return ""
    name = "<module>"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= refusal.line <= (
            node.end_lineno or 0
        ):
            name = node.name
    return name


def _code(refusal: Refusal) -> str:
    if refusal.line < 1:
        return ""
    try:
        lines = refusal.file.read_text("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return ""
    return lines[refusal.line - 1].strip() if refusal.line <= len(lines) else ""


def _notes(launch: Launch, machine: Machine, facts: Sequence[Fact], language: Language) -> list[str]:
    notes = []
    seen = [machine.gpus[index] for index in launch.visible if index < len(machine.gpus)]
    kinds = sorted({gpu.key for gpu in seen})
    if len(kinds) > 1 and launch.group > 1:
        least = min(seen, key=lambda gpu: gpu.total_memory)
        notes.append(say("preflight.unlike", language, kinds=", ".join(kinds), least=least.key))
    if launch.hidden:
        notes.append(say("preflight.visible-untold", language))
    for fact in facts:
        where = f"{fact.file.name}:{getattr(fact.node, 'lineno', 0)}"
        if fact.kind == "load" and fact["map"] is UNKNOWN:
            notes.append(say("preflight.map-untold", language, where=where))
        elif fact.kind == "load" and fact.maybe and fact["placement"].kind == "split" and launch.group > 1:
            notes.append(say("preflight.maybe-map", language, where=where))
    if launch.script is None and launch.tool is None and launch.words:
        notes.append(say("preflight.no-script", language, words=" ".join(launch.words[:6])))
    if launch.script is not None and not facts:
        notes.append(say("preflight.no-facts", language, script=launch.script.name))
    if launch.unread:
        notes.append(say("preflight.unread", language, commands="; ".join(launch.unread[:_SHOWN])))
    notes = [note.replace(UNTOLD, "...") for note in notes]
    return list(dict.fromkeys(notes))
