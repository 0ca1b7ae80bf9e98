"""Plans for inference: what is thought of each GPU is what the virtual machine measures with the map."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
import torch

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner.inference import Workload, find_model, place_model, profile_model
from samedevice.planner.inference._passes import parts_of
from samedevice.runtime.state import VALUE_LIMIT

SIZES = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 8000, "max_position_embeddings": 4096,
}  # fmt: skip
KINDS = {
    "llama": {"model_type": "llama", **SIZES, "tie_word_embeddings": False},
    "tied": {"model_type": "qwen2", **SIZES, "tie_word_embeddings": True},
    "sliding": {"model_type": "gemma3_text", **SIZES, "head_dim": 32, "sliding_window": 64},
    "moe": {"model_type": "qwen3_moe", **SIZES, "head_dim": 32, "moe_intermediate_size": 64,
            "num_experts": 4, "num_experts_per_tok": 2},
    "latent": {
        "model_type": "deepseek_v3", **SIZES, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "moe_intermediate_size": 64,
        "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
    },
    "gpt2": {"model_type": "gpt2", "n_embd": 128, "n_layer": 6, "n_head": 4, "vocab_size": 8000},
}  # fmt: skip
T5 = {
    "model_type": "t5", "d_model": 128, "d_ff": 256, "d_kv": 32, "num_layers": 4, "num_heads": 4,
    "vocab_size": 8000, "decoder_start_token_id": 0, "architectures": ["T5ForConditionalGeneration"],
}  # fmt: skip
WORK = Workload(batch=2, context=512, new_tokens=64)
MIB, GIB = 1 << 20, 1 << 30


def folder(tmp_path, kind, **more):
    (tmp_path / "config.json").write_text(json.dumps({**KINDS[kind], "torch_dtype": "bfloat16", **more}))
    return tmp_path


def placed(model, count=3, budget=64 * MIB, work=WORK, size="2GB", **options):
    """A plan for GPUs with that budget; transformers fails on GPUs with less than 1.2 GiB in all."""
    options = {"reserve": 2 * GIB - budget, **options}
    return place_model(model, parse_machine(f"{count}x{size}"), work, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_the_proof_measures_what_was_planned(tmp_path, kind):
    plan = placed(folder(tmp_path, kind))
    assert plan.proved, (plan.proof.events, plan.proof.error)
    assert plan.rounds == 1
    assert len(plan.shares) == 3
    for share in plan.shares:
        assert share.peak.allocated <= share.planned.total + 4096  # what is counted in units of 512 bytes
        assert share.peak.allocated == pytest.approx(share.planned.total, rel=0.1)
    assert plan.room <= plan.division.bound


def test_a_shared_weight_is_held_once_and_stays_together(tmp_path):
    plan = placed(folder(tmp_path, "tied"))
    assert plan.device_map["lm_head"] == plan.device_map["model.embed_tokens"] == 0
    assert plan.profile.blocks[0].names == ("model.embed_tokens", "lm_head")
    assert plan.profile.blocks[0].weights == -(-8000 * 128 * 2 // 512) * 512
    assert sum(block.weights for block in plan.profile.blocks) == pytest.approx(
        2 * plan.profile.parameters, rel=0.01
    )


def test_layers_come_in_the_order_in_which_they_run(tmp_path):
    plan = placed(folder(tmp_path, "llama"))
    names = list(plan.device_map)
    assert names[0] == "model.embed_tokens"
    assert [name for name in names if ".layers." in name] == [f"model.layers.{n}" for n in range(6)]
    assert names[-2:] == ["model.norm", "lm_head"]
    assert list(plan.device_map.values()) == sorted(plan.device_map.values())


def test_the_cache_is_that_of_every_layer(tmp_path):
    blocks = profile_model(find_model(folder(tmp_path, "llama")), WORK).blocks
    layers = [block for block in blocks if ".layers." in block.names[0]]
    key_or_value = 2 * 2 * 32 * 2  # sequences, heads, width of a head, bytes
    assert {block.prompt_cache for block in layers} == {2 * key_or_value * 512}
    assert {block.cache for block in layers} == {2 * key_or_value * (512 + 64)}  # 63, in units of 512 bytes
    assert all(block.cache == 0 for block in blocks if block not in layers)


def test_a_window_bounds_the_cache(tmp_path):
    model = folder(tmp_path, "sliding", layer_types=["sliding_attention"] * 5 + ["full_attention"])
    layers = [block for block in profile_model(find_model(model), WORK).blocks if block.cache]
    assert len(layers) == 6
    token = 2 * 2 * 2 * 32 * 2
    assert {block.cache for block in layers[:-1]} == {64 * token}
    assert layers[-1].cache == 576 * token  # 575, in units of 512 bytes
    # After the prompt the window is a view of it, so that all of it is held until the next token.
    assert {block.prompt_cache for block in layers} == {512 * token}


def test_a_mask_that_hides_nothing_is_left_out_of_the_longest_work_too(tmp_path):
    half, whole = (
        placed(folder(tmp_path, "llama"), 1, size="80GB", work=Workload(batch, 4088, 8)) for batch in (32, 64)
    )
    assert half.workload.nbytes == VALUE_LIMIT < whole.workload.nbytes  # what the machine computes by itself
    needs = [plan.shares[0] for plan in (half, whole)]
    assert needs[1].planned.working == pytest.approx(2 * needs[0].planned.working, rel=0.01)
    assert needs[1].peak.phases["prompt"] < 2 * needs[0].peak.phases["prompt"]


def test_a_model_without_unsplittable_classes_is_cut_between_its_layers(tmp_path, monkeypatch):
    from transformers import LlamaForCausalLM, LlamaPreTrainedModel

    for family in (LlamaPreTrainedModel, LlamaForCausalLM):
        monkeypatch.setattr(family, "_no_split_modules", ["NoSuchLayer"], raising=False)
    blocks = profile_model(find_model(folder(tmp_path, "llama")), WORK).blocks
    assert [block.names[0] for block in blocks if block.cache] == [f"model.layers.{n}" for n in range(6)]


def test_an_encoder_and_a_decoder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(T5))
    plan = placed(tmp_path, 2)
    assert plan.proved and plan.rounds == 1
    assert len(plan.shares) == 2 and all(each.peak.allocated <= each.planned.total for each in plan.shares)


OTHER_CACHES = {
    "mamba": {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 4, "state_size": 8,
              "vocab_size": 2000, "architectures": ["MambaForCausalLM"]},
    "indexed": {
        "model_type": "deepseek_v32", **SIZES, "num_key_value_heads": 4, "kv_lora_rank": 16,
        "q_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "moe_intermediate_size": 64, "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
        "num_experts_per_tok": 2, "index_n_heads": 2,
        "index_head_dim": 16, "index_topk": 32, "first_k_dense_replace": 1,
    },
    "none": {"model_type": "openai-gpt", "n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 2000,
             "architectures": ["OpenAIGPTLMHeadModel"]},
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER_CACHES)
def test_caches_of_other_kinds(kind):
    """A state that does not grow, keys by which others are looked for, and none."""
    plan = placed({**OTHER_CACHES[kind], "torch_dtype": "bfloat16"}, 2, work=Workload(2, 64, 8))
    assert plan.proved, (plan.proof.events, plan.proof.error)
    cached = sum(block.cache for block in plan.profile.blocks)
    assert (cached > 0) == (kind != "none")


def test_a_model_that_reads_tables_is_refused(tmp_path):
    config = {"model_type": "pix2struct", "architectures": ["Pix2StructForConditionalGeneration"]}
    parts = {name: {"num_hidden_layers": 1, "num_layers": 1} for name in ("text_config", "vision_config")}
    (tmp_path / "config.json").write_text(json.dumps({**config, **parts}))
    with pytest.raises(UsageError, match="other-input"):
        placed(tmp_path)


def test_what_does_not_fit_says_what_is_missing(tmp_path):
    model = folder(tmp_path, "llama")
    need = placed(model, 1, GIB)
    used = need.shares[0].planned.total
    assert need.device_map == {"": 0}
    short = placed(model, 1, 3 * MIB)
    assert not short.fits
    assert short.proof is None
    assert short.room == short.division.room == 3 * MIB - used


def test_a_trial_that_needs_more_is_counted_and_planned_again(tmp_path, monkeypatch):
    from samedevice.planner.inference import _plan

    model = folder(tmp_path, "llama")
    first = placed(model)
    measuring = _plan.measuring

    def smaller(profile):
        return profile.with_blocks(tuple(block.with_more(-2 * MIB) for block in profile.blocks))

    @contextmanager
    def too_small(source):
        with measuring(source) as measure:
            yield lambda work: smaller(measure(work))

    monkeypatch.setattr(_plan, "measuring", too_small)
    budget = max(share.planned.total for share in first.shares) + MIB // 8
    plan = placed(model, budget=budget, objective="gpus")  # with 2 GPUs, it seems
    assert plan.proved
    assert plan.rounds > 1
    assert len(plan.shares) == 3
    assert all(share.free >= 0 for share in plan.shares)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "int3"}, "int3"),
        ({"work": Workload(0)}, "at least 1"),
        ({"reserve": 1 << 40}, "left alone"),
        ({"objective": "speed"}, "speed"),
    ],
)
def test_wrong_wishes(tmp_path, change, said):
    from samedevice.report import error_text

    with pytest.raises(UsageError) as error:
        placed(folder(tmp_path, "llama"), **change)
    assert said in error_text(error.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "neither a model's folder"),
        ("../nothing/there", "neither a model's folder"),
        ("nobody/nothing-of-this-name", "could not be fetched"),
    ],
)
def test_what_is_no_model(name, said, monkeypatch):
    from samedevice.report import error_text

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read from its variable at import
    with pytest.raises(UsageError) as error:
        find_model(name)
    assert said in error_text(error.value)


def test_a_quantized_checkpoint_needs_another_type(tmp_path):
    model = folder(tmp_path, "llama", quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(UsageError):
        find_model(model)
    assert find_model(model, "float16").dtype == "float16"


def test_the_type_is_that_of_the_stored_weights(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    model = folder(tmp_path, "llama", torch_dtype=None)
    assert find_model(model).dtype_from == "assumed"
    save_file({"a": torch.zeros(9, dtype=torch.float16), "b": torch.zeros(2)}, model / "model.safetensors")
    found = find_model(model)
    assert (found.dtype, found.dtype_from) == ("float16", "weights")


def test_code_of_a_model_is_never_followed(tmp_path):
    model = folder(tmp_path, "llama", auto_map={"AutoModelForCausalLM": "evil.Model"})
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')")
    assert "auto_map" not in find_model(model).values
    assert placed(model).proved


def test_a_cache_that_is_a_module_is_no_layer():
    """Some releases of transformers before 4.48 have caches that are modules."""

    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.key_cache = [torch.ones(2), torch.ones(3)]

        def get_seq_length(self):
            return 2

    assert [path for path, _ in parts_of(Cache())] == [("key_cache", 0), ("key_cache", 1)]
    assert list(parts_of(torch.nn.Linear(2, 2))) == []
