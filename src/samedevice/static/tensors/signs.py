"""Which parameters of a function are tensors or devices, by annotations and by what is done with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from samedevice.static.tensors.abstract import Items, Listed, Tensor, Where
from samedevice.static.tensors.knowledge import TAKE_TENSORS, TENSOR_METHODS
from samedevice.static.tensors.source import Function, nodes

_OUTPUT_NAMES = frozenset(("outputs", "model_outputs"))
_DEVICE_NAMES = frozenset("device dev target_device execution_device torch_device".split())
_FORWARD_METHODS = frozenset("view reshape flatten transpose mean sum float long".split())
"""Methods that mean a tensor in `forward`, where no arrays come in."""
_CONTAINERS = (
    "TensorDict",
    "List",
    "list[",
    "Dict",
    "dict[",
    "Tuple",
    "tuple[",
    "Sequence",
    "Callable",
    "Iterable",
    "Mapping",
)


_LISTS = frozenset("List list Sequence Tuple tuple Iterable Collection".split())


def list_parameters(function: Function) -> dict[str, Any]:
    """The parameters that are lists or tuples of tensors by their annotations, as what their parts are."""
    found = {}
    for each in _parameters(function):
        value = annotated(each.annotation, each.arg) if each.annotation is not None else None
        if isinstance(value, Listed | Items):
            found[each.arg] = value
    return found


def annotated(node: ast.expr, name: str) -> Any:
    """What an annotation makes of an argument: a tensor of it, or a list of these; None for anything else."""
    match node:
        case ast.Name(id="Tensor") | ast.Attribute(attr="Tensor"):
            return Tensor(Where("part", (name,)), None, None, "argument")
        case ast.BinOp(op=ast.BitOr(), left=inside, right=ast.Constant(value=None)) if "." in name:
            return annotated(inside, name)
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inside) if "." in name:
            return annotated(inside, name)
        case ast.Subscript(value=owner, slice=inside) if (kind := _last(owner)) in _LISTS:
            parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            values = [annotated(part, name) for part in parts if not _is_rest(part)]
            if None in values:
                return None
            if kind in ("Tuple", "tuple") and not any(_is_rest(part) for part in parts):
                return Items(tuple(values))
            return Listed(values[0]) if len(values) == 1 else None
    return None


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def number_parameters(function: Function) -> set[str]:
    """The parameters that are whole numbers, or None, by their annotations or because they are counted to."""
    found = {
        each.arg for each in _parameters(function) if each.annotation is not None and _is_int(each.annotation)
    }
    open_names = {each.arg for each in _parameters(function) if each.annotation is None}
    for node in nodes(function) if open_names else ():
        match node:
            case ast.Call(func=ast.Name(id="range"), args=given):
                found |= {each.id for each in given if isinstance(each, ast.Name)} & open_names
    return found


def _is_int(annotation: ast.expr) -> bool:
    match annotation:
        case ast.Name(id="int"):
            return True
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inside):
            return _is_int(inside)
        case ast.BinOp(op=ast.BitOr(), left=inside, right=ast.Constant(value=None)):
            return _is_int(inside)
    return False


def device_parameters(function: Function) -> set[str]:
    """The parameters that are devices."""
    found = set()
    for each in _parameters(function):
        annotation = ast.unparse(each.annotation) if each.annotation is not None else ""
        if each.arg in _DEVICE_NAMES or "torch.device" in annotation or annotation == "device":
            found.add(each.arg)
    return found


def output_parameters(function: Function) -> set[str]:
    """The parameters that are what a model gave: objects whose parts are tensors."""
    found = set()
    for each in _parameters(function):
        annotation = ast.unparse(each.annotation).strip("'\"") if each.annotation is not None else ""
        if annotation.endswith("Output") or (not annotation and each.arg in _OUTPUT_NAMES):
            found.add(each.arg)
    return found


def array_parameters(function: Function) -> set[str]:
    """The parameters that may be tensors: annotated as one kind among others, or used as an array is."""
    given = {
        each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in _parameters(function)
    }
    found = {name for name, annotation in given.items() if "tensor" in annotation.lower()}
    for node in nodes(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="shape" | "device" | "dtype" | "ndim"):
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple()):
                found.add(name)
    return found & given.keys()


def tensor_parameters(function: Function) -> set[str]:
    """The parameters that are tensors for sure."""
    annotated, open_names = set(), set()
    for each in _parameters(function):
        if each.annotation is None:
            open_names.add(each.arg)
            continue
        text = ast.unparse(each.annotation)
        if (
            "tensor" in text.lower()
            and not any(word in text for word in _CONTAINERS)
            and "TensorDict" not in text
        ):
            if not ("|" in text or "Union" in text) or _other_kinds(text) == 0:
                annotated.add(each.arg)
            else:
                open_names.add(each.arg)
    return annotated | _used_as_tensors(function, open_names)


@lru_cache(maxsize=4096)
def asked_names(function: Function) -> frozenset[str]:
    """The names and attributes whose device a function asks for: `x` of `x.device`, `self.x` of
    `self.x.device`.
    """
    found = set()
    for node in nodes(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="device", ctx=ast.Load()):
                found.add(name)
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id=owner), attr=name), attr="device", ctx=ast.Load()
            ):
                found.add(f"{owner}.{name}")
    return frozenset(found)


def absent_parameters(function: Function) -> set[str]:
    """The parameters that may be None, by their annotations and defaults."""
    given = function.args
    late = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(late), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    found = {
        each.arg for each, default in pairs if isinstance(default, ast.Constant) and default.value is None
    }
    for each in _parameters(function):
        text = ast.unparse(each.annotation) if each.annotation is not None else ""
        if "None" in text or "Optional" in text:
            found.add(each.arg)
    return found


def _other_kinds(annotation: str) -> int:
    """How many kinds an annotation allows beside tensors and None."""
    text = annotation.replace("Union[", "").replace("Optional[", "").replace("]", "")
    kinds = [each.strip(" '\"") for part in text.split("|") for each in part.split(",")]
    return sum("tensor" not in each.lower() and each not in ("None", "") for each in kinds)


def _used_as_tensors(function: Function, names: set[str]) -> set[str]:
    found: set[str] = set()
    stored: set[str] = set()
    if not names:
        return found
    forward = function.name == "forward"
    for node in nodes(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                stored.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
                method in TENSOR_METHODS or (forward and method in _FORWARD_METHODS)
            ):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr="shape" | "device") if forward:
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr="is_cuda"):
                found.add(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch" | "F"), attr=called),
                args=[ast.Name(id=name) | ast.BinOp(ast.Constant(), _, ast.Name(id=name)), *_],
            ):
                if called in TAKE_TENSORS:
                    found.add(name)
    return (found & names) - stored


def _parameters(function: Function) -> Iterator[ast.arg]:
    given = function.args
    yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
