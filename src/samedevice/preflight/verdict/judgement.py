"""A launch judged before it starts.

From its files to findings, a parallel mode, and notes on what could not be told.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samedevice.diagnosis import rule_named
from samedevice.events import Place
from samedevice.findings import SCHEMA, Finding, Renderer
from samedevice.launchers import LIGHTNING
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.preflight.launch import SHOWN, Launch, Request, launches_of
from samedevice.preflight.verdict.mode import Mode, mode_of
from samedevice.preflight.verdict.refusal import Refusal
from samedevice.preflight.verdict.refusals import refusals
from samedevice.preflight.verdict.repairs import fixes_of
from samedevice.static import UNKNOWN, UNTOLD, Fact, facts_of


@dataclass(frozen=True, slots=True)
class Judgement:
    """One launch, judged."""

    launch: Launch
    mode: Mode
    findings: tuple[Finding[Phrase], ...]
    notes: tuple[Phrase, ...]
    model: Path | None = None
    """The folder that the script loads its first model from, where there is one."""

    def as_json(self, machine: Mapping[str, Any], renderer: Renderer) -> dict[str, Any]:
        """The document that `preflight --json` writes."""
        return {
            "schema": SCHEMA,
            "machine": dict(machine),
            "launch": {
                "launcher": self.launch.launcher.name,
                "script": str(self.launch.script) if self.launch.script is not None else None,
                "processes": self.launch.processes,
                "nodes": self.launch.nodes,
                "visible_devices": list(self.launch.visible),
                "distributed_type": self.launch.distributed_type,
                "zero_stage": self.launch.zero_stage,
            },
            "mode": {"name": self.mode.name, "reason": renderer.text(self.mode.phrase)},
            "findings": [renderer.finding(finding).as_json() for finding in self.findings],
            "notes": [renderer.text(note) for note in self.notes],
        }


def preflight(request: Request) -> tuple[Judgement, ...]:
    """Every launch that the target names, judged; nothing is run, no weight is read, torch is not imported.

    Raises `UsageError` when the target cannot be read as what it claims to be.
    """
    return tuple(_judge(launch, request.machine) for launch in launches_of(request))


def _judge(launch: Launch, machine: Machine) -> Judgement:
    ranks = _read_ranks(launch)
    if (again := _launched_by_itself(launch, ranks)) is not None:
        launch, ranks = again, _read_ranks(again)
    found = refusals(launch, ranks)
    facts = ranks[-1] if ranks else []
    findings = tuple(_finding(each, launch) for each in found)
    mode = mode_of(launch, facts)
    notes = _notes(launch, machine, facts)
    if mode.name == "independent" and any(fact.kind == "optimizer" for fact in facts):
        notes.append(Phrase("preflight.alone"))
    return Judgement(launch, mode, findings, tuple(notes), _model(facts))


def _read_ranks(launch: Launch) -> list[list[Fact]]:
    """The facts of the first and of the last rank."""
    if launch.script is None:
        return []
    script, root = launch.script, Path.cwd() if launch.module else None
    most = max(0, len(launch.visible) - 1)
    ranks = [
        facts_of(launch.start(min(local_rank, most)), script, root)
        for local_rank in sorted({0, max(0, launch.processes - 1)})
    ]
    if launch.processes == 1 and launch.distributed_type != "DEEPSPEED" and not launch.cluster:
        ranks.append(facts_of(launch.start(0, last=True), script, root))
    return ranks


def _launched_by_itself(launch: Launch, ranks: Sequence[Sequence[Fact]]) -> Launch | None:
    """The launch that Lightning makes of a script which plain Python starts; None when it does not."""
    if launch.launcher.starts or launch.cluster or not ranks:
        return None
    asked = next((fact for fact in ranks[0] if fact.kind == "lightning" and not fact.maybe), None)
    if asked is None or (asked["count"] or 1) * asked["nodes"] < 2:
        return None
    return replace(launch, launcher=LIGHTNING, processes=asked["count"] or 1, nodes=asked["nodes"])


def _model(facts: Sequence[Fact]) -> Path | None:
    for fact in facts:
        name = fact["name"]
        if fact.kind == "load" and isinstance(name, str) and (Path(name) / "config.json").is_file():
            return Path(name)
    return None


def _finding(refusal: Refusal, launch: Launch) -> Finding[Phrase]:
    rule = rule_named(refusal.rule)
    place = Place(str(refusal.file), refusal.line, _function(refusal), _code(refusal))
    return Finding(
        code=rule.code,
        cause=rule.name,
        confidence="certain",
        title=rule.phrase("title"),
        message=None,
        op=None,
        at=place,
        user_at=place,
        module=None,
        fixes=fixes_of(refusal, launch),
        reasons=(refusal.reason,),
        cure=rule.phrase("cure"),
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


def _notes(launch: Launch, machine: Machine, facts: Sequence[Fact]) -> list[Phrase]:
    notes = []
    seen = [machine.gpus[index] for index in launch.visible if index < len(machine.gpus)]
    kinds = sorted({gpu.key for gpu in seen})
    if len(kinds) > 1 and launch.group > 1:
        least = min(seen, key=lambda gpu: gpu.total_memory)
        notes.append(Phrase("preflight.unlike", kinds=", ".join(kinds), least=least.key))
    if launch.hidden:
        notes.append(Phrase("preflight.visible-untold"))
    for fact in facts:
        where = f"{fact.file.name}:{getattr(fact.node, 'lineno', 0)}"
        if fact.kind == "load" and fact["map"] is UNKNOWN:
            notes.append(Phrase("preflight.map-untold", where=where))
        elif fact.kind == "load" and fact.maybe and fact["placement"].kind == "split" and launch.group > 1:
            notes.append(Phrase("preflight.maybe-map", where=where))
    if launch.script is None and launch.tool is None and launch.words:
        notes.append(Phrase("preflight.no-script", words=_shown(" ".join(launch.words[:6]))))
    if launch.script is not None and not facts:
        notes.append(Phrase("preflight.no-facts", script=launch.script.name))
    if launch.unread:
        notes.append(Phrase("preflight.unread", commands=_shown("; ".join(launch.unread[:SHOWN]))))
    return list(dict.fromkeys(notes))


def _shown(text: str) -> str:
    return text.replace(UNTOLD, "...")
