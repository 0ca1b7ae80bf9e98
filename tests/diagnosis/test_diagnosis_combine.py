"""Diffs as changes of lines: what they say is done, and two that touch each other do not go together."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.diagnosis.fixes import changes_of, combined, file_diff, lines_before
from samedevice.diagnosis.fixes._combine import changed

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "--- d\n", "+e\n", "@@ -1 +1 @@\n"]), max_size=12
)
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, LINES, st.sampled_from(["", "z"]))


@given(TEXTS, TEXTS)
def test_a_diff_makes_the_text_that_it_was_made_of(old, new):
    diff = file_diff("s.py", old, new)
    if diff is None:
        assert old == new
    else:
        assert changed(old, changes_of(diff)) == new


@given(TEXTS, TEXTS, TEXTS)
def test_only_diffs_that_fit_are_made(old, new, other):
    diff = file_diff("s.py", old, new)
    if diff is not None:
        done = changed(other, changes_of(diff))
        assert other != old or done == new


NAMES = st.sampled_from(["x", "scale", "self.mask", "out"])


@given(st.lists(st.tuples(NAMES, NAMES), min_size=2, max_size=6), st.data())
def test_changes_of_different_statements_go_together_and_nothing_else_changes(pairs, data):
    lines = [f"r{number} = {left} + {right}  # kept\n" for number, (left, right) in enumerate(pairs)]
    chosen = data.draw(st.sets(st.integers(0, len(lines) - 1), min_size=1))
    text = "".join(lines)
    diffs = []
    for number in chosen:
        changed_lines = list(lines)
        changed_lines[number] = lines[number].replace(" + ", ".to(y.device) + ")
        diffs.append(file_diff("s.py", text, "".join(changed_lines)))
    whole, refused = combined(text, diffs)
    assert refused == {}
    statements, before = ast.parse(whole).body, ast.parse(text).body
    for number, (now, then) in enumerate(zip(statements, before, strict=True)):
        assert (ast.dump(now) != ast.dump(then)) == (number in chosen)


def test_two_changes_of_one_line_are_refused_by_number():
    text = "a + b\nc\n"
    one = file_diff("s.py", text, "a.to(b.device) + b\nc\n")
    other = file_diff("s.py", text, "a + b.to(a.device)\nc\n")
    assert combined(text, [one, other]) == ("a.to(b.device) + b\nc\n", {1: 0})


def test_changes_in_different_places_of_a_line_go_together():
    text = "y = f(q, keys, values)\n"
    changed = ["y = f(q, keys.to(q.device), values)\n", "y = f(q, keys, values.to(q.device))\n"]
    diffs = [file_diff("s.py", text, each) for each in changed]
    assert combined(text, diffs) == ("y = f(q, keys.to(q.device), values.to(q.device))\n", {})


def test_a_move_to_what_another_change_moves_is_refused():
    text = "y = a + b * c\n"
    diffs = [file_diff("s.py", text, "y = a.to(b.device) + b * c\n")]
    diffs.append(file_diff("s.py", text, "y = a + b.to(c.device) * c\n"))
    assert combined(text, diffs) == ("y = a.to(b.device) + b * c\n", {1: 0})


def test_the_same_change_twice_is_one():
    text = "a\nb\n"
    diff = file_diff("s.py", text, "import os\na\nb\n")
    assert combined(text, [diff, diff]) == ("import os\na\nb\n", {})


def test_a_diff_of_another_text_is_refused():
    diff = file_diff("s.py", "a\nb\n", "a\nc\n")
    assert combined("x\ny\n", [diff]) == ("x\ny\n", {0: None})


@pytest.mark.parametrize(
    ("line", "stands"), [(1, range(1, 2)), (2, range(2, 2)), (3, range(2, 3)), (4, range(3, 4))]
)
def test_lines_are_found_again_in_the_text_before(line, stands):
    assert list(lines_before("a\nb\nc\n", "a\nnew\nB\nc\n".replace("B", "b"), line)) == list(stands)
