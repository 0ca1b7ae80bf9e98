"""Patches of packages that are imported later: twice on one package, and while a package's import is under
way.
"""

from __future__ import annotations

import importlib
import sys

import pytest

from samedevice.runtime.patching.imports import when_imported
from samedevice.runtime.patching.patches import Patches


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `later_on` whose module `inner` is imported in the middle of it."""
    folder = tmp_path / "later_on"
    folder.mkdir()
    (folder / "__init__.py").write_text("import later_on.inner\nvalue = 1\n")
    (folder / "inner.py").write_text(
        "import sys\nhooked = sys.modules['later_on'].__dict__.get('install', lambda: None)()\n"
    )
    (folder / "after.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "later_on"
    for name in [name for name in sys.modules if name.partition(".")[0] == "later_on"]:
        del sys.modules[name]


def test_two_patches_of_one_package(package):
    seen, first, second = [], Patches(), Patches()
    when_imported(first, {package: lambda module: seen.append(("first", module.value))})
    when_imported(second, {package: lambda module: seen.append(("second", module.value))})
    try:
        importlib.import_module(package)
    finally:
        second.undo()
        first.undo()
    assert sorted(seen) == [("first", 1), ("second", 1)]


def test_a_package_whose_import_is_under_way(package, tmp_path):
    """As when torch is imported by a library, and the machine entered right then."""
    seen, patches = [], Patches()
    (tmp_path / "later_on" / "inner.py").write_text("import builtins\nbuiltins.samedevice_test_install()\n")
    import builtins

    builtins.samedevice_test_install = lambda: when_imported(
        patches, {package: lambda module: seen.append(module.value)}
    )
    try:
        importlib.import_module(package)
        assert seen == []
        importlib.import_module(f"{package}.after")
        assert seen == [1]
    finally:
        del builtins.samedevice_test_install
        patches.undo()
