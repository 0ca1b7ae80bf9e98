"""Sources are read by line as Python's own, slower way reads them."""

from __future__ import annotations

import ast
import gc
import threading
import time
import warnings
from pathlib import Path

import pytest

from samedevice.diagnosis import fixes
from samedevice.provenance import flow, syntax
from samedevice.provenance.written import handed_over, written

FILES = [Path(module.__file__) for module in (syntax, flow, fixes)]
WIDE = """\
async def f(x):
    try:
        é = {'é': x,
 'ü': (1,
 2)}; return é
    except OSError as e:
        def g(): pass
"""


def sources():
    return [path.read_text("utf-8") for path in FILES] + [WIDE]


@pytest.mark.parametrize("source", sources(), ids=lambda source: source[3:20].strip())
def test_segments(source, whole):
    lines = source.splitlines(keepends=True)
    nodes = [node for node in ast.walk(ast.parse(source)) if hasattr(node, "lineno")]
    assert nodes
    step = 1 if whole else 1 + len(nodes) // 1000  # Python's own function reads the whole file for each
    for node in nodes[::step]:
        assert syntax.segment(lines, node) == (ast.get_source_segment(source, node) or "")


@pytest.mark.parametrize("source", sources(), ids=lambda source: source[3:20].strip())
def test_the_function_around_a_line(source):
    module = ast.parse(source)
    functions = [
        node for node in ast.walk(module) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    for line in range(len(source.splitlines()) + 2):
        around = [node for node in functions if node.lineno <= line <= node.end_lineno]
        expected = max(around, key=lambda node: node.lineno, default=None)
        assert syntax.function_around(module, line) is expected


def test_a_node_beyond_the_file_has_no_text():
    (node,) = ast.parse("x + 1").body
    assert syntax.segment([], node) == ""
    assert syntax.segment(["x + 1"], ast.Module([], [])) == ""


@pytest.mark.parametrize(
    ("text", "op", "names", "expected"),
    [
        ("table[t] * x", "mul", ["self", "other"], ["table[t]", "x"]),
        ("m.mul(b1).add(p.grad, alpha=1 - b1)", "add", ["self", "other"], ["m.mul(b1)", "p.grad"]),
        ("torch.cat([a[0], b], 1)", "cat", ["tensors[0]", "tensors[1]"], ["a[0]", "b"]),
        ("x.gather(1, index=i + 1)", "gather", ["self", "index"], ["x", "i + 1"]),
        ("x.clamp_(low, high)", "clamp_", ["self", "max"], ["x"]),
        ("dist.all_reduce(p.grad)", "c10d.allreduce_", ["tensor"], ["p.grad"]),
        ("dist.broadcast(p.data, root)", "c10d.broadcast_", ["tensor"], ["p.data"]),
        ("self.layer(x)", "addmm", ["self", "mat1", "mat2"], []),
        ("torch.randn(3, generator=g)", "normal_", ["self", "generator"], ["g"]),
        ("left <= right", "le", ["self", "other"], ["left", "right"]),
    ],
)
def test_how_an_expression_writes_the_operands(text, op, names, expected):
    found = written(ast.parse(text, mode="eval").body, op, names, frozenset(("torch", "dist")))
    assert [ast.unparse(found[name]) for name in names if name in found] == expected


@pytest.mark.parametrize(
    ("text", "called", "expected"),
    [
        ("np.abs(errors)", False, "errors"),
        ("np.bincount(ids, minlength=len(names))", False, "ids"),
        ("scores.softmax(-1).numpy()", False, "scores.softmax(-1)"),
        ("np.interp(x, xs, ys)", False, None),
        ("np.concatenate([a, b])", False, None),
        ("net(x)", True, "net"),
    ],
)
def test_what_a_call_hands_over(text, called, expected):
    assert handed_over(ast.parse(text, mode="eval").body, called) == expected


def test_threads_parse_at_once():
    source = "\n".join(f"a{n} = {'(' * 40}{n}{')' * 40} + f(x[{n}:{n + 1}], *b, **c)" for n in range(10))
    failed: list[BaseException] = []

    def parse() -> None:
        try:
            for _ in range(3):
                assert syntax.parsed(source) is not None
        except BaseException as error:
            failed.append(error)

    def collected(*_: object) -> None:
        time.sleep(0)  # a finalizer of the program, in which another thread may go on

    before = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(20)
    try:
        threads = [threading.Thread(target=parse) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)
    assert not failed


def test_a_handler_of_warnings_may_ask_for_another_tree(monkeypatch):
    asked = []
    monkeypatch.setattr("warnings.showwarning", lambda *_: asked.append(syntax.parsed("1 + 1")))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        worker = threading.Thread(target=syntax.parsed, args=("x = '\\d'",), daemon=True)
        worker.start()
        worker.join(20)
    assert not worker.is_alive()
    assert asked and isinstance(asked[0], ast.Module)
