"""A tensor that a module keeps as a plain attribute, and `.to()` leaves behind, becomes a buffer."""

from __future__ import annotations

import ast
import re
from typing import TypeAlias

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._combine import combined
from samedevice.diagnosis.fixes._edit import script_diff, swapped, with_line_after, without
from samedevice.diagnosis.fixes._relocate import relocated
from samedevice.diagnosis.fixes._source import Script, called
from samedevice.diagnosis.fixes._target import partners
from samedevice.events import Operand, Place
from samedevice.findings import Fix, Safety
from samedevice.messages import Phrase, Several

_PLACES = re.compile(r"\.to\((?!(?:torch\.|dtype\b)\w*\))|\.cuda\(|device")
"""A module that names a device places its parts itself; a change of the type alone does not."""


def buffer_fix(failure: Failure, script: Script | None, guilty: Operand) -> Fix[Phrase] | None:
    """`register_buffer` in the class that keeps the operand, or what it was computed from; with it what other
    operands on its device are kept as.

    None where that is no cure.
    """
    if script is None or (own := _kept(failure, guilty)) is None:
        return None
    beside = [_kept(failure, each) for each in failure.event.operands if _is_with(each, guilty)]
    also = _read_beside(failure, guilty) if _in_replica(failure) else []
    together = list(dict.fromkeys([own, *(each for each in beside if each is not None), *also]))
    made = [_one_buffer(failure, script, each) for each in together]
    if made[0] is None:
        return None
    done = [each for each in made if each is not None]
    text, refused = combined(script.source, done)
    diff = None if refused else script_diff(script, text)
    if diff is None:
        return None
    named = [each for each, diff_of in zip(together, made, strict=True) if diff_of is not None]
    titles = tuple(dict.fromkeys(Phrase("fix.buffer", operand=name) for name, *_ in named))
    title = (
        titles[0]
        if len(titles) == 1
        else Phrase("fix.united", count=len(titles), fixes=Several(titles, "clause"))
    )
    whole = len(done) == len(together) and None not in beside
    return Fix(title, _safety(failure, guilty, own[1]) if whole else "check", diff)


_Kept: TypeAlias = tuple[str, str, Place | None]
"""Name, class and birthplace of an attribute."""


def _kept(failure: Failure, operand: Operand) -> _Kept | None:
    found = failure.plain_attribute(operand)
    if _in_replica(failure) and found is None and operand.kept_by and operand.local:
        return operand.local, operand.kept_by, operand.moved or operand.made
    return found


def _is_with(operand: Operand, guilty: Operand) -> bool:
    """Whether an operand is where the guilty one is, and may not stay."""
    weightless = bool(operand.dtype) and not operand.role and operand.shape != ()
    return operand is not guilty and weightless and operand.device == guilty.device


def _read_beside(failure: Failure, guilty: Operand) -> list[_Kept]:
    """What else the statement reads of plain attributes where the guilty operand is: a kernel that works in
    parts has refused the first alone.
    """
    return [
        (each.name, each.kept_by, each.made)
        for each in failure.event.read
        if each.kept_by and each.role is None and each.device == guilty.device
    ]


def _one_buffer(failure: Failure, script: Script, kept: _Kept) -> str | None:
    name, kept_by, made = kept
    return _as_buffer(script, name.rpartition(".")[2], kept_by, made, _in_replica(failure))


def _in_replica(failure: Failure) -> bool:
    """Whether a replica of a module runs: it gets copies of buffers alone."""
    return any(each.replica for each in failure.event.running)


def renewed_fix(failure: Failure, script: Script | None, guilty: Operand) -> Fix[Phrase] | None:
    """A buffer that a method gives a new tensor, made where the old one is: `self.seen = zeros(...)`."""
    place = guilty.made
    if script is None or guilty.role != "buffer" or guilty.moved is not None or not script.holds(place):
        return None
    statement, home = script.statement(place), script.scope(place.line)
    if not isinstance(statement, ast.Assign) or not isinstance(home, ast.FunctionDef):
        return None
    attribute = (guilty.parameter or "").rpartition(".")[2]
    if home.name == "__init__" or not _is_attribute(statement, attribute):
        return None
    owner = f"{script.text(statement.targets[0])}.device"
    changed = relocated(script, place, owner)
    diff = script_diff(script, changed) if changed else None
    title = Phrase("fix.made-on", operand=guilty.parameter or guilty.name, device=owner)
    return None if diff is None else Fix(title, "safe", diff)


def _safety(failure: Failure, guilty: Operand, kept_by: str) -> Safety:
    """Safe where all parameters of the module are with what the operand meets.

    `.to()` took them there, and takes buffers, too.
    """
    wanted = {each.device for each in partners(failure, guilty)}
    module = next((each for each in failure.event.running if each.kind == kept_by), None)
    together = (
        module is not None
        and bool(module.below or module.own)
        and {*module.own, *module.below} - {"cpu"} == wanted
        and "cpu" not in module.below
    )
    return "safe" if together and len(wanted) == 1 else "check"


def _as_buffer(script: Script, attribute: str, kept_by: str, made: Place | None, replica: bool) -> str | None:
    """A diff, or None for a module that places its parts itself and is no replica.

    There is no `.to()` that would take the buffer along.
    """
    if made is not None and not script.holds(made):
        return None
    for home in ast.walk(script.tree):
        if not isinstance(home, ast.ClassDef) or home.name != kept_by:
            continue
        for method in home.body:
            if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
                continue
            given = [
                node
                for node in ast.walk(method)
                if isinstance(node, ast.Assign) and _is_attribute(node, attribute)
            ]
            if not given and not _PLACES.search(script.text(method)):
                return _of_class(script, home, method, attribute)
            if len(given) == 1 and isinstance(given[0].value, ast.Constant):
                # it is given a tensor later, which a buffer would not keep from its old place
                if given[0].value.value is not None or not _made_with_module(script, home, attribute):
                    return None
            if len(given) != 1 or (not replica and _PLACES.search(script.text(method))):
                return None
            target = given[0].targets[0]
            assert isinstance(target, ast.Attribute)
            owner = script.text(target.value)
            kept = f'{owner}.register_buffer("{attribute}", {script.text(given[0].value)}, persistent=False)'
            return script_diff(script, swapped(script, given[0], kept))
    return None


def _made_with_module(script: Script, home: ast.ClassDef, attribute: str) -> bool:
    """Whether only functions that make such a module give it the attribute, before anything can move it."""
    given = [
        node
        for node in script.nodes
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
    ]
    makers = {script.scope(each.lineno) for each in given}
    makers = {each for each in makers if getattr(each, "name", "") != "__init__"}
    return (
        bool(makers)
        and all(
            any(isinstance(node, ast.Call) and called(node) in ("cls", home.name) for node in ast.walk(maker))
            for maker in makers
            if maker is not script.tree
        )
        and script.tree not in makers
    )


def _of_class(script: Script, home: ast.ClassDef, init: ast.FunctionDef, attribute: str) -> str | None:
    """A diff that makes an attribute of the class a buffer of each of its objects: a class can have none."""
    own = [each for each in home.body if isinstance(each, ast.Assign)]
    given = [each for each in own if [script.text(name) for name in each.targets] == [attribute]]
    begun = [
        each
        for each in init.body
        if isinstance(each, ast.Expr) and re.fullmatch(r"super\(.*\)\.__init__\(.*\)", script.text(each))
    ]
    read = {node.id for each in given for node in ast.walk(each.value) if isinstance(node, ast.Name)}
    in_class = {script.text(name) for each in own for name in each.targets}
    if len(given) != 1 or len(begun) != 1 or read & in_class or f"{home.name}.{attribute}" in script.source:
        return None
    line = f'self.register_buffer("{attribute}", {script.text(given[0].value)}, persistent=False)'
    changed = with_line_after(script, begun[0], line)
    if changed is None:
        return None
    left = Script(script.file, changed)
    at = (given[0].lineno, given[0].col_offset)
    again = next(
        each for each in left.nodes if isinstance(each, ast.Assign) and (each.lineno, each.col_offset) == at
    )
    return script_diff(script, without(left, again))


def _is_attribute(node: ast.Assign, attribute: str) -> bool:
    return (
        len(node.targets) == 1
        and isinstance(node.targets[0], ast.Attribute)
        and node.targets[0].attr == attribute
    )
