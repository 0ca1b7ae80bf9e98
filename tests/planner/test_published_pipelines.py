"""Pipelines that come with samedevice: each has its source, and the size that was published for it."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import pytest

import samedevice.planner.pipelines
from samedevice.planner.pipelines import find_pipeline, is_pipeline

ROOT = Path(samedevice.planner.pipelines.__file__).with_name("published")
INDEX = tomllib.loads((ROOT / "index.toml").read_text("utf-8"))


def test_no_configuration_is_without_an_entry():
    assert {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/model_index.json")} == set(INDEX)


@pytest.mark.parametrize("name", INDEX)
def test_every_pipeline_has_a_source_and_is_known_by_both_names(name):
    assert INDEX[name]["source"]
    for asked in (name, name.partition("/")[2].lower()):
        assert is_pipeline(asked)
        source = find_pipeline(asked)
        assert (source.name, source.shipped) == (name, True)
    assert set(INDEX[name]["published"]) <= set(source.models)
    assert all(library in ("diffusers", "transformers") for library, _ in source.models.values())


@pytest.mark.parametrize(
    ("name", "component", "elements"),
    [
        (name, component, elements)
        for name, entry in INDEX.items()
        for component, elements in entry["published"].items()
    ],
)
def test_a_model_has_as_many_elements_as_were_published(name, component, elements):
    pytest.importorskip("diffusers")
    import torch

    source = find_pipeline(name)
    library, kind = source.models[component]
    model = getattr(importlib.import_module(library), kind)
    values = json.loads((source.folder / component / "config.json").read_text("utf-8"))
    with torch.device("meta"):
        made = model.from_config(values) if library == "diffusers" else model(model.config_class(**values))
    kept = {id(each): each for each in made.state_dict(keep_vars=True).values()}
    assert sum(each.numel() for each in kept.values()) == elements
