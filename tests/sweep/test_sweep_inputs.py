"""Inputs are chosen by the names of arguments, and sizes come from the configuration."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from samedevice.sweep._inputs import Asked, Sizes, attempts, labels, with_placeholders


class Config(SimpleNamespace):
    model_type = "none"

    def to_dict(self):
        return vars(self)


def test_text_gets_ids_and_a_mask():
    asked = Asked(("input_ids",), (), ("input_ids", "attention_mask", "position_ids", "labels"))
    first = next(attempts(asked, Config(), whole=True))
    assert set(first) == {"input_ids", "attention_mask"}
    assert first["input_ids"].shape == first["attention_mask"].shape == (2, 8)


def test_pictures_have_the_size_that_the_vision_part_says():
    asked = Asked(("pixel_values",), ("pixel_values",), ("pixel_values",))
    config = Config(image_size=999, vision_config=Config(image_size=30, num_channels=1))
    assert next(attempts(asked, config, whole=True))["pixel_values"].shape == (2, 1, 30, 30)


def test_pictures_in_patches_where_the_arguments_have_a_grid():
    asked = Asked(("input_ids",), (), ("input_ids", "pixel_values", "image_grid_thw"))
    config = Config(vision_config=Config(patch_size=4, temporal_patch_size=2, num_channels=3))
    first = next(attempts(asked, config, whole=True))
    assert first["image_grid_thw"].tolist() == [[1, 4, 4], [1, 4, 4]]
    assert first["pixel_values"].shape == (32, 3 * 2 * 4 * 4)


def test_all_modalities_come_first_and_the_main_one_alone_comes_too():
    asked = Asked(("input_ids",), (), ("input_ids", "pixel_values"))
    whole = [set(each) for each in attempts(asked, Config(), whole=True)]
    assert {frozenset(each) for each in whole} == {frozenset({"input_ids", "pixel_values"})}
    assert {"input_ids"} in [set(each) for each in attempts(asked, Config(), whole=False)]


@pytest.mark.parametrize(("text", "size"), [("batch", 2), ("batch*grid", 32), ("patch*patch+2", 198), (7, 7)])
def test_expressions(text, size):
    assert Sizes(Config()).of(text) == size


def test_labels_of_a_text_are_its_ids_first():
    asked = Asked(("input_ids",), (), ("input_ids", "labels"))
    ids = torch.arange(16).reshape(2, 8)
    assert torch.equal(next(labels(asked, Config(), {"input_ids": ids}))["labels"], ids)


class Seeing(torch.nn.Module):
    def forward(self, input_ids, pixel_values, mm_token_type_ids=None): ...

    def get_image_features(self, pixel_values):
        return torch.zeros(2, 3, 5)


def test_a_text_has_as_many_placeholders_as_there_are_features():
    given = {"input_ids": torch.arange(16).reshape(2, 8), "pixel_values": torch.zeros(2, 3, 4, 4)}
    longer = with_placeholders(Seeing(), Config(image_token_id=77), given)
    assert (longer["input_ids"] == 77).sum(1).tolist() == [3, 3]
    assert longer["mm_token_type_ids"].sum(1).tolist() == [3, 3]
