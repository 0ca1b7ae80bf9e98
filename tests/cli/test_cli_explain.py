"""`samedevice explain` as a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("warm")

ROOT = Path(__file__).parents[2]
TEXT = "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'\n"


def explain(*words, stdin="", folder=None, **env):
    return subprocess.run(
        [sys.executable, "-m", "samedevice", "explain", *words],
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONIOENCODING": "utf-8",
            "LC_ALL": "C.UTF-8",
            **env,
        },
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_standard_input():
    for words in ((), ("-",)):
        done = explain(*words, stdin=TEXT)
        assert done.returncode == 0
        assert done.stdout.decode().startswith(
            "SD103 generator-on-other-device: a generator belongs to another device\n"
        )
        assert b"more     samedevice explain SD134" in done.stdout


def test_file_and_json(tmp_path):
    (tmp_path / "error.txt").write_text(TEXT, "utf-8")
    done = explain("error.txt", "--json", folder=tmp_path)
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    (finding,) = document["findings"]
    assert (finding["code"], finding["cause"], finding["confidence"]) == (
        "SD103",
        "generator-or-default-device",
        "certain",
    )
    assert finding["message"] == TEXT.partition(": ")[2].strip()
    assert (finding["op"], finding["at"], finding["user_at"], finding["module"]) == (None, None, None, None)
    assert finding["operands"][0]["shape"] is None
    for key in (
        "candidates",
        "title",
        "count",
        "fixes",
        "reasons",
        "guilty",
        "kind",
        "exception",
        "stack",
        "versions",
    ):
        assert key in finding


def test_files_in_other_encodings(tmp_path):
    for name, content in {
        "utf16": TEXT.encode("utf-16"),
        "bom": TEXT.encode("utf-8-sig"),
        "bad": TEXT.encode() + b"\xff\xfe\x00",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert (
            json.loads(explain(name, "--json", folder=tmp_path).stdout)["findings"][0]["cause"]
            == "generator-or-default-device"
        )


@pytest.mark.parametrize("word", ["SD111", "sd111", "input-not-on-embedding-device"])
def test_code(word):
    done = explain(word)
    assert done.returncode == 0
    text = done.stdout.decode()
    assert text.startswith("# SD111 input-not-on-embedding-device\n")
    assert "## Known limits" in text


def test_chinese(tmp_path):
    assert "怎么办" in explain("SD111", "--lang", "zh").stdout.decode()
    assert "怎么办" in explain("SD111", LC_ALL="zh_CN.UTF-8").stdout.decode()
    assert "根源" in explain(stdin=TEXT, LC_ALL="zh_CN.UTF-8").stdout.decode()
    done = explain("--lang", "zh", stdin=TEXT, PYTHONIOENCODING="ascii")
    assert b"cause" in done.stdout  # a stream that cannot carry Chinese gets English


def test_wrong_usage(tmp_path):
    done = explain("nowhere.txt", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"nowhere.txt" in done.stderr
    assert explain("--lang", "none", stdin=TEXT).returncode == 2
    assert explain(str(tmp_path)).returncode == 2


def test_nothing_in_it():
    done = explain(stdin="")
    assert done.returncode == 0
    assert b"SD141 undetermined" in done.stdout


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "core.bin").write_bytes(bytes(range(256)) * 20)
    done = explain("core.bin", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"core.bin is not a text file" in done.stderr


def test_no_question_mark_stands_for_an_operator():
    text = explain(stdin="RuntimeError: Expected all tensors to be on the same device").stdout.decode()
    assert "the operator needs all operands on one device" in text
