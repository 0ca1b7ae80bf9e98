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

from tests.warm_python import CHILDREN

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def warm_sweeps(warm_executable):
    """Sweeps and their workers find torch and transformers loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", warm_executable)
        patch.setenv(CHILDREN, warm_executable)
        yield


def command(*words):
    return [sys.executable, "-m", "samedevice", "sweep", *words]


def run(*words):
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command(*words), capture_output=True, check=False, text=True, env=environment, timeout=280
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_package_that_is_not_there_is_named_with_how_to_install_it(tmp_path, monkeypatch):
    (tmp_path / "timm.py").write_text("import no_such_module_at_all\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    done = run("timm", "--store", str(tmp_path / "s.db"))
    assert done.returncode == 2
    assert "a sweep of timm needs no_such_module_at_all" in done.stderr
    assert f"{sys.executable} -m pip install no_such_module_at_all" in done.stderr


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
    files = ("--json", str(folder / "o.json"), "--html", str(folder / "o.html"))
    done = run(*words, *files, "--scripts", str(folder / "scripts"))
    return before, done, json.loads((folder / "o.json").read_text()), words, folder


def kept(path):
    if not path.is_file():
        return set()
    try:
        with sqlite3.connect(path, timeout=30) as connection:
            return {name for (name,) in connection.execute("SELECT name FROM tried")}
    except sqlite3.OperationalError:  # its table is not there yet
        return set()


def test_it_finds_hand_written_losses_and_goes_on_after_kill_9(swept):
    before, done, document, *_ = swept
    assert done.returncode == 1
    names = {target["name"] for target in document["targets"]}
    assert before
    assert before < names
    assert document["tried_now"] == len(names) - len(before)
    assert document["counts"]["built"] == len(names)
    labels = next(root for root in document["roots"] if root["key"].startswith("labels of the caller"))
    assert "BertForSequenceClassification" in labels["targets"]
    assert "BertForMaskedLM" not in labels["targets"]
    assert labels["confirmed"]
    assert labels["finding"]["op"].startswith("aten.")
    assert "labels of the caller" in done.stdout


def test_each_root_cause_has_a_script_that_shows_it(swept):
    _, done, _, _, folder = swept
    scripts = sorted((folder / "scripts").iterdir())
    assert scripts
    assert all(len(path.read_text().splitlines()) <= 20 for path in scripts)
    assert done.stdout.count("  shows  ") == len(scripts)


def test_the_page_leads_from_classes_to_root_causes(swept):
    page = (swept[-1] / "o.html").read_text()
    assert 'id="root-1"' in page
    assert '<a href="#root-1">1</a>' in page
    assert "<script" not in page


def test_released_sizes_are_told_with_the_root_cause(tmp_path):
    words = ("--models", "BertForSequenceClassification", "--actions", "loss", "--cuts", "2", "--full-size")
    files = ("--store", str(tmp_path / "s.db"), "--json", str(tmp_path / "o.json"))
    done = run("transformers", *words, *files, "--html", str(tmp_path / "o.html"))
    assert done.returncode == 1
    (root,) = json.loads((tmp_path / "o.json").read_text())["roots"]
    assert {(each["size"], each["met"]) for each in root["full"]} == {("BertConfig()", True)}
    assert "met by released sizes: BertConfig() on 2x24GB" in " ".join(done.stdout.split())
    assert "met by released sizes: BertConfig() on 2x24GB" in (tmp_path / "o.html").read_text()


def test_what_did_not_change_is_not_tried_again(swept):
    _, _, document, words, _ = swept
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
        (("transformers", "--versions", "5.22.0"), "two versions"),
        (("transformers", "--bisect"), "needs --versions"),
        (("transformers", "--versions", "old,new"), "no version"),
    ],
)
def test_wrong_usage(words, told, tmp_path):
    done = run(*words, "--store", str(tmp_path / "s.db"))
    assert done.returncode == 2
    assert told in done.stderr
