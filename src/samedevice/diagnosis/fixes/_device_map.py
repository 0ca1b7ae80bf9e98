"""The device map that a script writes, and an entry that it lacks."""

from __future__ import annotations

import ast

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, with_entry, with_line_before
from samedevice.diagnosis.fixes._source import Script
from samedevice.findings import Fix
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
        statement, known = given
        line = f'{known}["{name}"] = {known}["{beside}"]'
        return Fix(title, "safe", script_diff(script, with_line_before(script, statement, line)))
    if not isinstance(found, ast.Dict):
        return Fix(title, "safe", None)
    entries = zip(found.keys, found.values, strict=True)
    written = [
        value for key, value in entries if isinstance(key, ast.Constant) and beside and key.value == beside
    ]
    text = script.text(written[0]) if written else f'"{device}"'
    return Fix(title, "safe", script_diff(script, with_entry(script, found, f'"{name}"', text)))


def _map_named(script: Script) -> tuple[ast.stmt, str] | None:
    """The statement that hands a map over, and the name of the dictionary that it is, written or made by a
    function; None for any other.
    """
    found = [
        (node, keyword.value.id)
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "device_map" and isinstance(keyword.value, ast.Name)
    ]
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
    found = [
        keyword.value
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "device_map"
    ]
    if len(found) != 1:
        return None
    value = found[0]
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
