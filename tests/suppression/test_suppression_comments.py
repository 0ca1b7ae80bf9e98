"""Comments that leave findings out: where they count, and which say an error."""

from __future__ import annotations

import pytest

from samedevice.suppression import comments_in

IGNORE = "# samedevice: ignore[SD101] why"


def read(tmp_path, text, name="a.py"):
    path = tmp_path / name
    path.write_text(text)
    return comments_in(str(path))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        (f"a + b  {IGNORE}\n", 1, 1),
        (f"\n\nf(a,  {IGNORE}\n  b,\n)\n", 3, 5),
        (f"f(a,\n  b,\n)  {IGNORE}\n", 1, 3),
        (f"f(a,\n  {IGNORE}\n  b)\n", 1, 3),
        (f"x = a + \\\n    b  {IGNORE}\n", 1, 2),
        (f"if (a and\n    b):  {IGNORE}\n    c + d\n", 1, 2),
        (f"def f(\n    x,  {IGNORE}\n):\n    return x + y\n", 1, 3),
        (f"class A:\n    def f(self):\n        return a + b  {IGNORE}\n", 3, 3),
        (f"x = '''\n# samedevice: ignore[SD102] text\n'''  {IGNORE}\n", 1, 3),
        (f"a + b  # noqa  {IGNORE}", 1, 1),
        (f"a + b  {IGNORE}  # noqa: E501", 1, 1),
        (f"\ufeff# coding: utf-8\nä + b  {IGNORE}\n", 2, 2),
    ],
)
def test_a_comment_counts_for_its_whole_statement(tmp_path, text, first, last):
    comments, problems = read(tmp_path, text)
    assert problems == []
    assert [(each.first, each.last, each.codes, each.reason) for each in comments] == [
        (first, last, ("SD101",), "why")
    ]


@pytest.mark.parametrize(
    ("comment", "codes", "reason"),
    [
        ("#samedevice:ignore[SD101]why", ("SD101",), "why"),
        ("# samedevice: ignore[SD101, SD116]: two codes", ("SD101", "SD116"), "two codes"),
        ("# samedevice: ignore [ SD101 , ] - a dash", ("SD101",), "a dash"),
        ("# samedevice: ignore[SD101]", ("SD101",), ""),
        ("# samedevice: ignore[SD101] 原因", ("SD101",), "原因"),
    ],
)
def test_how_a_comment_may_be_written(tmp_path, comment, codes, reason):
    (found,), problems = read(tmp_path, f"a + b  {comment}\n")
    assert (found.codes, found.reason, problems) == (codes, reason, [])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a + b  # samedevice: ignore\n", "ignore.no-code"),
        ("a + b  # samedevice: ignore[] why\n", "ignore.no-code"),
        ("a + b  # samedevice: ignore SD101 why\n", "ignore.no-code"),
        ("a + b  # samedevice: ignore[SD999] why\n", "ignore.unknown-code"),
        ("a + b  # samedevice: ignore[cross-device-operands] why\n", "ignore.unknown-code"),
        ("a + b  # samedevice: ignore[SD101, sd102] why\n", "ignore.unknown-code"),
        ("# samedevice: ignore[SD101] why\na + b\n", "ignore.no-statement"),
        ("def f():\n    # samedevice: ignore[SD101] why\n    a + b\n", "ignore.no-statement"),
    ],
)
def test_what_ignores_nothing_is_a_problem(tmp_path, text, what):
    comments, problems = read(tmp_path, text)
    assert comments == []
    assert [problem.what.key for problem in problems] == [what]


@pytest.mark.parametrize(
    "text",
    [
        'x = "# samedevice: ignore[SD101] text"\n',
        '"""\n# samedevice: ignore\n"""\n',
        "a + b  # samedevice: a tool\n",
        "a + b  # samedevice: ignored\n",
        "a + b  # ignore[SD101]\n",
    ],
)
def test_what_only_looks_like_a_comment_is_none(tmp_path, text):
    assert read(tmp_path, text) == ([], [])


def test_shell_scripts_count_by_commands_and_yaml_by_lines(tmp_path):
    shell = f"torchrun \\\n  --nproc_per_node 9 \\\n  train.py  {IGNORE}\npython a.py\n"
    (found,), _ = read(tmp_path, shell, "launch.sh")
    assert (found.first, found.last) == (1, 3)
    (found,), _ = read(tmp_path, f"a: 1\nb: 2  {IGNORE}\n", "config.yaml")
    assert (found.first, found.last) == (2, 2)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a = (\n", b"\xe9 # samedevice: ignore\n", b""])
def test_a_file_that_is_no_source_has_no_comments(tmp_path, content):
    path = tmp_path / "a.py"
    path.write_bytes(content)
    assert comments_in(str(path)) == ([], [])
    assert comments_in(str(tmp_path)) == comments_in("<string>") == ([], [])


def test_what_stands_before_a_syntax_error_counts(tmp_path):
    comments, _ = read(tmp_path, f"a + b  {IGNORE}\nc = (\n")
    assert [each.first for each in comments] == [1]
