"""Patches of packages that are imported later: twice on one package, and while a package's import is under
way.
"""

from __future__ import annotations

import importlib
import subprocess
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


REPLACES = """
import sys, torch, samedevice as sd

with sd.machine("1x24GB"):
    own = torch.Tensor.__new__
    torch.Tensor.__new__ = lambda cls, *args, **kwargs: own(cls, *args, **kwargs)
    torch.arange(3_000_000, device="cuda")
    torch.Tensor.__new__ = own
    torch.optim.SGD([torch.nn.Parameter(torch.ones(2, device="cuda"))], 0.1)
print("torch._dynamo" in sys.modules)
"""


def test_the_engine_loads_no_compiler_while_a_script_has_replaced_what_it_looks_at():
    """As DeepSpeed's `zero.Init` does: `torch._dynamo` would not load then, and never after that."""
    done = subprocess.run([sys.executable, "-c", REPLACES], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
