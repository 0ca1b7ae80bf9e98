"""Inputs that stayed behind, moved where the script calls the model: by their names, or as one mapping."""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import moved, script_diff, swapped
from samedevice.diagnosis.fixes._source import Script
from samedevice.diagnosis.fixes._target import CALLED, calls_of, path_of
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


def arguments_fix(
    failure: Failure, script: Script | None, guilty: Operand, weight: Operand, library: bool
) -> Fix[Phrase] | None:
    """All arguments of the model's call that are where the operand is, to the model's device; `library` as
    above.

    None where the script calls it in another way, or something moved the operand.
    """
    arguments = failure.event.arguments
    argument = guilty.from_argument or guilty.argument
    if script is None or guilty.moved is not None or not arguments or not weight.parameter:
        return None
    left = {name for name, device in arguments if device == guilty.device}
    place = failure.event.user_at
    for call in script.find(place) if script.holds(place) else ():
        callee = call.func
        if isinstance(callee, ast.Attribute) and callee.attr in CALLED:
            callee = callee.value
        given = {each.arg: each.value for each in call.keywords if each.arg is not None}
        ran = place is not None and " ".join(script.text(call).split()) == " ".join(place.call.split())
        if ran and call.args and not isinstance(call.args[0], ast.Starred):
            given.setdefault(arguments[0][0], call.args[0])
        if argument not in given or argument not in left or not _holds_module(script, callee):
            continue
        model = script.text(callee)
        device = f"{model}.{path_of(weight.parameter)}.device"
        if library:
            alone = len(failure.event.running[-1].below) == 1
            device = f"{model}.device" if alone else f"{model}.get_input_embeddings().weight.device"
        nodes = [given[name] for name in given if name in left]
        source = script.source
        for node in sorted(nodes, key=lambda each: (each.lineno, each.col_offset), reverse=True):
            source = moved(Script(script.file, source), node, device)
        diff = script_diff(script, source)
        names = ", ".join(name for name in given if name in left)
        return Fix(Phrase("fix.inputs-to", operands=names, device=device), "safe", diff) if diff else None
    return None


def _holds_module(script: Script, callee: ast.expr) -> bool:
    """Whether what is called is looked up, and is no function or class of the script."""
    if isinstance(callee, ast.Name):
        return not any(
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == callee.id
            for node in ast.walk(script.tree)
        )
    return isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name)


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
