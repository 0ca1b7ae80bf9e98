"""A function whose results are cached, and made where no argument says, is told the device.

What the cache keeps is on the device of the first call. Must guarantee: the function's only call names the
device of what the result meets, so that the device is a part of the key.
"""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, with_parameter, with_value, without
from samedevice.diagnosis.fixes._relocate import FACTORIES
from samedevice.diagnosis.fixes._source import Script, called, same_place
from samedevice.diagnosis.fixes._target import target_at, unites
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase
from samedevice.provenance.syntax import given_by_name

_NAME = "device"
_CACHES = frozenset(("cache", "lru_cache"))
"""Decorators of `functools` that keep what a function gave for the same arguments."""


def cached_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The device as an argument of the function that made the tensor; None where its results are not kept."""
    decision = None if guilty is None else guilty.decision
    if script is None or guilty is None or decision is None or not script.holds(decision.at):
        return None
    function = script.scope(decision.at.line)
    if not isinstance(function, ast.FunctionDef) or not _is_cached(function) or decision.kind != "created":
        return None
    calls = [node for node in script.nodes if isinstance(node, ast.Call) and called(node) == function.name]
    made = _factories(script, function)
    if (
        len(calls) != 1
        or script.class_of(function) is not None
        or made is None
        or not unites(failure, guilty)
    ):
        return None
    target = target_at(failure, script, guilty, calls[0].lineno)
    if target is None or not target.derived or script.scope(calls[0].lineno) is function:
        return None
    diff = with_device(script, function, made, calls[0], target.text)
    title = Phrase("fix.cached", function=function.name, device=target.text)
    return Fix(title, "safe", diff) if diff else None


def with_device(
    script: Script, function: ast.FunctionDef, made: list[ast.Call | ast.Assign], call: ast.Call, target: str
) -> str | None:
    """A diff in which a function makes its tensors on a device that its caller names."""
    source: str | None = script.source
    # The last one first: what stands before it stays where it is.
    for node in sorted([*made, call, function], key=lambda each: (-each.lineno, -each.col_offset)):
        if source is None:
            return None
        left = Script(script.file, source)
        same = next(each for each in left.nodes if same_place(each, node))
        if node is function:
            source = with_parameter(left, same, f"{_NAME}=None")
        elif isinstance(same, ast.Assign):
            source = without(left, same)
        elif isinstance(same, ast.Call):
            source = with_value(left, same, _NAME, target if node is call else _NAME)
    return None if source is None else script_diff(script, source)


def without_device(function: ast.FunctionDef) -> list[ast.Call]:
    """The calls in a function that make a tensor and name no device; none where one of them, or anything in
    it, names one, or draws from a generator.
    """
    inside = list(ast.walk(function))
    made = [node for node in inside if isinstance(node, ast.Call) and called(node) in FACTORIES]
    named = {node.id for node in inside if isinstance(node, ast.Name)} | {
        node.attr for node in inside if isinstance(node, ast.Attribute)
    }
    given = {each.arg for node in inside if isinstance(node, ast.Call) for each in node.keywords}
    arguments = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    of_torch = all(ast.unparse(each.func).startswith("torch.") for each in made)
    return made if of_torch and not {_NAME, "generator"} & (named | given | arguments) else []


def _is_cached(function: ast.FunctionDef) -> bool:
    names = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
    return any(ast.unparse(each).rpartition(".")[2] in _CACHES for each in names)


def _factories(script: Script, function: ast.FunctionDef) -> list[ast.Call | ast.Assign] | None:
    """The calls in a function that choose a device, and the assignments of names that only they read; None
    where one follows something else than such a name.
    """
    inside = list(ast.walk(function))
    read = [node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    if _NAME in {*read, *(each.arg for each in function.args.args)}:
        return None
    made: list[ast.Call | ast.Assign] = []
    named: list[str] = []
    for node in inside:
        if not isinstance(node, ast.Call) or called(node) not in FACTORIES:
            continue
        made.append(node)
        given = given_by_name(node, _NAME)
        if isinstance(given, ast.Name):
            named.append(given.id)
        elif given is not None:
            return None
    for name in {*named}:
        own = [
            each for each in inside if isinstance(each, ast.Assign) and script.text(each.targets[0]) == name
        ]
        if len(own) != 1 or read.count(name) != named.count(name):
            return None
        made += own
    return made
