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


def test_what_is_said_of_some_layers_stays_with_them():
    kinds = (["linear"] * 4 + ["full"]) * 4
    told = {f"{place:02}": {"head_dim": 512} for place in range(4, 20, 5)}
    small = shrunk({**LLAMA, "num_hidden_layers": 20, "layer_types": kinds, "per_layer": told}, SCALES[0])
    assert small["layer_types"] == ["linear", "full"]
    assert list(small["per_layer"]) == ["1"]


def test_blocks_that_features_are_taken_from_stay_as_many():
    vision = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    small = shrunk({**vision, "out_indices": [3, 5, 7, 11]}, SCALES[0])
    assert (small["num_hidden_layers"], small["out_indices"]) == (4, [0, 1, 2, 3])
    stages = ["stem", *(f"stage{number}" for number in range(1, 13))]
    small = shrunk({**vision, "stage_names": stages, "out_indices": [6, 12]}, SCALES[0])
    assert (small["num_hidden_layers"], small["out_indices"]) == (2, [1, 2])
    assert "stage_names" not in small


def test_stages_that_do_not_become_fewer_are_named_as_before():
    stages = {"depths": [3, 4, 6, 3], "stage_names": ["stem", "a", "b", "c", "d"], "out_indices": [2, 3, 4]}
    small = shrunk(stages, SCALES[0])
    assert small == {**stages, "depths": [2, 2, 2, 2]}


def test_heads_divide_the_width_also_where_a_default_configuration_forgets_it():
    small = shrunk({"vision_config": {"hidden_size": 1152, "num_attention_heads": 14}}, SCALES[0])
    part = small["vision_config"]
    assert part["hidden_size"] % part["num_attention_heads"] == 0
