"""Ways of training that are chosen, proved by a step, and written with a program that follows them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from llama_configs import SEVEN, TINY

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner import Lora, MeasuredStep, Training
from samedevice.preflight import NothingFits, Request, Wanted, plan_training, preflight, write_training
from samedevice.preflight.needs import proved
from samedevice.preflight.needs.program import training_program

MACHINE = parse_machine("2x24GB")


def model(folder, config=TINY):
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(config))
    return folder / "model"


def planned(folder, config=TINY, machine=MACHINE, **wanted):
    told = []
    return plan_training(Wanted(model(folder, config), **wanted), machine, told.append)


def test_a_step_of_the_whole_model_proves_it(tmp_path):
    plan = planned(tmp_path, batch=8, context=256, mode="ddp")
    assert plan.proved and plan.missed == ()
    assert plan.training.mode == "ddp"
    assert plan.measured.peak == pytest.approx(plan.estimate.peak, rel=0.1)


def test_a_step_that_needs_more_is_left_more_room(tmp_path, monkeypatch):
    over = 1 << 30
    limit = planned(tmp_path, batch=8, context=256).limit
    peaks = [limit + over, limit - over]

    def step(values, machine, training):
        peak = peaks.pop(0)
        return MeasuredStep(training, 2, 0, peak, peak, peak, peak)

    monkeypatch.setattr(proved, "step_within", step)
    (tmp_path / "again").mkdir()
    plan = planned(tmp_path / "again", batch=8, context=256)
    assert plan.proved and plan.missed == (over,) and not peaks


def test_what_cannot_be_measured_says_why(tmp_path):
    plan = planned(tmp_path, batch=8, context=256, mode="zero3")
    assert not plan.proved and plan.measured is None
    assert "DeepSpeed" in plan.unmeasured


def test_nothing_fits(tmp_path):
    with pytest.raises(NothingFits):
        planned(tmp_path, SEVEN, parse_machine("2x6GB"), batch=2, mode="ddp")


@pytest.mark.parametrize("mode", ["ddp", "fsdp", "zero2"])
def test_the_launch_passes_what_was_written(tmp_path, monkeypatch, mode):
    monkeypatch.chdir(tmp_path)
    training = Training(mode, micro_batch=2, accumulation=4, context=128)
    files = write_training(Path("out"), training, "owner/name", MACHINE, ["why"])
    launch = Path("out/launch.sh").read_text()
    assert launch.splitlines()[1] == (
        'accelerate launch --config_file out/accelerate.yaml out/train.py out/training.yaml "$@"'
    )
    assert {path.name for path in files} >= {"accelerate.yaml", "training.yaml", "launch.sh", "train.py"}
    (judgement,) = preflight(Request(Path("out/launch.sh"), MACHINE, environment={}))
    assert judgement.findings == ()
    with pytest.raises(UsageError):  # another content in the way
        write_training(Path("out"), Training(mode, micro_batch=1), "owner/name", MACHINE, ["why"])


@pytest.mark.parametrize(
    ("tuning", "targets", "quantized"),
    [
        (Lora(rank=8), "'all-linear'", False),
        (Lora(targets=("q_proj", "v_proj")), "['q_proj', 'v_proj']", False),
        (Lora(quantized=True), "'all-linear'", True),
    ],
)
def test_adapters_are_in_the_program(tuning, targets, quantized):
    source = training_program(Training("ddp", tuning=tuning, context=77), "owner/name")
    ast.parse(source)
    assert f"r={tuning.rank}, target_modules={targets}" in source
    assert ("load_in_4bit=True" in source) == quantized
    assert "MODEL = 'owner/name'" in source and "CONTEXT = 77" in source
    assert "dtype=torch.bfloat16" in source  # frozen; what is trained whole stays in float32
    assert "dtype=torch.float32" in training_program(Training("ddp"), "owner/name")
