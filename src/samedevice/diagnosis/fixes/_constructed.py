"""A constructor that is told the device on which its object works.

A helper that is no module has no `.to()`: what its constructor makes without a device stays on the host,
whoever uses it. Must guarantee: who makes the object as before gets what it got before, and the one call that
makes it names the device of what the tensor meets.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._at_hand import device_at
from samedevice.diagnosis.fixes._edit import script_diff, with_keyword, with_parameter
from samedevice.diagnosis.fixes._relocate import FACTORIES
from samedevice.diagnosis.fixes._source import Script, called, same_place
from samedevice.diagnosis.fixes._target import partners, unites, wanted
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase

_NAME = "device"


def constructed_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The device for the constructor that made the tensor without one; None where that is not what made it,
    or where nothing in reach of the call has the device.
    """
    decision = None if guilty is None else guilty.decision
    if script is None or guilty is None or decision is None or not script.holds(decision.at):
        return None
    met = {each.device for each in partners(failure, guilty)}
    if (decision.kind, decision.source) != ("created", "default") or len(met | wanted(failure, guilty)) != 1:
        return None
    if guilty.made is not None and script.holds(guilty.made):
        homes = [script.scope(each.line) for each in (guilty.made, decision.at, failure.event.at)]
        if homes[0] not in homes[1:]:
            return None  # another method renews it, from what it is given
    made = script.expression(decision.at)
    if not isinstance(made, ast.Call) or called(made) not in FACTORIES:
        return None
    fix = told(failure, script, made, met.pop())
    return fix if fix is None or unites(failure, guilty) else None


def told(failure: Failure, script: Script, made: ast.Call, device: str) -> Fix[Phrase] | None:
    """The same for a call of torch that chooses a device, in a constructor."""
    constructor = script.scope(made.lineno)
    home = script.class_of(constructor)
    if home is None or not isinstance(constructor, ast.FunctionDef) or constructor.name != "__init__":
        return None
    if any(each.arg == _NAME for each in made.keywords) or _is_module(script, home):
        return None
    named = {node.id for node in ast.walk(constructor) if isinstance(node, ast.Name)}
    calls = [node for node in script.nodes if isinstance(node, ast.Call) and called(node) == home.name]
    heirs = [node for node in script.nodes if isinstance(node, ast.ClassDef) and _bases(node) & {home.name}]
    if _NAME in named | {each.arg for each in constructor.args.args} or len(calls) != 1 or heirs:
        return None
    target = device_at(failure, script, device, calls[0].lineno, made.lineno)
    if target is None or script.class_of(script.scope(calls[0].lineno)) is home:
        return None
    changes: list[tuple[ast.Call | ast.FunctionDef, Callable[[Script, ast.AST], str | None]]] = [
        (made, lambda left, node: with_keyword(left, _call(node), _NAME, _NAME)),
        (constructor, lambda left, node: with_parameter(left, node, f"{_NAME}=None")),
        (calls[0], lambda left, node: with_keyword(left, _call(node), _NAME, target)),
    ]
    source: str | None = script.source
    # The last one first: what stands before it stays where it is.
    for node, change in sorted(changes, key=lambda each: (each[0].lineno, each[0].col_offset), reverse=True):
        if source is None:
            return None
        left = Script(script.file, source)
        source = change(left, next(each for each in left.nodes if same_place(each, node)))
    diff = None if source is None else script_diff(script, source)
    return Fix(Phrase("fix.constructed", owner=home.name, device=target), "safe", diff) if diff else None


def _call(node: ast.AST) -> ast.Call:
    assert isinstance(node, ast.Call)
    return node


def _is_module(script: Script, home: ast.ClassDef) -> bool:
    """Whether a class is a module, or stands on one that the script does not define: `.to()` may move it."""
    own = {node.name for node in script.nodes if isinstance(node, ast.ClassDef)}
    return any(_bases(each) - own - {"object"} for each in script.classes_of(home.name))


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(each) for each in node.bases}
