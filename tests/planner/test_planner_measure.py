"""The formula beside the ledger of a real step; the whole table is `python -m evidence memory-sweep`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner import ATTENTION, Lora, Training, TrainingShape, measure_step, training_memory

SIZES = {
    "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 32000, "max_position_embeddings": 2048, "pad_token_id": 0,
}  # fmt: skip
MODELS = {
    "llama": {**SIZES, "tie_word_embeddings": False},
    "qwen3": {**SIZES, "head_dim": 128},
    "gemma": {**SIZES, "head_dim": 128},
    "opt": {"hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 3, "num_attention_heads": 8,
    "word_embed_proj_dim": 1024,
            "vocab_size": 32000},
    "gpt2": {"n_embd": 1024, "n_layer": 3, "n_head": 8, "vocab_size": 32000},
    "phi3": SIZES,
    "qwen3_moe": {**SIZES, "head_dim": 128, "moe_intermediate_size": 512, "num_experts": 8,
    "num_experts_per_tok": 2},
}  # fmt: skip
PLAIN = Training(precision="bf16", context=512, micro_batch=2)
ONE, EIGHT = parse_machine("1x80GB"), parse_machine("8x80GB")


def config(kind):
    return {"model_type": kind, **MODELS[kind]}


def both(kind, training, machine=ONE):
    formula = training_memory(TrainingShape.from_config(config(kind)), machine, training)
    return formula.peak, measure_step(config(kind), machine, training).peak


@pytest.mark.parametrize("kind", MODELS)
def test_formula_and_ledger_agree_for_each_way_of_building_a_layer(kind):
    formula, ledger = both(kind, PLAIN)
    # The formula does not know what the allocator leaves on large blocks, up to 1 MiB each.
    assert formula == pytest.approx(ledger, rel=0.015)


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "bf16-mixed"},
        {"precision": "bf16-mixed", "checkpointing": True},
        {"checkpointing": True},
        {"tuning": Lora(rank=8)},
        {"tuning": Lora(rank=8), "precision": "bf16-mixed"},
        {"tuning": Lora(rank=8, targets=ATTENTION), "checkpointing": True},
        {"optimizer": "adamw-foreach", "micro_batch": 1},
        {"optimizer": "sgd", "accumulation": 3},
        {"optimizer": "sgd-momentum"},
    ],
    ids=lambda change: " ".join(f"{key}={getattr(value, 'rank', value)}" for key, value in change.items()),
)
def test_formula_and_ledger_agree_for_each_way_of_training(change):
    formula, ledger = both("llama", replace(PLAIN, **change))
    assert formula == pytest.approx(ledger, rel=0.03)


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "fsdp"},
        {"mode": "fsdp", "precision": "bf16-mixed", "checkpointing": True},
        {"mode": "hybrid", "gpus_per_group": 4, "precision": "bf16-mixed"},
        {"mode": "fsdp", "precision": "bf16-mixed", "offload": "parameters"},
        {"mode": "ddp"},
        {"mode": "ddp", "bucket_view": True},
    ],
    ids=lambda change: " ".join(map(str, change.values())),
)
def test_formula_and_ledger_agree_on_rank_0_of_eight(change):
    formula, ledger = both("llama", replace(PLAIN, **change), EIGHT)
    assert formula == pytest.approx(ledger, rel=0.05)


def test_a_step_that_does_not_fit_runs_out_of_memory():
    import torch

    with pytest.raises(torch.OutOfMemoryError):
        measure_step(config("llama"), parse_machine("1x1GB"), PLAIN)


def test_what_cannot_run_here_says_so():
    with pytest.raises(UsageError, match="bitsandbytes"):
        measure_step(config("llama"), ONE, replace(PLAIN, optimizer="adamw-8bit"))
    with pytest.raises(UsageError, match="DeepSpeed"):
        measure_step(config("llama"), EIGHT, replace(PLAIN, mode="zero3"))


def test_shapes_come_from_headers_where_there_are_weights(tmp_path):
    from safetensors.torch import save_file
    from torch import nn

    (tmp_path / "config.json").write_text(json.dumps(config("llama")), encoding="utf-8")
    built = TrainingShape.from_folder(tmp_path)
    tensors = {weight.name: nn.Parameter(_empty(weight.shape)).data for weight in built.weights}
    save_file(tensors, tmp_path / "model.safetensors")
    read = TrainingShape.from_folder(tmp_path)
    assert {(weight.name, weight.shape) for weight in read.weights} == {
        (weight.name, weight.shape) for weight in built.weights
    }
    assert read.dimensions == built.dimensions


def _empty(shape):
    import torch

    return torch.empty(shape, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    "text",
    ["", "[1]", '{"model_type": "llama", "auto_map": {"AutoConfig": "evil.py"}, "num_hidden_layers": "x"}'],
)
def test_broken_configurations_are_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        TrainingShape.from_folder(tmp_path)


def test_unknown_model_types_are_refused():
    with pytest.raises(UsageError, match="nobody"):
        TrainingShape.from_config({"model_type": "nobody"})


def test_a_broken_header_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config("llama")), encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    with pytest.raises(UsageError, match="safetensors"):
        TrainingShape.from_folder(tmp_path)


def test_master_weights_have_four_bytes_whatever_type_the_checkpoint_has():
    training = replace(PLAIN, precision="bf16-mixed")
    ledger = [
        measure_step({**config("llama"), **said}, ONE, training).built
        for said in ({}, {"torch_dtype": "bfloat16"}, {"dtype": "bfloat16"})
    ]
    assert ledger[1:] == ledger[:1] * 2
