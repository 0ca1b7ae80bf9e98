"""How the failing statement spells an operand, and how it can ask for the operand's device.

An operand that has a name is found by it; one that has none by its position in the expression that ran.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress

from samedevice.diagnosis.fixes._source import Script, called
from samedevice.events import Operand, Place
from samedevice.provenance.syntax import given_by_name

_NAMESPACES = frozenset("torch F functional nn math np linalg special".split())
_OF_TORCH = frozenset("torch.sparse torch.fft torch.signal torch.nested".split())
_LEFT = ("self", "input", "mat1", "elements", "condition", "sorted_sequence")
_RIGHT = ("other", "mat2", "vec", "tensor", "weight")
_SIGNATURES: Mapping[str, tuple[str, ...]] = {
    "where": ("condition", "self", "other"),
    "isin": ("elements", "test_elements"),
    "bucketize": ("self", "boundaries"),
    "searchsorted": ("sorted_sequence", "self"),
    "masked_scatter": ("self", "mask", "source"),
    "masked_scatter_": ("self", "mask", "source"),
    "masked_fill": ("self", "mask", "value"),
    "masked_fill_": ("self", "mask", "value"),
    "masked_select": ("self", "mask"),
    "index_select": ("self", "", "index"),
    "gather": ("self", "", "index"),
    "scatter": ("self", "", "index", "src"),
    "scatter_": ("self", "", "index", "src"),
    "scatter_add": ("self", "", "index", "src"),
    "scatter_add_": ("self", "", "index", "src"),
    "index_add": ("self", "", "index", "source"),
    "index_add_": ("self", "", "index", "source"),
    "index_copy_": ("self", "", "index", "source"),
    "embedding": ("indices", "weight"),
    "linear": ("mat1", "mat2", "bias"),
    "cross_entropy": ("self", "target", "weight"),
    "nll_loss": ("self", "target", "weight"),
    "binary_cross_entropy": ("self", "target", "weight"),
    "binary_cross_entropy_with_logits": ("self", "target", "weight"),
    "huber_loss": ("self", "target"),
    "kl_div": ("self", "target"),
    "l1_loss": ("self", "target"),
    "mse_loss": ("self", "target"),
    "smooth_l1_loss": ("self", "target"),
    "soft_margin_loss": ("self", "target"),
    "addcmul_": ("self", "tensor1", "tensor2"),
    "lerp_": ("self", "end", "weight"),
    "lerp": ("self", "end", "weight"),
    "pack_padded_sequence": ("input", "lengths"),
    "repeat_interleave": ("self", "index"),
    "tensor_split": ("self", "tensor_indices_or_sections"),
    "einsum": ("", "self", "mat2"),
}
"""Functions of torch with the operands that their operators name, in the order of a call; for a method, what
it is called on comes first. `where` as a method is the one exception.
"""
_WITHOUT_BIAS = ("self", "mat2")
"""Of `linear` without a bias: a product of two, whose first operand is no bias."""
_NO_METHODS = frozenset(("pack_padded_sequence",))
"""Functions that no tensor has: what stands before the dot is a module."""
_JOINS = frozenset("cat concat concatenate stack hstack vstack dstack".split())
_PAIRS = frozenset(
    "add add_ sub sub_ mul mul_ div div_ eq ne lt le gt ge matmul mm bmm mv dot maximum minimum pow "
    "logical_and logical_or bitwise_and bitwise_or remainder fmod atan2 outer kron".split()
)
_KEEP_DEVICE = frozenset(
    "abs bool clone contiguous detach double expand expand_as flatten float half int long mean permute "
    "repeat reshape sigmoid softmax squeeze sum t transpose unsqueeze view".split()
)
"""Methods of a tensor whose result is where the tensor is."""


def spelled_at(script: Script, at: Place, operand: Operand) -> ast.expr | None:
    """The expression of a failing statement that is the operand, where that can be told."""
    statement = script.statement(at)
    if statement is None or not script.holds(at):
        return None
    ran = script.expression(at) if at.call else None
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr="grad") as whole], value=given) if ran in (None, whole):
            return {"gradient": given, "tensor": whole.value}.get(operand.name)
    subscript = _subscript(statement, ran)
    if subscript is not None and operand.name.startswith(("indices", "values")):
        placed = _in_subscript(subscript, operand, getattr(statement, "value", None))
        if placed is not None:
            return placed
    if operand.local and (named := _named(script, ran or statement, operand.local)) is not None:
        return named
    if isinstance(statement, ast.AugAssign) and (ran is None or ran is statement.value):
        pair = {"self": statement.target, "other": statement.value}
        return pair.get(operand.name) if ran is None else _in(ran, operand)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        if ran is None or ran is statement.targets[0]:
            return _in_subscript(statement.targets[0], operand, statement.value)
    if ran is None:
        value = getattr(statement, "value", None)
        ran = value if isinstance(value, ast.expr) else None
    return None if ran is None else _in(ran, operand)


def _subscript(statement: ast.stmt, ran: ast.expr | None) -> ast.Subscript | None:
    """What is indexed, where the statement or the expression does just that."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(ran, ast.Subscript):
        return ran
    return target if ran is None and isinstance(target, ast.Subscript) else None


def device_text(script: Script, node: ast.expr | None) -> str | None:
    """How the source can ask for the device of what an expression gives, without computing it again."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name) as function) if name in _KEEP_DEVICE:
            if _is_namespace(function):
                return device_text(script, node.args[0]) if node.args else None
            return device_text(script, inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name) as function) if (
            name.endswith("_") and not name.startswith("_") and not _is_namespace(function)
        ):
            return device_text(script, inner)  # a method that writes into its object gives it back
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[kind]) if _is_type(kind):
            return device_text(script, inner)
        case ast.Subscript(value=inner, slice=index) if _takes_part(index):
            return device_text(script, inner)
        case ast.Name() | ast.Attribute() | ast.Subscript() if _plain(node):
            return f"{script.text(node)}.device"
    return None


def weight_text(script: Script, at: Place, operand: Operand) -> str | None:
    """The device of a weight of the module that the failing expression calls: `self.proj.weight.device`."""
    ran = script.expression(at)
    owner, _, last = (operand.parameter or "").rpartition(".")
    if operand.role != "parameter" or not isinstance(ran, ast.Call) or not _calls_module(ran):
        return None
    text = script.text(ran.func)
    own = owner.rpartition(".")[2]
    if last in ("weight", "bias") and own and (text.endswith(f".{own}") or text.endswith(f"[{own}]")):
        return f"{text}.{last}.device"
    given = ran.args[0] if len(ran.args) == 1 and not ran.keywords else None
    if given is not None and _plain(given) and _of_loop(script, ran.func, at.line):
        return f"next({text}.parameters(), {script.text(given)}).device"  # others may have no weights
    return f"next({text}.parameters()).device"


def _of_loop(script: Script, function: ast.expr, line: int) -> bool:
    """Whether what is called is another object at each turn of a loop."""
    return isinstance(function, ast.Name) and any(
        isinstance(node, ast.Name) and node.id == function.id
        for loop in ast.walk(script.scope(line))
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.comprehension))
        for node in ast.walk(loop.target)
    )


def _calls_module(call: ast.Call) -> bool:
    """Whether what is called can only be a module: the innermost frame outside torch calls torch itself."""
    name = called(call)
    return (
        _plain(call.func)
        and not _is_namespace(call.func)
        and name not in _SIGNATURES
        and name not in _PAIRS
        and name not in _JOINS
        and name not in _KEEP_DEVICE
        and len(call.args) <= 1
    )


def _named(script: Script, around: ast.AST, name: str) -> ast.expr | None:
    with suppress(SyntaxError, ValueError):  # the quotes of a key may be others
        name = ast.unparse(ast.parse(name, mode="eval"))
    for node in ast.walk(around):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Load):
            if name in (script.text(node), ast.unparse(node)):
                return node
    return None


def _in(ran: ast.expr, operand: Operand) -> ast.expr | None:
    match ran:
        case ast.BinOp(left=left, right=right):
            return _of_pair(left, right, operand.name)
        case ast.Compare(left=left, comparators=[right]):
            return _of_pair(left, right, operand.name)
        case ast.Subscript():
            return _in_subscript(ran, operand, None)
        case ast.Call():
            return _in_call(ran, operand)
    return None


def _of_pair(left: ast.expr, right: ast.expr, name: str) -> ast.expr | None:
    return left if name in _LEFT else right if name in _RIGHT else None


def _in_subscript(node: ast.Subscript, operand: Operand, value: ast.expr | None) -> ast.expr | None:
    if operand.name == "self":
        return node.value
    if operand.name in ("values", "src"):
        return value
    head, _, rest = operand.name.partition("[")
    if head != "indices" or not rest.rstrip("]").isdecimal():
        return None
    elements: Sequence[ast.expr] = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(isinstance(each, ast.Constant) for each in elements):  # `...` and None shift what follows
        return None
    at = int(rest.rstrip("]"))
    return elements[at] if at < len(elements) else None


def _in_call(call: ast.Call, operand: Operand) -> ast.expr | None:
    name = called(call)
    given = given_by_name(call, operand.name)
    if given is not None:
        return given
    function = call.func
    plain = isinstance(function, ast.Name) or _is_namespace(function) or name in _NO_METHODS
    values = list(call.args)
    if not plain and isinstance(function, ast.Attribute):
        values = [function.value, *values]
    _, _, rest = operand.name.partition("[")
    if name in _JOINS and rest and call.args and isinstance(call.args[0], (ast.List, ast.Tuple)):
        elements, at = call.args[0].elts, rest.rstrip("]")
        whole = not any(isinstance(each, ast.Starred) for each in elements)
        return elements[int(at)] if whole and at.isdecimal() and int(at) < len(elements) else None
    names = _SIGNATURES.get(name, ("self", "other") if name in _PAIRS else ())
    if name == "linear" and len(values) + len(call.keywords) == len(_WITHOUT_BIAS):
        names = _WITHOUT_BIAS
    if name == "where" and not plain:
        names = ("self", "condition", "other")
    if names:
        second = next((each for each in ("other", "mat2") if each in names), operand.name)
        sought = second if operand.name in ("other", "mat2", "vec", "tensor") else operand.name
        at_name = names.index(sought) if sought in names else -1
        return values[at_name] if 0 <= at_name < len(values) else None
    if _calls_module(call) and operand.role is None and operand.name in (*_LEFT, "indices") and call.args:
        return call.args[0]
    return None


def _is_namespace(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute):
        return False
    match function.value:
        case ast.Name(id=name):
            return name in _NAMESPACES
        case ast.Attribute(attr=name) as of:
            return name in _NAMESPACES or ast.unparse(of) in _OF_TORCH
    return False


def _takes_part(index: ast.expr) -> bool:
    """Whether only a tensor can be indexed so."""
    elements = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(each, ast.Slice) or _is_none(each) for each in elements)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is ...)


def _is_type(node: ast.expr) -> bool:
    """Whether an argument of `.to()` is a type of numbers, and no device."""
    names = "float16 bfloat16 float32 float64 half float double long int int8 int32 int64 bool dtype".split()
    return isinstance(node, ast.Attribute) and node.attr in names


def _plain(node: ast.expr) -> bool:
    """Whether an expression only looks something up."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=inner):
            return _plain(inner)
        case ast.Subscript(value=inner, slice=index) if _counts(index):
            return _plain(inner)
    return False


def _counts(index: ast.expr) -> bool:
    """Whether an index is a number, a name, or reckoned from such: `i - 1`."""
    match index:
        case ast.Constant() | ast.Name():
            return True
        case ast.UnaryOp(operand=inner):
            return _counts(inner)
        case ast.BinOp(left=left, right=right):
            return _counts(left) and _counts(right)
    return False
