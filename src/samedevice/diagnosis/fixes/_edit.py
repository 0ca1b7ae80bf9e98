"""Changing a script's source at a node of its syntax tree, and the diff to what came out.

Must guarantee: what a change does not name stays as it is, byte for byte: comments, line ends, tabs.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from samedevice.diagnosis.fixes._source import Script, lines_of, same_span
from samedevice.provenance import installed_path
from samedevice.provenance.syntax import given_by_name, tree_of

RANK_MAP = '{"": int(os.environ.get("LOCAL_RANK", "0"))}'
"""The map that puts the model of each rank on its own GPU."""

_INDENT = r"[ \t\f]*+"
_REST = re.compile(rf"{_INDENT};?{_INDENT}(?:#[^\r\n]*)?(?:\r\n|\r|\n|\Z)")
"""What may follow a statement that ends its line."""
_NEXT = re.compile(rf"{_INDENT};{_INDENT}(?![#\r\n\\]|\Z)")
"""What stands between a statement and the next one in its line."""
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def swapped(script: Script, node: ast.expr | ast.stmt, text: str) -> str:
    """The source with another text in the place of a node."""
    start, end = _span(script.source, node)
    return script.source[:start] + text + script.source[end:]


def all_swapped(script: Script, texts: Sequence[tuple[ast.expr, str]]) -> str:
    """The source with other texts in the places of several nodes, none of which is part of another one."""
    source = script.source
    spans = sorted(((*_span(source, node), text) for node, text in texts), reverse=True)
    for start, end, text in spans:
        source = source[:start] + text + source[end:]
    return source


def moved(script: Script, node: ast.expr, target: str) -> str:
    """The source in which the value of an expression is moved to a device, by `.to(target)`, and to no other
    one before: `x.cuda()` becomes `x.to(target)`.
    """
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda" | "cpu"), args=[], keywords=[]):
            return redirected(script, node, target)
    return swapped(script, node, f"{grouped(script.text(node))}.to({target})")


def redirected(script: Script, call: ast.Call, target: str) -> str:
    """The source in which a method's call is `.to(target)` on the same object."""
    assert isinstance(call.func, ast.Attribute)
    name = _span(script.source, call.func)[1] - len(call.func.attr)
    return f"{script.source[:name]}to({target}){script.source[_span(script.source, call)[1] :]}"


def called_before(script: Script, call: ast.Call, text: str) -> str:
    """The source in which another method is called before a method's call: `x.cpu().numpy()`."""
    assert isinstance(call.func, ast.Attribute)
    name = _span(script.source, call.func)[1] - len(call.func.attr)
    return f"{script.source[:name]}{text}.{script.source[name:]}"


def _uncalled(script: Script, call: ast.Call) -> str:
    """The source with the object of a method's call in the place of the call."""
    assert isinstance(call.func, ast.Attribute)
    start, end = _span(script.source, call)
    *_, (_, owner_end), _, _ = _code(script.source[start : _span(script.source, call.func)[1]])
    return script.source[: start + owner_end] + script.source[end:]


def reduced(script: Script, call: ast.Call, part: ast.expr) -> str:
    """The source in which an argument of a call, or the object of a method, stands for the call.

    A statement that would do nothing then is taken out.
    """
    statement, text = script.around(call), script.text(part)
    if isinstance(statement, (ast.Assign, ast.Expr)) and same_span(statement.value, call):
        targets = [script.text(each) for each in getattr(statement, "targets", [part])]
        if targets == [text] and isinstance(part, (ast.Name, ast.Attribute)):
            return without(script, statement)
    if isinstance(call.func, ast.Attribute) and call.func.value is part:
        return _uncalled(script, call)
    return swapped(script, call, grouped(text))


def grouped(text: str) -> str:
    """An expression as it may stand anywhere: in parentheses, unless it holds together without."""
    try:
        statements = tree_of(text.lstrip(" \t")).body
    except SyntaxError:  # line ends that parentheses around it allowed
        return f"({text})"
    node = statements[0].value if len(statements) == 1 and isinstance(statements[0], ast.Expr) else None
    whole = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Dict, ast.Set, ast.ListComp)
    return text if isinstance(node, whole) else f"({text})"


def with_keyword(script: Script, call: ast.Call, name: str, value: str) -> str:
    """The source in which a call has one keyword argument more, written as its others are."""
    source, end = script.source, _span(script.source, call)[1]
    if len(call.args) == 1 and isinstance(call.args[0], ast.GeneratorExp):
        bare, closing = _span(source, call.args[0])
        if closing == end:  # the generator's parentheses are the call's
            return f"{source[:bare]}({source[bare:end]}, {name}={value}){source[end:]}"
    return _appended(source, call, [*call.args, *call.keywords], f"{name}={value}")


def with_value(script: Script, call: ast.Call, name: str, value: str) -> str:
    """The source in which a call is given this by name, in the place of what it was given so."""
    given = given_by_name(call, name)
    return with_keyword(script, call, name, value) if given is None else swapped(script, given, value)


def with_parameter(script: Script, function: ast.AST, text: str) -> str | None:
    """The source in which a function takes one parameter more, behind those that it is given by place; None
    where others follow them, or there are none.
    """
    given = function.args if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    if given is None or not given.args or given.vararg or given.kwonlyargs or given.kwarg:
        return None
    source = script.source
    last: list[ast.arg | ast.expr] = [*given.args, *given.defaults]
    at = max(_end(source, each) for each in last)
    return f"{source[:at]}, {text}{source[at:]}"


def _end(source: str, node: ast.arg | ast.expr) -> int:
    """Behind a node, and behind parentheses that stand around it."""
    end = _span(source, node)[1]
    rest = re.compile(r"\s*\)(?=\s*[,)])").match(source, end) if isinstance(node, ast.expr) else None
    return end if rest is None else rest.end()


def with_entry(script: Script, display: ast.Dict, key: str, value: str) -> str:
    """The source in which a dictionary's display has one entry more, written as its others are."""
    # A `**` has no key.
    items = [each or value for each, value in zip(display.keys, display.values, strict=True)]
    return _appended(script.source, display, items, f"{key}: {value}")


def with_item(script: Script, display: ast.List | ast.Set, text: str) -> str:
    """The source in which a list's display has one item more, written as its others are."""
    return _appended(script.source, display, display.elts, text)


def _appended(source: str, node: ast.expr, items: Sequence[ast.expr | ast.keyword], text: str) -> str:
    """The source with an item more before the bracket that closes a node."""
    start, end = _span(source, node)
    *_, (last, after), (closing, _) = _code(source[start:end])
    if source[start + last] != ",":
        at, added = start + after, f", {text}" if items else text
    else:
        line = re.search(rf"(\r\n|\r|\n){_INDENT}\Z", source[start : start + closing])
        first = min(_span(source, each)[0] for each in items)
        indent = re.search(rf"[\r\n]({_INDENT})\Z", source[:first])
        if line is not None and indent is not None:  # an item has a line of its own
            at, added = start + line.start(), f"{line[1]}{indent[1]}{text},"
        else:
            at, added = start + after, f" {text}{',' if line is not None else ''}"
    return source[:at] + added + source[at:]


def without(script: Script, statement: ast.stmt) -> str:
    """The source without a statement; `pass` stands for it where a block has nothing else."""
    source, (start, end) = script.source, _span(script.source, statement)
    line = _line_start(source, start)
    before = source[line:start]
    if [statement] in script.blocks():
        return swapped(script, statement, "pass")
    if not before.strip() and (rest := _REST.match(source, end)):
        return source[:line] + source[rest.end() :]
    if following := _NEXT.match(source, end):
        return source[:start] + source[following.end() :]
    if previous := re.search(rf"{_INDENT};{_INDENT}\Z", before):
        return source[: line + previous.start()] + source[end:]
    return swapped(script, statement, "pass")


def with_line_before(script: Script, statement: ast.stmt, text: str) -> str:
    """The source with a line of its own before the line of a statement, indented as that is."""
    return with_lines_before(script, statement, [text])


def with_lines_before(script: Script, statement: ast.stmt, texts: Sequence[str]) -> str:
    """The source with lines of their own before the line of a statement, indented as that is."""
    start = _line_start(script.source, _span(script.source, statement)[0])
    indent = re.compile(_INDENT).match(script.source, start)
    assert indent is not None
    end = _line_end(script.source)
    lines = "".join(f"{indent[0]}{each}{end}" for each in texts)
    return f"{script.source[:start]}{lines}{script.source[start:]}"


def with_line_after(script: Script, statement: ast.stmt, text: str) -> str | None:
    """The source with a line of its own below a statement; None where the statement shares its last line."""
    start, end = _span(script.source, statement)
    rest = _REST.match(script.source, end)
    begin = _line_start(script.source, start)
    indent = script.source[begin:start]
    if rest is None or indent.strip():
        return None
    line = f"{indent}{text}{_line_end(script.source)}"
    if not rest[0].endswith(("\r", "\n")):
        line = f"{_line_end(script.source)}{indent}{text}"
    return f"{script.source[: rest.end()]}{line}{script.source[rest.end() :]}"


def lifted(script: Script, late: Sequence[ast.stmt], early: ast.stmt) -> str:
    """The source in which statements stand before an earlier one of their block, with their comments."""
    source, texts = script.source, list[str]()
    for each in reversed(late):  # the last one first: what stands before it stays where it is
        start, end = _span(script.source, each)
        rest = _REST.match(script.source, end)
        own_line = rest is not None and not script.source[_line_start(script.source, start) : start].strip()
        texts.append(
            script.source[start : rest.end()].rstrip() if own_line and rest is not None else script.text(each)
        )
        source = without(Script(script.file, source), each)
    for text in texts:
        source = with_line_before(Script(script.file, source), early, text)
    return source


def with_import(source: str, module: str) -> str:
    """The source with an import at its top, if it has none yet that binds the module's name there."""
    tree = tree_of(source)
    for node in _at_top(tree.body):
        if isinstance(node, ast.Import) and any(
            alias.name.partition(".")[0] == module and alias.asname is None for alias in node.names
        ):
            return source
    lines = lines_of(source)
    at = _import_line(tree)
    line = f"import {module}{_line_end(source)}"
    if at and not lines[at - 1].endswith(("\r", "\n")):
        line = f"{_line_end(source)}{line}"
    return "".join([*lines[:at], line, *lines[at:]])


def _import_line(tree: ast.Module) -> int:
    """How many lines stand before a new import: those before the first import that begins its line.

    The docstring and what is imported from the future stay above it.
    """
    head, statements = 0, list(tree.body)
    while statements and (_is_text(statements[0]) or _is_future(statements[0])):
        head = statements.pop(0).end_lineno or 0
    for node in statements:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node.lineno > head and node.col_offset == 0:
            return node.lineno - 1
    if head or not statements:
        return head
    begins: list[int] = [
        statements[0].lineno,
        *(each.lineno for each in getattr(statements[0], "decorator_list", [])),
    ]
    return min(begins) - 1


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _at_top(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that bind names of the module itself.

    Also those under `if` and `try`, none of a function or class.
    """
    for statement in statements:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            for block in ("body", "orelse", "finalbody"):
                yield from _at_top(getattr(statement, block, []))


def file_diff(file: str | Path, old: str, new: str, folder: str | None = None) -> str | None:
    """A unified diff of a file, as `patch -p1` and `git apply` take it; None when nothing changes.

    It is to be applied in `folder`, or else in the working folder.
    """
    name = diff_name(Path(file), folder)
    found = difflib.unified_diff(
        list(io.StringIO(old, newline="\n")),
        list(io.StringIO(new, newline="\n")),
        f"a/{name}",
        f"b/{name}",
        n=1,
    )
    return (
        "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in found)
        or None
    )


def script_diff(script: Script, changed: str) -> str | None:
    """A diff of a script to another source; None when that would not parse or nothing changes."""
    try:
        tree_of(changed)
    except (SyntaxError, ValueError):
        return None
    return file_diff(script.file, script.source, changed)


def diff_name(file: Path, folder: str | None = None) -> str:
    """How a diff names a file, so that `patch -p1` finds it from that folder, or from the working folder.

    One that lies elsewhere has its own name alone, that of an installed package begins with the package.
    """
    if folder is None and (installed := installed_path(str(file))) is not None:
        return installed
    try:
        return file.resolve().relative_to(Path(folder or ".").resolve()).as_posix()
    except (ValueError, OSError):  # elsewhere, or the working folder is gone
        return file.name


def _span(source: str, node: ast.expr | ast.stmt | ast.keyword | ast.arg) -> tuple[int, int]:
    """Where a node's text begins and ends, in characters; parentheses around it are not its own."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = lines_of(source)

    def offset(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)


def _code(text: str) -> list[tuple[int, int]]:
    """Where the tokens of an expression begin and end, without comments and line ends."""
    text = f"({text})"  # a part of an expression may have line ends that parentheses around it allowed
    starts = [0, *accumulate(map(len, lines_of(text)))]
    found = [
        (starts[each.start[0] - 1] + each.start[1] - 1, starts[each.end[0] - 1] + each.end[1] - 1)
        for each in tokenize.generate_tokens(io.StringIO(text, newline="").readline)
        if each.type not in _NO_CODE
    ]
    return found[1:-1]


def _line_start(source: str, at: int) -> int:
    return max(source.rfind("\n", 0, at), source.rfind("\r", 0, at)) + 1


def _line_end(source: str) -> str:
    """How the lines of a source end."""
    found = re.search(r"\r\n|\r|\n", source)
    return found[0] if found is not None else "\n"
