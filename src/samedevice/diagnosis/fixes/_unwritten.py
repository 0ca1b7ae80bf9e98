"""A device that a helper writes down, taken out of it; its only caller sends what it gets on.

Must guarantee: nobody else calls the helper, and what is sent is sent once for each call.
"""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import moved, script_diff, swapped
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._target import target_at, unites
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase


def unwritten_fix(failure: Failure, script: Script | None, guilty: Operand | None) -> Fix[Phrase] | None:
    """The helper without its device, and the value of its call moved where the failing function gets it."""
    decision = None if guilty is None else guilty.decision
    place = None if decision is None else decision.at
    if (
        script is None
        or guilty is None
        or decision is None
        or decision.source not in ("literal", "current-gpu")
    ):
        return None
    if not script.holds(place) or not script.holds(failure.event.at) or decision.inherited:
        return None
    here, maker = script.scope(failure.event.at.line), script.scope(place.line)
    if not isinstance(maker, ast.FunctionDef) or maker is here:
        return None
    calls = [each for each in script.nodes if isinstance(each, ast.Call) and called(each) == maker.name]
    if len(calls) != 1 or script.scope(calls[0].lineno) is not here:
        return None
    target = target_at(failure, script, guilty, calls[0].lineno)
    own = next((each for each in script.find(place) if _without_device(script, each) is not None), None)
    if target is None or not target.derived or own is None or not unites(failure, guilty):
        return None
    first, last = sorted((own, calls[0]), key=lambda each: each.lineno)
    source = script.source
    for each in (last, first):
        now = Script(script.file, source)
        text = _without_device(script, own) or ""
        source = swapped(now, own, text) if each is own else moved(now, calls[0], target.text)
    diff = script_diff(script, source)
    title = Phrase("fix.input-to", operand=script.text(calls[0]), device=target.text)
    return Fix(title, "safe", diff) if diff else None


def _without_device(script: Script, call: ast.Call) -> str | None:
    """The source of a call without the device that it writes down; None where it writes none."""
    match call:
        case ast.Call(func=ast.Attribute(attr="cuda", value=of), args=[] | [ast.Constant()], keywords=[]):
            return script.text(of)
        case ast.Call(func=ast.Attribute(attr="to", value=of), args=[ast.Constant(value=str())], keywords=[]):
            return script.text(of)
    kept = [each for each in call.keywords if each.arg != "device"]
    written = [
        each for each in call.keywords if each.arg == "device" and isinstance(each.value, ast.Constant)
    ]
    if len(written) != 1 or any(each.arg is None for each in kept):
        return None
    given = [*map(script.text, call.args), *(f"{each.arg}={script.text(each.value)}" for each in kept)]
    return f"{script.text(call.func)}({', '.join(given)})"
