"""What calls of torch give, by the table of `knowledge`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from samedevice.static.tensors.abstract import (
    DEFAULT,
    EMPTY,
    HOST,
    NONE,
    NOWHERE,
    NUMBER,
    OTHER,
    PLAIN,
    SIZE,
    UNTOLD_VALUE,
    Device,
    Given,
    Items,
    Library,
    Listed,
    Method,
    Module,
    Object,
    Plain,
    Spread,
    Tensor,
    Untold,
    Where,
    is_whole,
    joined,
    likely,
    literal,
    met,
    same,
)
from samedevice.static.tensors.asking import Asking
from samedevice.static.tensors.knowledge import FUNCTIONS, METHODS, MODULES, TAKE_TENSORS, TENSOR_METHODS
from samedevice.static.tensors.signs import asked_names
from samedevice.static.tensors.source import called

_HOMES = frozenset(
    (
        "torch",
        "torch.nn.functional",
        "torch.special",
        "torch.Tensor",
        "torch.fft",
        "torch.linalg",
        "torch.functional",
    )
)
_MODULE_HOMES = ("torch.nn.", "torch.nn.modules.")
_CASTS = frozenset(("float", "half", "bfloat16", "double", "long", "int", "bool"))
_NUMBERS = frozenset(
    "len int float bool str range abs round min max sum isinstance hasattr repr id ord hash format "
    "type".split()
)
_SCALAR_MAKERS = frozenset(("zeros", "ones", "rand", "randn", "empty"))
Keywords = dict[str, Any]


def call_function(
    run: Asking, function: Library, node: ast.Call, positional: Sequence[Any], keywords: Keywords
) -> Any:
    """A function or a class of a library."""
    home, _, name = function.name.rpartition(".")
    if home == "builtins":
        return _builtin(name, positional)
    if function.name == "torch.device":
        return _device(positional)
    if home in ("torch.nn", "torch.nn.parameter") and name in ("Parameter", "Buffer"):
        first = positional[0] if positional else None
        return (
            Tensor(first.where, first.scalar, first.made, "parameter")
            if isinstance(first, Tensor)
            else UNTOLD_VALUE
        )
    if function.name.startswith(_MODULE_HOMES) and name in MODULES["placed"] | MODULES["free"]:
        return Module("", function.name)
    if function.name.startswith(_MODULE_HOMES) and name.endswith("Loss"):
        return Module("", function.name)
    if home in ("einops", "einops.einops") and name in FUNCTIONS["einops"]:
        first = positional[0] if positional else UNTOLD_VALUE
        return Tensor(first.where, None) if isinstance(first, Tensor) else UNTOLD_VALUE
    if home in ("einops", "einops.einops") and name == "einsum":
        return _torch(run, name, node, positional, keywords)
    if function.name == "torch.nn.utils.rnn.pad_sequence":
        return _torch(run, "stack", node, positional[:1], {})
    if function.name in ("copy.deepcopy", "copy.copy") and positional:
        return positional[0] if isinstance(positional[0], Tensor) else UNTOLD_VALUE
    if home not in _HOMES or "out" in keywords:
        return UNTOLD_VALUE
    return _torch(run, name, node, positional, keywords)


def _device(given: Sequence[Any]) -> Device:
    """`torch.device("cuda:1")`, `torch.device("cuda", 1)`."""
    match given:
        case [Plain(value=str() as text, known=True), Plain(value=int() as number, known=True)]:
            return Device(literal(f"{text}:{number}"))
        case [only]:
            return Device(device_given(only) or NOWHERE)
    return Device(NOWHERE)


def _torch(run: Asking, name: str, node: ast.Call, positional: Sequence[Any], keywords: Keywords) -> Any:
    # Long: a case for each kind of function that the table knows.
    if positional and name in TAKE_TENSORS and (handed := _handed(positional[0])) is not None:
        positional = [_as_tensor(handed), *positional[1:]]
    first = positional[0] if positional else keywords.get("input", UNTOLD_VALUE)
    if name in FUNCTIONS["factories"]:
        scalar = False if _shape_has_parts(node) else _scalar(name, positional, keywords)
        sized = scalar is None and _is_sized(node, (*positional, *keywords.values()))
        return Tensor(_made(run, keywords), scalar, node, "made", sized, _rank(name, positional, keywords))
    if name in FUNCTIONS["of_values"]:
        return _of_values(run, node, first, keywords)
    if name in FUNCTIONS["constructors"]:
        parts = positional[0] if len(positional) == 1 else None
        return Tensor(_made(run, {}), False if isinstance(parts, Items | Listed) else None, node, "made")
    if name in FUNCTIONS["listed"]:
        if not isinstance(first, Tensor):
            return UNTOLD_VALUE
        return Listed(
            Tensor(first.where, False if name == "meshgrid" else None, first.made, first.role), True
        )
    if name in FUNCTIONS["host"]:
        where = DEFAULT if _chosen(keywords) is None else NOWHERE
        return Tensor(where, False if name == "frombuffer" else None, node, "made", True)
    if name in FUNCTIONS["like"] and isinstance(first, Tensor):
        placed = _chosen(keywords)
        return Tensor(first.where if placed is None else placed, first.scalar, node, "other")
    if name in FUNCTIONS["first"] and isinstance(first, Tensor):
        whole = name in METHODS["reduce"] and len(positional) == 1 and not keywords
        scalar = True if whole else None if name in _SHAPES else first.scalar
        scalar = False if name in _OF_MATRICES | _ALWAYS_SHAPED else True if name == "trace" else scalar
        return Tensor(first.where, scalar, first.made, first.role, first.sized and name not in _SHAPES)
    if name in FUNCTIONS["first_several"] and isinstance(first, Tensor):
        scalar = False if name in _PICKED else None
        return Tensor(first.where, scalar, first.made, first.role)
    if name in FUNCTIONS["first_or_meet"] and isinstance(first, Tensor):
        return _extreme(run, node, first, node.args, positional, keywords)
    if name in FUNCTIONS["compare"]:
        _meeting(run, node, _spread(_arguments(node, positional, keywords)), name == "equal")
        return PLAIN
    if name in FUNCTIONS["meet"] or name in FUNCTIONS["meet_strictly"]:
        if name == "where" and len(positional) == 1:
            return Listed(Tensor(first.where, False), True) if isinstance(first, Tensor) else UNTOLD_VALUE
        pairs = _arguments(node, positional, keywords)
        if "*" in keywords or "**" in keywords:
            return UNTOLD_VALUE
        result = _meeting(run, node, _spread(pairs), name in FUNCTIONS["meet_strictly"])
        if name in FUNCTIONS["joining"] and isinstance(result, Tensor):
            return replace(result, scalar=False)
        if name in _PRODUCTS and isinstance(result, Tensor):
            return replace(result, scalar=True, sized=False)
        return result
    return UNTOLD_VALUE


def _arguments(
    node: ast.Call, positional: Sequence[Any], keywords: Keywords
) -> Iterator[tuple[ast.expr, Any]]:
    """The expressions of a call's arguments with what they are."""
    named = _once_for_each([(each.value, each.arg is None) for each in node.keywords], len(keywords))
    return zip((*given_in_order(node, positional), *named), (*positional, *keywords.values()), strict=False)


def given_in_order(node: ast.Call, positional: Sequence[Any]) -> list[ast.expr]:
    """The expressions of a call's arguments by place, `*args` once for each that it stands for."""
    return _once_for_each([(each, isinstance(each, ast.Starred)) for each in node.args], len(positional))


def _once_for_each(parts: Sequence[tuple[ast.expr, bool]], count: int) -> list[ast.expr]:
    """Expressions; one that stands for several so many times that they are `count`."""
    several = [node for node, many in parts if many]
    more = max(0, count - (len(parts) - 1)) if len(several) == 1 else 1
    return [node for node, many in parts for _ in range(more if many else 1)]


def _extreme(
    run: Asking,
    node: ast.Call,
    first: Tensor,
    nodes: Sequence[ast.expr],
    given: Sequence[Any],
    keywords: Keywords,
) -> Any:
    """`max` and `min`: of one tensor, along one of its dimensions, or of two tensors."""
    second = given[1] if len(given) > 1 else keywords.get("other", keywords.get("dim", NONE))
    if isinstance(second, Tensor) and len(nodes) > 1:
        return _meeting(run, node, ((nodes[0], first), (nodes[1], second)), False)
    if not isinstance(second, Plain):
        return UNTOLD_VALUE
    whole = len(given) == 1 and not keywords
    return Tensor(first.where, True if whole else None, first.made, first.role)


_PRODUCTS = frozenset(("dot", "vdot", "dist"))
"""What gives a tensor of no dimensions, of whatever it takes."""
_SHAPES = frozenset(
    "squeeze trace diag diagonal nonzero bincount one_hot reshape all any norm std var sum mean prod argmax "
    "argmin".split()
)
"""What may change whether a tensor has dimensions."""


def _as_tensor(given: Given) -> Tensor:
    return Tensor(same(given.symbol), None, None, "argument")


def _handed(value: Any) -> Given | None:
    """An argument, or an attribute of one, of which nothing else is told."""
    if isinstance(value, Method) and (owner := _handed(value.owner)) is not None:
        return Given(f"{owner.symbol}.{value.name}")
    return value if isinstance(value, Given) else None


def _computed(run: Asking, value: Any) -> Any:
    """What is computed with: an argument that was given a type of numbers, or whose device the function asks
    for, is a tensor then, as no module is.
    """
    if isinstance(value, Given):
        return _as_tensor(value) if value.number or value.asked else value
    if isinstance(value, Method) and isinstance(value.owner, Object) and run.function is not None:
        symbol = f"{value.owner.symbol}.{value.name}"
        return Tensor(same(symbol)) if symbol in asked_names(run.function) else value
    return value


def call_method(
    run: Asking, owner: Any, name: str, node: ast.Call, positional: Sequence[Any], keywords: Keywords
) -> Any:
    """A method of a tensor, of a module, of `self`."""
    if isinstance(owner, Given) and (name in TENSOR_METHODS or (owner.number and name in METHODS["same"])):
        owner = _as_tensor(owner)
    elif isinstance(owner, Method) and name in TENSOR_METHODS and (handed := _handed(owner)) is not None:
        owner = _as_tensor(handed)
    if isinstance(owner, Object) and owner.symbol != "self" and name in ("to", "cuda", "cpu"):
        owner = UNTOLD_VALUE
    match owner:
        case Given() if name in _CASTS and not (positional or keywords):
            return replace(owner, number=True)
        case Tensor():
            return _tensor_method(run, owner, name, node, positional, keywords)
        case Module():
            return _module_method(owner, name, positional, keywords)
        case Object(symbol=symbol) if name == "get_input_embeddings":
            return Module(f"{symbol}.get_input_embeddings()", "torch.nn.Embedding")
        case Object(symbol=symbol) if name == "parameters":
            return Listed(Tensor(same(symbol), None, None, "parameter"))
        case _ if name in ("numpy", "tolist", "item"):
            return PLAIN
        case _ if name == "cpu" and isinstance(owner, Untold | Method) and not (positional or keywords):
            return Tensor(literal("cpu"), None, node)
        case _ if name == "cuda" and isinstance(owner, Untold | Method) and not (positional or keywords):
            return Tensor(literal("cuda"), None, node)
        case _ if name == "to" and isinstance(owner, Untold | Method):
            target = keywords.get("device", positional[0] if positional else NONE)
            if "*" in keywords or "**" in keywords:
                return UNTOLD_VALUE
            if isinstance(target, Device | Tensor):
                return Tensor(target.where, None, node)  # a model or a batch is asked for nothing else
            if isinstance(target, Plain) and isinstance(target.value, str):
                return Tensor(literal(target.value), None, node)
    return UNTOLD_VALUE


def _tensor_method(
    run: Asking, owner: Tensor, name: str, node: ast.Call, positional: Sequence[Any], keywords: Keywords
) -> Any:
    # Long: a case for each kind of method that the table knows.
    if name in METHODS["numbers"]:
        return _number(name, positional, keywords)
    if name == "to":
        return _moved(owner, node, positional, keywords)
    if name == "cpu":
        return Tensor(literal("cpu"), owner.scalar, node, "other")
    if name == "cuda":
        given = device_given(positional[0] if positional else keywords.get("device", NONE))
        return Tensor(given if given is not None else literal("cuda"), owner.scalar, node, "other")
    if name == "type_as" and positional:
        target = positional[0]
        return Tensor(target.where if isinstance(target, Tensor) else NOWHERE, owner.scalar, node, "other")
    if name in METHODS["new"]:
        placed = _chosen(keywords)
        return Tensor(owner.where if placed is None else placed, None, node, "other")
    if name in METHODS["reduce"] and not positional and not keywords:
        return Tensor(owner.where, True, owner.made, owner.role)
    if name in FUNCTIONS["first_or_meet"] and isinstance(node.func, ast.Attribute):
        nodes = (node.func.value, *node.args)
        return _extreme(run, node, owner, nodes, (owner, *positional), keywords)
    if name in METHODS["same"]:
        if owner.role == "mask" and name not in _KEEP_MASK:
            owner = Tensor(owner.where, owner.scalar, owner.made)
        elif name == "bool" and owner.role not in ("made", "attribute"):
            owner = Tensor(owner.where, owner.scalar, owner.made, "mask")
        shaped = name in (_SHAPED if positional else _LARGER)
        if name == "trace":
            return Tensor(owner.where, True, owner.made, owner.role)
        kept = name in _SHAPELESS or (owner.scalar is False and shaped)
        scalar = owner.scalar if kept else False if _is_shaped(name, positional) else None
        sized = owner.sized and (name in _SHAPELESS or shaped) and scalar is None
        rank = owner.rank if name in _SHAPELESS else 0
        return Tensor(owner.where, scalar, owner.made, owner.role, sized, rank)
    if name in METHODS["same_several"]:
        return Tensor(owner.where, False if name in _PICKED else None, owner.made, owner.role)
    if name in METHODS["meet"] or name in METHODS["meet_strictly"]:
        if not isinstance(node.func, ast.Attribute) or "*" in keywords or "**" in keywords:
            return UNTOLD_VALUE
        pairs = _arguments(node, positional, keywords)
        parts = [(node.func.value, owner), *_spread(pairs)]
        result = _meeting(run, node, parts, name in METHODS["meet_strictly"], name.endswith("_"))
        if name.endswith("_") and isinstance(result, Tensor):
            return owner
        if name in _PRODUCTS and isinstance(result, Tensor):
            return replace(result, scalar=True, sized=False)
        return result
    return UNTOLD_VALUE


def _number(name: str, positional: Sequence[Any], keywords: Keywords) -> Plain:
    """What a method gives that gives no tensor."""
    if name == "size":
        return NUMBER if positional or keywords else SIZE
    return NUMBER if name in ("dim", "numel", "ndimension", "nelement") else PLAIN


def _is_sized(node: ast.Call, given: Sequence[Any]) -> bool:
    """Whether a tensor is made with the size of another: `torch.ones(x.shape)`, `torch.ones(*x.size())`."""
    starred = [each.value for each in node.args if isinstance(each, ast.Starred)]
    return SIZE in given or any(
        isinstance(each, ast.Attribute | ast.Call)
        and called(each) in ("shape", "size")
        and not getattr(each, "args", ())
        for each in starred
    )


def _is_shaped(name: str, positional: Sequence[Any]) -> bool:
    """Whether a method gives a tensor with dimensions, of whatever tensor that it takes."""
    if name in _OF_MATRICES | _ALWAYS_SHAPED:
        return True
    if not positional or positional == [Items(())]:
        return False
    return name in ("view", "reshape", "expand", "repeat", "unsqueeze") and not isinstance(
        positional[0], Untold | Method
    )


_OF_MATRICES = frozenset(
    ("tril", "triu", "tril_", "triu_", "adjoint", "inverse", "fliplr", "flipud", "rot90")
)
"""What is computed of tensors with dimensions alone."""
_PICKED = frozenset(("topk", "unique", "chunk", "split", "sort", "tensor_split"))
"""What takes a tensor apart along a dimension, and so leaves one."""
_KEEP_MASK = frozenset(
    "view reshape unsqueeze squeeze expand repeat transpose permute flatten contiguous clone detach bool "
    "logical_not expand_as t flip roll any all".split()
)
"""Methods that give of a mask another mask."""
_ALWAYS_SHAPED = frozenset(("unsqueeze", "flatten", "ravel"))
"""What gives a tensor with dimensions also of one that has none."""
_SHAPELESS = frozenset(
    "contiguous clone detach float long int bool half bfloat16 double clamp clip sqrt rsqrt exp log "
    "logical_not abs neg "
    "sigmoid tanh relu sin cos tan round floor ceil requires_grad_ zero_ fill_ normal_ uniform_ random_ "
    "detach_ clamp_ "
    "square reciprocal sign short byte isnan log2 log1p exponential_ bernoulli_".split()
)
"""Methods that keep the number of dimensions."""
_LARGER = frozenset("tril triu t flip roll cumsum cumprod softmax log_softmax flatten ravel argsort".split())
"""Methods that give a tensor with dimensions of one that has some."""
_SHAPED = _LARGER | frozenset(
    "view reshape expand expand_as repeat repeat_interleave unsqueeze transpose permute swapaxes movedim "
    "tile".split()
)
"""The same, when they are given arguments."""


def _module_method(owner: Module, name: str, positional: Sequence[Any], keywords: Keywords) -> Any:
    if name in MODULES["movers"]:
        where = owner.where
        if name in ("to", "cuda", "cpu"):
            given = device_given(positional[0] if positional else keywords.get("device", NONE))
            where = (
                literal("cpu") if name == "cpu" else given or (literal("cuda") if name == "cuda" else NOWHERE)
            )
        return Module(owner.symbol, owner.kind, owner.text, where)
    if not owner.symbol:
        return UNTOLD_VALUE
    if name == "parameters":
        return Listed(Tensor(same(owner.symbol), None, None, "parameter"))
    if name.startswith(
        ("_", "set_", "is_", "load_", "save_", "named_", "register_", "state_", "apply", "modules")
    ):
        return UNTOLD_VALUE
    return Tensor(
        Where("part", (f"{owner.symbol}.{name}",)), None, None, "output"
    )  # of a part, or a method of it


def meeting_of_operator(run: Asking, node: ast.expr | ast.stmt, parts: Sequence[tuple[ast.expr, Any]]) -> Any:
    """An operator between two expressions."""
    parts = [(each, _computed(run, value)) for each, value in parts]
    if not any(isinstance(value, Tensor) for _, value in parts):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add):
            return _lists(node.op, [value for _, value in parts])
        if isinstance(getattr(node, "op", None), ast.Sub | ast.FloorDiv | ast.Mod):
            if all(is_whole(value) for _, value in parts):
                return NUMBER
        return PLAIN if all(isinstance(value, Plain) for _, value in parts) else UNTOLD_VALUE
    strictly = isinstance(getattr(node, "op", None), ast.MatMult)
    return _meeting(run, node, parts, strictly, isinstance(node, ast.AugAssign))


def _lists(operator: ast.operator, values: Sequence[Any]) -> Any:
    """`[x] * n` and `[x] + [y]`; of what is no list, what is told of numbers."""
    first = values[0] if values else None
    if isinstance(operator, ast.Add) and isinstance(first, Items) and first.parts:
        if all(isinstance(each, Plain) for each in first.parts) and not isinstance(values[1], Items):
            return Spread(first.parts, ())  # numbers, as of a size
    lists = [each for each in values if isinstance(each, Items | Listed)]
    if isinstance(operator, ast.Mult) and len(lists) == 1:
        only = lists[0]
        if isinstance(only, Listed):
            return only
        return Listed(joined(only.parts), True) if only.parts else UNTOLD_VALUE
    if isinstance(operator, ast.Add) and len(lists) == 2:
        parts = [part for each in lists for part in (each.parts if isinstance(each, Items) else (each.part,))]
        if all(isinstance(each, Items) for each in lists):
            return Items(tuple(parts))
        return Listed(joined(parts), all(getattr(each, "whole", True) for each in lists))
    if all(is_whole(each) for each in values):
        return NUMBER
    return PLAIN if all(isinstance(each, Plain) for each in values) else UNTOLD_VALUE


def _meeting(
    run: Asking,
    node: ast.expr | ast.stmt,
    parts: Sequence[tuple[ast.expr, Any]],
    strictly: bool,
    written: bool = False,
) -> Any:
    parts = [(each, _computed(run, value)) for each, value in parts]
    tensors = [(each, value) for each, value in parts if isinstance(value, Tensor)]
    if not tensors:
        return UNTOLD_VALUE
    run.meet(node, tensors, strictly, written and tensors[0][0] is parts[0][0])
    operands = [value for _, value in tensors]
    if any(not isinstance(value, Tensor | Plain | Device) for _, value in parts):
        return _met_untold(operands, strictly)
    made = operands[0].made if len(operands) == 1 else None
    scalar = True if all(each.scalar for each in operands) and not strictly else None
    if not strictly and any(each.scalar is False for each in operands):
        scalar = False
    sized = scalar is None and not strictly and any(each.sized for each in operands)
    where = met(operands, strictly)
    if where.unplaced:
        known = [each for each in operands if each.where.unplaced]
        named = next((each for each in known if each.made is not None), operands[0])
        if strictly and where != DEFAULT and all(each.scalar is False for each in known):
            scalar = False
        return Tensor(where, scalar, named.made, named.role, sized)
    return Tensor(where, scalar, made, operands[0].role if len(operands) == 1 else "other", sized)


def _met_untold(operands: Sequence[Tensor], strictly: bool) -> Tensor:
    """The result of an operator that met what cannot be told, too: it ran, so they were together."""
    large = [each for each in operands if strictly or each.scalar is False]
    told = [each for each in large if each.where.kind in ("literal", "same")]
    if told:
        return Tensor(told[0].where, None if strictly else False)
    where = likely(operands)
    if where is not None:
        return Tensor(where, False if large and not strictly else None)
    first = operands[0]
    if len(operands) == 1 and first.where.kind in ("part", "maybe"):
        return Tensor(first.where, False if first.scalar is False else None, first.made, first.role)
    if large and all(each.where.kind == "default" for each in operands):
        return Tensor(DEFAULT, None if strictly else False, large[0].made, large[0].role)
    return Tensor(NOWHERE, None)


def _spread(given: Iterable[tuple[ast.expr, Any]]) -> list[tuple[ast.expr, Any]]:
    """Arguments, with the parts of lists and tuples in the place of these."""
    found: list[tuple[ast.expr, Any]] = []
    for node, value in given:
        if (
            isinstance(value, Items)
            and isinstance(node, ast.List | ast.Tuple)
            and len(node.elts) == len(value.parts)
        ):
            found += zip(node.elts, value.parts, strict=True)
        elif isinstance(value, Items):
            found += [(node, part) for part in value.parts]
        elif isinstance(value, Listed) and value.whole:
            found.append((node, UNTOLD_VALUE if value.part is EMPTY else value.part))
        elif isinstance(value, Listed):
            found += [(node, value.part), (node, UNTOLD_VALUE)]
        else:
            found.append((node, value))
    return found


def _of_values(run: Asking, node: ast.Call, first: Any, keywords: Keywords) -> Any:
    match first:
        case Tensor():
            placed = _chosen(keywords)
            beside = NOWHERE if run.elsewhere else first.where
            return Tensor(beside if placed is None else placed, first.scalar, node, "other")
        case Plain(known=True) if not isinstance(first.value, str | type(None)):
            scalar: bool | None = True
        case Items() | Listed() | Spread():
            scalar = False
        case _:
            placed = _chosen(keywords)
            told = not (isinstance(first, Given) and first.array) and not run.elsewhere
            copied = placed is None and called(node) == "tensor" and told
            # It is on the host, unless it is the copy of a tensor, which has a method for that.
            where = Where("maybe", (HOST, OTHER)) if copied else placed or NOWHERE
            return Tensor(where, None, node, "made" if copied else "other")
    return Tensor(_made(run, keywords), scalar, node, "made")


def _made(run: Asking, keywords: Keywords) -> Where:
    placed = _chosen(keywords)
    if placed is not None:
        return placed
    return NOWHERE if run.elsewhere else DEFAULT


def _chosen(keywords: Keywords) -> Where | None:
    """Where `device=` says; None where it says nothing."""
    if "**" in keywords:
        return NOWHERE
    return device_given(keywords["device"]) if "device" in keywords else None


def device_given(value: Any) -> Where | None:
    """The device that a value names; None for None."""
    match value:
        case Plain(value=None, known=True):
            return None
        case Plain(value=str() as text, known=True):
            return literal(text)
        case Plain(value=bool()):
            return NOWHERE
        case Plain(value=int() as number, known=True):
            return literal(f"cuda:{number}")
        case Device(where=where):
            return where
    return NOWHERE


def _moved(owner: Tensor, node: ast.Call, positional: Sequence[Any], keywords: Keywords) -> Any:
    """`x.to(...)`: to a device, beside another tensor, or only to another type of numbers."""
    if "*" in keywords or "**" in keywords:
        return Tensor(NOWHERE, owner.scalar, node)
    truth = any(each == Library("torch.bool") for each in (*positional, *keywords.values()))
    if truth and owner.role not in ("made", "attribute"):
        owner = Tensor(owner.where, owner.scalar, owner.made, "mask")
    target = keywords.get("device", positional[0] if positional else keywords.get("other", NONE))
    match target:
        case Tensor(where=where):
            return Tensor(where, owner.scalar, node)
        case Plain(known=False) | Plain(value=None):
            return owner
        case Library(name=name) if name.startswith("torch."):
            return owner  # a dtype
    return Tensor(device_given(target) or NOWHERE, owner.scalar, node)


def _shape_has_parts(node: ast.Call) -> bool:
    """Whether the shape is written as a list with at least one number: `torch.ones((1, *size))`."""
    shape = node.args[0] if node.args else None
    parts = shape.elts if isinstance(shape, ast.Tuple | ast.List) else []
    return any(not isinstance(each, ast.Starred) for each in parts)


def _rank(name: str, positional: Sequence[Any], keywords: Keywords) -> int:
    """How many dimensions a factory gives, where it is given one number for each, or a list of them."""
    if name not in _SCALAR_MAKERS:
        return 0
    given = [keywords["size"]] if "size" in keywords else list(positional)
    if len(given) == 1 and isinstance(given[0], Items):
        return len(given[0].parts)
    return len(given) if len(given) > 1 else 0


def _scalar(name: str, positional: Sequence[Any], keywords: Keywords) -> bool | None:
    """Whether a factory makes a tensor of no dimensions."""
    if name not in _SCALAR_MAKERS and name not in ("full", "randint"):
        return False
    size = keywords.get("size", positional[0] if positional else None)
    if name == "randint":
        shapes = [each for each in (*positional, size) if isinstance(each, Items)]
        return not shapes[0].parts if shapes else None
    match size:
        case Items(parts=parts):
            return not parts
        case Plain(known=True, value=int()):
            return name == "full"
        case Spread() if size.before or size.after:
            return False
        case Plain() if size == NUMBER and name != "full":
            return False
        case Plain():
            return False if name != "full" and len(positional) > 1 else None
        case None:
            return "*" not in keywords
    return False if name != "full" and len(positional) > 1 else None


def _builtin(name: str, positional: Sequence[Any]) -> Any:
    if name == "next" and positional and isinstance(positional[0], Listed):
        return positional[0].part
    if name in ("list", "tuple", "reversed", "iter") and positional and isinstance(positional[0], Listed):
        return positional[0]
    if name in ("enumerate", "zip") and positional and isinstance(positional[0], Listed):
        parts = [each.part if isinstance(each, Listed) else UNTOLD_VALUE for each in positional]
        if EMPTY in parts:
            return UNTOLD_VALUE
        return Listed(Items((PLAIN, parts[0]) if name == "enumerate" else tuple(parts)))
    tensors = any(not isinstance(each, Plain) for each in positional)
    if name in ("min", "max", "sum", "abs", "round") and tensors:
        return UNTOLD_VALUE
    if name == "len" or (name == "int" and positional) or (positional and all(map(is_whole, positional))):
        return NUMBER if name in ("len", "int", "min", "max", "abs") else PLAIN
    return PLAIN if name in _NUMBERS else UNTOLD_VALUE
