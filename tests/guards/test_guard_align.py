"""`sd.align` and `sd.check`: inputs where the model's entry points are."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from types import MappingProxyType

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.errors import UsageError

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

pytestmark = [pytest.mark.virtual("3x24GB"), pytest.mark.usefixtures("machine")]


class Eyes(nn.Module):
    """Ids, pixels and labels belong to three devices."""

    def __init__(self):
        super().__init__()
        self.visual, self.embed, self.lm_head = nn.Linear(3, 4), nn.Embedding(8, 4), nn.Linear(4, 8)

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.lm_head


@pytest.fixture
def model():
    made = Eyes()
    made.visual.to("cuda:0")
    made.embed.to("cuda:1")
    made.lm_head.to("cuda:2")
    return made


def batch():
    return {
        "input_ids": torch.tensor([[1, 2]]),
        "attention_mask": torch.ones(1, 2, dtype=torch.long),
        "pixel_values": torch.ones(1, 3),
        "labels": torch.tensor([[1, 2]]),
        "lengths": torch.tensor([2]),
        "texts": ["left alone"],
    }


def devices(structure):
    return {key: str(value.device) for key, value in structure.items() if isinstance(value, torch.Tensor)}


WANTED = {
    "input_ids": "cuda:1",
    "attention_mask": "cuda:1",
    "pixel_values": "cuda:0",
    "labels": "cuda:2",
    "lengths": "cpu",
}


@pytest.mark.parametrize(
    "kind",
    [dict, OrderedDict, transformers.BatchEncoding, transformers.feature_extraction_utils.BatchFeature],
)
def test_mappings(model, kind):
    given = kind(batch())
    aligned = sd.align(given, model)
    assert type(aligned) is kind
    assert devices(aligned) == WANTED
    assert set(devices(given).values()) == {"cpu"}
    assert aligned["texts"] is given["texts"]
    assert aligned["pixel_values"].tolist() == given["pixel_values"].tolist()
    assert sd.align(aligned, model) is aligned
    assert sd.check(aligned, model)


def test_lengths_come_back_to_the_host(model):
    assert str(sd.align({"lengths": torch.tensor([2], device="cuda:0")}, model)["lengths"].device) == "cpu"


def test_dataclasses_and_nesting(model):
    @dataclass(frozen=True)
    class Example:
        input_ids: torch.Tensor
        labels: torch.Tensor
        name: str

    pair = namedtuple("pair", "example extra")
    given = pair(
        Example(torch.tensor([1]), torch.tensor([1]), "one"), [{"pixel_values": torch.ones(1, 3)}, 5]
    )
    aligned = sd.align(given, model)
    assert type(aligned) is pair
    assert (str(aligned.example.input_ids.device), str(aligned.example.labels.device)) == ("cuda:1", "cuda:2")
    assert aligned.example.name == "one"
    assert str(aligned.extra[0]["pixel_values"].device) == "cuda:0"
    assert aligned.extra[1] == 5


def test_model_outputs(model):
    given = transformers.modeling_outputs.CausalLMOutput(logits=torch.ones(1, 2))
    aligned = sd.align(given, model)
    assert type(aligned) is type(given)
    assert str(aligned.logits.device) == str(aligned["logits"].device) == "cuda:1"
    assert str(given.logits.device) == "cpu"


def test_what_it_says(model, caplog):
    said = []
    sd.align({"pixel_values": torch.ones(1, 3)}, model, tell=said.append)
    assert said == ["pixel_values: cpu -> cuda:0, 12 B, for visual"]
    with caplog.at_level(logging.INFO, logger="samedevice"):
        sd.align({"pixel_values": torch.ones(1, 3)}, model)
    assert [record.getMessage() for record in caplog.records] == said


def test_check_moves_nothing(model):
    given = batch()
    found = sd.check(given, model)
    assert not found
    assert {move.path: move.target for move in found.moves} == {
        key: value for key, value in WANTED.items() if value != "cpu"
    }
    assert set(devices(given).values()) == {"cpu"}
    assert "labels is on cpu, lm_head is on cuda:2" in str(found)
    assert found.as_json()["moves"][0]["entry"] == "embed"


def test_meta_is_refused(model):
    given = {"input_ids": torch.tensor([1]), "labels": torch.ones(2, device="meta")}
    for act in (sd.align, sd.check):
        with pytest.raises(UsageError, match="labels is on meta"):
            act(given, model)
    model.embed.to("meta")
    with pytest.raises(UsageError, match="embed of Eyes is on meta"):
        sd.align(batch(), model)


def test_an_offloaded_embedding_computes_where_its_hook_says(model):
    accelerate.cpu_offload(model.embed, "cuda:2")
    assert str(sd.align(batch(), model)["input_ids"].device) == "cuda:2"


def test_a_real_chat_model_answers_like_on_one_device():
    config = transformers.Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    language = transformers.Qwen2ForCausalLM(config).eval()
    encoded = transformers.BatchEncoding(
        {"input_ids": torch.tensor([[1, 2, 3]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
    )
    with torch.no_grad():
        expected = language.to("cuda:0")(**encoded.to("cuda:0")).logits
        language.to("cuda:1")
        with pytest.raises(RuntimeError, match="same device"):
            language(**encoded)
        logits = language(**sd.align(encoded, language)).logits
    assert torch.equal(logits.cpu(), expected.cpu())


def test_speaks_chinese(model):
    told = []
    sd.align(batch(), model, tell=told.append, language="zh")
    assert "input_ids：cpu -> cuda:1，16 B，用于 embed" in told  # noqa: RUF001 # Chinese punctuation
    with pytest.raises(UsageError, match="没有数值"):
        sd.check({"input_ids": torch.ones(1, 2, device="meta")}, model, language="zh")


Fields = namedtuple("Fields", "input_ids pixel_values lengths")


def test_fields_of_named_tuples_have_names(model):
    fields = Fields(torch.tensor([[1, 2]]), torch.ones(1, 3), torch.tensor([2]))
    aligned = sd.align(fields, model)
    assert type(aligned) is Fields
    assert [str(each.device) for each in aligned] == ["cuda:1", "cuda:0", "cpu"]
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 4), torch.tensor([3, 2]), batch_first=True)
    moved = sd.align(packed, model)
    assert (type(moved), str(moved.data.device), str(moved.batch_sizes.device)) == (
        type(packed),
        "cuda:1",
        "cpu",
    )


def test_read_only_mappings_and_deques(model):
    aligned = sd.align(MappingProxyType({"input_ids": torch.tensor([[1]])}), model)
    assert (type(aligned), str(aligned["input_ids"].device)) == (MappingProxyType, "cuda:1")
    waiting = sd.align(deque([torch.tensor([[1]])], maxlen=2), model)
    assert (waiting.maxlen, str(waiting[0].device)) == (2, "cuda:1")


def test_one_tensor_under_two_names_stays_one(model):
    ids, told = torch.tensor([[1, 2]]), []
    aligned = sd.align({"input_ids": ids, "position_ids": ids, "labels": ids}, model, tell=told.append)
    assert aligned["input_ids"] is aligned["position_ids"]
    assert str(aligned["labels"].device) == "cuda:2"
    assert len(told) == 2


def test_caches_stay_where_they_are(model):
    cache = transformers.DynamicCache()
    legacy = tuple((torch.ones(1, device=f"cuda:{index}"),) * 2 for index in range(2))
    assert sd.check({"past_key_values": legacy}, model)
    aligned = sd.align({"input_ids": torch.tensor([[1]]), "past_key_values": legacy, "cache": cache}, model)
    assert aligned["past_key_values"] is legacy
    assert aligned["cache"] is cache


def test_the_encoder_takes_the_features():
    config = transformers.WhisperConfig(
        vocab_size=64, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, max_source_positions=20, max_target_positions=16,
        pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    model.model.encoder.to("cuda:0")
    model.model.decoder.to("cuda:1")
    aligned = sd.align(
        {"input_features": torch.randn(1, 8, 40), "decoder_input_ids": torch.tensor([[1]])}, model
    )
    assert devices(aligned) == {"input_features": "cuda:0", "decoder_input_ids": "cuda:1"}


@torch.no_grad()
def test_grids_go_with_the_ids_where_a_hook_brings_them_to_the_tower():
    """The positions of the text are computed from them, on the device of the ids."""
    made = Eyes()
    accelerate.dispatch_model(made, {"visual": "cuda:0", "embed": "cuda:1", "lm_head": "cuda:1"})
    given = {
        "input_ids": torch.tensor([[1, 2]]),
        "pixel_values": torch.ones(1, 3),
        "image_grid_thw": torch.tensor([[1, 4, 4]]),
    }
    assert devices(sd.align(given, made)) == {
        "input_ids": "cuda:1",
        "pixel_values": "cuda:0",
        "image_grid_thw": "cuda:1",
    }


@pytest.mark.parametrize("given", ["a model", None, {}, lambda ids: ids])
def test_what_is_no_module(given):
    for call in (
        lambda: sd.align(batch(), given),
        lambda: sd.check(batch(), given),
        lambda: sd.placement(given),
    ):
        with pytest.raises(UsageError, match=type(given).__name__):
            call()
    if given is not None:
        with pytest.raises(UsageError):
            sd.heal(given)


def test_views_of_one_memory_stay_so():
    model = nn.Embedding(8, 4, device="cuda:1")
    ids = torch.arange(6)
    batch = {"input_ids": ids[0:4], "position_ids": ids[2:6], "token_type_ids": ids[4:6]}
    found = sd.align(batch, model)
    assert [each.tolist() for each in found.values()] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5]]
    found["input_ids"][3] = 7
    found["token_type_ids"].mul_(2)
    assert found["position_ids"].tolist() == [2, 7, 8, 10]
    assert ids.tolist() == list(range(6))
    assert {str(each.device) for each in found.values()} == {"cuda:1"}


def test_memory_that_is_parted_is_said(caplog):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lm_head = nn.Embedding(8, 4, device="cuda:0"), nn.Linear(4, 8, device="cuda:1")

    ids = torch.arange(4)
    with caplog.at_level("WARNING", logger="samedevice"):
        sd.align({"input_ids": ids, "labels": ids[1:]}, Model())
    assert "input_ids, labels share memory" in caplog.text
    caplog.clear()
    sd.align({"input_ids": ids, "labels": ids.clone()}, Model())
    assert not caplog.records
