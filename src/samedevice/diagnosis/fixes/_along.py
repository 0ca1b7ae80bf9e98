"""What goes along with a tensor that is sent on from GPU to GPU is sent on with it.

A pipeline by hand sends its activations from stage to stage: `x = x.to(stage.device)`. A mask or a state that
every layer of a stage reads belongs there, too, once for each stage and not once for each layer. Must
guarantee: the tensor is handed down from the function that sends the other one, both to the same call, and
follows the same words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, with_line_after
from samedevice.diagnosis.fixes._source import Script, same_place
from samedevice.diagnosis.fixes._target import unites
from samedevice.events import Operand, on_accelerator
from samedevice.findings import Fix, Safety
from samedevice.messages import Phrase
from samedevice.provenance.assignments import Given, reaching, statements_around
from samedevice.provenance.syntax import names_of

_STEPS = 8
"""So many names are followed back."""


def along_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The operand sent on in a line of its own, below the line that sends what it meets."""
    if script is None or guilty is None or guilty.role or guilty.holder or not failure.flow.readable:
        return None
    if failure.dispatched or not all(on_accelerator(each.device) for each in failure.event.operands):
        return None
    for text, depth in _handed_down(failure, failure.expression(guilty)):
        frame = failure.flow.frame(depth)
        if frame.place.file != script.file:
            return None
        read = names_of(ast.unparse(frame.call)) if frame.call is not None else frozenset()
        for statement in statements_around(frame.scope, frame.statement):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                break
            own = next((each for each in script.nodes if same_place(each, statement)), None)
            block = next((each for each in script.blocks() if own in each), [])
            for before in reversed(block[: block.index(own)] if isinstance(own, ast.stmt) else ()):
                sent = _sent(before)
                if sent is None or sent[0] not in read:
                    continue
                line = f"{text} = {text}.to({sent[1]})"
                changed = with_line_after(script, before, line)
                diff = script_diff(script, changed) if changed else None
                safety: Safety = "safe" if unites(failure, guilty) else "check"
                return Fix(Phrase("fix.sent-along", line=line), safety, diff) if diff else None
    return None


def _handed_down(failure: Failure, text: str | None) -> Iterator[tuple[str, int]]:
    """How the functions above the failing one spell a tensor that they handed down, and their depths."""
    flow, depth = failure.flow, 0
    for _ in range(_STEPS):
        head, dot, path = (text or "").partition(".")
        if not _is_chain(text) or head == "self":
            return
        frame = flow.frame(depth)
        found = [each for each in reaching(head, frame.scope, frame.statement) if each.replaces]
        value: ast.expr | None = None
        match found:
            case [Given(statement=ast.Assign(targets=[ast.Name()]), value=value)]:
                pass  # of one that is taken apart the name has a part
        if not found and (given := flow.given(head, depth)) is not None:
            value, depth = given
            text = f"{ast.unparse(value)}{dot}{path}"
            yield text, depth
        elif isinstance(value, (ast.Name, ast.Attribute)):
            text = f"{ast.unparse(value)}{dot}{path}"
        else:
            return


def _is_chain(text: str | None) -> bool:
    """Whether a text is a variable, or an attribute of one."""
    return bool(text) and all(part.isidentifier() for part in (text or "").split("."))


def _sent(statement: ast.stmt) -> tuple[str, str] | None:
    """The variable that a statement sends elsewhere, and the words for where, which write no GPU down."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(args=[given], func=ast.Attribute(value=ast.Name(id=of), attr="to")),
        ) if name == of and not isinstance(given, ast.Constant):
            return name, ast.unparse(given)
    return None
