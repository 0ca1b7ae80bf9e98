"""A block named in the list of those that automatic placement keeps whole.

The list is an attribute of the model's class, or of one that it stands on; a model takes over those of its
parts where these are models themselves.

Must guarantee: a list is only written where a base class has one, and where it decides about the map: not
where somebody wrote the map down.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._edit import script_diff, swapped, with_item, with_line_after
from samedevice.diagnosis.fixes._source import Script
from samedevice.events import Running
from samedevice.findings import Fix
from samedevice.messages import Phrase

_LIST = "_no_split_modules"


def whole_class_fix(failure: Failure, script: Script | None, by_hand: bool) -> Fix[Phrase] | None:
    """The class of the cut block in the list of its model; `by_hand` where the script wrote the map."""
    block = failure.block
    if block is None or by_hand or not failure.event.device_map:
        return None
    if block is failure.cut and 2 * block.repeated >= failure.event.running[-1].repeated > 0:
        return None  # half of the model's layers: a tower, which must stay divisible
    sources = _sources(failure)
    found = list(_models(failure, block, sources))
    if not found:
        return None
    source, chain = found[-1]
    block = _of_the_library(failure, block, sources)
    names = [block.kind, *_alike(source, failure.event.running[0].kind, block.kind, chain[-1])]
    owner, changed = _with_names(source, chain, names)
    diff = None if changed is None else script_diff(source, changed)
    if owner is None or diff is None:
        return None
    title = Phrase("fix.whole-class", block=", ".join(names), owner=owner.name)
    if script is None or source.file != script.file:
        title = Phrase("fix.patch", what=title)
    return Fix(title, "check", diff, source.file)


def _sources(failure: Failure) -> list[Script]:
    files = dict.fromkeys(place.file for place in (*failure.event.stack, failure.event.at))
    return [source for file in files if (source := Script.read(file)) is not None]


def _of_the_library(failure: Failure, block: Running, sources: list[Script]) -> Running:
    """The block, or the module around it whose class stands in a file of the library: what torch makes of a
    layer that is parametrized has a name that no list knows.
    """
    running = failure.event.running
    around = running[running.index(block) : -1]
    written = (each for each in around if any(source.classes_of(each.kind) for source in sources))
    return next(written, block)


def _models(
    failure: Failure, block: Running, sources: list[Script]
) -> Iterator[tuple[Script, list[ast.ClassDef]]]:
    """The outermost running module and the parts down to the block that have such a list as it has, each with
    the classes of its file that it stands on; what stands below a module without a list is not asked.
    """
    for module in reversed(failure.event.running):
        if module is block:
            return
        for source in sources:
            chain = source.classes_of(module.kind)
            if chain and (_listed(chain) is not None or _has_list(source, chain[-1])):
                yield source, chain
                break
        else:
            return


def _listed(chain: list[ast.ClassDef]) -> tuple[ast.ClassDef, ast.expr] | None:
    """The nearest class that gives the list a value, and the value."""
    for node in chain:
        for statement in node.body:
            if (value := _given(statement)) is not None:
                return node, value
    return None


def _given(statement: ast.stmt) -> ast.expr | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == _LIST:
            return value
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if name == _LIST:
            return value
    return None


def _has_list(source: Script, node: ast.ClassDef) -> bool:
    """Whether a class stands on one of another file that has the list, and nothing in it."""
    names = {each.id for each in node.bases if isinstance(each, ast.Name)}
    for statement in source.tree.body:
        if not isinstance(statement, ast.ImportFrom):
            continue
        for each in statement.names:
            if (each.asname or each.name) not in names:
                continue
            file = _file_of(Path(source.file), statement)
            base = None if file is None or _LIST not in file.read_text("utf-8") else Script.read(str(file))
            listed = None if base is None else _listed(base.classes_of(each.name))
            if listed is not None and isinstance(listed[1], ast.Constant) and listed[1].value is None:
                return True
    return False


def _file_of(here: Path, statement: ast.ImportFrom) -> Path | None:
    """The file of a module that is imported from."""
    parts = (statement.module or "").split(".") if statement.module else []
    folder = here.parent
    if statement.level:
        for _ in range(statement.level - 1):
            folder = folder.parent
    else:
        above = [each for each in here.parents if parts and each.name == parts[0]]
        if not above:
            return None
        folder = above[-1].parent
    path = folder.joinpath(*parts)
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


def _alike(source: Script, failing: str, block: str, model: ast.ClassDef) -> list[str]:
    """The other classes of the file that make the failing module as the block does: the layers of a decoder
    beside those of its encoder fail at the same line. What makes such layers, and models, stay divisible.
    """
    if failing == block:
        return []
    made = {
        node.name: {_name(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }
    makers = [name for name, parts in made.items() if failing in parts]
    others = [name for name in makers if name != block and made[name].isdisjoint(makers)]
    return [name for name in others if model not in source.classes_of(name)] if block in makers else []


def _name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _with_names(
    source: Script, chain: list[ast.ClassDef], names: list[str]
) -> tuple[ast.ClassDef | None, str | None]:
    """The class that has the list, and the source in which the list has more names, of which the first is
    new.
    """
    listed = _listed(chain)
    written = ", ".join(f'"{name}"' for name in names)
    if listed is not None:
        owner, value = listed
        match value:
            case ast.List(elts=known) | ast.Set(elts=known):
                there = [each.value for each in known if isinstance(each, ast.Constant)]
                new = ", ".join(f'"{name}"' for name in names if name not in there)
                return (None, None) if names[0] in there else (owner, with_item(source, value, new))
            case ast.Constant(value=None):
                return owner, swapped(source, value, f"[{written}]")
        return None, None
    owner = chain[-1]
    given = [each for each in owner.body if isinstance(each, (ast.Assign, ast.AnnAssign))]
    line = f"{_LIST} = [{written}]"
    return owner, with_line_after(source, given[0], line) if given else None
