"""Where values come from and go to, as the source of a stack says."""

from __future__ import annotations

import textwrap

import pytest

from samedevice.events import Place
from samedevice.provenance.flow import Flow


@pytest.fixture
def flow(tmp_path):
    """A flow over the lines of a text that end in `# 0`, `# 1`, ...: the failing one and its callers."""

    def make(text):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text), "utf-8")
        places = {}
        function = "<module>"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if line.strip().startswith("def "):
                function = line.split("def ")[1].partition("(")[0]
            elif line and not line.startswith((" ", "def", "class")):
                function = "<module>"
            if "# " in line:
                code, _, depth = line.partition("  # ")
                places[int(depth)] = Place(str(path), number, function, code.strip())
        return Flow([places[depth] for depth in sorted(places)])

    return make


def texts(found):
    return sorted((root.kind, root.text) for root in found)


def test_an_argument_is_followed_to_its_caller(flow):
    made = flow("""
        import torch
        def inner(a, b):
            return a + b  # 0
        one = torch.ones(2)
        two = torch.zeros(2)
        inner(one.view(-1), b=two)  # 1
        """)
    assert texts(made.roots("a")) == [("made", "torch.ones(2)")]
    assert texts(made.roots("b")) == [("made", "torch.zeros(2)")]


def test_a_loop_carries_what_it_sets(flow):
    made = flow("""
        import torch
        state, still = torch.ones(2), torch.ones(2)
        for x in batches:
            state = state + x  # 0
        """)
    assert made.carried("state")
    assert not made.carried("still")
    assert texts(made.roots("x")) == [("item", "x of batches")]


def test_shapes_are_no_tensors(flow):
    made = flow("""
        import torch
        def grid(x):
            rows = torch.arange(x.shape[0])
            return x * rows  # 0
        """)
    assert texts(made.roots("rows")) == [("made", "torch.arange(x.shape[0])")]
    assert texts(made.roots("x")) == [("argument", "x")]


def test_what_was_put_into_a_list_comes_out(flow):
    made = flow("""
        import torch
        kept = []
        kept.append(torch.ones(2))
        one = kept.pop()
        other = one * 2  # 0
        """)
    assert ("made", "torch.ones(2)") in texts(made.roots("one"))


@pytest.mark.parametrize(("last", "feeds"), [("total.backward()", True), ("print(total)", False)])
def test_where_a_result_goes(flow, last, feeds):
    made = flow(f"""
        def part(a, b):
            return a - b  # 0
        value = part(x, y)  # 1
        total = value.mean()
        {last}
        """)
    assert made.feeds(frozenset(("backward",))) is feeds


def test_source_that_is_not_there_tells_nothing():
    nothing = Flow([Place("/not/there.py", 3, "f", "a + b")])
    assert not nothing.readable
    assert not nothing.roots("a")
    assert not nothing.feeds(frozenset(("backward",)))
