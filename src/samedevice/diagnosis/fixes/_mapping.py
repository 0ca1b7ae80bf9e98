"""Inputs that a model gets as one mapping, `model(**batch)`, moved all at once where it is given."""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, swapped
from samedevice.diagnosis.fixes._source import Script
from samedevice.diagnosis.fixes._target import calls_of
from samedevice.events import Operand
from samedevice.findings import Fix
from samedevice.messages import Phrase


def mapping_fix(
    failure: Failure, script: Script | None, guilty: Operand, model: str, target: str | None, library: bool
) -> Fix[Phrase] | None:
    """The whole mapping that the model is called with, to its device; `library` where the model is one of
    transformers, which knows its device.

    None where the model gets the operand in another way, or something moved it: that is where to change it.
    """
    if script is None or target is None or guilty.moved is not None:
        return None
    for place in calls_of(failure, script):
        for call in script.find(place):
            if _root(call.func) != model or any(each.arg == guilty.argument for each in call.keywords):
                continue
            spread = [each.value for each in call.keywords if each.arg is None]
            if call.args or len(spread) != 1 or not isinstance(spread[0], (ast.Name, ast.Attribute)):
                continue
            given = spread[0]
            outermost = failure.event.running[-1]
            device = f"{model}.device" if library and len(outermost.below) == 1 else target
            diff = script_diff(script, swapped(script, given, _moved(script, given, device)))
            if diff is not None:
                title = Phrase("fix.mapping-to", mapping=script.text(given), device=device)
                return Fix(title, "safe", diff)
    return None


def _moved(script: Script, given: ast.expr, device: str) -> str:
    """The mapping with its tensors on a device: by its own `to` where a tokenizer or processor made it."""
    text = script.text(given)
    made = script.assignment(text) if isinstance(given, ast.Name) else None
    if made is not None and isinstance(made.value, ast.Call):
        if any(each.arg == "return_tensors" for each in made.value.keywords):
            return f"{text}.to({device})"
    value = f"each.to({device})"
    if made is not None and isinstance(made.value, ast.Dict):
        if any(isinstance(each, ast.Constant) for each in made.value.values):
            value = f'{value} if hasattr(each, "to") else each'
    return f"{{name: {value} for name, each in {text}.items()}}"


def _root(function: ast.expr) -> str | None:
    """`model` of `model(...)` and of `model.generate(...)`."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else None
