"""Plans for models that read sound: its shape is made of the configuration, and what cannot be is refused."""

from __future__ import annotations

import functools

import pytest
import torch

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner.inference import Workload, find_model, model_class, place_model, profile_model
from samedevice.report import error_text
from samedevice.report.plan import Plan

MIB, GIB = 1 << 20, 1 << 30
SIZES = {
    "d_model": 64, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "torch_dtype": "float16",
}  # fmt: skip
WHISPER = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], **SIZES}
SPEECH = {"model_type": "speech_to_text", "architectures": ["Speech2TextForConditionalGeneration"], **SIZES}
SEAMLESS = {
    "model_type": "seamless_m4t", "architectures": ["SeamlessM4TForSpeechToText"], "hidden_size": 64,
    "vocab_size": 512, "speech_encoder_layers": 2, "decoder_layers": 2, "encoder_layers": 2,
    "speech_encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_attention_heads": 4,
    "speech_encoder_intermediate_size": 128, "decoder_ffn_dim": 128, "encoder_ffn_dim": 128,
    "feature_projection_input_dim": 160, "torch_dtype": "float16",
}  # fmt: skip


def placed(model, work, count=2, **options):
    options = {"reserve": 2 * GIB - 256 * MIB, **options}
    return place_model(model, parse_machine(f"{count}x2GB"), work, **options)


@pytest.mark.parametrize(
    ("model", "seconds", "shape"),
    [
        (WHISPER, None, (80, 3000)),
        (WHISPER, 5, (80, 3000)),  # a window is a window
        (SPEECH, 12, (1200, 80)),
        (SEAMLESS, 8, (400, 160)),
    ],
)
def test_sound_is_read_and_the_plan_proved(model, seconds, shape):
    plan = placed(model, Workload(2, 1, 8, seconds=seconds))
    assert plan.proved, (plan.proof.events, plan.proof.error)
    assert len(plan.shares) == 2
    sound = plan.profile.sound
    assert (sound.shape, sound.seconds) == (shape, seconds or 30)
    fed = sound.inputs(2, "cpu", dtype := torch.float16)
    assert fed["input_features"].shape == (2, *shape) and fed["input_features"].dtype == dtype


@pytest.mark.parametrize("model", [WHISPER, SPEECH])
def test_tokens_between_prompt_and_last_are_not_made_one_by_one(model, monkeypatch):
    source, work = find_model(model), Workload(2, 1, 20, seconds=8)
    family, read = model_class(source), []
    forward = family.forward

    @functools.wraps(forward)
    def counted(*args, **options):
        read.append(options["decoder_input_ids"].shape[1])
        return forward(*args, **options)

    monkeypatch.setattr(family, "forward", counted)
    profile = profile_model(source, work)
    assert len(read) == 2 and read[1] == 1
    layers = [block for block in profile.blocks if "decoder.layers." in block.names[0]]
    for block in layers:  # keys and values of all tokens that were made but the last
        grown = block.cache - block.prompt_cache
        size = 2 * 2 * (work.new_tokens - 1) * model["d_model"] * torch.float16.itemsize
        assert grown == pytest.approx(size, rel=0.1)


def test_the_plan_says_how_much_sound_and_its_script_reads_files():
    plan = Plan(placed(SPEECH, Workload(2, 1, 8, seconds=12)))
    assert "sequences at once: 2; seconds of sound in each: 12; new tokens: 8" in str(plan)
    assert plan.as_json()["sound"] == {"seconds": 12}
    script = plan.script()
    compile(script, "script.py", "exec")
    assert "load_audio(sound" in script and "Speech2TextForConditionalGeneration" in script


def test_more_sound_needs_more():
    short, long = (placed(SPEECH, Workload(2, 1, 8, seconds=each), 1) for each in (2, 40))
    assert long.shares[0].peak.phases["prompt"] > short.shares[0].peak.phases["prompt"]


@pytest.mark.parametrize(
    ("model", "work", "most", "said"),
    [
        (WHISPER, Workload(1, 1, 8, seconds=31), None, "windows of 30 s"),
        (SPEECH, Workload(1, 1, 8, seconds=0), None, "at least 1 second"),
        (SPEECH, Workload(1, 1, 8), "context", "--seconds says how long"),
    ],
)
def test_wrong_wishes_for_sound(model, work, most, said):
    with pytest.raises(UsageError) as error:
        placed(model, work, most=most)
    assert said in error_text(error.value)


def test_a_part_for_sound_without_sound_is_told():
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 2000}  # fmt: skip
    audio = {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128}
    model = {
        "model_type": "qwen2_audio", "architectures": ["Qwen2AudioForConditionalGeneration"],
        "text_config": {"model_type": "qwen2", **text},
        "audio_config": {"model_type": "qwen2_audio_encoder", **audio},
        "audio_token_index": 1999, "torch_dtype": "bfloat16",
    }  # fmt: skip
    plan = placed(model, Workload(1, 64, 8))
    assert plan.proved
    assert "planned without sound" in str(Plan(plan))
