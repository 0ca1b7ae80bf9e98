"""Models that a file loads with a device map."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._source import Call, LintedFile
from samedevice.static import SPREADING

_SAME_MODEL = frozenset("eval train half float bfloat16 requires_grad_".split())


def maps_in(file: LintedFile) -> Iterator[Call]:
    """The calls that load a model by a map that accelerate draws."""
    for call in file.source.every_call():
        if _spread(call.node) is not None:
            yield call


def loaded_with_map(file: LintedFile, owner: ast.expr, at: Call) -> bool:
    """Whether an expression is a model that a map of accelerate's has spread."""
    while isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
        if owner.func.attr not in _SAME_MODEL:
            return _spread(owner) is not None
        owner = owner.func.value
    if not isinstance(owner, ast.Name):
        return False
    given = file.assignments(at.around, owner.id)
    before = [each for each in given if getattr(each, "lineno", 0) <= at.node.lineno]
    loads = [each for each in before if _loads(each)]
    others = [each for each in before if not _loads(each) and not _same(each, owner.id)]
    return bool(loads) and not others


def _loads(node: ast.expr) -> bool:
    while (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_MODEL
    ):
        node = node.func.value
    return _spread(node) is not None


def _same(node: ast.expr, name: str) -> bool:
    """Whether it is the same model, as `model.eval()` and `model.to(device)` are."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return isinstance(node, ast.Name) and node.id == name


def _spread(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    for keyword in node.keywords:
        if keyword.arg == "device_map" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value) if keyword.value.value in SPREADING else None
    return None
