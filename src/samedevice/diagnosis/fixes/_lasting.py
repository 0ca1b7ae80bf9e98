"""A tensor that outlives the failing statement is moved once, not at each use.

A copy at each use costs a transfer every time, and what is written into the copy is lost. So it is moved
where its device was decided; or where it became an attribute; or where a function on the stack got it; or
else the attribute gets the moved tensor before the statement reads it.

Must guarantee: each change names the device of what the tensor meets, and runs no more often than the tensor
is made anew; the attribute stays on that device.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._at_hand import device_at
from samedevice.diagnosis.fixes._edit import (
    moved,
    script_diff,
    swapped,
    with_keyword,
    with_line_after,
    with_line_before,
)
from samedevice.diagnosis.fixes._relocate import FACTORIES, relocated
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._target import partners, target_at, unites, wanted
from samedevice.events import Operand, Place
from samedevice.findings import Fix
from samedevice.messages import Phrase
from samedevice.provenance.assignments import reaching, statements_around

_STEPS = 8
"""So many names are followed back."""


def lasting_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The one move of a tensor that outlives the statement; None for what is made anew each time."""
    if script is None or guilty is None or guilty.role or not outlives(failure, guilty):
        return None
    met = {each.device for each in partners(failure, guilty)}
    if len(met) != 1 or len(wanted(failure, guilty)) != 1 or "meta" in met:
        return None
    device = met.pop()
    if attribute_of(failure, guilty) is None and _comes_round(failure, guilty):
        return None  # each turn of a loop brings another one, as a loader does
    for source, title in (
        *_where_decided(failure, script, guilty, device),
        *_where_kept(failure, script, guilty, device),
        *_where_got(failure, script, guilty, device),
        *_before_use(failure, script, guilty),
    ):
        diff = script_diff(script, source) if source is not None else None
        if diff is not None:
            return Fix(title, "safe" if unites(failure, guilty) else "check", diff)
    return None


def outlives(failure: Failure, operand: Operand) -> bool:
    """Whether an operand is there before and after the statement runs: it failed twice with one decision, or
    an object keeps it.
    """
    tensors = [each for each in failure.event.operands if each.dtype]
    counts = failure.event.decisions
    if len(counts) == len(tensors) and operand in tensors:
        return counts[tensors.index(operand)] == 1
    return operand.kept_by is not None or attribute_of(failure, operand) is not None


def _comes_round(failure: Failure, operand: Operand) -> bool:
    """Whether an operand is what a loop goes over."""
    text = failure.expression(operand)
    return text is not None and any(root.kind == "item" for root in failure.flow.roots(text))


def attribute_of(failure: Failure, operand: Operand) -> str | None:
    """The attribute of an object that the operand is, or that it was computed from on its device."""
    if operand.local and _is_attribute(operand.local):
        return operand.local
    for part in operand.ingredients:
        if part.device == operand.device and part.role is None and _is_attribute(part.name):
            return part.name
    return None


def _is_attribute(text: str) -> bool:
    """Whether it is an attribute, or an item of one."""
    return re.fullmatch(r"[^\W\d]\w*\.\w+(\[[^\[\]]+\])?", text) is not None


_Change = Iterator[tuple[str | None, Phrase]]


def _where_decided(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """The statement that decided, where its function has a name for the device."""
    decision = guilty.decision
    for place in () if decision is None else (decision.at, decision.user_at):
        if decision is None or not script.holds(place) or decision.kind not in ("created", "moved"):
            continue
        if script.class_of(script.scope(place.line)) is not None and place.function == "forward":
            continue
        target = device_at(failure, script, device, place.line)
        if target is not None and not _at_failure(failure, place):
            title = Phrase("fix.made-on", operand=failure.written(guilty), device=target)
            yield relocated(script, place, target), title


def _at_failure(failure: Failure, place: Place) -> bool:
    at = failure.event.at
    return (place.file, place.line) == (at.file, at.line)


def _where_kept(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """The only statement that gives the attribute its value."""
    name = attribute_of(failure, guilty)
    home = script.class_of(script.scope(failure.event.at.line)) if script.holds(failure.event.at) else None
    if name is None or home is None or not name.startswith("self."):
        return
    given = [
        node
        for node in ast.walk(home)
        if isinstance(node, ast.Assign)
        and any(script.text(each) == name for each in node.targets)
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    ]
    if len(given) != 1 or given[0].lineno == failure.event.at.line:
        return
    target = device_at(failure, script, device, given[0].lineno)
    if target is not None:
        yield _on(script, given[0].value, target), Phrase("fix.kept-on", attribute=name, device=target)


def _on(script: Script, value: ast.expr, target: str) -> str:
    """The source in which a value is made on, or moved to, a device."""
    if isinstance(value, ast.Call) and called(value) in FACTORIES:
        given = next((each.value for each in value.keywords if each.arg == "device"), None)
        if given is not None:
            return swapped(script, given, target)
        if script.text(value.func).startswith("torch."):
            return with_keyword(script, value, "device", target)
    return moved(script, value, target)


@dataclass(frozen=True, slots=True)
class _Got:
    """A statement in which a function on the stack got the tensor."""

    name: str
    statement: ast.stmt
    value: ast.expr | None
    """What it was given; None for a part of a tuple."""


def _where_got(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """The outermost assignment that gave the tensor to a variable of a function on the stack."""
    if guilty.device != "cpu":
        return
    for got in reversed(list(_steps(failure, script, guilty))):
        target = device_at(failure, script, device, got.statement.lineno)
        if target is None or (target.startswith(f"{got.name}.")):
            continue
        title = Phrase("fix.input-to", operand=got.name, device=target)
        if got.value is not None:
            yield _on(script, got.value, target), title
        else:
            line = f"{got.name} = {got.name}.to({target})"
            yield with_line_after(script, got.statement, line), title


def _steps(failure: Failure, script: Script, guilty: Operand) -> Iterator[_Got]:
    """The assignments that an operand's name is followed back through, the nearest first."""
    text, flow, depth = failure.expression(guilty), failure.flow, 0
    for part in (guilty.local, *(each.name for each in guilty.ingredients if each.device == guilty.device)):
        text = part if text is None or not text.isidentifier() else text
    if not flow.readable or text is None or not text.isidentifier():
        return
    name: str | None = text
    for _ in range(_STEPS):
        frame = flow.frame(depth)
        if name is None or frame.place.file != script.file:
            return
        found = [each for each in reaching(name, frame.scope, frame.statement) if each.replaces]
        if len(found) > 1:
            return
        if not found:
            given = flow.given(name, depth)
            if given is not None and isinstance(given[0], ast.Name):
                name, depth = given[0].id, given[1]
                continue
            only = script.assignment(name) if given is None else None
            if only is not None and only in script.tree.body and frame.scope is not script.tree:
                yield _Got(name, only, only.value)
            return
        own, around = found[0], statements_around(frame.scope, frame.statement)
        loops = [each for each in around if isinstance(each, (ast.For, ast.While))]
        inside = statements_around(frame.scope, own.statement)
        if isinstance(own.statement, ast.Assign) and not any(each in inside for each in loops):
            whole = _whole(own.statement, name)
            if whole:
                node = next(
                    (each for each in ast.walk(script.tree) if _same(each, own.statement)), own.statement
                )
                assert isinstance(node, ast.Assign)
                yield _Got(name, node, node.value if whole == "value" else None)
        name = own.value.id if isinstance(own.value, ast.Name) else None


def _whole(statement: ast.Assign, name: str) -> str | None:
    """Whether a name gets the `value` of an assignment, or a `part` of it."""
    if len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        return "value" if isinstance(statement.value, (ast.Call, ast.BinOp, ast.Subscript)) else None
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    return "part" if any(isinstance(each, ast.Name) and each.id == name for each in parts) else None


def _same(node: ast.AST, statement: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and (node.lineno, node.col_offset) == (
        statement.lineno,
        statement.col_offset,
    )


def _before_use(failure: Failure, script: Script, guilty: Operand) -> _Change:
    """The attribute given the moved tensor in a line of its own, in front of the failing statement."""
    name, at = attribute_of(failure, guilty), failure.event.at
    if name is None or not script.holds(at) or not name.startswith("self."):
        return
    statement = script.statement(at)
    target = target_at(failure, script, guilty, at.line)
    if statement is None or target is None or not target.derived or _has_block(statement):
        return
    head = target.text.partition(".")[0].partition("[")[0].removeprefix("next(")
    inside = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    read = name.partition("[")[0]
    if head in inside or not any(
        script.text(node) == read for node in ast.walk(statement) if isinstance(node, ast.Attribute)
    ):
        return
    line = f"{name} = {name}.to({target.text})"
    yield with_line_before(script, statement, line), Phrase("fix.moved-once", line=line)


def _has_block(statement: ast.stmt) -> bool:
    return isinstance(getattr(statement, "body", None), list)
