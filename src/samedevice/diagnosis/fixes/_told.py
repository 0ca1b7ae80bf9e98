"""A function that makes a tensor without saying where is told the device by the one call that asked it.

What a helper makes on the default device is copied at each use otherwise, and the copy is all that the next
caller sees. Must guarantee: who calls the function as before gets what it got before; all that it makes goes
to the one device; and the call names the device of what the tensor meets.
"""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._cached import with_device, without_device
from samedevice.diagnosis.fixes._lasting import comes_round, target_of
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._target import partners, wanted
from samedevice.events import Operand, on_accelerator
from samedevice.findings import Fix
from samedevice.messages import Phrase

_OUTWARD = frozenset(("item", "tolist", "numpy", "int", "float", "range", "len", "print", "cpu"))
"""What reads a tensor on the host: of such a function not all that it makes belongs on a GPU."""


def told_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The device for the function that made the tensor; None where another one than a plain function of the
    script did, or where it has several callers.
    """
    decision = None if guilty is None else guilty.decision
    if script is None or guilty is None or decision is None or not script.holds(decision.at):
        return None
    met = {each.device for each in partners(failure, guilty)}
    if (decision.kind, decision.source) != ("created", "default") or len(met) != 1:
        return None
    device, function = met.pop(), script.scope(decision.at.line)
    if not on_accelerator(device) or not isinstance(function, ast.FunctionDef):
        return None
    call, made = _only_call(script, function), without_device(function)
    if call is None or not made or not _is_plain(function):
        return None
    rest = [each for each in failure.event.operands if each.dtype and not _made_in(script, each, function)]
    if any(each.device != device and each.shape != () for each in rest):
        return None
    if script.scope(call.lineno) is function or _takes_what_is_left(failure, script, call, guilty):
        return None
    if comes_round(failure, guilty) or _is_kept_by_another(script, call):
        return None  # the data of a loader stay on the host
    several = wanted(failure, guilty) != {device}
    here = script.holds(failure.event.at) and script.scope(call.lineno) is script.scope(failure.event.at.line)
    target = None if several and not here else target_of(failure, script, guilty, device, call.lineno)
    if target is None or "(" in target.partition("next(")[0]:
        return None
    diff = with_device(script, function, [*made], call, target)
    return Fix(Phrase("fix.asked-for", function=function.name, device=target), "safe", diff) if diff else None


def _only_call(script: Script, function: ast.FunctionDef) -> ast.Call | None:
    """The only call of a function, whose name nothing else has, and which is not handed on as a value."""
    named = [
        node
        for node in script.nodes
        if (isinstance(node, ast.Name) and node.id == function.name)
        or (isinstance(node, ast.Attribute) and node.attr == function.name)
        or (isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == function.name)
    ]
    calls = [node for node in script.nodes if isinstance(node, ast.Call) and called(node) == function.name]
    if len(calls) != 1 or len(named) != 2 or calls[0].func not in named:  # its definition and its call
        return None
    spread = any(isinstance(each, ast.Starred) for each in calls[0].args)
    return None if spread and function.args.defaults else calls[0]


def _made_in(script: Script, operand: Operand, function: ast.FunctionDef) -> bool:
    decision = operand.decision
    return decision is not None and script.holds(decision.at) and script.scope(decision.at.line) is function


def _is_plain(function: ast.FunctionDef) -> bool:
    """Whether it is no constructor, nothing that torch calls, and reads nothing on the host."""
    if function.name.startswith("__") or function.name == "forward" or function.decorator_list:
        return False
    inside = list(ast.walk(function))
    if any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)) for node in inside):
        return False
    return not any(isinstance(node, ast.Call) and called(node) in _OUTWARD for node in inside)


def _is_kept_by_another(script: Script, call: ast.Call) -> bool:
    """Whether what a call gives is handed to a constructor: of a data set, say."""
    return any(
        isinstance(node, ast.Call) and call in node.args and called(node)[:1].isupper()
        for node in script.nodes
    )


def _takes_what_is_left(failure: Failure, script: Script, call: ast.Call, guilty: Operand) -> bool:
    """Whether the function is given a tensor that is where its own are."""
    left = {
        each.name
        for each in failure.event.at_hand
        if each.kind == "tensor" and each.device == guilty.device and each.file == script.file
    }
    given = [*call.args, *(each.value for each in call.keywords)]
    return any(
        ast.unparse(node) in left
        for each in given
        for node in ast.walk(each)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
    )
