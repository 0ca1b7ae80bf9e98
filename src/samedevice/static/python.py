"""Python's own operations on values that can be told.

Arithmetic, comparison, subscripts, builtins, methods of text and containers.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from samedevice.static.process import Process
from samedevice.static.reader import Frame, Reader, Stopped
from samedevice.static.values import (
    UNKNOWN,
    Bound,
    Checkpoint,
    Device,
    External,
    Function,
    Instance,
    Model,
    Origin,
    Parameters,
    Table,
    Tensor,
    Text,
    known,
)

_LONGEST = 10_000

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def truth(value: Any) -> bool | None:
    """Whether a condition holds; None when it cannot be told."""
    if isinstance(value, (type(UNKNOWN), Bound, Tensor, Parameters, External)):
        return None
    if isinstance(value, (Model, Instance, Function, Checkpoint, Device)):
        return True
    try:
        return bool(value)
    except Exception:
        return None


def binary(kind: ast.operator, left: Any, right: Any) -> Any:
    """`left + right` and the like."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return (
            left
            if isinstance(left, Tensor) and left.device is not None
            else right
            if isinstance(right, Tensor)
            else left
        )
    action = _ARITHMETIC.get(type(kind))
    if action is None or not _small(left) or not _small(right):
        return UNKNOWN
    if isinstance(kind, ast.Mult) and not (
        isinstance(left, (int, float)) and isinstance(right, (int, float))
    ):
        size = max((len(each) for each in (left, right) if hasattr(each, "__len__")), default=0)
        times = next((each for each in (left, right) if isinstance(each, int)), 0)
        if size * times > _LONGEST:
            return UNKNOWN
    if isinstance(kind, ast.Mod) and isinstance(left, str):
        return UNKNOWN
    try:
        result = action(left, right)
    except Exception:
        return UNKNOWN
    if isinstance(result, str):
        return Text(result, getattr(left, "origin", None))
    if isinstance(result, dict):
        table = Table(result)
        table.origin = getattr(left, "origin", None)
        return table
    return result


def compare(kind: ast.cmpop, left: Any, right: Any, process: Process) -> Any:
    """`left == right` and the like; `in` also asks the environment."""
    if isinstance(kind, (ast.In, ast.NotIn)):
        inside = _inside(left, right, process)
        return inside if inside is UNKNOWN else inside is isinstance(kind, ast.In)
    same = isinstance(kind, (ast.Is, ast.Eq))
    if isinstance(kind, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and (left is None or right is None):
        other = right if left is None else left
        untold = other is UNKNOWN or isinstance(other, Bound)
        return UNKNOWN if untold else (other is None) is same
    if isinstance(left, External) and isinstance(right, External):
        constants = left.last.isupper() and right.last.isupper()
        equality = isinstance(kind, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
        return (left.last == right.last) is same if constants and equality else UNKNOWN
    if isinstance(kind, (ast.Is, ast.IsNot)):
        comparable = isinstance(left, bool) and isinstance(right, bool)
        return (left is right) is same if comparable else UNKNOWN
    left, right = _member(left, right), _member(right, left)
    if not known(left) or not known(right):
        return UNKNOWN
    if isinstance(left, Device) or isinstance(right, Device):
        left, right = str(left), str(right)
    try:
        return bool(_COMPARISONS[type(kind)](left, right))
    except Exception:
        return UNKNOWN


def _inside(left: Any, right: Any, process: Process) -> Any:
    """`left in right`."""
    if isinstance(right, External) and right.name == "os.environ" and isinstance(left, str):
        found = process.variable(left)
        return UNKNOWN if found is UNKNOWN else found is not None
    if not isinstance(right, (str, list, tuple, dict, set)) or not known(left):
        return UNKNOWN
    try:
        inside = left in right
    except TypeError:
        return UNKNOWN
    return inside if inside or known(right) else UNKNOWN


def _member(value: Any, other: Any) -> Any:
    """A member of a library's enumeration beside text is its name."""
    named = isinstance(value, External) and isinstance(other, str) and value.last.isupper()
    return value.last if named else value


def subscript(owner: Any, key: Any, process: Process) -> Any:
    """`owner[key]`."""
    if isinstance(owner, External) and owner.name == "os.environ" and isinstance(key, str):
        found = process.variable(key)
        return UNKNOWN if found is None else found
    if isinstance(owner, (Checkpoint, Parameters)):
        return owner
    if isinstance(owner, Tensor):
        return Tensor(owner.device, owner.name)
    if (
        isinstance(owner, (dict, list, tuple, str)) and known(key)
        if not isinstance(key, slice)
        else isinstance(owner, (list, tuple, str))
    ):
        try:
            found = owner[key]
        except Exception:
            return UNKNOWN
        return (
            Text(found, getattr(owner, "origin", None))
            if isinstance(found, str) and not isinstance(found, Text)
            else found
        )
    return UNKNOWN


def call_builtin(
    reader: Reader,
    name: str,
    positional: list[Any],
    keywords: dict[str, Any],
    node: ast.AST,
    frame: Frame,
) -> Any:
    """A builtin function."""
    if name in ("exit", "quit"):
        raise Stopped
    if name == "dict":
        first = positional[0] if positional else None
        return _dict(first, keywords, node, frame) if positional or keywords else Table()
    if name in ("getattr", "hasattr", "setattr"):
        named = len(positional) >= 2 and isinstance(positional[1], str)
        return _attribute(reader, name, positional, node, frame) if named else UNKNOWN
    action = _BUILTINS.get(name)
    return UNKNOWN if action is None else action(name, positional)


def _conversion(name: str, positional: list[Any]) -> Any:
    return _convert(name, positional[0]) if len(positional) == 1 else UNKNOWN


def _sequence(name: str, positional: list[Any]) -> Any:
    if not positional:
        return [] if name in ("list", "tuple", "set") else UNKNOWN
    first = positional[0]
    if isinstance(first, (list, tuple, dict, range)):
        return list(first)
    return first if isinstance(first, Parameters) else UNKNOWN


def _range(name: str, positional: list[Any]) -> Any:
    if not positional or not all(isinstance(each, int) for each in positional):
        return UNKNOWN
    items = range(*positional[:3]) if len(positional) < 3 or positional[2] else range(0)
    return list(items) if len(items) <= 64 else UNKNOWN


def _quantified(name: str, positional: list[Any]) -> Any:
    if not positional or not isinstance(positional[0], (list, tuple)):
        return UNKNOWN
    verdicts = [truth(each) for each in positional[0]]
    decisive = name == "any"
    if decisive in verdicts:
        return decisive
    return UNKNOWN if None in verdicts else not decisive


def _extreme(name: str, positional: list[Any]) -> Any:
    if not positional or not known(positional):
        return UNKNOWN
    try:
        return (min if name == "min" else max)(*positional)
    except Exception:
        return UNKNOWN


def _picked(name: str, positional: list[Any]) -> Any:
    """`filter` and `map`: what is picked from parameters are parameters."""
    return positional[1] if len(positional) == 2 and isinstance(positional[1], Parameters) else UNKNOWN


def _numbered(name: str, positional: list[Any]) -> Any:
    items = positional[0] if positional else None
    return list(enumerate(items)) if isinstance(items, (list, tuple)) else UNKNOWN


def _zipped(name: str, positional: list[Any]) -> Any:
    if not all(isinstance(each, (list, tuple)) for each in positional):
        return UNKNOWN
    return [tuple(each) for each in zip(*positional, strict=False)]


def _of_kind(name: str, positional: list[Any]) -> Any:
    return _isinstance(*positional) if len(positional) == 2 else UNKNOWN


_BUILTINS: dict[str, Callable[[str, list[Any]], Any]] = {
    **dict.fromkeys(("int", "float", "str", "bool", "len", "abs", "round"), _conversion),
    **dict.fromkeys(("list", "tuple", "set", "sorted", "reversed"), _sequence),
    **dict.fromkeys(("any", "all"), _quantified),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("filter", "map"), _picked),
    "range": _range,
    "enumerate": _numbered,
    "zip": _zipped,
    "isinstance": _of_kind,
}


def method(owner: Any, name: str, positional: list[Any], keywords: dict[str, Any]) -> Any:
    """A method of text, a dictionary or a list."""
    if isinstance(owner, dict):
        return _dict_method(owner, name, positional, keywords)
    if isinstance(owner, str):
        return _text_method(owner, name, positional)
    if isinstance(owner, list):
        if name == "append" and positional:
            owner.append(positional[0])
            return None
        if name == "extend" and positional and isinstance(positional[0], (list, tuple)):
            owner.extend(positional[0])
            return None
        if name == "copy":
            return list(owner)
    return UNKNOWN


def _small(value: Any) -> bool:
    if isinstance(value, (bool, float, type(None))):
        return True
    if isinstance(value, int):
        return abs(value) < 1 << 62
    return isinstance(value, (str, list, tuple, dict, set)) and len(value) <= _LONGEST


def _convert(name: str, value: Any) -> Any:
    if isinstance(value, Parameters):
        return value
    if name == "str" and isinstance(value, (str, int, float, bool, Device)):
        return Text(str(value), getattr(value, "origin", None))
    if name == "bool":
        verdict = truth(value)
        return UNKNOWN if verdict is None else verdict
    if not isinstance(value, (str, int, float, list, tuple, dict)) or not _small(value):
        return UNKNOWN
    try:
        return {"int": int, "float": float, "len": len, "abs": abs, "round": round}[name](value)  # type: ignore[operator]
    except Exception:
        return UNKNOWN


def _attribute(reader: Reader, name: str, positional: list[Any], node: ast.AST, frame: Frame) -> Any:
    owner, attribute = positional[0], str(positional[1])
    if name == "setattr" and len(positional) > 2:
        if isinstance(owner, Instance):
            owner.attributes[attribute] = positional[2]
        elif isinstance(owner, Model):
            reader.process.model_attribute(owner, attribute, positional[2])
        return None
    if isinstance(owner, Instance):
        found = reader.attribute(owner, attribute, ast.Name("_"), frame)
        if name == "hasattr":
            return True if not isinstance(found, Bound) else UNKNOWN
        return (
            found
            if not isinstance(found, Bound)
            else positional[2]
            if len(positional) > 2 and attribute not in owner.attributes
            else UNKNOWN
        )
    return UNKNOWN


def _dict(first: Any, keywords: dict[str, Any], node: ast.AST, frame: Frame) -> Any:
    made = Table(first) if isinstance(first, dict) else Table()
    made.update(keywords)
    made.origin = Origin(
        frame.module.file, getattr(node, "lineno", 1), node if isinstance(node, ast.expr) else None
    )
    return made if first is None or isinstance(first, dict) else UNKNOWN


def _isinstance(value: Any, kind: Any) -> Any:
    kinds = {"str": str, "int": int, "dict": dict, "list": list, "bool": bool, "float": float, "tuple": tuple}
    if isinstance(kind, External) and kind.last in kinds and known(value):
        return isinstance(value, kinds[kind.last])
    return UNKNOWN


def _dict_method(owner: dict[Any, Any], name: str, positional: list[Any], keywords: dict[str, Any]) -> Any:
    first = positional[0] if positional else None
    plain = isinstance(first, (str, int, bool, float, type(None)))
    if name == "get" and plain:
        return owner.get(first, positional[1] if len(positional) > 1 else None)
    if name == "pop" and plain and positional:
        return owner.pop(first, positional[1] if len(positional) > 1 else UNKNOWN)
    if name == "setdefault" and plain and positional:
        return owner.setdefault(first, positional[1] if len(positional) > 1 else None)
    if name == "update":
        if isinstance(first, dict):
            owner.update(first)
        owner.update(keywords)
        return None
    if name == "copy":
        copied = Table(owner)
        copied.origin = getattr(owner, "origin", None)
        return copied
    if name in ("keys", "values", "items"):
        return list(getattr(owner, name)())
    return UNKNOWN


_TEXT_METHODS = frozenset(
    "strip lower upper split rsplit startswith endswith replace removeprefix removesuffix isdigit title "
    "partition".split()
)


def _text_method(owner: str, name: str, positional: list[Any]) -> Any:
    if len(owner) > _LONGEST or not known(positional):
        return UNKNOWN
    if name == "join" and positional and isinstance(positional[0], (list, tuple)):
        return owner.join(positional[0]) if all(isinstance(each, str) for each in positional[0]) else UNKNOWN
    if name not in _TEXT_METHODS or (
        name == "replace" and len(positional) > 1 and len(str(positional[1])) > 100
    ):
        return UNKNOWN
    try:
        result = getattr(str(owner), name)(*positional)
    except Exception:
        return UNKNOWN
    return Text(result, getattr(owner, "origin", None)) if isinstance(result, str) else result
