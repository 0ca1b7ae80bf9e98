"""Configurations that come with samedevice: names find them, and the network is not asked."""

import json
import tomllib
from pathlib import Path

import pytest

import samedevice.planner
from samedevice.errors import UsageError
from samedevice.planner import TrainingShape
from samedevice.planner.inference import _source as source
from samedevice.planner.inference import find_model, model_folder
from samedevice.report import error_text

ROOT = Path(samedevice.planner.__file__).with_name("published")
INDEX = tomllib.loads((ROOT / "index.toml").read_text("utf-8"))


@pytest.fixture
def empty_cache(monkeypatch):
    monkeypatch.setattr(source, "_cached", lambda name: None)


@pytest.mark.parametrize("name", INDEX)
def test_every_name_has_a_configuration_and_a_source(name):
    values = json.loads((ROOT / name / "config.json").read_text("utf-8"))
    assert values["architectures"]
    assert values["model_type"]
    assert INDEX[name]["source"]


def test_no_configuration_is_without_an_entry():
    assert {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/config.json")} == set(INDEX)


def test_no_name_stands_twice():
    names = [each.lower() for name, entry in INDEX.items() for each in (name, *entry.get("also", ()))]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("asked", "called"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"),
    ],
)
def test_a_name_is_known_without_the_network(asked, called, empty_cache, monkeypatch):
    monkeypatch.setattr(source, "_from_hub", lambda name: pytest.fail("the hub was asked"))
    found = find_model(asked)
    assert (found.name, found.path, found.shipped) == (called, called, True)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("Qwen/Qwen2.5-0.5B-Instruct", 0.494), ("meta-llama/Llama-3.1-8B", 8.03), ("google/gemma-2-2b", 2.61)],
)
def test_the_sizes_are_those_that_were_published(name, billions):
    pytest.importorskip("transformers")
    shape = TrainingShape.from_folder(model_folder(name)[0])
    assert shape.count / 1e9 == pytest.approx(billions, rel=0.005)


def test_the_cache_of_this_computer_comes_first(tmp_path, monkeypatch):
    values = {"model_type": "llama", "hidden_size": 16}
    (tmp_path / "config.json").write_text(json.dumps(values))
    monkeypatch.setattr(source, "_cached", lambda name: tmp_path / "config.json")
    found = find_model("Qwen/Qwen2.5-7B-Instruct")
    assert found.values["model_type"] == "llama"
    assert not found.shipped


def test_without_a_network_the_hub_is_not_asked(empty_cache, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(source, "reachable", lambda endpoint: False)
    monkeypatch.setattr(
        "huggingface_hub.hf_hub_download", lambda *_: pytest.fail("the hub was asked"), raising=True
    )
    with pytest.raises(UsageError) as error:
        find_model("nobody/Qwen2.5-7B")
    said = error_text(error.value)
    assert "huggingface.co is not reached" in said
    assert "Known without the network: Qwen/Qwen2.5-7B-Instruct" in said


def test_a_proxy_is_left_to_know_the_hub(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: pytest.fail("asked for an address"))
    assert source.reachable("https://huggingface.co")


def test_an_address_that_nobody_knows_is_not_reached(monkeypatch):
    def unknown(*_):
        raise OSError

    monkeypatch.setattr(source, "getproxies", dict)
    monkeypatch.setattr("socket.getaddrinfo", unknown)
    assert not source.reachable("https://hub.invalid")
