"""Tensors that the failing call gets as one list or tuple, moved all at once where it is given.

An operand such as `tensors[1]` of `torch.stack(parts)`, or `hx[0]` of `self.rnn(x, state)`, has no expression
of its own in the failing statement; the list that holds it has one.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, swapped
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._target import target_at, unites
from samedevice.events import Event, Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase

_POSITION = re.compile(r"(?P<of>.+)\[(?P<at>\d+)\]\Z", re.DOTALL)
_JOINS = frozenset("cat concat concatenate stack hstack vstack dstack".split())
"""Functions of torch whose first argument is a list, all of whose tensors meet."""


def parts_fix(failure: Failure, script: Script, guilty: Operand) -> Fix[Phrase] | None:
    """All tensors of the list that holds the guilty one, to the device of what they meet; None where the
    failing call gets no such list by a name.
    """
    at = failure.event.at
    ran = script.expression(at) if script.holds(at) else None
    if not isinstance(ran, ast.Call) or (given := _given(script, ran, guilty)) is None:
        return None
    text = script.text(given)
    members = [each for each in failure.event.operands if _given(script, ran, each) is given]
    if [_position(each) for each in members] != list(range(len(members))):
        return None
    rest = Failure(_with(failure.event, [guilty, *(each for each in _others(failure, members))]))
    if len(rest.event.operands) > 1:
        target = target_at(rest, script, guilty, at.line)
        if target is None or not target.derived or not unites(rest, guilty):
            return None
        device = target.text
    else:
        met = next((each for each in members if each.device not in (guilty.device, "meta")), None)
        if met is None or guilty.device == "meta":
            return None
        device = f"{text}[{_position(met)}].device"
    used = {node.id for node in ast.walk(ran) if isinstance(node, ast.Name)}
    each = "part" if "each" in used else "each"
    moved = f"{each}.to({device}) for {each} in {text}"
    whole = f"[{moved}]" if called(ran) in _JOINS or _is_list(script, given) else f"tuple({moved})"
    diff = script_diff(script, swapped(script, given, whole))
    return Fix(Phrase("fix.parts-at-use", parts=text, target=device), "safe", diff) if diff else None


def _given(script: Script, call: ast.Call, operand: Operand) -> ast.expr | None:
    """The argument of a call that is the list which an operand, one of a list for the operator, is in."""
    if _POSITION.match(operand.name) is None:
        return None
    values = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
    values += [each.value for each in call.keywords if each.arg is not None]
    looked_up = [each for each in values if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript))]
    held = _POSITION.match(operand.local or "")
    for value in looked_up:
        if held is not None and script.text(value) == held["of"] and int(held["at"]) == _position(operand):
            return value
    if called(call) in _JOINS and call.args and operand.name.startswith("tensors["):
        first = call.args[0]
        return first if first in looked_up else None
    return None


def _position(operand: Operand) -> int:
    found = _POSITION.match(operand.name)
    return int(found["at"]) if found is not None else -1


def _others(failure: Failure, members: list[Operand]) -> list[Operand]:
    return [each for each in failure.event.operands if each not in members]


def _with(event: Event, operands: list[Operand]) -> Event:
    """The event as it would be if the operator had only these operands."""
    tensors = [each for each in event.operands if each.dtype]
    kept = [at for at, each in enumerate(tensors) if each in operands]
    met = tuple(
        dict.fromkeys(
            tuple(devices[at] for at in kept) for devices in event.met if len(devices) == len(tensors)
        )
    )
    return replace(event, operands=tuple(each for each in event.operands if each in operands), met=met)


def _is_list(script: Script, given: ast.expr) -> bool:
    """Whether the script shows that an expression holds a list: a display, or something is appended to it."""
    text = script.text(given)
    for node in ast.walk(script.tree):
        match node:
            case ast.Assign(targets=targets, value=ast.List() | ast.ListComp()):
                if any(script.text(each) == text for each in targets):
                    return True
            case ast.Call(func=ast.Attribute(value=of, attr="append" | "extend")):
                if script.text(of) == text:
                    return True
    return False
