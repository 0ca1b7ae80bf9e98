"""Code that prose quotes: whether what loads a model, and what calls it, moves anything at all.

Must guarantee: a model counts as left only where the text shows how it came about and that it is called, and
nothing in the text places it elsewhere.
"""

# ruff: noqa: E501, RUF001 # patterns of whole phrases; Chinese has its own punctuation

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._code import Statement, statements_in
from samedevice.diagnosis.story._facts import Reading, ends, fails
from samedevice.messages import Phrase

_WANTS_GPU = frozenset(("triton-pointer", "needs-gpu", "mps-placeholder"))
"""Messages of what takes tensors on a GPU alone."""
_LONGEST = 80
_FLAGS = re.IGNORECASE | re.ASCII
_PLACED = Pattern(
    r"\bdevice_map\b|\bset_default_(?:device|tensor_type)|\baccelerat\w+|\.prepare\(|\bdispatch_model|\boffload\w*|\bpipeline\(|\bDataParallel|\bdeepspeed|\bwith torch\.(?:cuda\.)?device\(|\b(?:low|med)[-_ ]?vram",
    _FLAGS,
)
"""What places tensors without naming them."""
_MOVES = Pattern(
    r"\.(?:to|cuda)\((?!['\"]cpu|torch\.(?:float|half|bfloat|int)|dtype)|\bdevice\s?=(?!\s?['\"]cpu)"
)
_RUNS = ("generate", "forward", "predict", "encode_image", "inference", "infer", "chat")
"""Methods by which a model is called."""
_NO_MOVE = (
    r"\b(?:no|never|nowhere|without|not|nothing)\b[^.\n]{0,24}(?:\.cuda\b|\.to\(|\bcalls? to \.?(?:to|cuda)\b)"
    r"|(?:没有?|从不|从来不|未)[^。，\n]{0,10}(?:\.cuda\b|\.to\b|\bto\(device)"
)
_ON_HOST = (
    r"\bCPU[- ]only\b|\b(?:run|runs|running|works?|inference|generat\w+)\b[^.\n]{0,24}\bon (?:the |a |my )?CPU\b|\bdevice\s?=\s?(?:torch\.device\()?['\"]cpu|\bwithout (?:a |any )?(?:GPU|graphics card|card)\b"
    r"|没有(?:显卡|GPU)|(?:纯|只用|仅用?)\s?CPU|在\s?CPU\s?(?:上|环境)"
)


def nothing_moved(told: Told, report: Report) -> Reading | None:
    """What needs a GPU met a tensor on the host, and the text shows or says that model or input was not moved."""
    if report.kind not in _WANTS_GPU:
        return None
    shown = _shown(told.text)
    if shown is not None:
        model, given, told_of = shown
        if model is None and given is None:
            return None
        cause, other = "module-left-on-other-device", "input-not-on-embedding-device"
        if model is None:
            cause, other = other, cause
        name = model or given or ""
        return Reading(
            cause, (Phrase("because.told-not-moved", operand=name, text=told_of),), (other,), guilty=name
        )
    on_gpu = any(device != "cpu" for device in told.devices_of("model", "weights", "ids"))
    stated = told.says(_ON_HOST) or (told.says(_NO_MOVE) and not on_gpu)
    if _PLACED.search(told.text) or told.left or not stated:
        return None
    others = ("input-not-on-embedding-device", "kernel-launched-on-current-device")
    return Reading("module-left-on-other-device", (Phrase("because.told-nothing-moved"),), others)


def left_beside_what_moved(told: Told, report: Report) -> Reading | None:
    """Code makes an object and calls it with tensors that it moves, and nothing moves the object; or it moves a
    model, and not what it is called with.
    """
    if not (fails(told, report) or (ends(told, report) and told.says(_FINE_ON_HOST))):
        return None
    name, given, call = _shown(told.text) or (None, None, "")
    if (name is None) == (given is None):
        return None
    left = name or given or ""
    reasons = (Phrase("because.told-not-moved", operand=left, text=call),)
    if name is None:
        others: tuple[str, ...] = ("extra-input-on-wrong-device",)
        return Reading("input-not-on-embedding-device", reasons, others, guilty=left, sure=False)
    if told.says(r"metrics?\b|指标"):
        others = ("module-left-on-other-device",)
        return Reading("metric-state-device", reasons, others, guilty=left, outranks=("guess",))
    others = ("tensor-created-on-wrong-device",)
    return Reading("module-left-on-other-device", reasons, others, guilty=left, outranks=("guess",))


_FINE_ON_HOST = r"\b(?:works?|worked|fine(?![- ]?tun)|ok|runs?|no (?:error|problem))\b[^.\n]{0,16}\bon (?:the |a |my )?CPU\b|在?\s?CPU\s?上?[^。\n]{0,6}(?:正常|没问题|可以)"


def _shown(text: str) -> tuple[str | None, str | None, str] | None:
    """Of a model that code makes and calls: its name and that of what it is given, each where nothing moves it,
    and the call.

    None where no such code is shown, or something places tensors without naming them.
    """
    if _PLACED.search(text):
        return None
    quoted = statements_in(text)
    made: dict[str, list[ast.expr]] = {}
    for each in quoted:
        if each.target and isinstance(each.value, ast.Call):
            made.setdefault(each.target, []).append(each.value)
    for call in _calls(quoted):
        name = _called(call)
        at_once = isinstance(call.func, ast.Call)
        if (
            name is None
            or not (at_once or any(map(_makes_model, made.get(name, ()))))
            or _reads_text(name, quoted)
        ):
            continue
        arguments = (*call.args, *(keyword.value for keyword in call.keywords))
        left = next((_base(each) or ast.unparse(each) for each in arguments if _left(each, text, made)), None)
        there = _MOVES.search(ast.unparse(call.func)) if at_once else _moved(name, text, made)
        return None if there else name, left, ast.unparse(call)[:_LONGEST]
    return None


def _left(given: ast.expr, text: str, made: dict[str, list[ast.expr]]) -> bool:
    """Whether what a call is given is a tensor that nothing moves, as far as the text tells."""
    if isinstance(given, ast.Constant | ast.List | ast.Tuple) or _MOVES.search(ast.unparse(given)):
        return False
    base = _base(given)
    return base is None or not _moved(base, text, made)


def _moved(name: str, text: str, made: dict[str, list[ast.expr]]) -> bool:
    """Whether a text moves a name: where it is made, or in between."""
    own = rf"(?<![\w.]){re.escape(name)}(?:\.\w+|\[[^\]\n]{{1,30}}\])*\.(?:to|cuda)\("
    each_of_it = rf"\.(?:to|cuda)\([^()\n]{{0,40}}\) for [^\n]{{0,40}}\b{re.escape(name)}\b"
    values = made.get(name, ())
    if any(_MOVES.search(ast.unparse(each)) for each in values) or re.search(rf"{own}|{each_of_it}", text):
        return True
    others = {each: expressions for each, expressions in made.items() if each != name}
    return any(_of_moved(each, text, others) for each in values)


def _of_moved(value: ast.expr, text: str, made: dict[str, list[ast.expr]]) -> bool:
    """Whether an object is made of tensors that the text moves, and of nothing that it does not."""
    match value:
        case ast.Call(args=[_, *_] as given):
            bases = [
                _base(each) for each in given if not isinstance(each, ast.Constant | ast.Tuple | ast.List)
            ]
            return bool(bases) and all(base is not None and _moved(base, text, made) for base in bases)
    return False


def _calls(quoted: tuple[Statement, ...]) -> Iterator[ast.Call]:
    for each in quoted:
        for node in ast.walk(each.value):
            if isinstance(node, ast.Call):
                yield node


def _called(call: ast.Call) -> str | None:
    """The name of the model that a call runs, if it may be one."""
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Call() as made if _makes_model(made):
            return ast.unparse(made)[:_LONGEST]
        case ast.Attribute(value=ast.Name(id=name), attr=method) if method in _RUNS:
            return name
    return None


def _makes_model(value: ast.expr) -> bool:
    """Whether an expression loads something, or makes an object of a class, maybe with a move behind it."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("to", "cuda", "eval", "half")
    ):
        value = value.func.value
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func).rpartition(".")[2]
    return name.startswith(("from_", "load", "create_model", "build")) or name[:1].isupper()


def _reads_text(name: str, quoted: tuple[Statement, ...]) -> bool:
    """Whether something is called as tokenizers and processors are."""
    for call in _calls(quoted):
        own = isinstance(call.func, ast.Name) and call.func.id == name
        words = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in call.args)
        if own and (words or any(each.arg == "return_tensors" for each in call.keywords)):
            return True
        match call.func:
            case ast.Attribute(value=ast.Name(id=base), attr=method) if base == name and "decode" in method:
                return True
    return False


def _base(each: ast.expr) -> str | None:
    """The name that an argument begins with; None for what is made in the call itself."""
    while isinstance(each, ast.Attribute | ast.Subscript):
        each = each.value
    if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
        return None if ast.unparse(each.func).startswith("torch.") else _base(each.func.value)
    return each.id if isinstance(each, ast.Name) else None
