"""A container that registers what a plain one kept takes its keys."""

from __future__ import annotations

import pytest

from samedevice.diagnosis.fixes._attached import TAKEN


def test_the_names_that_a_module_dict_has_itself_are_known():
    nn = pytest.importorskip("torch.nn")
    own = {name for name in dir(nn.ModuleDict()) if not name.startswith("_")}
    added = {name for name in own if not _of_torch(getattr(nn.ModuleDict(), name))}  # by transformers
    assert own - added <= TAKEN


def _of_torch(value):
    return (getattr(value, "__module__", None) or "torch").startswith(("torch", "builtins", "typing"))
