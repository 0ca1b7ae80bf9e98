"""`sd.heal` on the real classes of S2, with the map of the old machine from `examples/s2_describe.py`."""

from __future__ import annotations

import pytest
import torch

import samedevice as sd
from evidence.environments import example_models

transformers = pytest.importorskip("transformers", minversion="4.49")  # the first with Qwen2.5-VL
pytest.importorskip("accelerate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return example_models.make("tiny-qwen2.5-vl", tmp_path_factory.mktemp("models"))


def old_map(folder):
    layers = transformers.AutoConfig.from_pretrained(folder).get_text_config().num_hidden_layers
    placed = {
        "model.visual": 0,
        "model.language_model.embed_tokens": 1,
        "model.language_model.norm": 7,
        "lm_head": 7,
    }
    return placed | {
        f"model.language_model.layers.{number}": 1 + number * 7 // layers for number in range(layers)
    }


def answers(folder, device_map, heal):
    """Logits of three calls and a generated text."""
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    with sd.machine("8xA100-80G"), torch.no_grad():
        model = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(
            folder, dtype="auto", device_map=device_map
        )
        healing = sd.heal(model) if heal else None
        logits = [model(input_ids=ids.to("cuda:0")).logits.float().cpu() for _ in range(3)]
        written = model.generate(
            ids.to("cuda:0"),
            attention_mask=torch.ones_like(ids).to("cuda:0"),
            max_new_tokens=4,
            do_sample=False,
        ).tolist()
        return logits, written, healing


def test_the_map_of_the_old_machine(folder):
    expected, written, _ = answers(folder, {"": 0}, heal=False)
    with pytest.raises(RuntimeError, match="same device"):
        answers(folder, old_map(folder), heal=False)
    found, healed, healing = answers(folder, old_map(folder), heal=True)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert healed == written
    assert {each.finding.cause for each in healing.repairs} == {"device-map-incomplete-or-wrong"}
