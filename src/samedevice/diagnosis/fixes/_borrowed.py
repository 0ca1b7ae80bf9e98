"""A variable of the script, read in a function or class that knew nothing of it.

What others call is no longer theirs to call then: it works in this script alone. Such a change is made only
where no other one can be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.diagnosis.fixes._source import Script
from samedevice.provenance.syntax import tree_of

_Home = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def borrows(script: Script, changed: str) -> bool:
    """Whether a changed function or class reads a variable of the script that it did not read."""
    try:
        homes = list(_homes(tree_of(changed)))
    except (SyntaxError, ValueError):
        return False
    own = set(_given(script.tree))
    before = list(_homes(script.tree))
    return len(before) == len(homes) and any(
        own & (_read(new) - _read(old) - _bound(new)) for old, new in zip(before, homes, strict=True)
    )


def _homes(tree: ast.Module) -> Iterator[ast.AST]:
    """The functions and classes that stand at the top of a script, also below an `if`."""
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Home):
            yield node
        elif isinstance(node, ast.stmt):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def _given(tree: ast.Module) -> Iterator[str]:
    """The variables that the script itself gives a value."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, (*_Home, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _read(home: ast.AST) -> set[str]:
    return {
        node.id for node in ast.walk(home) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _bound(home: ast.AST) -> set[str]:
    """What a function, or one in it, is given or gives a value itself."""
    names = {
        node.id for node in ast.walk(home) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return names | {node.arg for node in ast.walk(home) if isinstance(node, ast.arg)}
