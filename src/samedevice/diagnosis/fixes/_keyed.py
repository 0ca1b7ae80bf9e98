"""What a function keeps by a key, kept for each device: the device becomes a part of the key.

Must guarantee: the function makes the tensor on a device that it is given, looks it up by a key that says
nothing of that device, and the change is in the one place where the key is written.
"""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, swapped
from samedevice.diagnosis.fixes._source import Script
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase


def keyed_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The device in the key; None where the tensor was not kept by one."""
    decision = None if guilty is None else guilty.decision
    if script is None or decision is None or decision.said is None or not script.holds(decision.at):
        return None
    if decision.kind not in ("created", "moved") or decision.source not in ("argument", "tensor"):
        return None
    function = script.scope(decision.at.line)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    device = decision.said if decision.source == "argument" else f"{decision.said}.device"
    key = _key(script, function)
    if key is None or not script.bound(device, function, key.lineno, key.lineno):
        return None
    if {each.id for each in ast.walk(key) if isinstance(each, ast.Name)} & {device.partition(".")[0]}:
        return None
    parts = [script.text(each) for each in key.elts]
    diff = script_diff(script, swapped(script, key, f"({', '.join([*parts, device])})"))
    return Fix(Phrase("fix.keyed", device=device), "safe", diff) if diff else None


def _key(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Tuple | None:
    """The only tuple by which a function looks something up that outlives it, as it is written once."""
    local = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    given = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    keys = {
        node.slice.id
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.slice, ast.Name)
        and script.text(node.value).partition(".")[0] not in local
    }
    found = [given[name] for name in keys & given.keys()]
    return found[0] if len(found) == 1 else None
