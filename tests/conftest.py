"""For all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.virtual import machine as machine_of
from tests.warm_python import CHILDREN, warm_python

# Tests interrupt the programs that they start. A suite that a shell started in the background would hand down
# that Ctrl-C is ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs that tests start may keep what they compile: hundreds of them would compile the same files again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser):
    parser.addoption(
        "--whole",
        action="store_true",
        help="also the tests marked as long, and all cases of those of which a sample runs otherwise",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out the long tests, and most cases of sampled ones; what was asked for by its name runs."""
    if config.getoption("--whole") or any("::" in each for each in config.args):
        return
    kept, left_out, seen = [], [], Counter()
    for item in items:
        share = item.get_closest_marker("sample")
        test = item.nodeid.partition("[")[0]
        sampled = share is not None and seen[test] % share.args[0] != 0
        seen[test] += 1
        (left_out if sampled or item.get_closest_marker("long") else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.fixture(scope="session")
def whole(pytestconfig):
    """Whether the whole suite was asked for."""
    return pytestconfig.getoption("--whole")


def pytest_collection_finish():
    """Take what is loaded by now out of Python's garbage collection.

    With torch and its test databases that is half a million objects: each full collection would walk them for
    a quarter of a second, and many tests ask for one.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item, nextitem):
    """The same for what the tests of one file loaded."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def warm_executable():
    """A Python that has torch and transformers loaded when it starts."""
    with TemporaryDirectory(prefix="warm") as folder, warm_python(Path(folder)) as python:
        yield python


@pytest.fixture
def warm(warm_executable, monkeypatch):
    """`sys.executable` is such a Python: for tests that start many and are not about the start."""
    monkeypatch.setattr(sys, "executable", warm_executable)


@pytest.fixture
def warm_children(warm_executable, warm, monkeypatch):
    """The same for what these start themselves, such as a launcher and its ranks."""
    monkeypatch.setenv(CHILDREN, warm_executable)


@pytest.fixture
def machine(request):
    """The virtual machine that a test is in: two GPUs, and what CUDA refuses raises.

    The marker `virtual` asks for another, as `virtual("3x24GB", on_mismatch="record")`; with
    `finds_nothing=True` it must end without events.
    """
    asked = request.node.get_closest_marker("virtual")
    options = dict(asked.kwargs) if asked else {}
    finds_nothing = options.pop("finds_nothing", False)
    with machine_of(*(asked.args if asked else ()), **{"on_mismatch": "raise", **options}) as entered:
        yield entered
    if finds_nothing:
        assert entered.events == []
