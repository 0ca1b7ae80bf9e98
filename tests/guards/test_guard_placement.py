"""`sd.placement`: where everything is, and what of it will not work."""

from __future__ import annotations

import json
import logging

import pytest
import torch
from torch import nn

import samedevice as sd

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")


def qwen(tied=False, layers=4):
    config = transformers.Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    torch.manual_seed(0)
    return transformers.Qwen2ForCausalLM(config).eval()


def spread(model, last="cuda:1"):
    layers = len(model.model.layers)
    ends = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.norm": last, "lm_head": last}
    return accelerate.dispatch_model(
        model, ends | {f"model.layers.{i}": f"cuda:{i * 2 // layers}" for i in range(layers)}
    )


def names(placed):
    return [warned.name for warned in placed.warnings]


def test_a_spread_model():
    with sd.machine("2x24GB"):
        model = spread(qwen())
        placed = sd.placement(model)
        total = sum(parameter.numel() * 4 for parameter in model.parameters())
        buffers = sum(buffer.numel() * 4 for buffer in model.buffers())
    assert list(placed.devices) == ["cuda:0", "cuda:1"]
    assert sum(placed.devices.values()) == total + buffers
    layers = {part.module: (part.device, part.count) for part in placed.parts}
    assert layers["model.layers.0-1"] == ("cuda:0", 2)
    assert layers["model.layers.2-3"] == ("cuda:1", 2)
    assert placed.warnings == ()
    assert placed.hooks > 4
    assert placed.device_map["lm_head"] == "cuda:1"
    text = str(placed)
    assert "2 x Qwen2DecoderLayer" in text
    assert all(len(line) <= 140 for line in text.splitlines())
    assert json.loads(json.dumps(placed.as_json()))["parts"][0]["module"] == "model.embed_tokens"


def test_a_block_on_two_devices():
    with sd.machine("2x24GB"):
        model = qwen(layers=1)
        parts = {
            "model.embed_tokens": 0,
            "model.rotary_emb": 0,
            "model.layers.0.self_attn": 0,
            "model.layers.0.mlp": 1,
        }
        norms = {
            "model.layers.0.input_layernorm": 0,
            "model.layers.0.post_attention_layernorm": 1,
            "model.norm": 1,
            "lm_head": 1,
        }
        placed = sd.placement(accelerate.dispatch_model(model, parts | norms))
    (split,) = [warned for warned in placed.warnings if warned.name == "split-block"]
    assert split.modules == ("model.layers.0",)
    assert "cuda:0, cuda:1" in split.text()
    assert "warning: model.layers.0 is one block" in str(placed)


def test_tied_weights_wanted_apart():
    with sd.machine("2x24GB"):
        placed = sd.placement(spread(qwen(tied=True)))
    assert ("model.embed_tokens.weight", "lm_head.weight") in placed.tied
    (apart,) = [warned for warned in placed.warnings if warned.name == "tied-apart"]
    assert apart.modules == ("model.embed_tokens.weight", "lm_head.weight")


def test_tied_bytes_count_once():
    tied, loose = sd.placement(qwen(tied=True)), sd.placement(qwen(tied=False))
    assert loose.devices["cpu"] - tied.devices["cpu"] == 64 * 32 * 4


def test_one_device_without_hooks():
    with sd.machine("2x24GB"):
        model = qwen().to("cuda:1")
        assert names(sd.placement(model)) == ["inputs-not-moved"]
        assert names(sd.placement(qwen().to("cuda:0"))) == []
    assert names(sd.placement(qwen())) == []


def test_two_devices_without_hooks():
    with sd.machine("2x24GB"):
        model = nn.Sequential(nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1"))
        assert names(sd.placement(model)) == ["no-hooks"]


def test_meta_and_offloaded():
    with torch.device("meta"):
        left = nn.Linear(2, 2)
    (warned,) = sd.placement(left).warnings
    assert (warned.name, warned.modules) == ("meta-left", ("weight", "bias"))
    with sd.machine("1x24GB"):
        model = accelerate.cpu_offload(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "cuda:0")
        placed = sd.placement(model)
        assert placed.devices == {"offloaded": 48}
        assert placed.warnings == ()


def test_a_parent_with_parameters_and_no_hook():
    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))
            self.inner = nn.Linear(2, 2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), Parent()

    with sd.machine("2x24GB"):
        model = accelerate.dispatch_model(Model(), {"first": 0, "second.inner": 1, "second.scale": 1})
        found = {warned.name: warned.modules for warned in sd.placement(model).warnings}
    assert found.get("own-without-hook") == ("second",)


def test_the_log(caplog):
    with sd.machine("2x24GB"):
        placed = sd.placement(qwen().to("cuda:1"))
    with caplog.at_level(logging.INFO, logger="samedevice"):
        placed.log()
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert caplog.records[0].getMessage().startswith("Qwen2ForCausalLM: cuda:1 holds ")


def test_looking_changes_nothing():
    model = qwen()
    before = {name: (tensor.data_ptr(), tensor._version) for name, tensor in model.named_parameters()}
    sd.placement(model)
    assert before == {name: (tensor.data_ptr(), tensor._version) for name, tensor in model.named_parameters()}
