"""Which operand of a failing statement is the one on the host, as the message and the statement tell it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from samedevice.diagnosis._rule import OF_LAYER, device_pattern
from samedevice.diagnosis.paste import Pattern, Report
from samedevice.events import Written
from samedevice.provenance.syntax import parsed, parts_of
from samedevice.provenance.written import written

PAIR = 2
KEPT = ("buffer", "parameter")
"""Origins of what a module keeps and `.to()` moves with it."""
OF_INPUTS = ("index", "mat1", "indices", "input")
"""What the messages of a layer call its input."""
_FIRST = ("mat1", "self", "input", "batch1")
_SECOND = ("mat2", "other", "batch2", "vec", "weight")
"""What messages call the second operand of a product."""
_APPLIES = Pattern(r"linear|conv(?:_transpose)?[123]d")
"""Functions that apply a weight, which is their second argument."""
_LIBRARIES = frozenset(("torch", "F"))


def handed_beside_kept(origins: Sequence[Written]) -> Written | None:
    """What a module was handed beside its first argument, with what that module keeps or computed.

    The module ran so far, so it is where its first argument is.
    """
    own = [each for each in origins if each.origin in (*KEPT, "layer")]
    handed = [each for each in origins if each.origin == "argument" and each.position is not None]
    alone = len(handed) == 1 and own and len(own) + 1 == len(origins)
    return handed[0] if alone and handed[0].position else None


def on_host(report: Report, origins: Sequence[Written]) -> Written | None:
    """Of a tensor on the host and others on a GPU the one on the host, where the statement tells it."""
    code = report.at.marked or report.at.code if report.at is not None else ""
    if report.kind == "index-device" and report.devices == ("cpu",):
        return origins[0] if len(origins) == 1 else None
    if device_pattern(report.devices) != "host" or len(report.devices) != PAIR:
        return None
    if report.operands:
        return _placed_by_name(report, origins, code)
    if len(origins) == 1:
        return _only_input(report, origins)
    if report.argument is None or _fails_below(report):
        return None
    sides = _of_product(code, origins)
    if sides is None or report.argument not in (*_FIRST, *_SECOND):
        return None
    return sides[(report.argument in _FIRST) != (own_device(report) == "cpu")]


def own_device(report: Report) -> str:
    """The device of the operand that a message about two devices names."""
    return report.devices[0] if report.kind == "argument-device" else report.devices[-1]


def _only_input(report: Report, origins: Sequence[Written]) -> Written | None:
    """The only tensor that the statement reads, where the message has the input of a layer on the host."""
    return origins[0] if report.argument in OF_INPUTS and own_device(report) == "cpu" else None


def _fails_below(report: Report) -> bool:
    """Whether a layer that the statement calls failed, and not what the statement writes out."""
    return any(OF_LAYER.search(frame.file or "") for frame in report.below)


def _of_product(code: str, origins: Sequence[Written]) -> tuple[Written, Written] | None:
    """The two sides of the only product of matrices that a statement writes, where the order is that of the
    operator: torch exchanges the sides where the left one has fewer dimensions, as a weight may have.
    """
    tree = parsed(code)
    found = [sides for node in ast.walk(tree) if (sides := _sides_of(node))] if tree is not None else []
    if len(found) != 1:
        return None
    left, right = (_within(each, origins) for each in found[0])
    if left is None or right is None or left is right or left.origin in (*KEPT, "attribute", "made"):
        return None
    return left, right


def _sides_of(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=of), attr="matmul" | "mm" | "bmm"), args=[left, right]
        ):
            return (left, right) if of in _LIBRARIES else None
        case ast.Call(func=ast.Attribute(attr=name), args=[left, right, *_]) if _APPLIES.fullmatch(name):
            return left, right
    return None


def _within(part: ast.expr, origins: Sequence[Written]) -> Written | None:
    """The operand that stands in a part of the statement; None where several do."""
    names = parts_of(part)
    found = [each for each in origins if each.name in names]
    return found[0] if len(found) == 1 else None


def _placed_by_name(report: Report, origins: Sequence[Written], code: str) -> Written | None:
    """The operand that the message puts on the host by its name, as the statement writes it."""
    names = [name for name, _ in report.operands]
    tree = parsed(code)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ():
        op = call.func.attr.rstrip("_") if isinstance(call.func, ast.Attribute) else ""
        found = written(call, op, sorted(names, key=lambda name: name != "self"), _LIBRARIES)
        parts = [found[name] for name, device in report.operands if device == "cpu" and name in found]
        if len(found) == len(names) and len(parts) == 1:
            return _within(parts[0], origins)
    return None


def made_on_host(odd: Written, report: Report) -> bool:
    """Whether an operand was made without a device, where the message has one operand on the host."""
    return odd.origin in ("made", "host") and own_device(report) == "cpu"
