"""`[tool.samedevice]`: where it is found, what it holds, and what is said of what it cannot hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from samedevice.errors import UsageError
from samedevice.report import error_text
from samedevice.settings import _KEYS, find_settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"


def write(folder, table, name="pyproject.toml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"[tool.samedevice]\n{table}\n", "utf-8")


def error_of(folder, language="en"):
    with pytest.raises(UsageError) as raised:
        find_settings(folder)
    return error_text(raised.value, language)


def test_all_keys(tmp_path):
    write(
        tmp_path,
        'machine = "4xA100-80G"\nlanguage = "zh"\nlauncher = "torchrun"\nnproc = 2\n'
        'output-format = "github"\nbaseline = "ci/known.json"\n'
        'ignore = [{code = "SD106", reason = "seeded"}]\n'
        '[tool.samedevice.lint]\nselect = ["SD2"]\nignore = ["SD205"]\nexclude = ["tests"]',
    )
    found = find_settings(tmp_path)
    assert (found.machine, found.language, found.launcher, found.nproc) == ("4xA100-80G", "zh", "torchrun", 2)
    assert (found.output_format, found.baseline) == ("github", tmp_path / "ci" / "known.json")
    assert [(row.code, row.reason, row.file) for row in found.ignore] == [
        ("SD106", "seeded", str(tmp_path / "pyproject.toml"))
    ]
    assert (found.lint.select, found.lint.ignore, found.lint.exclude) == (("SD2",), ("SD205",), ("tests",))
    assert set(found.given) == set(_KEYS)


def test_the_nearest_file_with_a_table_counts(tmp_path):
    write(tmp_path, 'machine = "2x24GB"')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'samedevice-user'\n")
    assert find_settings(inner).machine == "2x24GB"
    write(inner, 'machine = "4x24GB"')
    assert find_settings(inner).machine == "4x24GB"
    assert find_settings(tmp_path / "gone" / "folder").machine == "2x24GB"


@pytest.mark.parametrize("content", [b"", b"[tool.ruff]\n", b"[broken\n", b"\xff\xfe", b"tool = 1\n"])
def test_files_of_others_are_passed_by(tmp_path, content):
    write(tmp_path, 'machine = "2x24GB"')
    inner = tmp_path / "a"
    inner.mkdir()
    (inner / "pyproject.toml").write_bytes(content)
    assert find_settings(inner).machine == "2x24GB"


def test_a_machine_file_is_named_from_the_folder_of_the_settings(tmp_path):
    write(tmp_path, 'machine = "machines/ours.toml"')
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "ours.toml").write_text('[[gpu]]\nmemory = "24GB"\ncount = 2\n')
    inner = tmp_path / "src"
    inner.mkdir()
    assert find_settings(inner).machine == str(tmp_path / "machines" / "ours.toml")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("machin = 1", ["no key machin", "machine, language, launcher"]),
        ("machine = 2", ["tool.samedevice.machine", "a string", "not 2"]),
        ('machine = ""', ["tool.samedevice.machine", "a string"]),
        ('machine = "2xNOTHING"', ["tool.samedevice.machine", "NOTHING"]),
        ('language = "de"', ["language", "en, zh", "'de'"]),
        ('launcher = "mpirun"', ["launcher", "torchrun", "'mpirun'"]),
        ("launcher = ['torchrun']", ["launcher", "one of"]),
        ("nproc = 0", ["nproc", "a whole number above 0", "not 0"]),
        ("nproc = true", ["nproc", "not True"]),
        ('output-format = "xml"', ["output-format", "text, json, github, sarif"]),
        ("baseline = []", ["baseline", "a string"]),
        ('ignore = "SD101"', ["ignore", "a list"]),
        ('ignore = ["SD101"]', ["ignore[0]", "code and reason"]),
        ('ignore = [{code = "SD101"}]', ["ignore[0]", "code and reason"]),
        ('ignore = [{code = "SD101", reason = " "}]', ["ignore[0].reason", "a string"]),
        ('ignore = [{code = "SD101", reason = "a"}, {code = "SD999", reason = "b"}]', ["ignore[1]", "SD999"]),
        ('ignore = [{code = "SD101", reason = "a", path = "b"}]', ["ignore[0]", "code and reason"]),
        ("machine = ", ["not valid TOML"]),
    ],
)
def test_what_is_not_understood_names_file_key_and_what_is_accepted(tmp_path, table, words):
    write(tmp_path, table)
    said = error_of(tmp_path)
    assert said.startswith(str(tmp_path / "pyproject.toml")) and all(word in said for word in words), said
    assert "\uff1a" in error_of(tmp_path, "zh")


def test_a_table_that_is_none(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool]\nsamedevice = 1\n")
    assert "must be a table, not 1" in error_of(tmp_path)


def test_the_page_has_every_key():
    rows = re.findall(r"^\| `([a-z-]+)` \| ", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == list(_KEYS)
