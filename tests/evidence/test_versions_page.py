"""The page of the releases of torch says what was run, and nothing else."""

from __future__ import annotations

import re

import pytest

from evidence.environments.some_cases import spread
from evidence.environments.versions import PAGE, Outcome, page, recorded


def test_the_page_is_written_from_what_was_recorded():
    assert PAGE.read_text("utf-8") == page(recorded()), "run `python -m evidence versions`"


def test_each_row_names_its_environment_what_ran_and_the_commit():
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == len({(outcome.environment, outcome.commit) for outcome in recorded()}) > 0
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 10
        torch, build, python, *_, passed, failed, skipped, tests, commit = cells
        assert re.fullmatch(r"\d+\.\d+\.\d+", torch)
        assert re.fullmatch(r"cpu|cu\d+", build)
        assert re.fullmatch(r"3\.\d+\.\d+", python)
        assert passed.isdecimal()
        assert failed.split()[0].isdecimal()
        assert skipped.isdecimal()
        assert tests == "all" or "`tests/" in tests
        assert re.fullmatch(r"[0-9a-f]{9}", commit)


def test_a_process_that_a_signal_ended_is_no_success():
    crashed = Outcome("2.15.0+cu132", "3.11.2", "5.1", "1.2", "tests/ranks", "0" * 9, 3, 0, 0, "signal 7")
    failed = Outcome(
        "2.15.0+cu132", "3.11.2", "5.1", "1.2", "tests/cli", "0" * 9, 5, 1, 2, failures=("tests/cli/a.py::b",)
    )
    text = page([crashed, failed])
    assert "| 8 | 1 (tests/ranks: signal 7) | 2 | `tests/cli`, `tests/ranks` |" in text
    assert "torch 2.15.0+cu132, commit 000000000:\n\n- `tests/cli/a.py::b`" in text


def test_the_page_says_where_only_some_cases_ran():
    some = Outcome("2.15.0+cu132", "3.11.2", "5.1", "1.2", "tests/cli", "0" * 9, 5, 0, 2, cases=3)
    assert "`tests/cli` (3 cases of each) |" in page([some])


@pytest.mark.parametrize(("cases", "kept"), [(1, [0]), (2, [0, 9]), (3, [0, 4, 9]), (20, list(range(10)))])
def test_some_cases_are_the_first_the_last_and_evenly_between(cases, kept):
    assert spread(range(10), cases) == kept
