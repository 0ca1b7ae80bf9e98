"""The device map that a script writes, and an entry that it lacks."""

from __future__ import annotations

import ast
from dataclasses import replace

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, with_entry, with_line_before
from samedevice.diagnosis.fixes._source import Script
from samedevice.findings import Finding, Fix
from samedevice.messages import Phrase


def entry_fix(failure: Failure, script: Script | None, name: str, device: str) -> Fix[Phrase]:
    """One entry more in the map that the script writes, or in the one that it hands over by a name: with the
    value of an entry beside it.
    """
    title = Phrase("fix.map-key", name=name, device=device)
    alike = [key for key, where in failure.event.device_map.items() if where == device and key]
    around = name.rpartition(".")[0]
    beside = next((key for key in alike if key.rpartition(".")[0] == around), next(iter(alike), None))
    if script is None:
        return Fix(title, "safe", None)
    found, given = map_literal(script, failure), _map_named(script)
    if given is not None and beside is not None:
        return Fix(title, "safe", _with_entry_line(script, *given, name, beside))
    if not isinstance(found, ast.Dict):
        return Fix(title, "safe", None)
    entries = zip(found.keys, found.values, strict=True)
    written = [
        value for key, value in entries if isinstance(key, ast.Constant) and beside and key.value == beside
    ]
    text = script.text(written[0]) if written else f'"{device}"'
    return Fix(title, "safe", script_diff(script, with_entry(script, found, f'"{name}"', text)))


def _given(root: ast.AST) -> list[tuple[ast.Call, ast.expr]]:
    """The calls in a piece of source that hand over a device map, each with what it hands over."""
    return [
        (node, keyword.value)
        for node in ast.walk(root)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "device_map"
    ]


def _with_entry_line(script: Script, before: ast.stmt, known: str, name: str, beside: str) -> str | None:
    """The change that gives a map of a known name an entry, where another one is, before a statement."""
    line = f'{known}["{name}"] = {known}["{beside}"]'
    return script_diff(script, with_line_before(script, before, line))


def _map_named(script: Script) -> tuple[ast.stmt, str] | None:
    """The statement that hands a map over, and the name of the dictionary that it is, written or made by a
    function; None for any other.
    """
    found = [(call, value.id) for call, value in _given(script.tree) if isinstance(value, ast.Name)]
    if len(found) != 1:
        return None
    call, name = found[0]
    made = [
        each
        for each in script.nodes
        if isinstance(each, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
    ]
    is_map = bool(made) and all(isinstance(each.value, ast.Dict | ast.DictComp | ast.Call) for each in made)
    statement = script.around(call)
    return None if not is_map or statement is None else (statement, name)


def map_argument(script: Script) -> ast.expr | None:
    """The value of the script's only `device_map=`, through a name where one is given."""
    found = _given(script.tree)
    if len(found) != 1:
        return None
    _, value = found[0]
    if isinstance(value, ast.Name) and (made := script.assignment(value.id)) is not None:
        return made.value
    return value


def map_literal(script: Script, failure: Failure) -> ast.expr | None:
    """The dictionary in the script that became the map, or else the value of `device_map=`."""
    keys = set(failure.event.device_map)
    for node in ast.walk(script.tree):
        if (
            isinstance(node, ast.Dict)
            and node.keys
            and {key.value for key in node.keys if isinstance(key, ast.Constant)} == keys
        ):
            return node
    return map_argument(script)


def with_map_entry(finding: Finding[Phrase]) -> Finding[Phrase]:
    """The finding of a map that leaves out what an error names, with the change of the script in front; as it
    is where the script does not show the map, and every finding of another kind.
    """
    at = finding.user_at
    name = next((each for each in map(_left_out, finding.reasons) if each), "")
    script = Script.read(at.file) if at is not None and finding.kind == "device-map-incomplete" else None
    if script is None or at is None or not name or not script.holds(at):
        return finding
    statement = script.statement(at)
    given = None if statement is None else _handed_over(script, statement)
    beside = None if given is None else _nearest(script, given[1], name)
    if given is None or beside is None:
        return finding
    diff = _with_entry_line(script, *given, name, beside)
    if diff is None:
        return finding
    title = Phrase("fix.map-key-beside", name=name, beside=beside)
    return replace(finding, fixes=(Fix(title, "safe", diff, script.file), *finding.fixes))


def _left_out(reason: Phrase) -> str:
    """The module whose parameter the map does not reach."""
    named = str(dict(reason.values).get("operand", "")) if reason.key.endswith(".unmapped") else ""
    module, _, last = named.rpartition(".")
    return module if last in ("weight", "bias") else named


def _handed_over(script: Script, statement: ast.stmt) -> tuple[ast.stmt, str] | None:
    """The name of the map that a statement hands over, or that a function of the script returns to it, and
    the statement before which it is whole.
    """
    match [value for _, value in _given(statement)]:
        case [ast.Name(id=name)]:
            return statement, name
        case [ast.Call(func=ast.Name(id=function))]:
            made = [each for each in script.tree.body if isinstance(each, ast.FunctionDef)]
            body = next((each.body for each in made if each.name == function), None)
            match body and body[-1]:
                case ast.Return(value=ast.Name(id=name)) as last:
                    return last, name
    return None


def _nearest(script: Script, known: str, name: str) -> str | None:
    """The entry of a map of this name, as far as the script writes it down, that is nearest to a module."""
    written: list[str] = []
    for node in script.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=given)], value=ast.Dict(keys=keys)) if given == known:
                constants = (each.value for each in keys if isinstance(each, ast.Constant))
                written += [each for each in constants if isinstance(each, str)]
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=given), slice=ast.Constant(value=str(key)))]
            ) if given == known:
                written.append(key)
    parts = name.split(".")

    def shared(key: str) -> int:
        pairs = zip(parts, key.split("."), strict=False)
        return next((at for at, (own, other) in enumerate(pairs) if own != other), len(parts))

    return max(written, key=shared, default=None)
