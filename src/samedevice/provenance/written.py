"""How an expression writes each tensor that its operator got."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def written(call: ast.expr, op: str, operands: Sequence[str]) -> dict[str, ast.expr]:
    """The part of a failing expression that stands for each operand; nothing for one that cannot be told.

    `op` is the operator's short name, `operands` are the names of its tensors in their order. A method is
    read only where it has the operator's name: a module's call says nothing of the operator inside it.
    """
    match call:
        case ast.BinOp(left=left, right=right) if len(operands) == 2:
            return dict(zip(operands, (left, right), strict=True))
        case ast.Compare(left=left, comparators=[right]) if len(operands) == 2:
            return dict(zip(operands, (left, right), strict=True))
        case ast.Call(func=ast.Attribute(value=of, attr=name) as function) if _same(name, op):
            first = [] if _is_namespace(function) else [of]
            return _of_arguments(call, first, operands)
        case ast.Call(func=ast.Name(id=name)) if _same(name, op):
            return _of_arguments(call, [], operands)
        case ast.Call():
            return _by_keyword(call, operands)
    return {}


def _same(name: str, op: str) -> bool:
    return name.strip("_") == op.strip("_")


def _is_namespace(function: ast.Attribute) -> bool:
    """Whether a function of torch is called, and no tensor's method."""
    return ast.unparse(function.value) in ("torch", "F", "functional", "nn.functional", "torch.nn.functional")


def _of_arguments(call: ast.Call, first: list[ast.expr], operands: Sequence[str]) -> dict[str, ast.expr]:
    found = _by_keyword(call, operands)
    given = list(first)
    for each in call.args:
        given += each.elts if isinstance(each, (ast.List, ast.Tuple)) else [each]
    tensors = [each for each in given if not _number(each)]
    left = [name for name in operands if name not in found]
    if len(tensors) == len(left):
        found |= zip(left, tensors, strict=True)
    elif first and left:
        found[left[0]] = first[0]
    return found


def _by_keyword(call: ast.Call, operands: Sequence[str]) -> dict[str, ast.expr]:
    return {each.arg: each.value for each in call.keywords if each.arg is not None and each.arg in operands}


def _number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)
