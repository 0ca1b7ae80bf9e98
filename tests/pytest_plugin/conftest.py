"""Runs small suites in a pytest of their own, with the plugin found as an installed samedevice has it
found.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest

from tests.warm_python import CHILDREN

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(pytester, monkeypatch):
    """Pytests that are started from here find samedevice as an installed distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    folder = pytester.mkdir("installed") / "samedevice-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: samedevice\nVersion: 0\n")
    points = project["entry-points"]["pytest11"].items()
    (folder / "entry_points.txt").write_text(
        "[pytest11]\n" + "".join(f"{name} = {module}\n" for name, module in points)
    )
    path = [str(folder.parent), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def fresh_suite(installed, pytester):
    """`fresh_suite(source, *options)` runs `source` as a test module and gives what pytester saw."""

    def run(source, *options, **files):
        pytester.makepyfile(test_it=source, **files)
        left_out = [f"-pno:{plugin}" for plugin in ("cacheprovider", "pytester", "hypothesispytest", "anyio")]
        return pytester.runpytest_subprocess(*left_out, *options)

    return run


@pytest.fixture
def suite(warm_executable, fresh_suite, monkeypatch):
    """The same in a Python that has torch loaded already, and so have its workers."""

    def run(source, *options, **files):
        with monkeypatch.context() as only_here:
            only_here.setattr(sys, "executable", warm_executable)
            only_here.setenv(CHILDREN, warm_executable)
            return fresh_suite(source, *options, **files)

    return run
