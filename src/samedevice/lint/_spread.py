"""Classes of a file that a device map may cut: those outside the blocks of `_no_split_modules`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from samedevice.lint._source import Around, ClassText, LintedFile, nodes

NO_SPLIT = "_no_split_modules"
_BLOCKS = ("Layer", "Block", "Attention", "MLP")
"""What blocks are called that no cut goes through, as a rule, where the file names none."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a list of blocks that stay whole names."""

    owner: ast.ClassDef
    node: ast.stmt
    names: tuple[ast.Constant, ...]
    whole: bool
    """Whether all of it is written as text; the rest of another is computed."""


def lists_of(owner: ast.ClassDef) -> Iterator[Named]:
    """The lists that a class gives itself."""
    for node in owner.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if name == NO_SPLIT:
            inside = [each for each in nodes(value) if isinstance(each, ast.Constant)]
            texts = tuple(each for each in inside if isinstance(each.value, str))
            yield Named(owner, node, texts, _is_written(value))


def _is_written(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=None):
            return True
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(isinstance(each, ast.Constant) for each in parts)
    return False


def models_in(file: LintedFile) -> list[ClassText]:
    """The classes of the file that are loaded with a device map, as their bases say, in their order."""
    nodes = sorted(file.source.class_list, key=lambda node: node.lineno)
    texts = [file.source.class_text(node) for node in nodes]
    return [
        text
        for text in texts
        if any(base.endswith("PreTrainedModel") for each in file.project.lineage(text) for base in each.bases)
    ]


def spread_classes(file: LintedFile) -> set[str]:
    """The names of the classes that no block keeps on one device; none in a file without a model."""
    known = {node.name: node for node in file.source.class_list}
    bases = [ast.unparse(base) for node in known.values() for base in node.bases]
    if not any(base.endswith(("PreTrainedModel", "ModelMixin")) for base in bases):
        return set()
    lists = [each for owner in file.source.class_list for each in lists_of(owner)]
    blocks = {str(name.value) for each in lists for name in each.names}
    kept = inside(file, blocks or {name for name in known if name.endswith(_BLOCKS)})
    return {
        name for name, node in known.items() if name not in kept and file.in_module_class(Around(None, node))
    }


def inside(file: LintedFile, blocks: Iterable[str], without: Iterable[str] = ()) -> set[str]:
    """Blocks, and the classes of the file that they are built of, not going into those `without`."""
    known = {node.name: node for node in file.source.class_list if node.name not in without}
    kept = set(blocks)
    waiting = list(kept)
    while waiting:
        node = known.get(waiting.pop())
        for name in classes_named(file, node, set(known)) if node is not None else ():
            if name not in kept:
                kept.add(name)
                waiting.append(name)
    return kept


def classes_named(file: LintedFile, node: ast.AST, known: set[str]) -> set[str]:
    """The classes of the file that a part of it names: itself, or through a table of the module."""
    names = {each.id for each in nodes(node) if isinstance(each, ast.Name)}
    for name in names & file.source.globals.keys():
        value = file.source.globals[name]
        if value is not None:
            names |= {each.id for each in nodes(value) if isinstance(each, ast.Name)}
    return names & known
