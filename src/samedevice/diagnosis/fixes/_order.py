"""A model that is moved before its optimizer is made, where the script has it the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import lifted, script_diff, with_line_after
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase


def order_fix(script: Script | None, owner: str | None = None) -> Fix[Phrase] | None:
    """The only move of a model that follows its optimizer, in front of it, with what it reads; where the
    model computes something between the two, the state of torch's own optimizers is taken along: loading
    casts it to where the parameters are. With an `owner` only what such a call makes counts.
    """
    found = [] if script is None else list(_late_moves(script)) or list(_late_moves(script, whole=True))
    if script is not None and owner is not None:
        either = [*_late_moves(script), *_late_moves(script, whole=True)]
        found = [each for each in either if _is_made_by(each[1], owner)]
    if script is None or not found or any(each[2] is not found[0][2] for each in found):
        return None
    name, early, late, between = found[0]  # the earliest: what is made of it before the move comes after it
    bound = _bound(between, late, name)
    if not _used(script, between[1:]) and early not in bound and not _bound(bound, early, name):
        title, changed = (
            Phrase("fix.move-before-optimizer", model=name, keeper=script.text(early.targets[0])),
            lifted(script, [*bound, late], early),
        )
    elif owner is None and not _of_script(script, early):
        optimizer = script.text(early.targets[0])
        line = f"{optimizer}.load_state_dict({optimizer}.state_dict())"
        title, changed = Phrase("fix.state-follows", line=line), with_line_after(script, late, line) or ""
    else:
        return None
    diff = script_diff(script, changed) if changed else None
    return None if diff is None else Fix(title, "safe", diff)


def _is_made_by(early: ast.Assign, name: str) -> bool:
    return isinstance(early.value, ast.Call) and called(early.value) == name


def copied_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The same for any object that copies a model before it moves, where its own method fails on the host's
    copy of a weight; and for the one copy that the failing function itself makes.
    """
    if script is None or guilty is None or not script.holds(failure.event.at):
        return None
    owner = script.class_of(script.scope(failure.event.at.line))
    left = [each for each in failure.event.operands if each.device == "cpu" and each.shape]
    met = [each for each in failure.event.operands if each.device != "cpu"]
    first = all(each.decision is None or each.decision.kind == "created" for each in left)
    moved = any(each.decision is not None and each.decision.kind == "placed" for each in met)
    if not (left and first and moved):
        return None
    if owner is not None:
        return order_fix(script, owner.name)
    scope = script.scope(failure.event.at.line)
    copies = [node for node in script.nodes if isinstance(node, ast.Call) and called(node) == _COPIES]
    here = len(copies) == 1 and script.scope(copies[0].lineno) is scope
    return order_fix(script, _COPIES) if here and _is_of(failure, script, copies[0]) else None


_COPIES = "deepcopy"


def _is_of(failure: Failure, script: Script, copy: ast.Call) -> bool:
    """Whether a loop around the failing statement goes over what a call made."""
    made, at = script.around(copy), failure.event.at.line
    names = [script.text(each) for each in made.targets] if isinstance(made, ast.Assign) else []
    loops = [
        node
        for node in script.nodes
        if isinstance(node, ast.For) and node.lineno <= at <= (node.end_lineno or 0)
    ]
    return any(
        isinstance(node, (ast.Name, ast.Attribute)) and script.text(node) in names
        for each in loops
        for node in ast.walk(each.iter)
    )


def _of_script(script: Script, made: ast.Assign) -> bool:
    """Whether what a statement makes is of a class of the script, which may keep tensors where no loading
    reaches.
    """
    classes = {node.name for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef)}
    return isinstance(made.value, ast.Call) and called(made.value) in classes


def _late_moves(
    script: Script, whole: bool = False
) -> Iterator[tuple[str, ast.Assign, ast.stmt, list[ast.stmt]]]:
    """Models, with the statement that gives their parameters to an optimizer, the later one that moves them,
    and all from the first to before the second.
    """
    for block in script.blocks():
        for at, early in enumerate(block):
            for name in _given_away(early, whole):
                late = next((each for each in block[at + 1 :] if _moves(each, name)), None)
                if late is not None and isinstance(early, ast.Assign):
                    yield name, early, late, block[at : block.index(late)]


def _given_away(statement: ast.stmt, whole: bool) -> Iterator[str]:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Name, ast.Attribute)):
        for node in ast.walk(statement.value):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=(ast.Name() | ast.Attribute()) as of, attr="parameters")
                ):
                    yield ast.unparse(of)
                case ast.Call(func=ast.Name(), args=[(ast.Name() | ast.Attribute()) as of, *_]) if whole:
                    yield ast.unparse(of)
                case ast.Call(
                    func=ast.Attribute(attr="deepcopy"), args=[(ast.Name() | ast.Attribute()) as of]
                ) if whole:
                    yield ast.unparse(of)


def _moves(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() as call) | ast.Assign(targets=[_], value=ast.Call() as call):
            owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else None
            same = not isinstance(statement, ast.Assign) or ast.unparse(statement.targets[0]) == name
            return called(call) in ("to", "cuda") and owner == name and same
    return False


_HARMLESS = frozenset(
    "load_state_dict train eval requires_grad_ zero_grad print len range get open close seek".split()
)
"""What may be called between the two without the model computing anything."""


def _used(script: Script, statements: Sequence[ast.AST], depth: int = 1) -> bool:
    """Whether something is called that may use the model, through a global name as well; functions of the
    script are looked into.
    """
    calls = [node for each in statements for node in ast.walk(each) if isinstance(node, ast.Call)]
    return any(
        called(call) not in _HARMLESS
        and not ast.unparse(call.func).startswith(("torch.", "nn.", "optim."))
        and not (depth and _is_harmless(script, call))
        for call in calls
    )


def _is_harmless(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a function of the script, and all that this calls leaves the model alone."""
    name = call.func.id if isinstance(call.func, ast.Name) else None
    functions = [
        node for node in ast.walk(script.tree) if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return len(functions) == 1 and not _used(script, functions[0].body, depth=0)


def _bound(statements: Sequence[ast.stmt], late: ast.stmt, name: str) -> list[ast.stmt]:
    """The statements that give a value to a name or attribute that the late one reads."""
    read = {ast.unparse(node) for node in ast.walk(late) if isinstance(node, (ast.Name, ast.Attribute))}
    return [
        each
        for each in statements
        if any(
            isinstance(node, (ast.Name, ast.Attribute))
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node) in read - {name}
            for node in ast.walk(each)
        )
    ]
