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
from pathlib import Path

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._at_hand import device_at
from samedevice.diagnosis.fixes._borrowed import borrows
from samedevice.diagnosis.fixes._edit import (
    moved,
    reduced,
    script_diff,
    swapped,
    with_keyword,
    with_line_after,
    with_line_before,
    with_lines_before,
)
from samedevice.diagnosis.fixes._relocate import FACTORIES, relocated
from samedevice.diagnosis.fixes._source import Script, called, same_place, same_span
from samedevice.diagnosis.fixes._target import partners, target_at, unites, wanted
from samedevice.events import Operand, Place, on_accelerator
from samedevice.findings import Fix
from samedevice.messages import Phrase
from samedevice.provenance.assignments import Given, names_in, reaching, statements_around
from samedevice.provenance.syntax import given_by_name, parsed

_STEPS = 8
"""So many names are followed back."""


def lasting_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The one move of a tensor that outlives the statement; of one that is made anew each time, the statement
    that makes it, where that is in a function on the stack.
    """
    if script is None or guilty is None or guilty.role:
        return None
    met = {each.device for each in partners(failure, guilty)}
    if len(met) != 1 or len(wanted(failure, guilty)) != 1 or met & {"meta", "cpu"}:
        return None
    device = met.pop()
    changes: list[tuple[str | None, Phrase]] = []
    if outlives(failure, guilty):
        if attribute_of(failure, guilty) is None and comes_round(failure, guilty):
            changes += _before_use(failure, script, guilty)
            changes += _where_handed(failure, script, guilty, device)
            changes += _where_passed(failure, script, guilty, device)
            return _first(failure, script, guilty, changes)  # each turn brings another one, as a loader does
        changes += where_decided(failure, script, guilty, device)
        changes += _where_kept(failure, script, guilty, device)
        changes += _where_handed(failure, script, guilty, device)
        changes += _where_got(failure, script, guilty, device)
        changes += _before_use(failure, script, guilty)
    else:
        if _near(failure, script, guilty):
            changes += where_decided(failure, script, guilty, device)
        changes += _where_handed(failure, script, guilty, device)
        changes += _where_passed(failure, script, guilty, device)
    return _first(failure, script, guilty, changes)


def _first(
    failure: Failure, script: Script, guilty: Operand, changes: list[tuple[str | None, Phrase]]
) -> Fix[Phrase] | None:
    """The first change that can be made; one that reads a variable of the script in a function that did not
    read it before, where there is no other.
    """
    made = [(source, title) for source, title in changes if source is not None]
    for source, title in sorted(made, key=lambda change: borrows(script, change[0])):
        diff = script_diff(script, source)
        if diff is not None:
            whole = unites(failure, guilty) or (title.key == "fix.made-on" and _with_twins(failure, guilty))
            sure = whole and not indexes_another(failure, script, guilty)
            return Fix(title, "safe" if sure else "check", diff)
    return None


def _with_twins(failure: Failure, guilty: Operand) -> bool:
    """Whether all that is where the operand is was made by calls of its line that read the same: they are
    changed with it.
    """
    own, met = guilty.decision, {each.device for each in partners(failure, guilty)}
    left = [each for each in failure.event.operands if each.device == guilty.device and each.dtype]
    made = [each.decision for each in left]
    same = all(
        each is not None and own is not None and (each.kind, each.at) == (own.kind, own.at) for each in made
    )
    return same and own is not None and own.kind == "created" and len(met) == 1


def indexes_another(failure: Failure, script: Script, guilty: Operand) -> bool:
    """Whether the class reads another attribute by this one: an index on a GPU reads nothing on the host."""
    name = attribute_of(failure, guilty) or ""
    owner = script.class_of(script.scope(failure.event.at.line)) if name.startswith("self.") else None
    return any(
        isinstance(node, ast.Subscript)
        and script.text(node.value).startswith("self.")
        and script.text(node.value) != name
        and any(script.text(each) == name for each in ast.walk(node.slice) if isinstance(each, ast.Attribute))
        for node in (ast.walk(owner) if owner is not None else ())
    )


def _near(failure: Failure, script: Script, operand: Operand) -> bool:
    """Whether a function on the stack, or a method beside it, made this very tensor without saying where, or
    on a device that is written down.
    """
    decision = operand.decision
    if decision is None or decision.inherited or not script.holds(decision.at):
        return False
    made = decision.kind in ("created", "loaded") and decision.source in ("default", "literal")
    if not made and not (decision.kind == "moved" and decision.source == "literal"):
        return False
    here = script.scope(decision.at.line)
    for place in (failure.event.at, *failure.event.stack):
        if script.holds(place) and (home := script.scope(place.line)) is not script.tree:
            owner = script.class_of(home)
            if home is here or (owner is not None and owner is script.class_of(here)):
                return True
    return False


def outlives(failure: Failure, operand: Operand) -> bool:
    """Whether an operand is there before and after the statement runs: it failed again with one decision, or
    an object keeps it.
    """
    if (operand.local or "").startswith("self.") and operand.kept_by is not None:
        return True
    tensors = [each for each in failure.event.operands if each.dtype]
    counts = failure.event.decisions
    if len(counts) == len(tensors) and operand in tensors and not failure.event.also:
        own = counts[tensors.index(operand)]
        if own == 1 or own < max(counts):  # a few kept ones that come round
            return True
        if _kept_item(failure, operand) is not None:
            return True
        return (failure.expression(operand) or "").isidentifier() and failure.from_attribute(operand)
    return operand.kept_by is not None or attribute_of(failure, operand) is not None


def _kept_item(failure: Failure, operand: Operand) -> ast.expr | None:
    """The item of what an object keeps that the operand is, as the failing function reads it: in the failing
    statement, `self.moments[k]`, or in the one that gave the operand its name.
    """
    text = failure.expression(operand) or ""
    match parsed(text):
        case ast.Module(body=[ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr=method)))]):
            text = ast.unparse(of) if method.endswith("_") else text  # it was written: `moment.mul_(0.9)`
    if not failure.flow.readable:
        return None
    frame = failure.flow.frame(0)
    items = [each for each in ast.walk(frame.statement) if isinstance(each, ast.Subscript)]
    items = [each for each in items if ast.unparse(each) == text]
    if text.isidentifier():
        found = [each for each in reaching(text, frame.scope, frame.statement) if each.replaces]
        match found:
            case [Given(statement=ast.Assign(targets=[ast.Name()], value=ast.Subscript() as item))]:
                items = [item]
    for each in items:
        part = any(isinstance(node, ast.Slice) for node in ast.walk(each))  # of a tensor, which stays
        if ast.unparse(each).startswith("self.") and not part:
            return each
    return None


def comes_round(failure: Failure, operand: Operand) -> bool:
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
    return re.fullmatch(r"[^\W\d]\w*(?:\.\w+){1,2}(\[[^\[\]]+\])?", text) is not None


@dataclass(frozen=True, slots=True)
class _Hop:
    """A name of a running function that a tensor is followed back through."""

    name: str
    depth: int
    """Of the function on the stack."""
    found: list[Given]
    """What the function itself gives it, before the statement that runs."""
    given: tuple[ast.expr, int] | None
    """What a caller hands in as it, and the caller's depth; None where the function gives it something."""


def hops(failure: Failure, name: str | None, *, computed: bool = False) -> Iterator[_Hop]:
    """The names that an expression is followed back through, the nearest first, while each is given by a
    name alone, or `computed` from one alone.
    """
    flow, depth = failure.flow, 0
    for _ in range(_STEPS if flow.readable else 0):
        if name is None or not name.isidentifier():
            return
        frame = flow.frame(depth)
        found = [each for each in reaching(name, frame.scope, frame.statement) if each.replaces]
        hop = _Hop(name, depth, found, flow.given(name, depth) if not found else None)
        yield hop
        value = found[0].value if len(found) == 1 and found[0].item is None else None
        if hop.given is not None:
            value, depth = hop.given
        read = set[str]()
        if computed and value is not None and hop.given is None:
            read = {*names_in(value)} - flow.imported(depth)
        name = value.id if isinstance(value, ast.Name) else read.pop() if len(read) == 1 else None


_Change = Iterator[tuple[str | None, Phrase]]


def where_decided(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """The statement that decided, where its function has a name for the device."""
    decision = guilty.decision
    for place in () if decision is None else (decision.at, decision.user_at):
        if decision is None or not script.holds(place):
            continue
        if decision.kind not in ("created", "moved", "loaded"):
            continue
        if decision.source in ("tensor", "argument", "launcher"):
            continue  # it was chosen, and is right for others that were given the same
        if decision.inherited and _made_elsewhere(script, guilty, place):
            continue  # it put something else there, of which this was computed
        if script.class_of(script.scope(place.line)) is not None and place.function == "forward":
            continue
        target = target_of(failure, script, guilty, device, place.line)
        if target is not None and not _at_failure(failure, place) and not _unpacked(script, place):
            title = Phrase("fix.made-on", operand=failure.written(guilty), device=target)
            if decision.kind == "loaded":
                title = Phrase("fix.map-location", device=target)
            yield relocated(script, place, target, tensors_beside(failure, guilty)), title


def tensors_beside(failure: Failure, guilty: Operand) -> frozenset[str]:
    """What names the tensors, known here, that lie where the operand does, but the operand itself."""
    hands = {
        each.name for each in failure.event.at_hand if (each.kind, each.device) == ("tensor", guilty.device)
    }
    parts = {part.name for part in guilty.ingredients if part.device == guilty.device}
    return frozenset((hands | parts) - {guilty.local})


def _made_elsewhere(script: Script, operand: Operand, place: Place) -> bool:
    """Whether an operand was computed in another function than the one that a place is in."""
    made = operand.made
    return made is not None and script.holds(made) and script.scope(made.line) is not script.scope(place.line)


def unmoved_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """No move of a tensor that was where it has to be before the script sent it away."""
    if script is None or guilty is None or len(guilty.lineage) < 2 or len(wanted(failure, guilty)) != 1:
        return None
    newest, before = guilty.lineage[:2]
    met = {each.device for each in partners(failure, guilty)}
    if newest.kind != "moved" or met != {before.device} or not on_accelerator(before.device):
        return None
    place = newest.at
    if not script.holds(place) or not (on_accelerator(newest.device) or failure.sent_away(guilty)):
        return None
    for call in script.find(place):
        if called(call) in ("to", "cuda", "cpu") and isinstance(call.func, ast.Attribute):
            if _for_numpy(script, call):
                continue
            diff = script_diff(script, reduced(script, call, call.func.value))
            where = f"{Path(script.file).name}:{place.line}"
            return Fix(Phrase("fix.not-sent", where=where), "safe", diff) if diff else None
    return None


def _for_numpy(script: Script, call: ast.Call) -> bool:
    """Whether what a move gives is read by NumPy, which reads the host alone."""
    return any(
        isinstance(node, ast.Attribute) and node.value is call and node.attr in ("numpy", "__array__")
        for node in ast.walk(script.tree)
    )


def target_of(failure: Failure, script: Script, guilty: Operand, device: str, line: int) -> str | None:
    """What names the device at a line: what the statement meets, in its own function, or what is at hand."""
    at = failure.event.at
    if script.holds(at) and script.scope(line) is script.scope(at.line):
        target = target_at(failure, script, guilty, line)
        if target is not None and target.derived:
            return target.text
    return device_at(failure, script, device, line)


def _unpacked(script: Script, place: Place) -> bool:
    """Whether what a line gives is taken apart, so that it is no tensor itself."""
    statement, node = script.statement(place), script.expression(place)
    if not isinstance(statement, ast.Assign) or node is None or not same_span(statement.value, node):
        return False
    return any(isinstance(each, (ast.Tuple, ast.List)) for each in statement.targets)


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
    here = script.scope(failure.event.at.line)
    if len(given) != 1 or script.scope(given[0].lineno) is here:
        return  # an earlier call of the same function, whose names meant something else
    target = device_at(failure, script, device, given[0].lineno)
    if target is not None:
        yield _on(script, given[0].value, target), Phrase("fix.kept-on", attribute=name, device=target)


def _on(script: Script, value: ast.expr, target: str) -> str:
    """The source in which a value is made on, or moved to, a device."""
    if isinstance(value, ast.Call) and called(value) in FACTORIES:
        given = given_by_name(value, "device")
        if given is not None:
            return swapped(script, given, target)
        if script.text(value.func).startswith("torch."):
            return with_keyword(script, value, "device", target)
    return moved(script, value, target)


def _where_handed(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """In front of the call, and of the loops around it, that hands an item of a dictionary to the model."""
    found = _item_handed(failure, script, guilty) if guilty.device == "cpu" else None
    if found is None:
        return
    item, base, depth = found
    frame = failure.flow.frame(depth)
    anchor: ast.stmt = frame.statement
    for each in statements_around(frame.scope, frame.statement)[1:]:
        if isinstance(each, (ast.For, ast.While)):
            if any(
                isinstance(node, ast.Name) and node.id == base and isinstance(node.ctx, ast.Store)
                for node in ast.walk(each)
            ):
                break
            anchor = each
    target = device_at(failure, script, device, anchor.lineno)
    own = next((node for node in ast.walk(script.tree) if same_place(node, anchor)), None)
    if target is not None and isinstance(own, ast.stmt):
        line = f"{item} = {item}.to({target})"
        yield with_line_before(script, own, line), Phrase("fix.input-to", operand=item, device=target)


def _where_passed(failure: Failure, script: Script, guilty: Operand, device: str) -> _Change:
    """In the call of the model, outside of it, that hands the tensor in: all that read it get the copy."""
    if guilty.device != "cpu" or guilty.from_argument is None or failure.dispatched:
        return
    flow, depth, passed = failure.flow, 0, None
    for hop in hops(failure, failure.expression(guilty)):
        if hop.given is not None:
            passed, depth = hop.given
    home = None if passed is None else script.scope(passed.lineno)
    if passed is None or home is None or flow.frame(depth).place.file != script.file:
        return
    owner = script.class_of(home)
    if owner is not None and any(each.kind == owner.name for each in failure.event.running):
        return  # a part of the model calls another one
    target = device_at(failure, script, device, passed.lineno)
    read = (
        node for node in ast.walk(script.tree) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
    )
    own = next((node for node in read if same_span(node, passed)), None)
    if target is not None and own is not None:
        title = Phrase("fix.input-to", operand=script.text(own), device=target)
        yield moved(script, own, target), title


def _item_handed(failure: Failure, script: Script, guilty: Operand) -> tuple[str, str, int] | None:
    """The item of a dictionary that a caller handed in as the operand, the dictionary, and the caller's depth
    on the stack.
    """
    at_hand = {each.name for each in failure.event.at_hand if each.device == "cpu" and each.kind == "tensor"}
    text = failure.expression(guilty)
    text = guilty.local if text is None or not text.isidentifier() else text
    for hop in hops(failure, text, computed=True):
        if failure.flow.frame(hop.depth).place.file != script.file:
            return None
        match hop.given:
            case None if not hop.found:
                return _spread(failure, script, hop.name, hop.depth)
            case (ast.Subscript(value=ast.Name(id=base), slice=ast.Constant()) as node, depth):
                if hop.name != text and ast.unparse(node) not in at_hand:
                    return None
                return ast.unparse(node).replace("'", '"'), base, depth
    return None


def _spread(failure: Failure, script: Script, name: str, depth: int) -> tuple[str, str, int] | None:
    """The item of a dictionary that a caller spreads over its arguments: `model(**inputs)`."""
    flow, stack = failure.flow, failure.event.stack
    for above in range(depth + 1, len(stack)):
        frame = flow.frame(above)
        if frame.place.file != script.file or not isinstance(frame.call, ast.Call):
            return None
        spread = [each.value for each in frame.call.keywords if each.arg is None]
        if len(spread) == 1 and isinstance(spread[0], ast.Name) and not frame.call.args:
            base = spread[0].id
            items = {each.name for each in failure.event.at_hand if each.device == "cpu"}
            return (f'{base}["{name}"]', base, above) if f"{base}[{name!r}]" in items else None
        return None
    return None


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
    text = failure.expression(guilty)
    for part in (guilty.local, *(each.name for each in guilty.ingredients if each.device == guilty.device)):
        text = part if text is None or not text.isidentifier() else text
    for hop in hops(failure, text):
        name, frame = hop.name, failure.flow.frame(hop.depth)
        if frame.place.file != script.file:
            return
        if not hop.found:
            only = script.assignment(name) if hop.given is None else None
            if only is not None and only in script.tree.body and frame.scope is not script.tree:
                yield _Got(name, only, only.value)
            continue
        if len(hop.found) > 1:
            return
        own, around = hop.found[0], statements_around(frame.scope, frame.statement)
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
    if not script.holds(at):
        return
    statement = script.statement(at)
    lists = None if statement is None or guilty.local is None else _of_lists(script, statement, guilty.local)
    if lists is not None:
        loop, line, once = lists
        kept = [f"{each} = list({each})" for each in once if not _is_list(failure, each)]
        changed = with_lines_before(script, loop, [*kept, line])
        yield changed, Phrase("fix.moved-once", line=line)
        return
    if (item := _kept_item(failure, guilty)) is not None:
        yield from _item_moved(failure, script, guilty, item)
        return
    written = failure.expression(guilty) or ""
    if name is not None and "[" in name and written.startswith(name.partition("[")[0] + "["):
        # as the statement has it: what was found is one of several
        name = written[: written.rindex("]") + 1] if "]" in written else name
    target = target_at(failure, script, guilty, at.line)
    if statement is None or target is None or not target.derived or _has_block(statement):
        return
    if (
        name is None
        and guilty.local
        and (of_loop := _item_of_loop(script, statement, guilty.local)) is not None
    ):
        line = f"{of_loop} = {guilty.local} = {guilty.local}.to({target.text})"
        yield with_line_before(script, statement, line), Phrase("fix.moved-once", line=line)
    name = name or guilty.local
    if name is None or not (name.startswith("self.") or _from_before_loop(script, statement, name)):
        return
    head = target.text.partition(".")[0].partition("[")[0].removeprefix("next(")
    inside = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    read = name.partition("[")[0]
    if head in inside or not any(
        script.text(node) == read
        for node in ast.walk(statement)
        if isinstance(node, (ast.Name, ast.Attribute))
    ):
        return
    if any(_asks_for_none(script, node, read) for node in ast.walk(statement)):
        return  # it may be none yet, and has nothing to move
    line = f"{name} = {name}.to({target.text})"
    yield with_line_before(script, statement, line), Phrase("fix.moved-once", line=line)


def _asks_for_none(script: Script, node: ast.AST, name: str) -> bool:
    """Whether a node compares what is written as `name` with None."""
    match node:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return script.text(left) == name
    return False


def _item_moved(failure: Failure, script: Script, guilty: Operand, item: ast.expr) -> _Change:
    """An item of what an object keeps given the moved tensor, in the statement that reads it or in front of
    it.
    """
    statement, target = script.around(item), target_at(failure, script, guilty, item.lineno)
    if statement is None or target is None or not target.derived or _has_block(statement):
        return
    text = script.text(item)
    line = f"{text} = {text}.to({target.text})"
    if isinstance(statement, ast.Assign) and same_span(statement.value, item):
        line = f"{script.text(statement.targets[0])} = {line}"
        yield swapped(script, statement, line), Phrase("fix.moved-once", line=line)
        return
    own = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    if not own & {node.id for node in ast.walk(item) if isinstance(node, ast.Name)}:  # a comprehension's own
        yield with_line_before(script, statement, line), Phrase("fix.moved-once", line=line)


def _from_before_loop(script: Script, statement: ast.stmt, name: str) -> bool:
    """Whether a variable, or an attribute of one, has the value that it had before the loop around a
    statement.
    """
    head = name.partition(".")[0]
    loops = [
        each
        for each in ast.walk(script.scope(statement.lineno))
        if isinstance(each, (ast.For, ast.While)) and any(node is statement for node in ast.walk(each))
    ]
    given = {
        ast.unparse(node)
        for loop in loops
        for node in ast.walk(loop)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store)
    }
    known = script.bound(
        name, script.scope(statement.lineno), min((each.lineno for each in loops), default=0), 0
    )
    chain = all(part.isidentifier() for part in name.split("."))
    return bool(loops) and known and chain and head != "self" and not given & {head, name}


def _is_list(failure: Failure, name: str) -> bool:
    """Whether a variable of the failing function, or what its caller gave as it, is written as a list."""
    made = [hop.found[0].value for hop in hops(failure, name) if len(hop.found) == 1]
    match made[-1] if made else None:
        case ast.List() | ast.ListComp() | ast.Tuple() | ast.Call(func=ast.Name(id="list" | "tuple")):
            return True
    return False


def _of_lists(script: Script, statement: ast.stmt, name: str) -> tuple[ast.stmt, str, list[str]] | None:
    """The loop over two lists at once, the first of an object, from which a name comes, the line in front of
    it that moves all of that list to where the other one's items are, and the arguments that may be gone over
    once alone: the parameters of a module are given one by one.
    """
    for loop in ast.walk(script.scope(statement.lineno)):
        if not isinstance(loop, ast.For) or statement not in loop.body:
            continue
        match loop.target, loop.iter:
            case (
                ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]),
                ast.Call(func=ast.Name(id="zip"), args=[one, other]),
            ):
                pairs = [(first, one, second), (second, other, first)]
                for own, of, beside in pairs:
                    text = script.text(of)
                    if own == name and isinstance(of, ast.Attribute) and text.startswith("self."):
                        moved_all = (
                            f"{own}.to({beside}.device) for {first}, {second} in {script.text(loop.iter)}"
                        )
                        beside_it = other if of is one else one
                        once = [beside_it.id] if isinstance(beside_it, ast.Name) else []
                        return loop, f"{text} = [{moved_all}]", once
    return None


def _item_of_loop(script: Script, statement: ast.stmt, name: str) -> str | None:
    """The item of an object's own list or dictionary that a loop around a statement gives to a name."""
    for loop in ast.walk(script.scope(statement.lineno)):
        if not isinstance(loop, ast.For) or statement not in loop.body:
            continue
        match loop.target, loop.iter:
            case (
                ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=value)]),
                ast.Call(func=ast.Attribute(value=ast.Attribute() as of, attr="items"), args=[]),
            ) if value == name and script.text(of).startswith("self."):
                return f"{script.text(of)}[{key}]"
            case (
                ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=value)]),
                ast.Call(func=ast.Name(id="enumerate"), args=[ast.Attribute() as of]),
            ) if value == name and script.text(of).startswith("self."):
                return f"{script.text(of)}[{key}]"
    return None


def _has_block(statement: ast.stmt) -> bool:
    return isinstance(getattr(statement, "body", None), list)
