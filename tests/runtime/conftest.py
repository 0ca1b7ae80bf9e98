"""Tests that want a process of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_ALONE = "SAMEDEVICE_TEST_OWN_PROCESS"


def pytest_collection_modifyitems(items):
    """A process of one's own is a fork of the Python that has torch loaded."""
    for item in items:
        if _is_for_another_process(item):
            item.fixturenames.append("warm_executable")


def _is_for_another_process(item):
    return item.get_closest_marker("own_process") is not None and _ALONE not in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """`@pytest.mark.own_process`: what the test asks (counts of references) hangs on what else the process
    did before.
    """
    if not _is_for_another_process(pyfuncitem):
        return None
    root = Path(__file__).parents[2]
    command = [
        pyfuncitem.funcargs["warm_executable"],
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"{pyfuncitem.path}::{pyfuncitem.name}",
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    done = subprocess.run(
        command, cwd=root, env={**kept, _ALONE: "1"}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
    return True
