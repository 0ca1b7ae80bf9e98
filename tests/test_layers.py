"""Imports go down only, and neighbours in a row do not import each other."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "samedevice"
ROWS = (
    # words: the only row whose members may build on each other
    {"errors", "events", "findings", "messages", "timeline"},
    {"device_rules", "edited", "imports", "launchers", "machines", "parts", "provenance", "torch_versions"},
    {"runtime"},
    {"diagnosis", "doctor", "planner", "static"},
    {"lint"},
    {"rulebook"},
    {"guards", "preflight", "ranks", "settings", "suppression", "sweep"},
    {"report"},
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
        "timeline",
        "edited",
        "imports",
        "launchers",
        "parts",
        "machines",
        "static",
        "diagnosis",
        "lint",
        "rulebook",
        "doctor",
        "preflight",
        "ranks",
        "settings",
        "suppression",
        "report",
        "cli",
    ),
    "pytest_plugin",
}


ROOMS = {
    "patching": set(),
    "state": set(),
    "tracking": {"state"},
    "cuda": {"patching", "state"},
    "distributed": {"cuda", "patching", "state", "tracking"},
    "engine": {"cuda", "patching", "state", "tracking"},
    "tensors": {"cuda", "engine", "patching", "state", "tracking"},
    "kernels": {"cuda", "engine", "patching", "state", "tensors", "tracking"},
    "checkpoints": {"cuda", "engine", "patching", "state", "tensors", "tracking"},
    "host": {"cuda", "engine", "patching", "state", "tensors", "tracking"},
}
"""The rooms of `runtime`, and which others each may import; the modules beside them may import all."""
HOUSES = {
    "runtime": ROOMS,
    "preflight": {"launch": set(), "verdict": {"launch"}, "needs": {"launch", "verdict"}},
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


def trespasses(root, house):
    """Imports between rooms of a house that are not allowed, or that pass a room's face by."""
    found = []
    for room, others in HOUSES[house].items():
        for path in sorted((root / room).rglob("*.py")):
            for line, name in imported_names(ast.parse(path.read_text(encoding="utf-8"))):
                parts = name.split(".")
                if parts[:2] != ["samedevice", house] or parts[2:3] == [room]:
                    continue
                if len(parts) == 2 or parts[2] not in others:
                    found.append(f"{room}: {path.name}:{line} imports {name}")
                elif len(parts) > 3:
                    found.append(f"{room}: {path.name}:{line} imports {name} and not the room's face")
    return found


def modules_in(root):
    """Every module below `root` with its file."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in root.rglob("*.py")
    }


def circles(root):
    """The modules of one circle of imports, wherever in a file they stand; empty when there is none."""
    modules = modules_in(root)
    imports = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
                imports[name] |= {target if target in modules else node.module for target in targets}
            elif isinstance(node, ast.Import):
                imports[name] |= {alias.name for alias in node.names}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []


@pytest.mark.parametrize("house", HOUSES)
def test_rooms_of_a_house_are_the_folders(house):
    folders = {path.name for path in (PACKAGE / house).iterdir() if (path / "__init__.py").exists()}
    assert folders == set(HOUSES[house])


@pytest.mark.parametrize("house", HOUSES)
def test_rooms_import_each_other_by_their_faces_and_never_in_a_circle(house):
    assert trespasses(PACKAGE / house, house) == []
    rooms = HOUSES[house]
    order = list(rooms)
    assert all(order.index(other) < order.index(room) for room, others in rooms.items() for other in others)


def test_no_modules_import_each_other():
    assert circles(PACKAGE.parent) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from samedevice.runtime.engine import Engine", 1),
        ("def f():\n    from samedevice.runtime import VirtualMachine", 1),
        ("from samedevice.runtime.state.memory import Memory", 1),
        ("from samedevice.runtime.state import Memory", 0),
        ("from samedevice.runtime.tracking.values import abstract", 0),
    ],
)
def test_the_check_of_rooms_can_fail(tmp_path, code, found):
    path = tmp_path / "tracking" / "a.py"
    path.parent.mkdir()
    path.write_text(code)
    assert len(trespasses(tmp_path, "runtime")) == found


def test_the_check_of_circles_can_fail(tmp_path):
    for name, other in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        (tmp_path / f"{name}.py").write_text(f"def f():\n    import {other}\n")
    assert circles(tmp_path) == ["a", "b", "c"]


LONGEST = 60
MOST_BRANCHES = 20
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.match_case)


def long_functions(root):
    """Functions of more lines or branches than a screen takes, without a comment that begins with `Long:`."""
    found = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef):
                continue
            within = lines[node.lineno - 1 : node.end_lineno]
            branches = sum(
                isinstance(part, (ast.If, ast.For, ast.While, ast.ExceptHandler)) for part in own(node)
            )
            if len(within) <= LONGEST and branches <= MOST_BRANCHES:
                continue
            if not any(line.strip().startswith("# Long: ") for line in within):
                found.append(
                    f"{path.name}:{node.lineno} {node.name}: {len(within)} lines, {branches} branches"
                )
    return found


def own(node):
    """What stands in a function, and not in one inside it."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        part = waiting.pop()
        if not isinstance(part, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield part
            waiting.extend(ast.iter_child_nodes(part))


def test_functions_fit_a_screen_or_say_why_not():
    assert long_functions(PACKAGE) == []


def test_the_check_of_functions_can_fail(tmp_path):
    body = "\n".join(f"    x = {number}" for number in range(LONGEST))
    (tmp_path / "a.py").write_text(f"def long():\n{body}\n")
    (tmp_path / "b.py").write_text(f"def reasoned():\n    # Long: a table.\n{body}\n")
    (tmp_path / "c.py").write_text("def branchy(x):\n" + "    if x:\n        x = 1\n" * (MOST_BRANCHES + 1))
    assert [line.split(" ")[1] for line in long_functions(tmp_path)] == ["long:", "branchy:"]


def unfinished_first_lines(root):
    """Modules whose docstring does not begin with one sentence in a line of its own."""
    found = []
    for path in sorted(root.rglob("*.py")):
        first, *rest = (
            ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        ).splitlines() or [""]
        if first and not (first.endswith((".", "?")) and not "".join(rest[:1]).strip()):
            found.append(f"{path.relative_to(root)}: {first}")
    return found


@pytest.mark.parametrize("root", [PACKAGE, PACKAGE.parent / "evidence"])
def test_a_module_says_in_its_first_line_what_it_is(root):
    as_found = (
        "bugs/labelled_programs/",
        "peers/cuda_programs/",
        "zoo/cases/",
    )  # programs as people wrote them
    assert [each for each in unfinished_first_lines(root) if not each.startswith(as_found)] == []


def test_the_check_of_first_lines_can_fail(tmp_path):
    for name, text in (("a", "Whole."), ("b", "Cut\nin two."), ("c", "Whole.\n\nMore."), ("d", "No end")):
        (tmp_path / f"{name}.py").write_text(f'"""{text}"""\n')
    assert [line[:1] for line in unfinished_first_lines(tmp_path)] == ["b", "d"]


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
        ("device_rules/_a.py", "from samedevice import machines", "imports samedevice.machines"),
        ("events.py", "import samedevice.device_rules", "imports samedevice.device_rules"),
        ("diagnosis/_a.py", "import torch.nn", "imports torch"),
    ],
)
def test_the_check_can_fail(tmp_path, file, code, complaint):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    assert len(found := violations(tmp_path)) == 1
    assert complaint in found[0]
