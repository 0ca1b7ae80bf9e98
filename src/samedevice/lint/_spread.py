"""Classes of a file that a device map may cut: those outside the blocks of `_no_split_modules`."""

from __future__ import annotations

import ast

from samedevice.lint._source import Around, LintedFile

_BLOCKS = ("Layer", "Block", "Attention", "MLP")
"""What blocks are called that no cut goes through, as a rule, where the file names none."""


def spread_classes(file: LintedFile) -> set[str]:
    """The names of the classes that no block keeps on one device; none in a file without a model."""
    known = {node.name: node for node in file.source.class_list}
    bases = [ast.unparse(base) for node in known.values() for base in node.bases]
    if not any(base.endswith("PreTrainedModel") for base in bases):
        return set()
    blocks = _blocks(file) or {name for name in known if name.endswith(_BLOCKS)}
    kept, waiting = set(blocks), list(blocks)
    while waiting:
        node = known.get(waiting.pop())
        for name in _classes_in(file, node, set(known)) if node is not None else ():
            if name not in kept:
                kept.add(name)
                waiting.append(name)
    return {
        name for name, node in known.items() if name not in kept and file.in_module_class(Around(None, node))
    }


def _blocks(file: LintedFile) -> set[str]:
    """The names that the file's lists name."""
    found: set[str] = set()
    for owner in file.source.class_list:
        for node in owner.body:
            if isinstance(node, ast.Assign) and any(
                isinstance(each, ast.Name) and each.id == "_no_split_modules" for each in node.targets
            ):
                found |= {
                    str(each.value)
                    for each in ast.walk(node.value)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    return found


def _classes_in(file: LintedFile, node: ast.ClassDef, known: set[str]) -> set[str]:
    """The classes of the file that a class names: itself, in its bases, or through a table of the module."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for name in names & file.source.globals.keys():
        value = file.source.globals[name]
        if value is not None:
            names |= {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    return names & known
