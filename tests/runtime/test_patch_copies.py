"""What modules and classes copied of what a machine had replaced."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from samedevice.runtime.patching.patches import Patches
from tests.virtual import machine

SOURCE = """
import torch
from torch.cuda import device_count
from torch.cuda import is_available as here
class Interface:
    count = staticmethod(torch.cuda.device_count)
    there = torch.cuda.is_available
    own = len
"""


def imported(name):
    """A module that is imported now."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(SOURCE, vars(module))
    return module


@pytest.fixture
def name():
    yield "imported_inside"
    sys.modules.pop("imported_inside", None)


def test_a_module_that_was_imported_inside_has_torchs_own_functions_afterwards(name):
    with machine():
        module = imported(name)
        assert module.device_count() == module.Interface.count() == 2
    assert module.device_count is torch.cuda.device_count
    assert module.here is torch.cuda.is_available
    assert module.Interface.count is torch.cuda.device_count
    assert vars(module.Interface)["there"] is torch.cuda.is_available
    assert isinstance(vars(module.Interface)["count"], staticmethod)
    assert module.Interface.own is len


def test_a_module_that_was_there_before_gives_back_the_names_that_it_took(name):
    module = imported(name)
    with machine():
        exec("from torch.cuda import device_count as later", vars(module))
        assert module.later() == 2
    assert module.later is torch.cuda.device_count


def test_torchs_own_modules_that_are_imported_inside(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo.device_interface", raising=False)
    with machine():
        import torch._dynamo.device_interface as interface
    assert interface.CudaInterface.device_count is torch.cuda.device_count
    assert interface.CudaInterface.synchronize is torch.cuda.synchronize


def test_no_object_is_asked_for_its_class(name):
    class Asked:
        @property
        def __class__(self):
            raise AssertionError

    with machine():
        module = imported(name)
        module.odd = Asked()
    assert module.device_count is torch.cuda.device_count


def test_what_somebody_else_wrote_stays_where_it_stands(name):
    """A function that was put in a place may stand elsewhere with every right."""
    module = imported(name)
    owner, patches = types.SimpleNamespace(__name__="owner", f=len), Patches()
    patches.attribute(owner, "f", max)
    module.largest = max
    patches.undo()
    assert owner.f is len
    assert module.largest is max
