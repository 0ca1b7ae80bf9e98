"""The table of patches: what its rows refuse, and the page that is written from them."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import spec_from_loader
from types import ModuleType, SimpleNamespace

import pytest
import torch

import samedevice as sd
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.patching import Change, Constant, Entry, Patch, Patches, PatchTable, With
from samedevice.runtime.state import assumed_ranks
from samedevice.runtime.table import TABLE
from tools.patches_page import PAGE, page


@pytest.fixture
def thing(monkeypatch):
    """A module with a class in it."""
    thing = ModuleType("thing")
    thing.part = type("Part", (), {"value": 1})
    monkeypatch.setitem(sys.modules, "thing", thing)
    return thing


def test_rows_are_put_in_place_and_taken_back(thing):
    table, done = {"key": "old"}, []
    rows = PatchTable(
        [
            Patch("thing.part.value", lambda original: original + 1, "because"),
            Patch("thing.part.added", Constant("new"), "because"),
            Entry("table[key]", lambda: table, "key", lambda original: original + "er", "because"),
            Change("a hook", lambda: done.append("in"), lambda: done.append("out"), "a hook", "because"),
        ]
    )
    patches = Patches()
    rows.install(patches)
    assert (thing.part.value, thing.part.added, table, done) == (2, "new", {"key": "older"}, ["in"])
    patches.undo()
    assert (thing.part.value, table, done) == (1, {"key": "old"}, ["in", "out"])
    assert "added" not in vars(thing.part)


def test_what_a_machine_has_is_asked_for_when_it_is_entered(monkeypatch):
    """Also by a row whose package a script imports later, when another machine may be the inner one."""
    machines = ["outer"]
    row = Patch(
        "imported_later.value",
        With(lambda: machines[-1], lambda original, machine: f"{original} of {machine}"),
        "because",
        package="imported_later",
    )
    outer, inner = Patches(), Patches()
    row.install(outer)
    machines.append("inner")
    row.install(inner)
    module = ModuleType("imported_later")
    loader = SimpleNamespace(
        create_module=lambda spec: module, exec_module=lambda module: setattr(module, "value", "own")
    )
    finder = SimpleNamespace(
        find_spec=lambda name, path, target: (
            spec_from_loader(name, loader) if name == "imported_later" else None
        )
    )
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    monkeypatch.delitem(sys.modules, "imported_later", raising=False)
    assert import_module("imported_later").value == "own of outer of inner"
    inner.undo()
    assert module.value == "own of outer"
    outer.undo()
    assert module.value == "own"


def test_a_change_that_cannot_be_made_is_left_away():
    done = []
    patches = Patches()
    Change("a hook", lambda: done.append("in"), done.clear, "a hook", "because", when=lambda: False).install(
        patches
    )
    assert (done, patches.names()) == ([], [])


def test_a_target_stands_once():
    row = Patch("thing.part.value", Constant(2), "because")
    with pytest.raises(ValueError, match=r"thing\.part\.value is replaced twice"):
        PatchTable([row, row])
    above = Patch("thing.part.value", Constant(3), "because", over="the row before")
    assert PatchTable([row, above]).rows == (row, above)
    with pytest.raises(ValueError, match="there is none before it"):
        PatchTable([above, row])


def test_what_a_release_lacks(thing):
    patches = Patches()
    Patch("thing.gone.value", Constant(2), "because", since="thing 2").install(patches)
    Patch("thing.part.gone", Constant(2), "because", since="thing 2").install(patches)
    assert patches.names() == []
    with pytest.raises(AttributeError, match=r"replaces thing\.gone\.value"):
        Patch("thing.gone.value", Constant(2), "because").install(patches)


def test_what_some_machines_do_without(thing):
    patches = Patches()
    needed = []
    row = Patch("thing.part.value", Constant(2), "because", when=lambda: bool(needed))
    row.install(patches)
    assert patches.names() == []
    needed.append(True)
    row.install(patches)
    assert thing.part.value == 2
    patches.undo()


def test_ranks_that_are_assumed_are_assumed_in_a_machine_inside():
    rendezvous = "torch.distributed.distributed_c10d.rendezvous"
    assert assumed_ranks() is None
    with VirtualMachine(parse_machine("1x24GB"), assumed_ranks=4) as outer:
        with VirtualMachine(parse_machine("1x24GB")) as inner:
            assert assumed_ranks() == 4
            assert rendezvous not in inner.patched
        assert rendezvous in outer.patched
    assert assumed_ranks() is None


def test_the_table_is_what_a_machine_replaces():
    with sd.machine("1x24GB") as machine:
        there = {row.target for row in TABLE.rows if isinstance(row, Patch)}
        assert "torch.cuda.device_count" in there
        assert torch.cuda.device_count() == 1
        assert machine is not None


def test_every_row_says_why():
    for row in TABLE.rows:
        assert row.why
        assert row.by
        assert not row.why.endswith(".")


def test_the_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == page(), "run `python -m tools.patches_page`"
