"""The page of the table says what the table says; its counts are those of the torch version that it was
written with.
"""

from __future__ import annotations

import re

import pytest

from tools import rules_table

torch = pytest.importorskip("torch")


def test_the_page_is_up_to_date():
    written = rules_table.PAGE.read_text(encoding="utf-8")
    expected = rules_table.page()
    if not torch.__version__.startswith(
        "2.13"
    ):  # another version has other operators: all but the counts must agree
        written, expected = (re.sub(r"\d+", "N", text) for text in (written, expected))
    assert written == expected, "run python -m tools.rules_table"


def test_every_check_is_explained():
    assert set(rules_table.CHECKS) == set(rules_table.Check)
