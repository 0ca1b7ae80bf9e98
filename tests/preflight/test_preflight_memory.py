"""The memory of a launch: the planner's own numbers, for the mode that was judged, and a note wherever there
are none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from llama_configs import SEVEN, TINY

from samedevice.machines import parse_machine
from samedevice.planner import (
    ATTENTION,
    Lora,
    Training,
    TrainingShape,
    choose_launch,
    largest_micro_batch,
    training_memory,
)
from samedevice.preflight import METHODS, Wanted, launch_memory
from samedevice.report import TextRenderer, render

SCRIPT = """
    from transformers import AutoModelForCausalLM, Trainer
    Trainer(model=AutoModelForCausalLM.from_pretrained("m")).train()
"""


def shapes(config):
    """Names and shapes of a llama's weights, as its checkpoint has them."""
    wide, inner, words = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    yield from (
        ("model.embed_tokens.weight", [words, wide]),
        ("model.norm.weight", [wide]),
        ("lm_head.weight", [words, wide]),
    )
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        yield from ((f"{prefix}.self_attn.{name}_proj.weight", [wide, wide]) for name in "qkvo")
        yield from ((f"{prefix}.mlp.{name}_proj.weight", [inner, wide]) for name in ("gate", "up"))
        yield f"{prefix}.mlp.down_proj.weight", [wide, inner]
        yield from ((f"{prefix}.{name}_layernorm.weight", [wide]) for name in ("input", "post_attention"))


@pytest.fixture
def model(tmp_path):
    """A folder with a configuration and the header of its weights."""

    def make(config, header=True):
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
        if header:
            entries = {
                name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]}
                for name, shape in shapes(config)
            }
            text = json.dumps(entries).encode()
            (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
        return folder

    return make


@pytest.mark.parametrize("method", METHODS)
def test_the_numbers_are_those_of_the_planner(method, judged, model):
    machine, folder = parse_machine("8xA100-80G"), model(SEVEN)
    memory = launch_memory(
        judged(SCRIPT, "8xA100-80G", launcher="torchrun"), machine, Wanted(folder, tuning=METHODS[method])
    )
    shape = TrainingShape.from_folder(folder)
    for checkpointing, way in zip((False, True), memory.ways, strict=True):
        training = Training("ddp", tuning=METHODS[method], checkpointing=checkpointing)
        assert way.estimate.moments == training_memory(shape, machine, training).moments
        assert way.largest == largest_micro_batch(shape, machine, training)
        document = way.as_json()
        assert document["method"] == method
        assert sum(document["parts"].values()) == document["peak"]
    assert memory.fits is (method != "full")
    assert (memory.plan is not None) is (method == "full")


def test_what_does_not_fit_is_said_with_the_next_way(judged, model):
    machine, folder = parse_machine("8xA100-80G"), model(SEVEN)
    memory = launch_memory(
        judged(SCRIPT, "8xA100-80G", launcher="torchrun"), machine, Wanted(folder, batch=64)
    )
    (note,) = memory.notes
    assert render(note).startswith("does not fit: DDP")
    plan = choose_launch(TrainingShape.from_folder(folder), machine, Training(), global_batch=64)
    assert memory.plan.estimate.training == plan.training
    assert memory.why == plan.explain()
    assert [len(row) for row in memory.table] == [4] * len(memory.table)
    heads = [render(head, "zh") for head in memory.table[0][1:]]
    assert heads == ["原样", "激活重算", "备选方案"]
    assert "全参数训练" in render(memory.headline, "zh")
    assert memory.table[-1][1:] == [0, 0, memory.plan.largest]


def test_checkpointing_alone_may_do(judged, model):
    machine, folder = parse_machine("1x24GB"), model(SEVEN)
    memory = launch_memory(
        judged(SCRIPT, "1x24GB"), machine, Wanted(folder, context=4096, tuning=Lora(quantized=True))
    )
    assert [bool(way.largest) for way in memory.ways] == [False, True]
    assert render(memory.notes[0]).startswith("fits with activation checkpointing only")
    assert memory.fits
    assert memory.plan is None


def test_the_processes_of_the_launch_count(judged, model):
    machine, folder = parse_machine("4xA100-80G"), model(SEVEN)
    accelerate = "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 2\n"
    files = {"train.py": SCRIPT, "fsdp.yaml": accelerate}
    first = judged(files, "4xA100-80G", launcher="accelerate")
    configuration = first.launch.script.parent / "fsdp.yaml"
    judgement = judged(files, "4xA100-80G", launcher="accelerate", configuration=configuration)
    assert judgement.mode.name == "fsdp2"
    two = launch_memory(judgement, machine, Wanted(folder)).ways[0].estimate
    assert (two.training.mode, two.ranks) == ("fsdp", 2)
    asked = launch_memory(judgement, machine, Wanted(folder, mode="zero3")).ways[0].estimate
    assert (asked.training.mode, asked.ranks) == ("zero3", 4)


def test_a_mode_without_a_formula_gets_another_way(judged, model):
    machine, folder = parse_machine("4xA100-80G"), model(TINY)
    memory = launch_memory(
        judged(SCRIPT, "4xA100-80G"), machine, Wanted(folder)
    )  # the Trainer's DataParallel
    assert memory.ways == ()
    assert "DataParallel" in render(memory.notes[0])
    assert memory.plan.estimate.training.mode == "ddp"
    assert memory.fits


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "bert", "hidden_size": 8}, "type bert have no formula"),
        ({"model_type": ["llama"]}, "was not estimated"),
        ({**TINY, "hidden_size": "wide"}, "was not estimated"),
        ({}, "no formula"),
        ("{", "cannot be read"),
        ("[]", "no JSON object"),
    ],
)
def test_what_cannot_be_known_is_a_note(config, words, judged, model):
    memory = launch_memory(
        judged(SCRIPT, launcher="torchrun"), parse_machine("4xA100-80G"), Wanted(model(config, header=False))
    )
    assert words in render(memory.notes[0])
    assert memory.as_json(TextRenderer())["ways"] == []
    assert memory.table == []
    assert memory.headline is None
    assert memory.fits


def test_headers_need_no_torch(model, tmp_path):
    (tmp_path / "train.py").write_text(
        "from transformers import AutoModel\nAutoModel.from_pretrained('model')\n"
    )
    model(TINY)
    words = ["samedevice", "preflight", "train.py", "--machine", "2x24GB", "--memory"]
    code = (
        f"import sys; sys.argv = {words}\ntry:\n    from samedevice.cli import main; main()\nexcept "
        "SystemExit:\n    pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules, 'transformers' in sys.modules)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert "largest micro-batch" in done.stdout
    assert done.stdout.splitlines()[-1] == "False False"


def test_without_a_model(judged):
    memory = launch_memory(judged(SCRIPT), parse_machine("4xA100-80G"), None)
    assert "--model" in render(memory.notes[0], "zh")
    assert memory.as_json(TextRenderer())["model"] is None


def test_adapters_beside_experts_are_on_attention(judged, model):
    config = {
        **TINY,
        "model_type": "mixtral",
        "num_key_value_heads": 4,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    }
    memory = launch_memory(
        judged(SCRIPT, launcher="torchrun"),
        parse_machine("4xA100-80G"),
        Wanted(model(config, header=False), tuning=Lora()),
    )
    assert memory.ways[0].estimate.training.tuning == Lora(targets=ATTENTION)


def test_a_text_part_is_named(judged, model, tmp_path):
    folder = model(TINY)
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gemma3", "text_config": {**TINY, "model_type": "gemma3_text"}})
    )
    memory = launch_memory(judged(SCRIPT, launcher="torchrun"), parse_machine("4xA100-80G"), Wanted(folder))
    assert memory.ways
    assert "gemma3_text" in render(memory.notes[-1])


def test_only_the_visible_gpus_count(judged, model):
    judgement = judged(SCRIPT, "1xA100-80G+1x24GB", environment={"CUDA_VISIBLE_DEVICES": "0"})
    memory = launch_memory(judgement, parse_machine("1xA100-80G+1x24GB"), Wanted(model(TINY)))
    assert memory.total == parse_machine("1xA100-80G").gpus[0].total_memory
    assert memory.ways[0].estimate.training == replace(Training(), chosen_ranks=1)
