"""The device of what an operand meets, in words that mean it at another line of the script.

Must guarantee: what is named is bound there, and held this very device when the statement was refused; a name
of another call of the same function is none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._source import Script
from samedevice.events import AtHand, EventKind

_KINDS = ("device", "module", "tensor")
"""What names a device best: a device itself, then the model, then some tensor; what the function itself holds
before what the script does.
"""


_DRAWS = re.compile(r"(?:[\w.]+\.)?(?:rand|randn|randint|randperm|random_split)\(")
_SINGLE, _DOUBLE = "'", '"'


def device_at(
    failure: Failure, script: Script, device: str, line: int, made: int | None = None
) -> str | None:
    """An expression for a device that is bound at a line of the script; None where nothing in reach is.

    What the line makes, or leads to be made at another one, may be older than the model's move to a GPU: then
    no module and no tensor tells.
    """
    here = script.scope(line)
    known = [each for each in failure.event.at_hand if each.file == script.file and each.device == device]
    named = _names_in(here) if here is not script.tree else frozenset()
    near = [
        each
        for each in known
        if named and (script.scope(each.line) is here or (each.kind == "device" and each.name in named))
    ]
    early = _made_before_placed(failure, script, line if made is None else made)
    statement = next((each for each in script.nodes if _is_at(each, line)), None)
    beside = frozenset[str]() if statement is None else _names_in(statement)

    def made_at(hand: AtHand) -> int:
        return _last_given(script, hand, line) if hand.kind == "module" else 0

    for held in (near, known):
        for kind in _KINDS:
            # what the line itself names, and of modules the one that was made last
            for each in sorted(held, key=lambda hand: (hand.name not in beside, -made_at(hand))):
                if early and each.kind != "device":
                    continue  # the model was moved there since
                if each.kind == kind and _means_it(script, each, here, line):
                    return text_of(each)
    if (given := next(_handed_in(script, known, here, line), None)) is not None:
        return given
    chosen = script.imports("torch") and "set_default_device(" in script.source
    return _default(failure, device) if chosen else None


def _last_given(script: Script, hand: AtHand, line: int) -> int:
    """The last line before another one that gives a variable a value."""
    scope = script.scope(hand.line)
    given = (
        node.lineno
        for node in ast.walk(scope)
        if isinstance(node, ast.Name) and node.id == hand.name and isinstance(node.ctx, ast.Store)
    )
    return max((each for each in given if each < line), default=0)


def _made_before_placed(failure: Failure, script: Script, line: int) -> bool:
    """Whether what a line made is older than the first move of the model to a GPU."""
    made = [
        step.order
        for each in failure.event.operands
        for step in each.lineage
        if step.order and script.holds(step.at) and step.at.line == line
    ]
    placed = [each.first for each in failure.placements]
    return bool(made and placed) and max(made) < min(placed)


def _names_in(node: ast.AST) -> frozenset[str]:
    """The variables that a node reads."""
    return frozenset(
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    )


def _is_at(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.stmt) or hasattr(node, "body"):
        return False
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _default(failure: Failure, device: str) -> str | None:
    """The default device, where that is what put the others there."""
    steps = [each.decision for each in failure.event.operands if each.device == device and each.lineage]
    if failure.event.kind is EventKind.GENERATOR and not steps:
        return "torch.get_default_device()" if _no_factory_named_it(failure) else None
    by_default = steps and all(each is not None and each.source == "context" for each in steps)
    return "torch.get_default_device()" if by_default else None


def _no_factory_named_it(failure: Failure) -> bool:
    """Whether torch drew the numbers without a device: for a sampler, or in a factory that names none."""
    call = failure.event.at.call
    return "device" not in call and (not failure.by_user(failure.event.at) or _DRAWS.match(call) is not None)


def text_of(hand: AtHand) -> str:
    """How source asks a name for its device."""
    if hand.kind == "module":
        return f"next({hand.name}.parameters()).device"
    return hand.name if hand.kind == "device" else f"{hand.name.replace(_SINGLE, _DOUBLE)}.device"


def _means_it(script: Script, hand: AtHand, here: ast.AST, line: int) -> bool:
    """Whether a name that a running function holds is the same thing at a line."""
    home = script.scope(hand.line)
    if home is here:
        return script.bound(hand.name, here, line, max(line, hand.line))
    owner, _, attribute = hand.name.partition(".")
    if home is script.tree:  # a constant of the script
        known = script.bound(hand.name, here, line, line)
        return hand.kind == "device" and known and _early(script, hand.name)
    if owner != "self" or not attribute or script.class_of(home) is not script.class_of(here):
        return False
    if getattr(here, "name", "") == "__init__":  # what the constructor made is not yet where it was sent to
        return hand.kind == "device" and _sets(here, attribute, line)
    return script.class_of(here) is not None and _takes_self(here)


def _takes_self(function: ast.AST) -> bool:
    given = function.args.args if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
    return bool(given) and given[0].arg == "self"


def _sets(function: ast.AST, attribute: str, line: int) -> bool:
    """Whether a method gives its object this attribute before a line."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node) == f"self.{attribute}"
        and node.lineno < line
        for node in ast.walk(function)
    )


def _handed_in(script: Script, known: list[AtHand], here: ast.AST, line: int) -> Iterator[str]:
    """Parameters of a constructor that it keeps as the attribute which is the device."""
    if not isinstance(here, ast.FunctionDef) or here.name != "__init__":
        return
    given = {each.arg for each in (*here.args.args, *here.args.kwonlyargs)}
    for each in known:
        owner, _, attribute = each.name.partition(".")
        if owner != "self" or each.kind != "device":
            continue
        if script.class_of(script.scope(each.line)) is not script.class_of(here):
            continue
        for node in ast.walk(here):
            match node:
                case (
                    ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Name(id=value))
                    | ast.Assign(
                        targets=[ast.Attribute(attr=name)],
                        value=ast.Call(func=ast.Attribute(attr="device"), args=[ast.Name(id=value)]),
                    )
                ):
                    if name == attribute and value in given and script.bound(value, here, line, line):
                        yield value


def _early(script: Script, name: str) -> bool:
    """Whether the script gives a name its value once, before it calls any function of its own."""
    own = {node.name for node in script.tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    given = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node) == name
    ]
    if len(given) != 1 or script.around(given[0]) not in script.tree.body:  # not what only a program has
        return False
    called = [
        node.lineno
        for statement in script.tree.body
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in own
    ]
    return given[0].lineno < min(called, default=given[0].lineno + 1)
