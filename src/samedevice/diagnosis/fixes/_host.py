"""A tensor that NumPy reads, brought to the host where the script hands it over."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from samedevice.diagnosis.fixes._edit import called_before, grouped, script_diff, swapped
from samedevice.diagnosis.fixes._source import Script
from samedevice.findings import Finding, Fix, Safety
from samedevice.messages import Phrase
from samedevice.provenance.syntax import parsed

_METHODS = ("numpy", "__array__")


@dataclass(frozen=True, slots=True)
class Held:
    """What the frame that failed held, as far as a repair has to know it."""

    requires_grad: bool = False
    """Whether the tensor that NumPy read has a gradient, which `numpy()` refuses on the host, too."""
    tensors: frozenset[str] = frozenset()
    """Names that held a tensor."""
    lists: frozenset[str] = frozenset()
    """Names that held a list or tuple of tensors."""


def brought_to_host(finding: Finding[Phrase], held: Held) -> Finding[Phrase]:
    """The finding of a tensor that NumPy read, with the change of the script's own line in front; as it is
    where that line does not show the tensor, and every finding of another kind.
    """
    at, text = finding.user_at, finding.guilty
    script = Script.read(at.file) if at is not None and finding.kind == "numpy-conversion" else None
    if script is None or at is None or text is None or not script.holds(at):
        return finding
    statement = script.statement(at)
    given = [] if statement is None else _given(script, statement, text)
    if not given:
        return finding
    of_method = any(method for _, method in given)
    to_host = "detach().cpu()" if held.requires_grad else "cpu()"
    whole = f"{grouped(text)}.{to_host}"
    if text in held.lists and not of_method:
        whole = f"[each.{to_host} for each in {text}]"
    source = script.source
    for node, method in sorted(given, key=lambda each: (each[0].lineno, each[0].col_offset), reverse=True):
        left = Script(script.file, source)
        if method and isinstance(node, ast.Call):
            source = called_before(left, node, to_host)
        else:
            source = swapped(left, node, whole)
    diff = script_diff(script, source)
    if diff is None:
        return finding
    safety: Safety = "safe" if of_method or text in held.tensors | held.lists else "check"
    fix = Fix(Phrase("fix.for-numpy", operand=text, change=whole), safety, diff, script.file)
    return replace(finding, fixes=(fix, *finding.fixes))


def _given(script: Script, statement: ast.stmt, text: str) -> list[tuple[ast.expr, bool]]:
    """Where a statement hands the tensor over: calls of its own methods, or else arguments; and which."""
    found: list[tuple[ast.expr, bool]] = []
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in _METHODS:
                found += [(node, True)] if _same(script, of, text) else []
            case ast.Call(args=args, keywords=keywords):
                values = [*args, *(each.value for each in keywords)]
                found += [(each, False) for each in values if _same(script, each, text)]
    methods = [each for each in found if each[1]]
    return methods or found


def _same(script: Script, node: ast.expr, text: str) -> bool:
    """Whether a node is what a text says, which may write a number otherwise: `1e-3`, `0.001`."""
    if "".join(script.text(node).split()) == "".join(text.split()):
        return True
    said = parsed(text)
    return said is not None and ast.dump(ast.Expression(node)) == _dumped(said)


def _dumped(tree: ast.Module) -> str:
    match tree.body:
        case [ast.Expr(value=node)]:
            return ast.dump(ast.Expression(node))
    return ""
