"""The page of the releases of torch says what was run, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from evidence.environments import versions
from evidence.environments.some_cases import spread
from evidence.environments.versions import PAGE, WITHOUT_TORCH, Outcome, folders, page, recorded


def test_the_page_is_written_from_what_was_recorded():
    assert PAGE.read_text("utf-8") == page(recorded()), "run `python -m evidence versions`"


def test_each_row_names_its_environment_what_ran_and_the_commit():
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == len({(outcome.environment, outcome.cases) for outcome in recorded()}) > 0
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
        assert tests.startswith("all") or "`tests/" in tests
        assert re.fullmatch(r"[0-9a-f]{9}(, (\d+ again at )?[0-9a-f]{9})*", commit)


def test_a_process_that_a_signal_ended_is_no_success():
    crashed = Outcome("2.15.0+cu132", "3.11.2", "5.1", "1.2", "tests/ranks", "0" * 9, 3, 0, 0, "signal 7")
    failed = Outcome(
        "2.15.0+cu132", "3.11.2", "5.1", "1.2", "tests/cli", "0" * 9, 5, 1, 2, failures=("tests/cli/a.py::b",)
    )
    text = page([crashed, failed])
    assert "| 8 | 1 (tests/ranks: signal 7) | 2 | `tests/cli`, `tests/ranks` |" in text
    assert "torch 2.15.0+cu132, Python 3.11.2:\n\n- `tests/cli/a.py::b`" in text


def test_the_page_says_where_only_some_cases_ran():
    some = Outcome("2.15.0+cu132", "3.11.2", "5.1", "1.2", "tests/cli", "0" * 9, 5, 0, 2, cases=3)
    assert "`tests/cli` (3 cases of each) |" in page([some])


def test_all_is_said_only_of_all_folders():
    def ran(paths):
        return page(
            [Outcome("2.15.0+cu132", "3.11.2", "5.1", "1.2", path, "0" * 9, 1, 0, 0) for path in paths]
        )

    every = folders()
    assert f"| {len(every)} | 0 | 0 | all | 000000000 |" in ran(every)
    assert f"| all but `{every[3]}` |" in ran([*every[:3], *every[4:]])
    using = [path for path in every if path not in WITHOUT_TORCH]
    assert len(using) == len(every) - len(WITHOUT_TORCH)
    assert "| all that use torch |" in ran(using)
    assert f"| all that use torch but `{using[0]}` |" in ran(using[1:])
    assert f"| `{every[0]}`, `{every[1]}` |" in ran(every[:2])


def test_a_test_that_failed_runs_again_and_the_page_says_so(tmp_path, monkeypatch):
    folder = tmp_path / "tests" / "some"
    folder.mkdir(parents=True)
    test = folder / "test_it.py"
    test.write_text("import os\ndef test_a(): pass\ndef test_b(): assert os.path.exists('now')\n")
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    monkeypatch.setattr(versions, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(versions, "PAGE", tmp_path / "page.md")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / ".gitignore").write_text("*.json\n*.md\nlogs\n__pycache__\n")
    commits = []

    def commit():
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
        commits.append(versions._commit())

    subprocess.run([*git, "init", "-q"], check=True)
    commit()
    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.setattr(versions, "_told", lambda python: ("2.15.0+cu132", "3.11.2", "5.1", "1.2"))
    for outcome in versions._runs(sys.executable, ["tests/some"], 0, logs):
        versions._keep(outcome)
    assert "| 1 | 1 | 0 |" in page(recorded())
    (tmp_path / "now").touch()
    assert versions._uncommitted() == "now"
    commit()
    for outcome in versions._runs_again(sys.executable, ["tests/some"], 0, logs):
        versions._keep(outcome)
    text = page(recorded())
    assert f"| 2 | 0 | 0 | all | {commits[0]}, 1 again at {commits[1]} |" in text
    assert "What fails" not in text


@pytest.mark.parametrize(("cases", "kept"), [(1, [0]), (2, [0, 9]), (3, [0, 4, 9]), (20, list(range(10)))])
def test_some_cases_are_the_first_the_last_and_evenly_between(cases, kept):
    assert spread(range(10), cases) == kept
