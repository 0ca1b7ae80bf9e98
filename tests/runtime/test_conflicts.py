"""Loads that a launch forbids are events before a weight is read, and findings with the cause and a
repair.
"""

from __future__ import annotations

import json

import pytest
import torch

import samedevice as sd

transformers = pytest.importorskip("transformers")
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 32,
    "tie_word_embeddings": False,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return str(tmp_path)


def load(folder, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options)


@pytest.mark.parametrize(
    ("device_map", "conflict"),
    [
        ("auto", True),
        ("balanced", True),
        ({"model": 0, "lm_head": 1}, True),
        ({"": 1}, False),
        ({"": "cuda:1"}, False),
        (None, False),
    ],
)
def test_a_map_in_one_of_two_ranks(device_map, conflict, folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with sd.machine("2x24GB", on_mismatch="record") as vm:
        load(folder, device_map=device_map)
    assert [finding.code for finding in vm.findings] == (["SD108"] if conflict else [])
    for finding in vm.findings:
        assert (finding.cause, finding.confidence) == ("device-map-in-multi-process-launch", "certain")
        assert finding.at.function == "load"
        assert "in any distributed mode" in finding.message


def test_one_process_of_deepspeed_may_not(folder, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with sd.machine("2x24GB", on_mismatch="record") as vm:
        load(folder, device_map="auto")
    assert [finding.code for finding in vm.findings] == ["SD108"]


def test_one_process_may_spread(folder, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with sd.machine("2x24GB", on_mismatch="record") as vm:
        load(folder, device_map="auto")
    assert vm.findings == []


def test_any_map_under_zero3(folder, monkeypatch):
    import transformers.integrations.deepspeed as integration

    monkeypatch.setattr(integration, "is_deepspeed_zero3_enabled", lambda: True)
    monkeypatch.setattr("transformers.integrations.accelerate.is_deepspeed_zero3_enabled", lambda: True)
    with (
        sd.machine("2x24GB", on_mismatch="record") as vm,
        pytest.raises(ValueError, match="not compatible with passing a `device_map`"),
    ):
        load(folder, device_map={"": 0})
    (finding,) = vm.findings
    assert (finding.code, finding.cause) == ("SD108", "device-map-in-multi-process-launch")


def test_dispatch(folder, monkeypatch):
    accelerate = pytest.importorskip("accelerate")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with sd.machine("2x24GB", on_mismatch="record") as vm:
        model = load(folder)
        accelerate.dispatch_model(model, {"model.embed_tokens": 0, "model": 0, "lm_head": 1})
    assert [finding.code for finding in vm.findings] == ["SD108"]


def test_all_is_restored():
    from accelerate import big_modeling

    before = transformers.PreTrainedModel.from_pretrained.__func__, big_modeling.check_device_map
    with sd.machine("2x24GB"):
        torch.ones(1, device="cuda:0")
        assert big_modeling.check_device_map is not before[1]
    assert (transformers.PreTrainedModel.from_pretrained.__func__, big_modeling.check_device_map) == before
