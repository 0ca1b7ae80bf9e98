"""A move that the script makes already, and that misses the tensor.

It comes too late, is for the tensor's peers alone, or its result is lost. Must guarantee: what is changed
names the device as the script does, and no second move is written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import lifted, moved, reduced, script_diff, swapped, with_line_before
from samedevice.diagnosis.fixes._lasting import hops
from samedevice.diagnosis.fixes._source import Script, called, same_place
from samedevice.diagnosis.fixes._spelling import spelled_at
from samedevice.diagnosis.fixes._target import partners, unites, wanted
from samedevice.events import Operand, Place
from samedevice.findings import Fix
from samedevice.messages import Phrase

_Change = Iterator[tuple[str | None, Phrase]]


def missed_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The script's own move, so that it reaches the tensor; None where it has none."""
    if script is None or guilty is None or guilty.role or len(wanted(failure, guilty)) != 1:
        return None
    device = next(iter(wanted(failure, guilty)))
    changes = [
        *_result_lost(failure, script, guilty, device),
        *_named_before(failure, script, guilty),
        *_beside_peers(failure, script, guilty),
        *_sent_inside(failure, script, guilty, device),
        *_rows_sent_on(failure, script, guilty),
    ]
    for source, title in changes:
        diff = script_diff(script, source) if source is not None else None
        if diff is not None:
            return Fix(title, "safe" if unites(failure, guilty) else "check", diff)
    return None


def _frames(failure: Failure, script: Script, guilty: Operand) -> Iterator[tuple[str, Place]]:
    """How the functions on the stack spell the tensor, and where each of them runs."""
    text, stack = failure.expression(guilty) or guilty.local, failure.event.stack
    if text is not None and script.holds(failure.event.at):
        yield text, failure.event.at
    for hop in hops(failure, text):
        place = failure.flow.frame(hop.depth).place
        if script.holds(place):
            yield hop.name, place
        if hop.given is not None and hop.given[1] < len(stack):
            place = failure.flow.frame(hop.given[1]).place
            if script.holds(place):
                yield ast.unparse(hop.given[0]), place


def _result_lost(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """`batch.to(device)` as a statement of its own, whose result nobody keeps."""
    for text, place in _frames(failure, script, guilty):
        scope = script.scope(place.line)
        for node in ast.walk(scope):
            match node:
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to" | "cuda"))
                ):
                    kinds = {each.kind for each in failure.event.at_hand if each.name == name}
                    whole = text == name or text.startswith((f"{name}.", f"{name}["))
                    if not whole or node.lineno >= place.line or "module" in kinds:
                        continue
                    if script.scope(node.lineno) is scope and script.bound(
                        name, scope, node.lineno, place.line
                    ):
                        line = f"{name} = {script.text(node)}"
                        yield swapped(script, node, line), Phrase("fix.moved-once", line=line)


def _named_before(failure: Failure, script: Script, guilty: Operand) -> _Change:
    """A second name that a tensor got before the statement that moves it."""
    for hop in hops(failure, failure.expression(guilty)):
        if len(hop.found) != 1 or failure.flow.frame(hop.depth).place.file != script.file:
            continue
        match hop.found[0].statement:
            case ast.Assign(targets=[ast.Name()], value=ast.Name(id=name)) as found:
                early = next((each for each in script.nodes if same_place(each, found)), None)
                late = None if not isinstance(early, ast.stmt) else _moves_below(script, early, name)
                if late is not None and isinstance(early, ast.stmt):
                    line = script.text(late)
                    yield lifted(script, [late], early), Phrase("fix.sent-along", line=line)


def _moves_below(script: Script, early: ast.stmt, name: str) -> ast.stmt | None:
    """The next statement of a block that gives a name anything, where it moves what the name has."""
    block = next((each for each in script.blocks() if early in each), [])
    for each in block[block.index(early) + 1 :]:
        match each:
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr="to" | "cuda")) as call,
            ) if target == of == name:
                read = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} - {name}
                scope = script.scope(each.lineno)
                same = all(script.bound(every, scope, early.lineno, each.lineno) for every in read)
                return each if same else None
        if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(each)):
            return None
    return None


def _beside_peers(failure: Failure, script: Script, guilty: Operand) -> _Change:
    """A part of what a function gives back, where that sends the other parts on."""
    for hop in hops(failure, failure.expression(guilty)):
        if len(hop.found) != 1:
            continue
        match hop.found[0].statement:
            case (
                ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call() as call)
                | ast.For(target=ast.Tuple(elts=names), iter=ast.Call() as call)
            ):
                at = [number for number, each in enumerate(names) if ast.unparse(each) == hop.name]
                parts = _parts_of(script, called(call))
                if len(at) == 1 and len(parts) == len(names):
                    yield from _as_peers(script, parts, at[0])


def _as_peers(script: Script, parts: list[ast.expr], at: int) -> _Change:
    sent = [_sent_to(script, each) for each in parts]
    where = {each for each in sent if each is not None}
    if sent[at] is None and len(where) == 1:
        device = where.pop()
        title = Phrase("fix.input-to", operand=script.text(parts[at]), device=device)
        yield moved(script, parts[at], device), title


def _parts_of(script: Script, name: str) -> list[ast.expr]:
    """The parts of the only tuple that the function of that name returns or yields."""
    functions = [node for node in script.nodes if isinstance(node, ast.FunctionDef) and node.name == name]
    given = [
        node.value
        for node in (ast.walk(functions[0]) if len(functions) == 1 else ())
        if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None
    ]
    return given[0].elts if len(given) == 1 and isinstance(given[0], ast.Tuple) else []


def _sent_to(script: Script, node: ast.expr) -> str | None:
    """Where an expression is sent at last, in words that write no device down."""
    match node:
        case ast.Call(func=ast.Attribute(attr="to"), args=[(ast.Name() | ast.Attribute()) as device]):
            named = script.text(device)
            return None if named.startswith("torch.") else named
    return None


def _sent_inside(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """A tensor that an earlier statement sends on inside an expression, and that keeps its own place."""
    at, name = failure.event.at, guilty.local
    statement = script.statement(at) if script.holds(at) else None
    if statement is None or name is None or not name.isidentifier():
        return
    block = next((each for each in script.blocks() if statement in each), [])
    for early in block[: block.index(statement)] if statement in block else []:
        if _is_read_besides(script, name, early, statement):
            continue  # somebody wants it where it is
        for node in ast.walk(early):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=of) as part, attr="to"), args=[given]) if (
                    of == name
                ):
                    there = {each.device for each in failure.event.at_hand if each.name == script.text(given)}
                    scope = script.scope(at.line)
                    once = script.bound(name, scope, early.lineno, at.line)
                    if there != {device} or not once or isinstance(given, ast.Constant):
                        continue
                    line = f"{name} = {script.text(node)}"
                    left = Script(script.file, reduced(script, node, part))
                    again = next((each for each in left.nodes if same_place(each, early)), None)
                    if isinstance(again, ast.stmt):
                        yield with_line_before(left, again, line), Phrase("fix.moved-once", line=line)


def _is_read_besides(script: Script, name: str, early: ast.stmt, late: ast.stmt) -> bool:
    """Whether something but two statements reads a variable from the first one on; or the first one gives the
    moved tensor a name of its own.
    """
    if isinstance(early, ast.Assign) and isinstance(early.value, ast.Call):
        function = early.value.func
        if isinstance(function, ast.Attribute) and script.text(function.value) == name:
            return True
    inside = {id(node) for each in (early, late) for node in ast.walk(each)}
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and node.lineno >= early.lineno
        and id(node) not in inside
        for node in ast.walk(script.scope(late.lineno))
    )


def _rows_sent_on(failure: Failure, script: Script, guilty: Operand) -> _Change:
    """The index of a table on the host, where the statement sends the rows that it reads: the table stays."""
    at = failure.event.at
    ran = script.expression(at) if script.holds(at) else None
    if not isinstance(ran, ast.Subscript) or failure.op != "index" or guilty.device != "cpu":
        return
    on = (node.func for node in script.nodes if isinstance(node, ast.Call))
    sent = any(
        isinstance(each, ast.Attribute) and each.value is ran and each.attr in ("to", "cuda") for each in on
    )
    index = partners(failure, guilty)
    node = spelled_at(script, at, index[0]) if len(index) == 1 else None
    if (
        sent
        and guilty.name == "self"
        and node is not None
        and isinstance(ran.value, (ast.Name, ast.Attribute))
    ):
        target = f"{script.text(ran.value)}.device"
        title = Phrase("fix.at-use", operand=script.text(node), target=target)
        yield moved(script, node, target), title
