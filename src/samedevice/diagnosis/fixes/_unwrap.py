"""`DataParallel` around a model that is spread over several GPUs, taken off: such a model has no replicas.

Must guarantee: the script wraps once, and reads nothing through the wrapper.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from samedevice.diagnosis.fixes._edit import reduced, script_diff, swapped
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.findings import Finding, Fix
from samedevice.messages import Phrase


def unwrapped(finding: Finding[Phrase]) -> Finding[Phrase]:
    """The finding of a wrapper that refused its model, with the model itself in its place as the first fix;
    as it is where part of the model is on the host, and every finding of another kind.
    """
    at = finding.user_at
    script = Script.read(at.file) if at is not None and finding.kind == "data-parallel-module" else None
    if script is None or not script.holds(at) or any(each.device == "cpu" for each in finding.operands):
        return finding
    calls = [node for node in script.nodes if isinstance(node, ast.Call) and called(node) == "DataParallel"]
    through = any(isinstance(node, ast.Attribute) and node.attr == "module" for node in script.nodes)
    if len(calls) != 1 or through:
        return finding
    (call,) = calls
    named = (each.value for each in call.keywords if each.arg == "module")
    model = call.args[0] if call.args else next(named, None)
    if model is None or isinstance(model, ast.Starred):
        return finding
    text = script.text(model)
    choices = (node for node in script.nodes if isinstance(node, ast.IfExp))
    choice = next((each for each in choices if _chooses(script, each, call, text)), None)
    diff = script_diff(
        script, reduced(script, call, model) if choice is None else swapped(script, choice, text)
    )
    fix = Fix(Phrase("fix.unwrap"), "safe", diff, script.file)
    return finding if diff is None else replace(finding, fixes=(fix, *finding.fixes))


def _chooses(script: Script, node: ast.IfExp, call: ast.Call, model: str) -> bool:
    """Whether an expression takes the wrapped model or else the model itself."""
    return (
        call in (node.body, node.orelse)
        and script.text(node.orelse if call is node.body else node.body) == model
    )
