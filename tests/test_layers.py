"""Imports go down only, and neighbours in a row do not import each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "samedevice"
ROWS = (
    {"errors", "events", "findings", "messages"},  # words: the only row whose members may build on each other
    {"machines", "provenance", "rules"},
    {"runtime"},
    {"diagnosis", "doctor", "lint", "planner"},
    {"guards", "preflight", "ranks"},
    {"catalog", "report"},
    {"_api", "cli", "integrations", "pytest_plugin"},
    {"__init__", "__main__"},
)
ROW_OF = {name: number for number, row in enumerate(ROWS) for name in row}
TORCH_FREE = {
    *(
        "errors",
        "events",
        "findings",
        "messages",
        "machines",
        "diagnosis",
        "lint",
        "catalog",
        "preflight",
        "ranks",
        "report",
        "cli",
    ),
    "pytest_plugin",
}


def unit_of(path, root):
    """The member of a row that a file belongs to."""
    return path.relative_to(root).parts[0].removesuffix(".py")


def imported_names(tree):
    """(line, dotted name) of everything that a module imports, wherever the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            assert node.module is not None
            if node.module == "samedevice":
                yield from ((node.lineno, f"samedevice.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module


def violations(root):
    found = []
    for path in sorted(root.rglob("*.py")):
        unit = unit_of(path, root)
        for line, name in imported_names(ast.parse(path.read_text(encoding="utf-8"))):
            parts = name.split(".")
            if parts[0] != "samedevice":
                if parts[0] == "torch" and unit in TORCH_FREE:
                    found.append(f"{unit}: {path.name}:{line} imports torch")
                continue
            other = parts[1] if len(parts) > 1 else "__init__"
            if other == unit or (ROW_OF[unit] == 0 and ROW_OF[other] == 0):
                continue
            if other == "__init__" and ROW_OF[unit] == len(ROWS) - 2:
                continue  # an edge may ask for the package's version
            if ROW_OF[other] >= ROW_OF[unit]:
                found.append(f"{unit}: {path.name}:{line} imports {name}")
    return found


def test_every_unit_has_a_row():
    units = {unit_of(path, PACKAGE) for path in PACKAGE.rglob("*.py")}
    assert units <= set(ROW_OF)


def test_imports_go_down():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "code", "complaint"),
    [
        ("runtime/_a.py", "from samedevice.diagnosis import judge", "imports samedevice.diagnosis"),
        ("runtime/_a.py", "def f():\n    import samedevice.cli", "imports samedevice.cli"),
        ("rules/_a.py", "from samedevice import machines", "imports samedevice.machines"),
        ("events.py", "import samedevice.rules", "imports samedevice.rules"),
        ("diagnosis/_a.py", "import torch.nn", "imports torch"),
    ],
)
def test_the_check_can_fail(tmp_path, file, code, complaint):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    assert len(found := violations(tmp_path)) == 1
    assert complaint in found[0]
