"""`samedevice sweep transformers` as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]


def command(*words):
    return [sys.executable, "-m", "samedevice", "sweep", *words]


def run(*words):
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command(*words), capture_output=True, check=False, text=True, env=environment, timeout=280
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Three classes, of which two have hand-written losses; killed in the middle, then run to its end."""
    folder = tmp_path_factory.mktemp("sweep")
    words = ("transformers", "--models", "BertFor[MSN]*", "--cuts", "3", "--store", str(folder / "s.db"))
    first = subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while time.monotonic() < until and not kept(folder / "s.db"):
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = kept(folder / "s.db")
    done = run(*words, "--json", str(folder / "o.json"))
    return before, done, json.loads((folder / "o.json").read_text()), words


def kept(path):
    if not path.is_file():
        return set()
    try:
        with sqlite3.connect(path, timeout=30) as connection:
            return {name for (name,) in connection.execute("SELECT name FROM tried")}
    except sqlite3.OperationalError:  # its table is not there yet
        return set()


def test_it_finds_hand_written_losses_and_goes_on_after_kill_9(swept):
    before, done, document, _ = swept
    assert done.returncode == 1
    names = {target["name"] for target in document["targets"]}
    assert before
    assert before < names
    assert document["tried_now"] == len(names) - len(before)
    assert document["counts"]["built"] == len(names)
    labels = next(root for root in document["roots"] if root["key"].startswith("argument labels"))
    assert "BertForSequenceClassification" in labels["targets"]
    assert "BertForMaskedLM" not in labels["targets"]
    assert labels["confirmed"]
    assert labels["finding"]["op"].startswith("aten.")
    assert "argument labels meets results" in done.stdout


def test_what_did_not_change_is_not_tried_again(swept):
    _, _, document, words = swept
    again = run(*words)
    assert again.returncode == 1
    assert "(0 classes now" in again.stdout
    assert f"{document['counts']['statements']} statements" in again.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nix",), "no package"),
        (("transformers", "--actions", "fly"), "no action"),
        (("transformers", "--machine", "2xNothing"), "Nothing"),
        (("transformers", "--memory", "much"), "no size"),
    ],
)
def test_wrong_usage(words, told, tmp_path):
    done = run(*words, "--store", str(tmp_path / "s.db"))
    assert done.returncode == 2
    assert told in done.stderr
