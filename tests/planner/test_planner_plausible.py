"""Configurations with numbers of no model: refused at once, and those of released models are not."""

from __future__ import annotations

import json
import time

import pytest
import torch

from samedevice.errors import UsageError
from samedevice.planner import TrainingShape, _plausible
from samedevice.planner._plausible import few_modules, plausible

QWEN = {
    "model_type": "qwen2",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1e+09"),
        ({"num_hidden_layers": 10**30}, "num_hidden_layers is 1e+30"),
        ({"num_hidden_layers": 1e9}, "num_hidden_layers is 1e+09"),
        ({"hidden_size": 10**9}, "hidden_size is 1e+09"),
        ({"vocab_size": 10**12}, "vocab_size is 1e+12"),
        ({"num_attention_heads": 10**9}, "num_attention_heads is 1e+09"),
        ({"model_type": "gpt2", "n_layer": 10**9}, "n_layer is 1e+09"),
        ({"num_local_experts": 10**9}, "num_local_experts is 1e+09"),
        ({"vision_config": {"depth": 10**9}}, "vision_config.depth is 1e+09"),
        ({"depths": [2, 2, 10**9]}, "depths is 1e+09"),
    ],
)
def test_absurd_numbers_are_named_at_once(tmp_path, wrong, named):
    (tmp_path / "config.json").write_text(json.dumps({**QWEN, **wrong}))
    started = time.monotonic()
    for read in (
        lambda: TrainingShape.from_folder(tmp_path),
        lambda: TrainingShape.from_config({**QWEN, **wrong}),
    ):
        with pytest.raises(UsageError, match=named.replace("+", r"\+")):
            read()
    assert time.monotonic() - started < 5


def test_nested_without_end(tmp_path):
    (tmp_path / "config.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(UsageError, match="cannot be read"):
        TrainingShape.from_folder(tmp_path)
    deep: dict = {}
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(UsageError, match="nested too deeply"):
        plausible({**QWEN, **deep})


def test_numbers_of_released_models_are_plausible():
    """The largest ones of Llama 3.1 405B, Kimi K2, Switch-C, Qwen2.5-VL 72B and Gemma 3, and positions and
    windows of any length.
    """
    values = {
        "num_hidden_layers": 126, "hidden_size": 16384, "intermediate_size": 53248, "vocab_size": 262208,
        "n_routed_experts": 384,
        "num_experts": 2048, "max_position_embeddings": 10**30, "sliding_window": 10**12,
        "max_window_layers": 10**6, "rope_theta": 1e15,
        "bos_token_id": 10**9, "vision_config": {"depth": 32, "fullatt_block_indexes": [7, 15, 23, 31]},
        "use_cache": True, "layer_rope_theta": [1e6, 1e4], "encoder_hash_byte_group_vocab": 500_002,
        "vocab_size_per_layer_input": 262144,
    }  # fmt: skip
    assert plausible(values) is values


def test_too_many_modules_are_not_made(monkeypatch):
    monkeypatch.setattr(_plausible, "_MOST_MODULES", 50)
    with few_modules():
        torch.nn.Sequential(*(torch.nn.Identity() for _ in range(50)))
    with pytest.raises(UsageError, match="more than 50 modules"), few_modules():
        torch.nn.Sequential(*(torch.nn.Identity() for _ in range(51)))
    torch.nn.Sequential(*(torch.nn.Identity() for _ in range(51)))  # nothing is left behind
