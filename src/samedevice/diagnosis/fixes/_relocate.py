"""The expression that made a tensor, changed so that it makes it on another device."""

from __future__ import annotations

import ast

from samedevice.diagnosis.fixes._edit import moved, redirected, swapped, with_keyword
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.events import Place

FACTORIES = frozenset(
    "arange as_tensor bartlett_window blackman_window empty eye fftfreq full hamming_window hann_window "
    "kaiser_window linspace logspace ones rand randint randn randperm rfftfreq tensor tril_indices "
    "triu_indices zeros Generator".split()
)
"""Functions of torch that take `device=`."""


_LOOKED_UP = (ast.Name, ast.Attribute, ast.Subscript)


def relocated(script: Script, place: Place, target: str, beside: frozenset[str] = frozenset()) -> str | None:
    """The source in which the tensor of `place` is made on, or moved to, another device.

    The expression `target` names the device.

    `beside` names tensors on the old device: where one of them has a part in the expression, the whole is
    moved, and not what is made inside.

    Only the expression that made the tensor is changed, and what is inside it; None when that is not to be
    found.
    """
    node = script.expression(place)
    if node is None:
        return None
    if not isinstance(node, ast.Call):
        only = _only_factory(script, node, beside)
        return moved(script, node, target) if only is None else _on_device(script, only, target)
    if (changed := _twins_on_device(script, node, target)) is not None:
        return changed
    inner = [each for each in ast.walk(node) if isinstance(each, ast.Call) and called(each) in FACTORIES]
    alone = not beside & {script.text(each) for each in ast.walk(node) if isinstance(each, _LOOKED_UP)}
    if alone and len(inner) == 1 and script.text(node).startswith("torch."):  # `torch.tril(torch.ones(4, 4))`
        return _on_device(script, inner[0], target)
    return moved(script, node, target)


def _only_factory(script: Script, node: ast.expr, beside: frozenset[str]) -> ast.Call | None:
    """The call of torch that makes the one tensor of an arithmetical expression whose other parts are numbers
    and variables, none of them a tensor `beside`: `torch.arange(n) + start`.
    """
    match node:
        case ast.BinOp(left=left, right=right):
            made, other = (left, right) if isinstance(left, ast.Call) else (right, left)
            plain = isinstance(other, (ast.Constant, ast.Name)) and script.text(other) not in beside
            torch = isinstance(made, ast.Call) and script.text(made.func).startswith("torch.")
            if plain and torch and isinstance(made, ast.Call) and called(made) in FACTORIES:
                return made
    return None


def _twins_on_device(script: Script, call: ast.Call, target: str) -> str | None:
    """The source in which a call, and those of its statement that read the same, choose a device: which of
    them ran a line does not tell.
    """
    statement, text = script.around(call), script.text(call)
    twins = [
        node
        for node in ast.walk(statement or call)
        if isinstance(node, ast.Call) and script.text(node) == text
    ]
    source: str | None = None
    for twin in sorted(twins, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        left = script if source is None else Script(script.file, source)
        own = next(
            node
            for node in ast.walk(left.tree)
            if isinstance(node, ast.Call)
            and (node.lineno, node.col_offset) == (twin.lineno, twin.col_offset)
            and left.text(node) == text
        )
        if (source := _on_device(left, own, target)) is None:
            return None
    return source


def _on_device(script: Script, call: ast.Call, target: str) -> str | None:
    """The source in which a call that chooses a device chooses this one; None when it chooses none."""
    name = called(call)
    if name == "load":  # what it gives may be more than one tensor
        chosen = next((keyword for keyword in call.keywords if keyword.arg == "map_location"), None)
        return (
            with_keyword(script, call, "map_location", target)
            if chosen is None
            else swapped(script, chosen.value, target)
        )
    device = next((keyword for keyword in call.keywords if keyword.arg == "device"), None)
    if device is not None:
        return swapped(script, device.value, target)
    if isinstance(call.func, ast.Attribute) and name in ("cuda", "cpu"):
        return redirected(script, call, target)
    if isinstance(call.func, ast.Attribute) and name == "to" and call.args and not _is_type(call.args[0]):
        return swapped(script, call.args[0], target)
    if name in FACTORIES:
        return with_keyword(script, call, "device", target)
    return None


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in (
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "half",
        "float",
        "long",
        "int",
        "int64",
        "bool",
        "dtype",
    )
