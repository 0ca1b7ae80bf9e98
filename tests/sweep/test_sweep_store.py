"""Results survive kill -9, and a sweep goes on where it was."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from samedevice.errors import UsageError
from samedevice.sweep import Store, Target

TARGET = Target("m:A", "torch-2", "ended", 1.5, 100, ({"kind": "built", "size": "1/16"},))


def test_what_is_kept_comes_back(tmp_path):
    store = Store(tmp_path / "s.db")
    store.keep(TARGET, "print")
    store.close()
    again = Store(tmp_path / "s.db")
    assert list(again.targets("torch-2", ["m:A", "m:B"])) == [TARGET]
    assert again.done("torch-2") == {"m:A": "print"}
    assert again.done("torch-3") == {}
    again.close()


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_whichever_target_ended_first_the_same_one_is_shown(tmp_path, order):
    store = Store(tmp_path / "s.db")
    for name in order:
        told = tuple(
            {"kind": "finding", "statement": f"a.py:{line}", "root": "r", "document": name}
            for line in (1, 2 if name == "A" else 3)
        )
        store.keep(Target(f"m:{name}", "e", "ended", 1.0, 1, told), "p")
    found = store.findings("e")
    assert [(each["statement"], each["document"]) for each in found.values()] == [
        ("a.py:1", "A"),
        ("a.py:2", "A"),
        ("a.py:3", "B"),
    ]
    store.close()


def test_a_file_that_is_no_store_is_refused(tmp_path):
    (tmp_path / "s.db").write_text("not a database, and long enough to be taken for one" * 50)
    with pytest.raises(UsageError):
        Store(tmp_path / "s.db")


def test_a_store_of_another_layout_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(UsageError):
        Store(tmp_path / "s.db")


_WRITER = """
import sys
from pathlib import Path
from samedevice.sweep import Store, Target
store = Store(Path(sys.argv[1]))
for number in range(100000):
    store.keep(Target(f"m:{number}", "e", "ended", 1.0, 1, ({"kind": "built", "n": "x" * 2000},)), "p")
    print(number, flush=True)
"""


def test_kill_9_loses_nothing_that_was_told(tmp_path):
    path = tmp_path / "s.db"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as writer:
        assert writer.stdout is not None
        until = time.monotonic() + 60
        for line in writer.stdout:
            if int(line) >= 30 or time.monotonic() > until:
                break
        writer.send_signal(signal.SIGKILL)
        last = int(line)
    store = Store(path)
    done = store.done("e")
    assert {f"m:{number}" for number in range(last + 1)} <= set(done)
    assert all(target.told[0]["n"] == "x" * 2000 for target in store.targets("e", done))
    store.close()
