"""Which operand of a failing statement is the one on the host, as the message and the statement tell it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis.paste import Pattern, Report
from samedevice.events import Written
from samedevice.provenance.syntax import parsed
from samedevice.provenance.written import written

PAIR = 2
KEPT = ("buffer", "parameter")
"""Origins of what a module keeps and `.to()` moves with it."""
OF_INPUTS = ("index", "mat1", "indices", "input")
"""What the messages of a layer call its input."""
_SECOND = ("mat2", "other", "batch2", "vec")
"""What messages call the second operand of a product."""
_LIBRARIES = frozenset(("torch", "F"))
_BINARY = Pattern(r"\b(?:matmul|mm|bmm|addmm|einsum)\(| @ ")


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
    if report.argument is None:
        return None
    own = report.devices[0] if report.kind == "argument-device" else report.devices[1]
    first = report.argument in (*OF_INPUTS, "self")
    if len(origins) == 1:
        return origins[0] if first and own == "cpu" else None
    if len(origins) != PAIR or not _BINARY.search(code) or not (first or report.argument in _SECOND):
        return None
    return origins[first != (own == "cpu")]


def _placed_by_name(report: Report, origins: Sequence[Written], code: str) -> Written | None:
    """The operand that the message puts on the host by its name, as the statement writes it."""
    names = [name for name, _ in report.operands]
    tree = parsed(code)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ():
        op = call.func.attr.rstrip("_") if isinstance(call.func, ast.Attribute) else ""
        found = written(call, op, sorted(names, key=lambda name: name != "self"), _LIBRARIES)
        parts = [found[name] for name, device in report.operands if device == "cpu" and name in found]
        if len(found) == len(names) and len(parts) == 1:
            within = {ast.unparse(node) for node in ast.walk(parts[0]) if isinstance(node, ast.expr)}
            placed = [each for each in origins if each.name in within]
            return placed[0] if len(placed) == 1 else None
    return None


def made_on_host(odd: Written, report: Report) -> bool:
    """Whether an operand was made without a device, where the message has one operand on the host."""
    own = report.devices[0] if report.kind == "argument-device" else report.devices[-1]
    return odd.origin in ("made", "host") and own == "cpu"
