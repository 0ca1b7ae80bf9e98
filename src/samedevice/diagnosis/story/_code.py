"""Code that prose quotes: its statements, as far as they are Python."""

# ruff: noqa: E501 # patterns of a whole statement

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from samedevice.diagnosis.paste import Pattern
from samedevice.provenance.syntax import parsed

_LONGEST = 300
"""Characters of a statement."""
_MOST = 200
"""Places where one may begin."""
_NAME = r"[A-Za-z_]\w{0,60}"
_HEAD = Pattern(
    rf"(?<![\w.'\"(\[])(?:(?P<target>{_NAME}(?:\.{_NAME}){{0,4}}(?:, ?{_NAME}){{0,3}})[ ]?=[ ]?(?=[A-Za-z_\[{{(]))?"
    rf"(?P<value>{_NAME}(?:\.{_NAME}){{0,6}}(?=[(\[])|(?<=[=] )[\[{{]|(?<==)[\[{{])",
    re.ASCII,
)
_MORE = Pattern(rf"(?:\.{_NAME}){{1,6}}(?=[(\[])|(?=[(\[])", re.ASCII)
_PART = Pattern(r"'[^'\n]{0,120}'|\"[^\"\n]{0,120}\"|[(\[{]|[)\]}]")
_LOOP = Pattern(
    rf"\bfor\s(?:{_NAME},\s?)?(?P<each>{_NAME})\sin\s(?P<all>{_NAME})(?:\.(?:values|items)\(\))?:\s{{1,24}}(?P=each)\.(?:to|cuda)\(",
    re.ASCII,
)

_MODULE_METHOD = Pattern(
    r"\b([A-Za-z_]\w{0,60})\.(?:parameters|train|eval|state_dict|load_state_dict|forward|requires_grad_)\(",
    re.ASCII,
)
"""What only modules have."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement that a text quotes."""

    start: int
    target: str | None
    """What it is assigned to, as written; None for a bare expression."""
    value: ast.expr


@lru_cache(maxsize=4)
def statements_in(text: str) -> tuple[Statement, ...]:
    """The assignments and calls that a text quotes, in their order."""
    return tuple(_statements(text.replace("\\", "/")))  # Python warns of escapes that it does not know


def moved_in_place(value: ast.expr) -> ast.expr | None:
    """What a bare `x.to(...)` or `x.cuda()` is called on; None for any other expression, and for one that
    changes the type of numbers or brings to the host.
    """
    match value:
        case ast.Call(func=ast.Attribute(value=of, attr="to" | "cuda")) if not _other_than_gpu(value):
            return of
    return None


def dropped_moves(text: str, *, stated: bool = False) -> tuple[str, ...]:
    """Names of tensors whose `.to()` is called for nothing: its result is not kept, and the name is used as it
    was.

    Of modules `.to()` works in place; a name counts as a tensor where it is handed to a call elsewhere, or
    where the text has `stated` that a result is not kept.
    """
    quoted = statements_in(text)
    called = {each.func.id for each in _calls(quoted) if isinstance(each.func, ast.Name)}
    given = {
        each.id
        for call in _calls(quoted)
        if _computes(call)
        for each in _arguments(call)
        if isinstance(each, ast.Name)
    }
    called |= {each[1] for each in _MODULE_METHOD.finditer(text)}
    kept = {name.strip() for each in quoted for name in (each.target or "").split(",")}
    lost = [
        of.id
        for each in quoted
        if each.target is None and isinstance(of := moved_in_place(each.value), ast.Name)
    ]
    lost += [each["all"] for each in _LOOP.finditer(text)]
    made = {each.target for each in quoted if isinstance(each.value, ast.Call) and _makes_module(each.value)}
    return tuple(
        name
        for name in dict.fromkeys(lost)
        if name not in made | called and (stated or name in given) and not _reassigned(name, quoted, kept)
    )


def encodings_as_they_are(text: str) -> tuple[str, ...]:
    """What a tokenizer or processor returned as tensors and a call is given, with no move anywhere."""
    quoted = statements_in(text)
    given = {each.id for call in _calls(quoted) for each in _arguments(call) if isinstance(each, ast.Name)}
    return tuple(
        each.target
        for each in quoted
        if each.target in given
        and isinstance(each.value, ast.Call)
        and any(keyword.arg == "return_tensors" for keyword in each.value.keywords)
        and not re.search(
            rf"\b{re.escape(each.target)}(?:\[[^\]\n]{{1,40}}\])?\.(?:to|cuda)\(|\.to\([^()\n]{0, 60}\) for ",
            text,
        )
    )


def moves_what_it_adds(text: str) -> bool:
    """Whether each module that quoted code gives to another one is moved in the same statement."""
    added = [
        each.value
        for each in statements_in(text)
        if "." in (each.target or "") and isinstance(each.value, ast.Call) and not _elements(each.value)
    ]
    made = [each for each in added if any(map(_makes_module, ast.walk(each)))]
    return bool(made) and all(moved_in_place(each) is not None for each in made)


def modules_kept_in_containers(text: str) -> tuple[str, ...]:
    """Attributes that hold modules in a list or dictionary of Python."""
    found = []
    for each in statements_in(text):
        if each.target is not None and any(map(_makes_module, _elements(each.value))):
            found.append(each.target)
        match each.value:
            case ast.Call(func=ast.Attribute(value=of, attr="append"), args=[ast.Call() as made]) if (
                each.target is None and _makes_module(made)
            ):
                name = ast.unparse(of)
                if re.search(rf"{re.escape(name)}\s?=\s?(?:\[\]|list\(\))", text):
                    found.append(name)
    return tuple(dict.fromkeys(found))


def _statements(text: str) -> Iterator[Statement]:
    position = 0
    for _ in range(_MOST):
        head = _HEAD.search(text, position)
        if head is None:
            return
        end = _end(text, head.end("value") - (text[head.end("value") - 1] in "[{"))
        tree = parsed(text[head.start("value") : end]) if end else None
        match tree:
            case ast.Module(body=[ast.Expr(value=value)]):
                yield Statement(head.start(), head["target"], value)
                position = max(end or 0, head.end())
            case _:
                position = head.end()


def _end(text: str, start: int) -> int | None:
    """The end of an expression whose first bracket is at `start`; None where that is never closed."""
    limit = min(len(text), start + _LONGEST)
    end = _closed(text, start, limit)
    while end is not None and (more := _MORE.match(text, end, limit)) is not None:
        further = _closed(text, more.end(), limit)
        if further is None:
            break
        end = further
    return end


def _closed(text: str, start: int, limit: int) -> int | None:
    depth = 0
    for part in _PART.finditer(text, start, limit):
        if part[0] in "([{":
            depth += 1
        elif part[0] in ")]}":
            depth -= 1
            if depth == 0:
                return part.end()
    return None


def _calls(quoted: tuple[Statement, ...]) -> Iterator[ast.Call]:
    for each in quoted:
        for node in ast.walk(each.value):
            if isinstance(node, ast.Call):
                yield node


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [
        each.value if isinstance(each, ast.Starred) else each
        for each in (*call.args, *(each.value for each in call.keywords))
    ]


def _reassigned(name: str, quoted: tuple[Statement, ...], kept: set[str]) -> bool:
    """Whether a move of it is kept elsewhere in the text."""
    return name in kept and any(
        name in (each.target or "")
        and any(
            moved_in_place(node) is not None for node in ast.walk(each.value) if isinstance(node, ast.expr)
        )
        for each in quoted
    )


def _computes(call: ast.Call) -> bool:
    """Whether a call may compute with its arguments: it neither wraps, copies nor prints them."""
    name = ast.unparse(call.func).rpartition(".")[2]
    return not name[:1].isupper() and name not in ("deepcopy", "print", "len", "type")


def _elements(value: ast.expr) -> list[ast.expr]:
    match value:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return elements
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
            return [element]
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return _elements(inner)
        case ast.Dict(values=elements):
            return elements
    return []


def _makes_module(value: ast.AST) -> bool:
    """Whether an expression calls a class, as far as its name tells, that is none of tensors."""
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func).rpartition(".")[2]
    return (
        name[:1].isupper()
        and not name.isupper()
        and not name.endswith(("Tensor", "Parameter", "Dataset", "Loader"))
    )


def _other_than_gpu(call: ast.Call) -> bool:
    text = " ".join(ast.unparse(each) for each in _arguments(call))
    return re.search(r"float|half|dtype|double|int|long|bool|cpu", text) is not None
