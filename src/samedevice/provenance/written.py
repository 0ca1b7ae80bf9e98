"""How an expression writes each tensor that its operator got."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def written(
    call: ast.expr, op: str, operands: Sequence[str], imported: frozenset[str]
) -> dict[str, ast.expr]:
    """The part of a failing expression that stands for each operand; nothing for one that cannot be told.

    `op` is the operator's short name, `operands` are the names of its tensors in their order, `imported` are
    the names that hold modules and no tensors. A method is read only where it has the operator's name: a
    module's call says nothing of the operator inside it.
    """
    match call:
        case ast.BinOp(left=left, right=right) if len(operands) == 2:
            return dict(zip(operands, (left, right), strict=True))
        case ast.Compare(left=left, comparators=[right]) if len(operands) == 2:
            return dict(zip(operands, (left, right), strict=True))
        case ast.Call(func=ast.Attribute(value=of, attr=name) as function) if _same(name, op):
            first = [] if _base(function) in imported else [of]
            return _of_arguments(call, first, operands)
        case ast.Call(func=ast.Name(id=name)) if _same(name, op):
            return _of_arguments(call, [], operands)
        case ast.Call():
            return _by_keyword(call, operands)
    return {}


def handed_over(call: ast.Call, called: bool) -> str | None:
    """How a call writes its only tensor, or with `called` what it calls; None where there may be several."""
    by_name = [each.value for each in call.keywords if each.arg != "dtype"]
    given = [each for each in (*call.args, *by_name) if not _number(each)]
    match call.func:
        case function if called:
            return ast.unparse(function)
        case ast.Attribute(value=of, attr="numpy" | "__array__"):
            return ast.unparse(of)
    alone = len(given) == 1 and not isinstance(given[0], (ast.List, ast.Tuple, ast.Starred))
    return ast.unparse(given[0]) if alone else None


def _same(name: str, op: str) -> bool:
    """Whether a function is called as its operator is, whose library may stand before its name."""
    return name.replace("_", "") == op.rpartition(".")[2].replace("_", "")


def _base(node: ast.expr) -> str | None:
    """The name that a chain of attributes begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _of_arguments(call: ast.Call, first: list[ast.expr], operands: Sequence[str]) -> dict[str, ast.expr]:
    found = _by_keyword(call, operands)
    given = list(first)
    for each in call.args:
        given += each.elts if isinstance(each, (ast.List, ast.Tuple)) else [each]
    tensors = [each for each in given if not _number(each)]
    left = [name for name in operands if name not in found]
    if len(tensors) == len(left):
        found |= zip(left, tensors, strict=True)
    elif tensors and (first or len(left) == 1):
        found |= zip(left[:1], tensors, strict=False)
    return found


def _by_keyword(call: ast.Call, operands: Sequence[str]) -> dict[str, ast.expr]:
    return {each.arg: each.value for each in call.keywords if each.arg is not None and each.arg in operands}


def _number(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("len", "int", "float")
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)
