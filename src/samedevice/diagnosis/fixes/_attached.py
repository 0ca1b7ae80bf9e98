"""Modules that joined a model after it was placed: their weights are where they were made."""

from __future__ import annotations

import ast
import re

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import moved, script_diff, swapped
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase


def attached_fix(failure: Failure, script: Script | None, weight: Operand | None) -> Fix[Phrase] | None:
    """The new module moved to the model that it joins, in the only statement that makes it so.

    `model.head = Head(8)` puts it beside `model`; where it wraps what stood there, as in
    `model[2] = Adapter(model[2])`, it goes where that is.
    """
    if script is None or weight is None or not (weight.role or _of_weight(weight)):
        return None
    for module in failure.event.running:
        joined = [node for node in ast.walk(script.tree) if _joins(node, module.kind)]
        if len(joined) != 1:
            continue
        statement = joined[0]
        assert isinstance(statement, ast.Assign)
        target, value = statement.targets[0], statement.value
        assert isinstance(target, (ast.Attribute, ast.Subscript)) and isinstance(value, ast.Call)
        place = script.text(target)
        wrapped = any(script.text(each) == place for each in value.args)
        owner = place if wrapped else script.text(_root(target))
        device = f"next({owner}.parameters()).device"
        diff = script_diff(script, moved(script, value, device))
        if diff is not None:
            return Fix(Phrase("fix.attached", module=module.kind, device=device), "safe", diff)
    return None


def _of_weight(operand: Operand) -> bool:
    """Whether an operand was computed from a weight that lies where it does."""
    newest = operand.decision
    return newest is not None and newest.inherited and newest.name is not None


def _joins(node: ast.AST, kind: str) -> bool:
    """Whether a statement makes a module of a class and gives it to a model that is there already."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.Call):
        return False
    target = node.targets[0]
    if not isinstance(target, (ast.Attribute, ast.Subscript)) or called(node.value) != kind:
        return False
    root = _root(target)
    return isinstance(root, ast.Name) and root.id != "self"


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def container_fix(failure: Failure, script: Script | None) -> Fix[Phrase] | None:
    """`nn.ModuleList` or `nn.ModuleDict` around what a module keeps its parts in, where `.to()` does not
    reach them.
    """
    running = failure.event.running
    parent = next((each for each in running if each.registered), None)
    if script is None or parent is None or running[0].registered:
        return None
    for home in ast.walk(script.tree):
        if not isinstance(home, ast.ClassDef) or home.name != parent.kind:
            continue
        kept = [
            node.value
            for node in ast.walk(home)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Attribute)
            and isinstance(node.value, (ast.List, ast.ListComp, ast.Dict, ast.DictComp))
            and re.search(rf"\b{running[0].kind}\(", script.text(node.value))
        ]
        if len(kept) != 1:
            continue
        name = "nn" if re.search(r"\bnn\.", script.text(home)) else "torch.nn"
        kind = "ModuleDict" if isinstance(kept[0], (ast.Dict, ast.DictComp)) else "ModuleList"
        diff = script_diff(script, swapped(script, kept[0], f"{name}.{kind}({script.text(kept[0])})"))
        return Fix(Phrase("fix.module-list", module=parent.kind, container=kind), "safe", diff)
    return None
