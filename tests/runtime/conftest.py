"""Tests that want a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ALONE = "SAMEDEVICE_TEST_OWN_PROCESS"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """`@pytest.mark.own_process`: what the test asks (counts of references) hangs on what else the process
    did before.
    """
    if pyfuncitem.get_closest_marker("own_process") is None or _ALONE in os.environ:
        return None
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
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
