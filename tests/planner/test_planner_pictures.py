"""Plans with pictures: the vision part runs, its memory is in the plan, and what cannot be fed is refused."""

from __future__ import annotations

import pytest

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner.inference import Workload, place_model

TEXT = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 8000, "max_position_embeddings": 4096,
}  # fmt: skip
TOKENS = {
    "image_token_id": 7001, "video_token_id": 7002, "vision_start_token_id": 7003,
    "vision_end_token_id": 7004, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
TOWER = {
    "depth": 3, "hidden_size": 64, "out_hidden_size": 128, "intermediate_size": 128, "num_heads": 4,
    "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
}  # fmt: skip
FIXED = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
    "image_size": 112, "patch_size": 14,
}  # fmt: skip
ROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}}
KINDS = {
    "qwen2_vl": {
        "architectures": ["Qwen2VLForConditionalGeneration"], **TEXT, **TOKENS, **ROPE,
        "vision_config": {**TOWER, "embed_dim": 64, "hidden_size": 128, "mlp_ratio": 2},
    },
    "qwen2_5_vl": {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], **TEXT, **TOKENS, **ROPE,
        "vision_config": {**TOWER, "window_size": 112, "fullatt_block_indexes": [2]},
    },
    "qwen3_vl": {
        "architectures": ["Qwen3VLForConditionalGeneration"], **TOKENS,
        "text_config": {
            "model_type": "qwen3_vl_text", **TEXT, "head_dim": 32,
            "rope_scaling": {"rope_type": "default", "mrope_section": [4, 6, 6], "mrope_interleaved": True},
        },
        "vision_config": {**TOWER, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 256},
    },
    "llava": {
        "architectures": ["LlavaForConditionalGeneration"], "image_token_index": 7001,
        "text_config": {"model_type": "llama", **TEXT},
        "vision_config": {"model_type": "clip_vision_model", **FIXED, "projection_dim": 64},
    },
    "gemma3": {
        "architectures": ["Gemma3ForConditionalGeneration"], "image_token_index": 7001,
        "boi_token_index": 7003, "eoi_token_index": 7004, "mm_tokens_per_image": 16,
        "text_config": {"model_type": "gemma3_text", **TEXT, "head_dim": 32, "sliding_window": 64},
        "vision_config": {"model_type": "siglip_vision_model", **FIXED},
    },
}  # fmt: skip
SIZE = (224, 290)
SEEN = {
    # Patches of 14 are joined by four: 224 x 280 are 8 x 10 of them, with a token on either side.
    "qwen2_vl": (224, 280, 80, 82),
    "qwen2_5_vl": (224, 280, 80, 82),
    "qwen3_vl": (224, 280, 80, 82),
    "llava": (112, 112, 64, 64),
    "gemma3": (112, 112, 16, 18),
}
MIB, GIB = 1 << 20, 1 << 30


def placed(kind, work, count=1, **options):
    model = {"model_type": kind, "torch_dtype": "bfloat16", **KINDS[kind]}
    options = {"reserve": 2 * GIB - 64 * MIB, **options}
    return place_model(model, parse_machine(f"{count}x2GB"), work, **options)


def working(plan):
    return max(share.peak.phases["prompt"] - share.planned.weights for share in plan.shares)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_read_and_planned(kind):
    plan = placed(kind, Workload(2, 256, 8, 2, SIZE))
    assert plan.proved, (plan.proof.events, plan.proof.error)
    pictures, (width, height, tokens, length) = plan.profile.pictures, SEEN[kind]
    assert (pictures.width, pictures.height, pictures.tokens) == (width, height, tokens)
    assert pictures.length == 2 * length
    share = plan.shares[0]
    assert share.peak.allocated == pytest.approx(share.planned.total, rel=0.01)
    tower = [block for block in plan.profile.blocks if "vis" in block.names[0]]
    assert len(tower) >= 4
    assert all(block.home_prefill for block in tower if "blocks" in block.names[0])


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "gemma3"])
def test_over_several_gpus_the_trial_agrees(kind):
    plan = placed(kind, Workload(2, 256, 8, 2, SIZE), 3)
    assert plan.proved, (plan.proof.events, plan.proof.error)
    assert len(plan.shares) > 1
    for share in plan.shares:
        # What stays where the vision part is cut is not exactly known before the trial.
        assert 0.6 * share.planned.total < share.peak.allocated < 1.15 * share.planned.total


def test_larger_pictures_need_more_memory():
    plans = [placed("qwen2_5_vl", Workload(1, 512, 8, 1, size)) for size in ((224, 224), (560, 560))]
    none = placed("qwen2_5_vl", Workload(1, 512, 8))
    assert none.profile.pictures is None
    assert working(none) < working(plans[0]) < working(plans[1])
    patches = [plan.profile.pictures.pixels[0] for plan in plans]
    assert patches == [16 * 16, 40 * 40]


@pytest.mark.parametrize(
    ("model", "work", "said"),
    [
        ("qwen2_5_vl", Workload(1, 82, 8, 1, SIZE), "place.short-prompt"),
        ("qwen2_5_vl", Workload(1, 82, 8, -1), "place.pictures"),
        ("qwen2_5_vl", Workload(1, 82, 8, 1, (0, 9)), "place.pictures"),
    ],
)
def test_what_cannot_be_is_refused(model, work, said):
    with pytest.raises(UsageError) as raised:
        placed(model, work)
    assert raised.value.args[0].key == said


@pytest.mark.parametrize("change", [{"model_type": "llama"}, {"vision_config": {"model_type": "pixtral"}}])
def test_no_picture_is_made_for_a_model_that_is_not_known(change):
    model = {"model_type": "llava", **KINDS["llava"], **change}
    with pytest.raises(UsageError) as raised:
        place_model(model, parse_machine("1x24GB"), Workload(1, 512, 8, 1))
    assert raised.value.args[0].key == "place.no-pictures"


def test_the_longest_prompt_holds_its_pictures():
    work = Workload(1, 1, 8, 2, SIZE)
    free = placed("qwen2_5_vl", work, most="context")
    assert free.most.limited
    assert free.workload.context == free.most.value
    least = placed("qwen2_5_vl", work, most="context", reserve=2 * GIB - 3 * MIB)
    assert least.most.value == 0
    assert least.workload.context == 2 * 82 + 1
