"""A layer called, where the script computes with its weight and so passes by the hook that would bring it.

Must guarantee: the call gives what the expression gave, so the layer is made in the script, once, without a
bias.
"""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, swapped
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase


def called_fixes(failure: Failure, script: Script | None, guilty: Operand | None) -> list[Fix[Phrase]]:
    """The call of the layer in the place of a product with its weight."""
    at = failure.event.at
    ran = script.expression(at) if script is not None and script.holds(at) else None
    found = None if script is None or ran is None else _layer(script, ran)
    if script is None or ran is None or found is None or not _plain(script, found[0]):
        return []
    layer, given = found
    text = f"{layer}({script.text(given)})"
    diff = script_diff(script, swapped(script, ran, text))
    return [Fix(Phrase("fix.called", call=text), "safe", diff)] if diff else []


def _layer(script: Script, ran: ast.expr) -> tuple[str, ast.expr] | None:
    """The layer whose weight an expression multiplies something with, and the something."""
    weight: ast.expr | None = None
    match ran:
        case ast.BinOp(left=given, op=ast.MatMult(), right=right):
            weight = _transposed(right)
        case ast.Call(func=ast.Attribute(attr="linear"), args=[given, weight], keywords=[]):
            pass
        case _:
            return None
    match weight:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as layer, attr="weight"):
            return script.text(layer), given
    return None


def _transposed(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="t"), args=[], keywords=[]):
            return inner
        case ast.Attribute(value=inner, attr="T" | "mT"):
            return inner
    return None


def _plain(script: Script, layer: str) -> bool:
    """Whether the script makes a layer once, as a linear one without a bias."""
    made = [
        node.value
        for node in script.nodes
        if isinstance(node, ast.Assign) and any(script.text(each) == layer for each in node.targets)
    ]
    match made:
        case [ast.Call(keywords=keywords) as call] if called(call) == "Linear":
            given = [each.value for each in keywords if each.arg == "bias"]
            return len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False
    return False
