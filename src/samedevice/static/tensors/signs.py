"""Which parameters of a function are tensors or devices, by annotations and by what is done with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.static.tensors.knowledge import FUNCTIONS
from samedevice.static.tensors.source import Function

_OUTPUT_NAMES = frozenset(("outputs", "model_outputs"))
_DEVICE_NAMES = frozenset("device dev target_device execution_device torch_device".split())
_METHODS = frozenset(
    "unsqueeze size dim permute contiguous masked_fill numel new_zeros new_ones new_full "
    "new_tensor type_as expand expand_as masked_fill_ scatter_ index_select detach unsqueeze_ "
    "to_dense".split()
)
"""Methods of tensors that neither arrays of NumPy nor modules have in the same way."""
_FORWARD_METHODS = frozenset("view reshape flatten transpose mean sum float long".split())
"""Methods that mean a tensor in `forward`, where no arrays come in."""
_TAKE_TENSORS = frozenset().union(
    *(FUNCTIONS[kind] for kind in ("first", "like", "first_several", "listed", "meet_strictly"))
) - {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "einsum"}
"""Functions whose first argument is a tensor."""
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
    for node in ast.walk(function):
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
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                stored.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _METHODS or (
                forward and method in _FORWARD_METHODS
            ):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr="shape" | "device") if forward:
                found.add(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch" | "F"), attr=called),
                args=[ast.Name(id=name) | ast.BinOp(ast.Constant(), _, ast.Name(id=name)), *_],
            ):
                if called in _TAKE_TENSORS:
                    found.add(name)
    return (found & names) - stored


def _parameters(function: Function) -> Iterator[ast.arg]:
    given = function.args
    yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
