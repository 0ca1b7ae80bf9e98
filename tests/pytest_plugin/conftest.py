"""Runs small suites in a pytest of their own, with the plugin found as an installed samedevice has it found."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def suite(pytester, monkeypatch):
    """`suite(source, *options)` runs `source` as a test module and gives what pytester saw."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    installed = pytester.mkdir("installed") / "samedevice-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: samedevice\nVersion: 0\n")
    points = project["entry-points"]["pytest11"].items()
    (installed / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{name} = {module}\n" for name, module in points))
    path = [str(installed.parent), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(source, *options, **files):
        pytester.makepyfile(test_it=source, **files)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:pytester", *options)

    return run
