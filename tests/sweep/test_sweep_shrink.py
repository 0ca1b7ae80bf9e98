"""Small configurations keep what matters: kinds of layers, equal numbers, what divides what."""

from __future__ import annotations

from samedevice.sweep._shrink import SCALES, Scale, shrunk

LLAMA = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "head_dim": 128,
    "vocab_size": 32000,
    "pad_token_id": 31999,
    "bos_token_id": 1,
    "max_position_embeddings": 2048,
}


def test_widths_are_divided_by_one_number():
    small = shrunk(LLAMA, SCALES[0])
    divisor = LLAMA["hidden_size"] // small["hidden_size"]
    assert divisor == 16
    assert small["intermediate_size"] * divisor == LLAMA["intermediate_size"]
    assert small["head_dim"] * small["num_attention_heads"] == small["hidden_size"]
    assert small["max_position_embeddings"] == 2048


def test_heads_keep_a_width():
    narrow = {**LLAMA, "hidden_size": 512, "head_dim": 16}
    small = shrunk(narrow, SCALES[0])
    assert small["hidden_size"] // small["num_attention_heads"] == 8


def test_every_kind_of_layer_stays():
    kinds = (["linear"] * 3 + ["full"]) * 8
    small = shrunk({**LLAMA, "layer_types": kinds}, SCALES[0])
    assert small["num_hidden_layers"] == len(small["layer_types"]) == 2
    assert set(small["layer_types"]) == {"linear", "full"}


def test_special_tokens_are_in_the_small_vocabulary_and_stay_equal():
    values = {**LLAMA, "image_token_id": 31000, "text_config": {"vocab_size": 32000, "pad_token_id": 31999}}
    small = shrunk(values, SCALES[0])
    tokens = (small["pad_token_id"], small["image_token_id"], small["text_config"]["pad_token_id"])
    assert max(tokens) < small["vocab_size"] == small["text_config"]["vocab_size"]
    assert tokens[0] == tokens[2] != tokens[1]
    assert small["bos_token_id"] == 1


def test_the_last_size_is_the_configuration_itself():
    values = {**LLAMA, "image_size": 1024, "id2label": {0: "no", 1: "yes"}, "is_decoder": True}
    assert shrunk(values, SCALES[-1]) == values


def test_pictures_are_halved_until_they_are_small():
    assert shrunk({"image_size": 1024}, Scale(1))["image_size"] == 256
    assert shrunk({"image_size": 224}, Scale(1))["image_size"] == 224
