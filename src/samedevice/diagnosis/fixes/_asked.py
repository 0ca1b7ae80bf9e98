"""The device that a function of the script was asked for, changed in the call that asked.

Must guarantee: the decision about the tensor reads the parameter that is changed, and the call is the one
that gave the tensor, or the only one of the function.
"""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, swapped, with_keyword
from samedevice.diagnosis.fixes._lasting import target_of
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._target import partners, unites, wanted
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase
from samedevice.provenance.syntax import given_by_name

Function = ast.FunctionDef | ast.AsyncFunctionDef


def asked_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The call with another device; None where no function of the script was asked for one."""
    decision = None if guilty is None else guilty.decision
    if script is None or guilty is None or decision is None or decision.source != "argument":
        return None
    if failure.launched:
        return None  # what a rank is given is mostly its number
    place, met = decision.at, {each.device for each in partners(failure, guilty)}
    if not script.holds(place) or len(met) != 1 or len(wanted(failure, guilty)) != 1:
        return None
    function = script.scope(place.line)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or decision.said is None:
        return None
    if function.name.startswith("__") or decision.kind not in ("created", "moved"):
        return None
    at = _position(script, function, decision.said)
    call = _call_of(failure, script, function) or _written_at(
        script, function, decision.said, at, guilty.device
    )
    if call is None or at is None:
        return None
    device = met.pop()
    target = target_of(failure, script, guilty, device, call.lineno)
    if target is None:
        return None
    given = given_by_name(call, decision.said)
    spread = any(isinstance(each, ast.Starred) for each in call.args)
    if given is None and spread and not _has_default(function, decision.said):
        return None
    if given is None and not spread and at < len(call.args):
        given = call.args[at]
    if given is not None and _tells(failure, script, given, device):
        return None  # what is asked for now is right: the tensor is an earlier one, which was kept
    changed = (
        with_keyword(script, call, decision.said, target) if given is None else swapped(script, given, target)
    )
    diff = script_diff(script, changed)
    title = Phrase("fix.asked-for", function=function.name, device=target)
    return Fix(title, "safe" if unites(failure, guilty) else "check", diff) if diff else None


def _call_of(failure: Failure, script: Script, function: Function) -> ast.Call | None:
    """The only call of a function in the failing function, or else in the script."""
    calls = [
        node for node in ast.walk(script.tree) if isinstance(node, ast.Call) and called(node) == function.name
    ]
    here = script.scope(failure.event.at.line) if script.holds(failure.event.at) else None
    near = [each for each in calls if script.scope(each.lineno) is here]
    if len(near) == 1 or len(calls) == 1:
        return (near if len(near) == 1 else calls)[0]
    return None


def _written_at(
    script: Script, function: Function, parameter: str, at: int | None, device: str
) -> ast.Call | None:
    """The only call of that name which writes this very device down as the parameter."""
    found = []
    for node in script.nodes:
        if not isinstance(node, ast.Call) or called(node) != function.name:
            continue
        given = given_by_name(node, parameter)
        given = node.args[at] if given is None and at is not None and at < len(node.args) else given
        if isinstance(given, ast.Constant) and given.value == device:
            found.append(node)
    return found[0] if len(found) == 1 else None


def _tells(failure: Failure, script: Script, asked: ast.expr, device: str) -> bool:
    """Whether an expression named this device when the statement was refused: `x.device`, `device`."""
    scope = script.scope(asked.lineno)
    named = script.text(asked)
    return any(
        each.device == device and named == (each.name if each.kind == "device" else f"{each.name}.device")
        for each in failure.event.at_hand
        if each.file == script.file and script.scope(each.line) is scope
    )


def _position(script: Script, function: Function, parameter: str) -> int | None:
    """Where a parameter stands in a call; None for what is none."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if script.class_of(function) is not None and names and names[0] in ("self", "cls"):
        names = names[1:]
    if parameter in names:
        return names.index(parameter)
    return len(names) + 1000 if parameter in {each.arg for each in function.args.kwonlyargs} else None


def _has_default(function: Function, parameter: str) -> bool:
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return parameter in names[len(names) - len(function.args.defaults) :]
