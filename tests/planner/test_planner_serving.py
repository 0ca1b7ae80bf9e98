"""What else a plan answers: the longest context, other machines, prices, engines, maps that are there."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner.inference import (
    Workload,
    check_map,
    find_model,
    machines_for,
    measuring,
    offers,
    place_model,
    profile_model,
    read_map,
    read_prices,
    serving,
    tensor_sizes,
)
from samedevice.report import error_text, render

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
    "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2,
    "vocab_size": 8000, "max_position_embeddings": 100_000, "torch_dtype": "bfloat16",
}  # fmt: skip
MIB, GIB = 1 << 20, 1 << 30
TWO = parse_machine("2x2GB")


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_the_longest_context_fits_and_a_longer_one_does_not(model):
    options = {"reserve": 2 * GIB - 64 * MIB}
    plan = place_model(model, TWO, Workload(2, 1, 32), most="context", **options)
    longest = plan.workload.context
    assert plan.proved
    assert (plan.most.value, plan.most.limited) == (longest, False)
    assert longest > 1000
    assert place_model(model, TWO, Workload(2, longest, 32), **options).fits
    beyond = place_model(model, TWO, Workload(2, longest + 64, 32), **options)
    assert not beyond.fits
    said = [render(way) for way in beyond.ways_out]
    assert said[0].startswith(f"prompts of up to {longest} tokens fit")
    assert any(text.startswith("it fits on 3x2GB") for text in said)


def test_the_most_sequences(model):
    options = {"reserve": 2 * GIB - 64 * MIB}
    plan = place_model(model, TWO, Workload(1, 1000, 32), most="batch", **options)
    assert plan.proved
    assert not place_model(model, TWO, Workload(plan.most.value + 1, 1000, 32), **options).fits


def test_a_model_is_not_asked_for_more_than_it_was_made_for(model):
    plan = place_model({**CONFIG, "max_position_embeddings": 1000}, TWO, Workload(1, 1, 9), most="context")
    assert (plan.workload.context, plan.most.limited) == (960, True)


def test_one_model_measured_twice_is_measured_alike(model):
    source = find_model(model)
    with measuring(source) as measure:
        first, other, again = (measure(Workload(1, tokens)) for tokens in (256, 512, 256))
    assert first.blocks == again.blocks != other.blocks


def test_machines_on_which_it_fits(model, tmp_path):
    (tmp_path / "prices.toml").write_text("H100-80G = 3\nT4 = 0.5\n")
    prices = read_prices(tmp_path / "prices.toml")
    assert prices == {"H100-80G": 3.0, "T4": 0.5}
    profile, found = machines_for(model, Workload(), prices=prices)
    assert [(offer.spec, offer.price) for offer in found[:2]] == [("1xT4", 0.5), ("1xH100-80G", 3.0)]
    assert len({offer.gpu.key for offer in found}) == len(found) > 50
    totals = [offer.count * offer.gpu.total_memory for offer in found[2:]]
    assert totals == sorted(totals)
    tight = profile.blocks[0].weights
    assert all(offer.room >= 0 for offer in offers(profile, 0, {}))
    assert tight > 0


@pytest.mark.parametrize("text", ["T4 = 'much'", "T4 = -1", "NoSuchGPU = 1", "T4 ="])
def test_prices_that_cannot_be_read(tmp_path, text):
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(UsageError):
        read_prices(tmp_path / "prices.toml")


def test_the_cheapest_gpus_are_taken(model):
    machine = parse_machine("1xA100-80G+2xT4")
    prices = {"A100-80G": 2.0, "T4": 0.4}
    plan = place_model(model, machine, Workload(), objective="price", prices=prices)
    assert [share.gpu for share in plan.shares] == [1]
    with pytest.raises(UsageError) as error:
        place_model(model, machine, Workload(), objective="price", prices={"T4": 0.4})
    assert "A100-80G" in error_text(error.value)
    with pytest.raises(UsageError):
        place_model(model, TWO, Workload(), objective="stage")


def test_a_faster_gpu_gets_more_where_the_slowest_counts(model):
    plan = place_model(model, parse_machine("1xT4+1xH100-80G"), Workload(), objective="stage")
    kept = {share.gpu: share.planned.weights for share in plan.shares}
    assert plan.proved
    assert kept[1] > 3 * kept.get(0, 0)


@pytest.mark.parametrize(
    ("heads", "key_heads", "gpus", "sizes"),
    [(32, 8, 8, [1, 2, 4, 8]), (28, 4, 8, [1, 2, 4]), (12, 2, 8, [1, 2, 4, 6]), (71, 1, 8, [1])],
)
def test_sizes_of_a_tensor_parallel_group_divide_the_heads(heads, key_heads, gpus, sizes):
    assert tensor_sizes(heads, key_heads, gpus) == sizes


def test_what_an_engine_can_serve(model):
    profile = profile_model(find_model(model), Workload(1, 1000, 25))
    four = serving(profile, parse_machine("4x2GB"), GIB)
    assert (four.tensor, four.pipeline, four.length) == (4, 1, 1025)
    cache = sum(block.cache for block in profile.blocks) // 2  # by two heads of keys
    weights = sum(block.weights for block in profile.blocks) // 4
    assert four.sequences == pytest.approx((GIB - weights) / cache, rel=0.05)
    commands = four.commands()
    assert "--tensor-parallel-size 4" in commands["vllm"]
    assert "--max-model-len 1025" in commands["vllm"]
    assert f"--max-num-seqs {four.sequences} --gpu-memory-utilization 0.50" in commands["vllm"]
    assert "--nproc_per_node 2" in commands["torchrun"]  # transformers does not repeat keys
    assert "--max-num-seqs 3 " in four.commands(3)["vllm"]
    assert f"--max-num-seqs {four.sequences} " in four.commands(10 * four.sequences)["vllm"]
    three = serving(profile, parse_machine("3x2GB"), GIB)
    assert (three.tensor, three.pipeline) == (2, 1)
    assert serving(profile, parse_machine("1x2GB"), 2 * GIB - MIB).sequences == 0


def test_engines_get_their_usual_share_of_a_gpu_where_that_is_enough(model):
    profile = profile_model(find_model(model), Workload(1, 1000, 25))
    served = serving(profile, parse_machine("2x2GB"), 32 * MIB)
    assert "--gpu-memory-utilization 0.90" in served.commands(2)["vllm"]
    assert "--gpu-memory-utilization 0.98" in served.commands()["vllm"]


def test_engines_see_the_gpus_of_one_kind(model):
    profile = profile_model(find_model(model), Workload(1, 1000, 25))
    served = serving(profile, parse_machine("1xT4+2xA100-40G"), GIB)
    assert served.commands(1)["vllm"].startswith("CUDA_VISIBLE_DEVICES=1,2 vllm serve")


def test_latents_are_not_divided(model):
    profile = profile_model(find_model(model), Workload(1, 1000, 25))
    latent = replace(profile, source=replace(profile.source, values={**CONFIG, "kv_lora_rank": 64}))
    divided, whole = (serving(each, parse_machine("2x2GB"), GIB) for each in (profile, latent))
    assert divided.sequences == pytest.approx(2 * whole.sequences, abs=1)


def test_a_map_on_another_machine(model, tmp_path):
    plan = place_model(model, TWO, Workload(1, 512, 8))
    (tmp_path / "map.json").write_text(json.dumps({"device_map": plan.device_map}))
    kept = read_map(tmp_path / "map.json")
    assert kept == plan.device_map
    work = Workload(1, 512, 8)
    assert check_map(model, parse_machine("2x3GB"), kept, work, reserve=GIB).holds
    small = check_map(model, TWO, kept, work, reserve=2 * GIB - 8 * MIB)
    assert not small.holds
    assert small.proof.error is None
    with pytest.raises(UsageError) as error:
        check_map(model, parse_machine("1x2GB"), kept, work, reserve=GIB)
    assert "GPU 1" in error_text(error.value)


def test_a_map_that_leaves_a_layer_out_fails_its_trial(model):
    plan = place_model(model, TWO, Workload(1, 64, 4))
    missing = {name: gpu for name, gpu in plan.device_map.items() if name != "model.layers.3"}
    checked = check_map(model, TWO, missing, Workload(1, 64, 4), reserve=GIB)
    assert not checked.holds
    assert checked.proof.error is not None


def test_a_map_with_layers_on_the_host(model):
    plan = place_model(model, TWO, Workload(1, 64, 4))
    away = {**plan.device_map, "model.layers.5": "cpu"}
    assert check_map(model, TWO, away, Workload(1, 64, 4), reserve=GIB).holds


@pytest.mark.parametrize("text", ["[]", "{}", '{"a": "tpu"}', '{"a": true}', "{", '{"a": "cuda:99999"}'])
def test_what_is_no_map(tmp_path, text):
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(UsageError):
        read_map(tmp_path / "map.json")
