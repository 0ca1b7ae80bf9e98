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
from samedevice.diagnosis.fixes._edit import script_diff, with_keyword, with_line_before, with_parameter
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
    home = script.class_of(script.scope(made.lineno))
    constructor = None if home is None else _constructor(home)
    if home is None or constructor is None or not constructor.args.args:
        return None
    if any(each.arg == _NAME for each in made.keywords) or _is_module(script, home):
        return None
    later = script.scope(made.lineno) is not constructor  # by a method, which finds it as an attribute
    if later and not _is_free(home, script.scope(made.lineno)):
        return None
    named = {node.id for node in ast.walk(constructor) if isinstance(node, ast.Name)}
    calls = [node for node in script.nodes if isinstance(node, ast.Call) and called(node) == home.name]
    heirs = [node for node in script.nodes if isinstance(node, ast.ClassDef) and _bases(node) & {home.name}]
    if _NAME in named | {each.arg for each in constructor.args.args} or len(calls) != 1 or heirs:
        return None
    target = device_at(failure, script, device, calls[0].lineno, made.lineno)
    if target is None or script.class_of(script.scope(calls[0].lineno)) is home:
        return None
    own = f"self.{_NAME}" if later else _NAME
    first = next(each for each in constructor.body if not _is_text(each))
    changes: list[tuple[ast.AST, Callable[[Script, ast.AST], str | None]]] = [
        (made, lambda left, node: with_keyword(left, _call(node), _NAME, own)),
        (constructor, lambda left, node: with_parameter(left, node, f"{_NAME}=None")),
        (calls[0], lambda left, node: with_keyword(left, _call(node), _NAME, target)),
    ]
    if later:
        line = f"self.{_NAME} = {_NAME}"
        changes.append((first, lambda left, node: with_line_before(left, _statement(node), line)))
    source: str | None = script.source
    # The last one first: what stands before it stays where it is.
    for node, change in sorted(changes, key=lambda each: _start(each[0]), reverse=True):
        if source is None:
            return None
        left = Script(script.file, source)
        source = change(left, next(each for each in left.nodes if same_place(each, node)))
    diff = None if source is None else script_diff(script, source)
    return Fix(Phrase("fix.constructed", owner=home.name, device=target), "safe", diff) if diff else None


def _constructor(home: ast.ClassDef) -> ast.FunctionDef | None:
    own = (each for each in home.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    return next((each for each in own if any(not _is_text(line) for line in each.body)), None)


def _is_free(home: ast.ClassDef, method: ast.AST) -> bool:
    """Whether a class says nothing of a device, and a method of it is given its object."""
    named = {getattr(node, "attr", getattr(node, "id", getattr(node, "arg", ""))) for node in ast.walk(home)}
    given = method.args.args if isinstance(method, ast.FunctionDef) else []
    return _NAME not in named and bool(given) and given[0].arg == "self" and not home.decorator_list


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _statement(node: ast.AST) -> ast.stmt:
    assert isinstance(node, ast.stmt)
    return node


def _call(node: ast.AST) -> ast.Call:
    assert isinstance(node, ast.Call)
    return node


def _is_module(script: Script, home: ast.ClassDef) -> bool:
    """Whether a class is a module, or stands on one that the script does not define: `.to()` may move it."""
    own = {node.name for node in script.nodes if isinstance(node, ast.ClassDef)}
    return any(_bases(each) - own - {"object"} for each in script.classes_of(home.name))


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(each) for each in node.bases}
