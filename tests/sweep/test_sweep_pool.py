"""Workers of this computer: what they inherit, and that none of them outlives its sweep.

The workers are stand-ins that speak as a worker does.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from samedevice.sweep import LocalPool, Order, Store, sweep

WORKER = """#!{python}
import json, os, sys, time
from pathlib import Path
order = json.loads(sys.stdin.readline())
folder = Path(sys.argv[0]).parent
def say(**told):
    print(json.dumps(told), flush=True)
if order["job"] == "list":
    for name in ("a", "slow", "last"):
        say(kind="target", name="m:" + name, print="1")
    say(kind="end", versions={{}})
    sys.exit()
if (folder / "edited").exists():
    sys.exit("SyntaxError: invalid syntax")
(folder / "alive" / str(os.getpid())).touch()
say(kind="ready", versions={{}}, mark=os.environ.get("MARK"))
for line in sys.stdin:
    name = json.loads(line)["name"]
    if name == "m:slow":
        time.sleep(300)
    if name == "m:dies":
        (folder / "edited").touch()
        sys.exit()
    say(kind="mark", mark=os.environ.get("MARK"))
    say(kind="end", name=name, how="ended", seconds=0.0, peak=0)
"""


@pytest.fixture
def order(tmp_path):
    program = tmp_path / "python"
    program.write_text(WORKER.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "alive").mkdir()
    return Order("transformers", {}, 1.0, 1, "en", python=str(program))


def alive(folder):
    """The workers that have not ended."""
    return [each.name for each in (folder / "alive").iterdir() if Path("/proc", each.name).exists()]


def ended(folder):
    until = time.monotonic() + 5
    while alive(folder) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(folder)


def test_a_worker_inherits_the_environment_of_who_asks(order, monkeypatch):
    monkeypatch.setenv("MARK", "inherited")
    (told,) = LocalPool(1).run(order, ["m:a"], set())
    assert told.lines[0]["mark"] == "inherited"


def test_no_worker_stays_where_another_cannot_start_again(order, tmp_path):
    """As where sources are edited while a sweep runs in a process that lives on."""
    with pytest.raises(RuntimeError, match="SyntaxError"):
        list(LocalPool(2).run(order, ["m:slow", "m:dies", "m:a"], set()))
    assert ended(tmp_path)


def test_no_worker_stays_where_what_is_told_raises_and_the_exception_is_kept(order, tmp_path):
    def tell(progress):
        raise ImportError("edited")

    with pytest.raises(ImportError) as kept:
        sweep(order, LocalPool(2), Store(tmp_path / "s.db"), tell=tell)
    assert ended(tmp_path)
    assert kept.traceback  # which holds the frames of the sweep


def test_a_pool_that_is_closed_has_no_workers(order, tmp_path):
    with closing(LocalPool(2).run(order, ["m:slow", "m:a", "m:last"], set())) as tried:
        assert next(tried).name == "m:a"
    assert ended(tmp_path)
