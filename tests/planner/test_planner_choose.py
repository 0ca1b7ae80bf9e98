"""The batch that fits, and the next thing to try."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.messages import languages
from samedevice.planner import (
    RESERVE,
    Full,
    Lora,
    Training,
    TrainingShape,
    Weight,
    capacity,
    choose_launch,
    largest_micro_batch,
    levers,
    parted,
    training_memory,
)
from samedevice.planner._families import Dimensions
from samedevice.planner._settings import MODES, OFFLOADS, OPTIMIZERS, PRECISIONS
from samedevice.report import render


def llama(layers=32, hidden=4096, inner=11008, heads=32, kv_heads=32, vocabulary=32000):
    """The weights of a Llama, written down by hand."""
    head = hidden // heads
    weights = [Weight("model.embed_tokens.weight", (vocabulary, hidden))]
    for layer in range(layers):
        rows = {
            "self_attn.q_proj": (hidden, hidden),
            "self_attn.k_proj": (kv_heads * head, hidden),
            "self_attn.v_proj": (kv_heads * head, hidden),
            "self_attn.o_proj": (hidden, hidden),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
        }
        weights += [Weight(f"model.layers.{layer}.{name}.weight", shape) for name, shape in rows.items()]
    weights += [Weight("model.norm.weight", (hidden,)), Weight("lm_head.weight", (vocabulary, hidden))]
    return TrainingShape(
        "llama", tuple(weights), Dimensions("llama", layers, hidden, heads, kv_heads, head, inner, vocabulary)
    )


SEVEN = llama()
SMALL = llama(2, 256, 704, 8, 4, 1000)
EIGHT = parse_machine("8xA100-80G")


def test_counts_of_llama_2_7b():
    assert SEVEN.count == 6_738_415_616  # as its model card has it
    assert len(SEVEN.blocks) == 32
    assert SEVEN.head is not None
    assert not SEVEN.tied


def test_states_of_one_gpu_are_sixteen_bytes_a_parameter():
    estimate = training_memory(SEVEN, parse_machine("8xA100-80G"), Training(precision="fp32"))
    step = next(moment for moment in estimate.moments if moment.name == "step")
    assert step.total == 16 * SEVEN.count


@pytest.mark.parametrize(
    ("mode", "share"), [("zero1", 2 + 2 + 12 / 8), ("zero2", 2 + (2 + 12) / 8), ("zero3", 16 / 8)]
)
def test_zero_stages_spread_what_the_paper_says(mode, share):
    estimate = training_memory(SEVEN, EIGHT, Training(mode=mode))
    step = next(moment for moment in estimate.moments if moment.name == "step")
    assert step.weights + step.gradients + step.optimizer == pytest.approx(share * SEVEN.count, rel=1e-6)


trainings = st.builds(
    Training,
    mode=st.sampled_from(MODES),
    precision=st.sampled_from(PRECISIONS),
    optimizer=st.sampled_from(OPTIMIZERS),
    micro_batch=st.integers(1, 64),
    context=st.integers(16, 8192),
    checkpointing=st.booleans(),
    offload=st.sampled_from(OFFLOADS),
    tuning=st.one_of(st.just(Full()), st.builds(Lora, rank=st.integers(1, 64), quantized=st.booleans())),
    accumulation=st.integers(1, 4),
)


@settings(deadline=None, max_examples=60)
@given(trainings)
def test_more_samples_and_more_tokens_need_more(training):
    peak = training_memory(SMALL, EIGHT, training).peak
    assert training_memory(SMALL, EIGHT, replace(training, micro_batch=training.micro_batch + 1)).peak >= peak
    assert training_memory(SMALL, EIGHT, replace(training, context=training.context + 16)).peak >= peak


@settings(deadline=None, max_examples=60)
@given(trainings)
def test_more_ranks_never_need_more(training):
    if training.mode == "single":
        return
    four, eight = (
        training_memory(SEVEN, EIGHT, replace(training, chosen_ranks=ranks, gpus_per_group=None)).peak
        for ranks in (4, 8)
    )
    assert eight <= four


@settings(deadline=None, max_examples=60)
@given(trainings)
def test_each_saving_saves(training):
    peak = training_memory(SEVEN, EIGHT, training).peak
    assert training_memory(SEVEN, EIGHT, replace(training, offload="parameters")).peak <= peak
    kept = {moment.name: moment.activations for moment in training_memory(SEVEN, EIGHT, training).moments}
    less = {
        moment.name: moment.activations
        for moment in training_memory(SEVEN, EIGHT, replace(training, checkpointing=True)).moments
    }
    assert all(less[name] <= kept[name] for name in kept)


@settings(deadline=None, max_examples=25)
@given(trainings)
def test_the_largest_micro_batch_fits_and_the_next_does_not(training):
    found = largest_micro_batch(SEVEN, EIGHT, training)
    limit = capacity(EIGHT)
    if found:
        assert training_memory(SEVEN, EIGHT, replace(training, micro_batch=found)).peak <= limit
    if found < 4096:
        assert training_memory(SEVEN, EIGHT, replace(training, micro_batch=found + 1)).peak > limit


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(["8xA100-80G", "2x24GB", "1x24GB", "4xRTX4090", "1x8GB", "16xH100-80G"]),
    st.integers(1, 512),
    st.booleans(),
)
def test_a_plan_that_fits_stays_below_the_limit(machine, batch, deepspeed):
    machine = parse_machine(machine)
    plan = choose_launch(
        SEVEN,
        machine,
        Training(context=2048),
        global_batch=batch,
        sharding="deepspeed" if deepspeed else "fsdp",
    )
    assert plan.fits == (plan.estimate.peak <= capacity(machine))
    assert plan.limit == min(gpu.total_memory for gpu in machine.gpus) - RESERVE
    if plan.fits:
        assert plan.global_batch == -(-batch // len(machine.gpus)) * len(machine.gpus)
    for language in languages():
        assert all(render(each, language) for each in plan.explain())


def test_the_global_batch_is_what_was_asked_for():
    """Not the next multiple of the largest micro-batch: the learning rate goes with the batch."""
    assert [parted(8, largest) for largest in (1, 3, 4, 8, 100)] == [(1, 8), (2, 4), (4, 2), (8, 1), (8, 1)]
    assert parted(7, 3) == (1, 7)


def test_levers_come_in_the_order_of_what_they_cost():
    ways = list(levers(Training(context=2048), 8, "deepspeed"))
    assert [(way.mode, way.checkpointing, way.offload) for way in ways[:8]] == [
        ("ddp", False, "none"),
        ("ddp", True, "none"),
        ("zero2", False, "none"),
        ("zero2", True, "none"),
        ("zero3", False, "none"),
        ("zero3", True, "none"),
        ("zero3", True, "optimizer"),
        ("zero3", True, "parameters"),
    ]
    assert [way.context for way in ways[-2:]] == [1024, 512]


def test_little_machines_get_little_plans():
    plan = choose_launch(SEVEN, parse_machine("1x24GB"), Training(context=2048), global_batch=8)
    assert isinstance(plan.training.tuning, Lora)
    assert choose_launch(SEVEN, EIGHT, Training(context=2048), global_batch=8).training.tuning == Full()
    nothing = choose_launch(SEVEN, parse_machine("1x2.5GB"), Training(context=2048))
    assert not nothing.fits
    assert "does not fit" in render(nothing.explain()[1])


def test_a_host_that_is_too_small_counts(tmp_path):
    file = tmp_path / "machine.toml"
    file.write_text('[host]\nmemory = "64GB"\n[[gpu]]\nmodel = "RTX4090"\ncount = 2\n', encoding="utf-8")
    plan = choose_launch(SEVEN, parse_machine(str(file)), Training(context=2048))
    assert plan.training.offload == "none"
    assert plan.fits


@pytest.mark.parametrize(
    "wrong",
    [{"micro_batch": 0}, {"context": 0}, {"mode": "pipeline"}, {"precision": "int8"}, {"offload": "disk"}],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Training(**wrong)


def test_an_architecture_without_formula_says_so():
    with pytest.raises(UsageError, match="measure"):
        training_memory(replace(SMALL, dimensions=None), EIGHT, Training())
