"""Changes of a script's source: what is not named stays as it is, and the tree is the one that was meant."""

from __future__ import annotations

import ast
import copy
import random
import subprocess
from pathlib import Path

import pytest

from samedevice.diagnosis.fixes import (
    Script,
    lifted,
    moved,
    reduced,
    script_diff,
    swapped,
    with_import,
    with_keyword,
    with_line_before,
)
from samedevice.diagnosis.fixes._edit import redirected, with_entry, without


def node_of(script, kind, text):
    """The node of a kind with this source."""
    return next(
        each for each in ast.walk(script.tree) if isinstance(each, kind) and script.text(each) == text
    )


@pytest.mark.parametrize(
    ("source", "gone", "left"),
    [
        ("a = 1; b = 2\n", "a = 1", "b = 2\n"),
        ("a = 1; b = 2  # two\n", "b = 2", "a = 1  # two\n"),
        ("a = 1; b = 2; c = 3\n", "b = 2", "a = 1; c = 3\n"),
        ("a = 1;\nb = 2\n", "a = 1", "b = 2\n"),
        ("# first\na = 1  # one\n\nb = 2\n", "a = 1", "# first\n\nb = 2\n"),
        ("def f():\n    a()\n", "a()", "def f():\n    pass\n"),
        ("async def f():\n    a()  # why\n", "a()", "async def f():\n    pass  # why\n"),
        ("try:\n    a()\nfinally:\n    b()\n", "b()", "try:\n    a()\nfinally:\n    pass\n"),
        ("if x: a()\n", "a()", "if x: pass\n"),
        ("if x: a(); b()\n", "a()", "if x: b()\n"),
        ("if x: a(); b()\n", "b()", "if x: a()\n"),
        ("a(); \\\n  b()\nc()\n", "a()", "pass; \\\n  b()\nc()\n"),
        ("a(\n    1,\n)\nb()\n", "a(\n    1,\n)", "b()\n"),
        ("é = '\x0c\u2028'; a()\nb()\n", "a()", "é = '\x0c\u2028'\nb()\n"),
        ("if x:\r\n\ta()\r\n\tb()\r\n", "a()", "if x:\r\n\tb()\r\n"),
        ("a()\nb()", "b()", "a()\n"),
    ],
)
def test_a_statement_is_taken_out_alone(source, gone, left):
    script = Script("s.py", source)
    assert without(script, node_of(script, ast.stmt, gone)) == left


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("f()", "f(k=v)"),
        ("f(a)", "f(a, k=v)"),
        ("f(a,)", "f(a, k=v)"),
        ("f((a))", "f((a), k=v)"),
        ("f(*a, **b)", "f(*a, **b, k=v)"),
        ("f(x for x in y)", "f((x for x in y), k=v)"),
        ("f((x for x in y))", "f((x for x in y), k=v)"),
        ("f(')', '#')", "f(')', '#', k=v)"),
        ("f(  # why\n)", "f(k=v  # why\n)"),
        ("f(\n    a  # last\n)", "f(\n    a, k=v  # last\n)"),
        ("f(\n    a,\n    b,  # last\n)", "f(\n    a,\n    b,  # last\n    k=v,\n)"),
        ("f(\n\ta,\n)", "f(\n\ta,\n\tk=v,\n)"),
        ("f(a,\n  b)", "f(a,\n  b, k=v)"),
        ("f(a,\n  b,\n)", "f(a,\n  b, k=v,\n)"),
        ("f(\r\n    'é',\r\n)\r\n", "f(\r\n    'é',\r\n    k=v,\r\n)\r\n"),
        ("é = 'é'; f('é')", "é = 'é'; f('é', k=v)"),
    ],
)
def test_a_keyword_is_added_as_the_others_are_written(source, changed):
    script = Script("s.py", source)
    call = next(each for each in ast.walk(script.tree) if isinstance(each, ast.Call))
    assert with_keyword(script, call, "k", "v") == changed


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("{}", "{'k': v}"),
        ("{**a}", "{**a, 'k': v}"),
        ("{\n    'a': 1,  # last\n}", "{\n    'a': 1,  # last\n    'k': v,\n}"),
        ("{\n    'a': 1  # last\n}", "{\n    'a': 1, 'k': v  # last\n}"),
    ],
)
def test_an_entry_is_added_to_a_dictionary(source, changed):
    script = Script("s.py", source)
    assert with_entry(script, node_of(script, ast.Dict, source), "'k'", "v") == changed


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ('"""Says what."""\nx = 1\n', '"""Says what."""\nimport os\nx = 1\n'),
        ('"""Says\nwhat."""', '"""Says\nwhat."""\nimport os\n'),
        (
            '"""What."""\nfrom __future__ import annotations\n\nimport torch\n',
            '"""What."""\nfrom __future__ import annotations\n\nimport os\nimport torch\n',
        ),
        (
            "from __future__ import annotations\nx = 1\n",
            "from __future__ import annotations\nimport os\nx = 1\n",
        ),
        (
            "#!/usr/bin/env python\n# A licence.\nx = 1\n",
            "#!/usr/bin/env python\n# A licence.\nimport os\nx = 1\n",
        ),
        ("@torch.no_grad()\ndef f(): pass\n", "import os\n@torch.no_grad()\ndef f(): pass\n"),
        ("x = 1; import torch\n", "import os\nx = 1; import torch\n"),
        ("import torch\r\nx = 1\r\n", "import os\r\nimport torch\r\nx = 1\r\n"),
        ("import os.path\n", "import os.path\n"),
        ("import os as o\n", "import os\nimport os as o\n"),
        ("def f():\n    import os\n", "import os\ndef f():\n    import os\n"),
        ("try:\n    import os\nexcept ImportError:\n    pass\n",) * 2,
    ],
)
def test_an_import_stands_where_imports_may(source, changed):
    assert with_import(source, "os") == changed
    compile(changed, "s.py", "exec")


@pytest.mark.parametrize(
    ("source", "expression", "changed"),
    [
        ("y = a + b\n", "a + b", "y = (a + b).to(d)\n"),
        ("y = x if c else z\n", "x if c else z", "y = (x if c else z).to(d)\n"),
        ("y = x[0]\n", "x[0]", "y = x[0].to(d)\n"),
        (
            "y = (\n    a  # one\n    + b\n)\n",
            "a  # one\n    + b",
            "y = (\n    (a  # one\n    + b).to(d)\n)\n",
        ),
        ("y = await f()\n", "await f()", "y = (await f()).to(d)\n"),
        ("y = -x\n", "-x", "y = (-x).to(d)\n"),
    ],
)
def test_a_value_is_moved_whole(source, expression, changed):
    script = Script("s.py", source)
    assert moved(script, node_of(script, ast.expr, expression), "d") == changed


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("y = (a + b).cuda()\n", "y = (a + b).to(d)\n"),
        ("y = (\n    f()  # x.y\n    .cuda(0)\n)\n", "y = (\n    f()  # x.y\n    .to(d)\n)\n"),
        ('y = "é".x.cuda()  # é\r\n', 'y = "é".x.to(d)  # é\r\n'),
    ],
)
def test_a_call_that_moves_goes_elsewhere(source, changed):
    script = Script("s.py", source)
    call = next(each for each in ast.walk(script.tree) if isinstance(each, ast.Call))
    assert redirected(script, call, "d") == changed


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a()\nmodel.cuda()\n", "a()\n"),
        ("a()\nmodel = model.cuda()\n", "a()\n"),
        ("a()\nself.model.cuda(); b()\n", "a()\nb()\n"),
        ("if x:\n    model.cuda()\n", "if x:\n    pass\n"),
        ("fit(model.cuda())\n", "fit(model)\n"),
        ("model.cuda().eval()\n", "model.eval()\n"),
        ("model = (a or b).cuda()\n", "model = (a or b)\n"),
        ("model = (\n    load()  # big\n    .cuda()  # move\n)\n", "model = (\n    load()  # move\n)\n"),
        ("other = model = model.cuda()\n", "other = model = model\n"),
    ],
)
def test_a_move_is_taken_out_and_nothing_else(source, changed):
    script = Script("s.py", source)
    call = next(
        each
        for each in ast.walk(script.tree)
        if isinstance(each, ast.Call) and script.text(each).endswith("cuda()")
    )
    assert reduced(script, call, call.func.value) == changed


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("model = DDP(model)\nb()\n", "b()\n"),
        ("wrapped = DDP(model, device_ids=[0])\n", "wrapped = model\n"),
        ("DDP(a or b).train()\n", "(a or b).train()\n"),
        ("x = DDP(\n    a\n    + b\n)\n", "x = (a\n    + b)\n"),
        ("x = DDP(\n    load(\n        1,\n    ),\n)\n", "x = load(\n        1,\n    )\n"),
    ],
)
def test_a_wrapper_is_taken_off(source, changed):
    script = Script("s.py", source)
    call = next(
        each
        for each in ast.walk(script.tree)
        if isinstance(each, ast.Call) and script.text(each.func) == "DDP"
    )
    assert reduced(script, call, call.args[0]) == changed


def test_lines_are_added_and_lifted_with_their_indentation():
    script = Script("s.py", "if x:\r\n\ta()\r\n\tb(\r\n\t\t1,\r\n\t)  # why\r\n\tc(); d()\r\n")
    a, b, _, d = script.tree.body[0].body
    assert with_line_before(script, a, "n()") == script.source.replace("\ta()", "\tn()\r\n\ta()")
    assert lifted(script, [b], a) == "if x:\r\n\tb(\r\n\t\t1,\r\n\t)  # why\r\n\ta()\r\n\tc(); d()\r\n"
    assert lifted(script, [d], b).endswith("\ta()\r\n\td()\r\n\tb(\r\n\t\t1,\r\n\t)  # why\r\n\tc()\r\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_git_applies_a_diff_to_the_file_as_it_is(tmp_path, end, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.py"
    path.write_bytes(
        f'text = "\x0c\u2028"{end}import torch{end}x = torch.ones({end}\t4,  # four{end}){end}y = 1'.encode()
    )
    script = Script.read(str(path))
    call = node_of(script, ast.Call, script.source.split("x = ")[1].split(f"{end}y")[0])
    changed = with_import(with_keyword(script, call, "device", "d"), "os")
    subprocess.run(["git", "apply", "-"], input=script_diff(script, changed).encode(), check=True, timeout=60)
    assert path.read_bytes().decode() == changed
    assert f"{end}import os{end}import torch{end}" in changed
    assert f"# four{end}\tdevice=d,{end})" in changed


class Replaced(ast.NodeTransformer):
    """A tree with another node in the place of one; None takes a statement out."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        if node is self.old:
            return self.new(node)
        node = self.generic_visit(node)
        if getattr(node, "body", True) == [] and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]
        return node


def meant(tree, node, new):
    """The tree that a change is to make, as text."""
    whole = copy.deepcopy(tree, copies := {})
    return ast.dump(Replaced(copies[id(node)], new).visit(whole))


D = ast.Name("d", ast.Load())
CHANGES = {
    "swapped": (ast.Call, lambda script, node: swapped(script, node, "d"), lambda node: D),
    "moved": (
        ast.expr,
        lambda script, node: moved(script, node, "d"),
        lambda node: ast.Call(ast.Attribute(node, "to", ast.Load()), [D], []),
    ),
    "keyword": (
        ast.Call,
        lambda script, node: with_keyword(script, node, "k_", "d"),
        lambda node: ast.Call(node.func, node.args, [*node.keywords, ast.keyword("k_", D)]),
    ),
    "redirected": (
        "method",
        lambda script, node: redirected(script, node, "d"),
        lambda node: ast.Call(ast.Attribute(node.func.value, "to", ast.Load()), [D], []),
    ),
    "without": ((ast.Expr, ast.Assign, ast.Return), without, lambda node: None),
}


def nodes_for(tree, kind):
    """What a change may be made at: an expression that is read, outside of f-strings and patterns."""
    taken = {
        id(part)
        for each in ast.walk(tree)
        if isinstance(each, (ast.JoinedStr, ast.pattern))
        for part in ast.walk(each)
    }
    taken |= {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    found = [each for each in ast.walk(tree) if id(each) not in taken and hasattr(each, "end_lineno")]
    if kind == "method":
        return [each for each in found if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    if kind is ast.expr:
        values = [each.value for each in found if isinstance(each, (ast.Assign, ast.Return)) and each.value]
        return [each for each in values if not isinstance(each, (ast.Tuple, ast.Yield))]
    return [each for each in found if isinstance(each, kind)]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_the_tree_that_was_meant(change):
    """At places drawn from sources that other people wrote: Python's own."""
    kind, edit, new = CHANGES[change]
    draw = random.Random(change)
    files = sorted(each for each in Path(ast.__file__).parent.glob("*.py") if each.stat().st_size < 10_000)
    checked = 0
    for path in draw.sample(files, 15):
        script = Script.read(str(path))
        if script is None:
            continue
        for node in draw.sample(nodes := nodes_for(script.tree, kind), min(3, len(nodes))):
            made = ast.dump(ast.parse(edit(script, node)))
            wanted = {meant(script.tree, node, new)}
            if change == "without":
                wanted.add(meant(script.tree, node, lambda node: ast.Pass()))
            assert made in wanted, f"{path.name}:{node.lineno}: {script.text(node)}"
            checked += 1
    assert checked > 15
