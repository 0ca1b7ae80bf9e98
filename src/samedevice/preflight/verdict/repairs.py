"""Diffs that repair a refused launch: of the script, of a shell script, of a configuration."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

from samedevice.diagnosis.fixes import (
    RANK_MAP,
    Script,
    file_diff,
    lifted,
    lines_of,
    moved,
    reduced,
    script_diff,
    swapped,
    with_import,
    with_keyword,
    with_line_before,
)
from samedevice.findings import Fix
from samedevice.launchers import LAUNCHERS
from samedevice.messages import Phrase
from samedevice.preflight.launch import Launch
from samedevice.preflight.verdict.refusal import Refusal
from samedevice.static import UNTOLD, Origin, Table, Text

_COUNTS = (
    *(
        f"{spelled}[= ]"
        for launcher in LAUNCHERS
        for name in (*launcher.options.processes, *launcher.options.all_processes)
        for spelled in dict.fromkeys((name, name.replace("_", "-")))
    ),
    "num_processes: ",
    "NPROC_PER_NODE=",
)
"""Where launchers and their files have the number of processes."""


def fixes_of(refusal: Refusal, launch: Launch) -> tuple[Fix[Phrase], ...]:
    """What repairs a refusal; a fix without a diff where the place to change is not at hand."""
    script = Script.read(str(refusal.file)) if refusal.file.suffix == ".py" else None
    repair = _REPAIRS.get(refusal.repair)
    return tuple(repair(refusal, launch, script)) if repair is not None else ()


def _rank_map(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    found = [Fix(Phrase("fix.rank-map"), "check", _swap_map(refusal, script, RANK_MAP))]
    if launch.launcher.in_front:
        found.append(Fix(Phrase("fix.one-process"), "check"))
    return found


def _no_map(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    return [Fix(Phrase("fix.no-map"), "safe", _swap_map(refusal, script, "None"))]


def _swap_map(refusal: Refusal, script: Script | None, text: str) -> str | None:
    """The map changed where it is written, or where it is passed."""
    value = refusal.fact["map"] if refusal.fact is not None else None
    origin: Origin | None = value.origin if isinstance(value, (Text, Table)) else None
    keyword = _keyword(refusal.node, "device_map")
    node = keyword
    if node is None or (isinstance(node, ast.Name) and origin is not None and origin.kind == "python"):
        node = origin.node if origin is not None and origin.kind == "python" else node
        if node is not None and node is not keyword and origin is not None:
            script = Script.read(str(origin.file))
    if node is None and script is not None and isinstance(refusal.node, ast.Call) and text == "None":
        return None
    if script is None or node is None:
        return None
    changed = swapped(script, node, text)
    return script_diff(script, with_import(changed, "os") if text == RANK_MAP else changed)


def _keyword(node: ast.AST | None, name: str) -> ast.expr | None:
    if isinstance(node, ast.Call):
        return next((each.value for each in node.keywords if each.arg == name), None)
    return None


def _no_low_memory(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    node = _keyword(refusal.node, "low_cpu_mem_usage")
    diff = (
        script_diff(script, swapped(script, node, "False"))
        if script is not None and node is not None
        else None
    )
    return [Fix(Phrase("fix.no-low-memory"), "safe", diff)]


def _unwrap(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    node, diff = refusal.node, None
    if script is not None and isinstance(node, ast.Call):
        inner = node.args[0] if node.args else _keyword(node, "module")
        if inner is not None:
            diff = script_diff(script, reduced(script, node, inner))
    return [Fix(Phrase("fix.unwrap"), "safe", diff)]


def _no_move(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    node, diff = refusal.node, None
    if script is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        diff = script_diff(script, reduced(script, node, node.func.value))
    return [Fix(Phrase("fix.no-move", where=f"{refusal.file.name}:{refusal.line}"), "safe", diff)]


def _set_device(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    diff = None
    started = refusal.detail.get("started") or ()
    anchors = [fact.node for fact in started if fact.file == refusal.file] or [refusal.node]
    anchor = script.around(anchors[0]) if script is not None and anchors[0] is not None else None
    if script is not None and anchor is not None:
        added = 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'
        changed = with_line_before(script, anchor, added)
        diff = script_diff(script, with_import(with_import(changed, "os"), "torch"))
    return [Fix(Phrase("fix.set-device"), "safe", diff)]


def _rank_device(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    node, diff = refusal.node, None
    if (
        script is not None
        and isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ):
        changed = swapped(script, node.args[0], """f"cuda:{os.environ['LOCAL_RANK']}\"""")
        diff = script_diff(script, with_import(changed, "os"))
    return [Fix(Phrase("fix.rank-device"), "check", diff)]


def _move_first(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    """The later move's line, brought up before the earlier statement."""
    diff = None
    move = refusal.detail.get("move")
    if script is not None and move is not None and move.file == refusal.file:
        early, late = (
            script.around(each) if each is not None else None for each in (refusal.node, move.node)
        )
        if early is not None and late is not None and script.beside(early, late):
            diff = script_diff(script, lifted(script, [late], early))
    return [Fix(Phrase("fix.move-first"), "safe", diff)]


def _map_location(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    diff = None
    if script is not None and isinstance(refusal.node, ast.Call):
        diff = script_diff(script, with_keyword(script, refusal.node, "map_location", '"cpu"'))
    return [Fix(Phrase("fix.map-location", device="cpu"), "safe", diff)]


def _loss(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    node, diff = refusal.node, None
    if (
        script is not None
        and isinstance(node, ast.Call)
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Name)
        and isinstance(node.args[0], ast.Name)
    ):
        diff = script_diff(script, moved(script, node.args[1], f"{node.args[0].id}.device"))
    return [Fix(Phrase("fix.loss-together"), "safe", diff)]


def _one_process_each(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    count = len(launch.visible)
    diff, words = None, [launch.script.name if launch.script is not None else "train.py"]
    if launch.origin is not None and launch.origin.kind == "shell":
        diff = _lines_diff(
            launch.origin.file,
            launch.origin.line,
            r"\bpython[\d.]*(?=\s)",
            f"torchrun --nproc_per_node {count}",
        )
    elif not any(UNTOLD in each for each in launch.arguments):
        words += launch.arguments
    return [
        Fix(Phrase("fix.torchrun", count=str(count), script=shlex.join(words)), "check", diff),
        Fix(Phrase("fix.one-visible"), "safe"),
    ]


def _fewer_processes(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    count = str(max(1, refusal.detail["gpus"]))
    whole = launch.origin is None or launch.origin.file != refusal.file
    span = 40 if whole else _continued(refusal.file, refusal.line)
    pattern = "|".join(rf"(?<={name})\d+" for name in _COUNTS)
    return [
        Fix(
            Phrase("fix.fewer-processes", count=count),
            "check",
            _lines_diff(refusal.file, refusal.line, pattern, count, span),
        )
    ]


def _export(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    names = refusal.detail["names"]
    lines = lines_of(_text_of(refusal.file))
    changed = list(lines)
    for name in names:
        index = launch.unexported[name][0] - 1
        changed[index] = re.sub(rf"\b{name}=", f"export {name}=", changed[index], count=1)
    return [
        Fix(
            Phrase("fix.export", name=", ".join(names)),
            "safe",
            file_diff(refusal.file, "".join(lines), "".join(changed)),
        )
    ]


def _setting(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    settings, key, value = (
        refusal.detail["settings"],
        refusal.detail.get("set", refusal.detail["key"]),
        refusal.detail.get("value"),
    )
    lines = lines_of(settings.source)
    if remove := refusal.detail.get("remove"):
        gone = {settings.line(each) for each in remove}
        changed = "".join(line for number, line in enumerate(lines, 1) if number not in gone)
        names = ", ".join(each.rpartition(".")[2] for each in remove)
        return [
            Fix(
                Phrase("fix.remove-keys", keys=names),
                "safe",
                file_diff(settings.file, settings.source, changed),
            )
        ]
    if not value:
        return []
    index = settings.line(key) - 1
    if index >= len(lines):
        return []
    if settings.file.suffix.lower() == ".json":
        plain = json.dumps(value if isinstance(value, int) else str(value).strip("'"))
        lines[index] = re.sub(
            rf'"{key}"\s*:\s*("[^"]*"|[^,\s}}]+)', lambda _: f'"{key}": {plain}', lines[index], count=1
        )
    else:
        lines[index] = re.sub(r":.*", f": {value}", lines[index].rstrip("\n")) + "\n"
    return [
        Fix(
            Phrase("fix.setting", name=key, value=str(value).strip("'")),
            "check",
            file_diff(settings.file, settings.source, "".join(lines)),
        )
    ]


def _no_option(refusal: Refusal, launch: Launch, script: Script | None) -> list[Fix[Phrase]]:
    name = refusal.detail["name"]
    diff = None
    if launch.training is not None and refusal.file == launch.training.file:
        kept = [
            line for number, line in enumerate(lines_of(launch.training.source), 1) if number != refusal.line
        ]
        diff = file_diff(refusal.file, launch.training.source, "".join(kept))
    elif launch.origin is not None and launch.origin.kind == "shell":
        diff = _lines_diff(
            refusal.file, refusal.line, rf"\s+--{name.replace('_', '[_-]')}(?:[= ](?!-)\S+)?", "", 60
        )
    return [Fix(Phrase("fix.no-option", name=name), "safe", diff)]


def _lines_diff(file: Path, line: int, pattern: str, text: str, span: int = 1) -> str | None:
    """A file with the first match at or below a line replaced."""
    source = _text_of(file)
    lines = lines_of(source)
    for index in range(max(0, line - 1), min(len(lines), line - 1 + span)):
        changed = re.sub(pattern, text, lines[index], count=1)
        if changed != lines[index]:
            lines[index] = changed
            return file_diff(file, source, "".join(lines))
    return None


def _continued(file: Path, line: int) -> int:
    """How many lines the command at a line has."""
    lines = _text_of(file).splitlines()[max(0, line - 1) :]
    return next((number for number, text in enumerate(lines, 1) if not text.rstrip().endswith("\\")), 1)


def _text_of(file: Path) -> str:
    """A file's text with its line ends; empty when it cannot be read."""
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return ""


_REPAIRS: dict[str, Any] = {
    "rank-map": _rank_map,
    "no-map": _no_map,
    "no-low-memory": _no_low_memory,
    "unwrap": _unwrap,
    "no-move": _no_move,
    "set-device": _set_device,
    "rank-device": _rank_device,
    "move-first": _move_first,
    "map-location": _map_location,
    "loss": _loss,
    "one-process-each": _one_process_each,
    "fewer-processes": _fewer_processes,
    "export": _export,
    "setting": _setting,
    "no-option": _no_option,
}
