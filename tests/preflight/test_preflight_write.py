"""Written launches: accelerate's own loader and command read them, DeepSpeed's own configuration class too,
and preflight passes them.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from llama_configs import SEVEN, TINY

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner import Training
from samedevice.preflight import MODES, Request, Wanted, launch_files, preflight, write_launch
from samedevice.report import TextRenderer, worded_errors


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a launch into a folder `out` of an empty working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "from accelerate import Accelerator\nfrom transformers import "
        'AutoModel\nAutoModel.from_pretrained("m")\n'
    )

    def write(config=TINY, machine="4xA100-80G", **wanted):
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / "config.json").write_text(json.dumps(config))
        with worded_errors():
            return write_launch(
                Path("out"),
                Wanted(Path("model"), **wanted),
                parse_machine(machine),
                Path("train.py"),
                ["--epochs", "1"],
                TextRenderer(),
            )

    return write


def accelerate_arguments(path):
    """What `accelerate launch --config_file PATH train.py` makes of the file."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    arguments = launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    return _validate_launch_command(arguments)[0]


@pytest.mark.parametrize("mode", MODES)
def test_accelerate_reads_it(mode, written, monkeypatch):
    from accelerate.commands.config.config_args import load_config_from_file

    launch = written(mode=mode, batch=16)
    assert len(launch.why) == 3
    config = load_config_from_file("out/accelerate.yaml")
    assert config.num_processes == 4
    kinds = {"ddp": "MULTI_GPU", "fsdp": "FSDP", "zero2": "DEEPSPEED", "zero3": "DEEPSPEED"}
    assert config.distributed_type == kinds[mode]
    arguments = accelerate_arguments("out/accelerate.yaml")
    assert (arguments.multi_gpu, arguments.use_fsdp, arguments.use_deepspeed) == (
        mode == "ddp",
        mode == "fsdp",
        mode.startswith("zero"),
    )
    if mode == "fsdp":
        from accelerate.utils import FullyShardedDataParallelPlugin
        from accelerate.utils.launch import prepare_multi_gpu_env

        for name, value in prepare_multi_gpu_env(arguments).items():
            if name.startswith(("FSDP", "ACCELERATE")):
                monkeypatch.setenv(name, value)
        plugin = FullyShardedDataParallelPlugin()
        assert plugin.fsdp_version == 2
        assert plugin.reshard_after_forward is True
        for name in [name for name in os.environ if name.startswith(("FSDP", "ACCELERATE"))]:
            monkeypatch.delenv(name)


@pytest.mark.parametrize("offload", ["none", "optimizer", "parameters"])
@pytest.mark.parametrize("mode", ["zero2", "zero3"])
def test_deepspeed_reads_it(mode, offload, tmp_path, monkeypatch):
    deepspeed = pytest.importorskip("deepspeed")
    from accelerate.utils import DeepSpeedPlugin
    from deepspeed.runtime.config import DeepSpeedConfig

    monkeypatch.chdir(tmp_path)
    training = Training(mode=mode, offload=offload, micro_batch=2, accumulation=4)
    files = launch_files(training, 2, Path(), Path("train.py"))
    for name, text in files.items():
        Path(name).write_text(text)
    assert deepspeed.__version__
    config = DeepSpeedConfig("deepspeed.json")
    assert config.zero_optimization_stage == int(mode[-1])
    assert (config.train_micro_batch_size_per_gpu, config.gradient_accumulation_steps) == (2, 4)
    assert (config.zero_config.offload_optimizer is not None) == (offload != "none")
    assert (config.zero_config.offload_param is not None) == (offload == "parameters")
    plugin = DeepSpeedPlugin(hf_ds_config="deepspeed.json")
    assert plugin.zero_stage == int(mode[-1])
    assert accelerate_arguments("accelerate.yaml").deepspeed_config_file == "deepspeed.json"


@pytest.mark.parametrize("mode", MODES)
def test_preflight_passes_it(mode, written, tmp_path):
    written(mode=mode)
    for target in ("out/launch.sh", "out/accelerate.yaml"):
        (judgement,) = preflight(Request(Path(target), parse_machine("4xA100-80G"), environment={}))
        assert judgement.findings == ()
    assert judgement.mode.name == {"ddp": "ddp", "fsdp": "fsdp2", "zero2": "zero-2", "zero3": "zero-3"}[mode]


def test_the_numbers_agree(written):
    import yaml

    launch = written(mode="zero3", batch=64)
    engine = json.loads(Path("out/deepspeed.json").read_text())
    arguments = yaml.safe_load(Path("out/training.yaml").read_text())
    assert (
        engine["train_micro_batch_size_per_gpu"]
        == arguments["per_device_train_batch_size"]
        == launch.training.micro_batch
    )
    assert (
        engine["gradient_accumulation_steps"]
        == arguments["gradient_accumulation_steps"]
        == launch.training.accumulation
    )
    assert launch.training.micro_batch * launch.training.accumulation * 4 >= 64
    assert engine["bf16"]["enabled"] is arguments["bf16"] is True


def test_the_choice_depends_on_the_machine(written):
    assert written(TINY).training.mode == "ddp"
    Path("out/accelerate.yaml").unlink()
    Path("out/training.yaml").unlink()
    assert written(SEVEN, sharding="deepspeed").training.mode in ("zero2", "zero3")
    with pytest.raises(UsageError, match="does not fit"):
        written({**SEVEN, "num_hidden_layers": 320}, machine="1x8GB")
    with pytest.raises(UsageError, match="nothing that keeps ddp fits"):
        written(SEVEN, mode="ddp", machine="2x24GB")


def test_nothing_is_overwritten(written):
    launch = written(mode="ddp")
    assert written(mode="ddp").files == launch.files
    with pytest.raises(UsageError, match="there already"):
        written(mode="fsdp")


def test_wrong_modes(written):
    with pytest.raises(UsageError, match="none of ddp"):
        written(mode="zero9")


def test_single_gpu_files():
    files = launch_files(replace(Training(), mode="single"), 1, Path("out"), None)
    assert "distributed_type: 'NO'" in files["accelerate.yaml"]
    assert files["launch.sh"].endswith("train.py\n")


def command_after(source, *arguments, **numbers):
    """The script's arguments in the written command, and what is said that it does not take."""
    from samedevice.preflight.needs.passing import passed

    Path("train.py").write_text(source)
    settings = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 8,
        "gradient_checkpointing": True,
        "bf16": True,
        "fp16": False,
        **numbers,
    }
    told = passed(Path("train.py"), arguments, settings)
    return " ".join(told.arguments), "" if told.missing is None else TextRenderer().text(told.missing)


def test_a_trainer_gets_the_numbers_as_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = (
        "from transformers import HfArgumentParser, Seq2SeqTrainingArguments\n"
        "class Ours(Seq2SeqTrainingArguments): pass\n"
        "parser = HfArgumentParser((Model, Ours))\n"
        "model, arguments = parser.parse_args_into_dataclasses()\n"
    )
    words, missing = command_after(source, "--per_device_train_batch_size", "16", "--epochs=1")
    assert words == (
        "--epochs=1 --per_device_train_batch_size 2 --gradient_accumulation_steps 8 "
        "--gradient_checkpointing True --bf16 True --fp16 False"
    )
    assert missing == ""


def test_a_loop_of_its_own_gets_the_options_that_it_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = (
        "parser.add_argument('--per-device-train-batch-size', type=int, default=8)\n"
        "parser.add_argument('--gradient_checkpointing', action='store_true')\n"
    )
    words, missing = command_after(source, "--lr", "1e-4")
    assert words == "--lr 1e-4 --per-device-train-batch-size 2 --gradient_checkpointing"
    assert missing.endswith("trains with others: gradient_accumulation_steps=8")


@pytest.mark.parametrize(
    ("how", "yes", "no"),
    [
        ("action='store_true'", " --gradient_checkpointing", ""),
        (
            "action=argparse.BooleanOptionalAction",
            " --gradient_checkpointing",
            " --no-gradient_checkpointing",
        ),
        ("type=bool, default=False", " --gradient_checkpointing True", ""),
        ("type=str2bool", " --gradient_checkpointing True", " --gradient_checkpointing False"),
    ],
)
def test_an_option_gets_what_its_parser_takes(how, yes, no, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = f"parser.add_argument('--gradient_checkpointing', {how})\n"
    assert command_after(source, "--lr", "1")[0] == f"--lr 1{yes}"
    assert command_after(source, "--lr", "1", gradient_checkpointing=False)[0] == f"--lr 1{no}"


def test_an_option_of_another_kind_is_told_as_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = "parser.add_argument('--gradient_checkpointing', action='store_false')\n"
    words, missing = command_after(source)
    assert words == ""
    assert "gradient_checkpointing=True" in missing


def test_what_the_script_writes_itself_is_told_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = (
        "from transformers import TrainingArguments\n"
        "arguments = TrainingArguments('out', per_device_train_batch_size=16,\n"
        "    gradient_accumulation_steps=8, gradient_checkpointing=True)\n"
    )
    words, missing = command_after(source)
    assert words == ""
    assert missing.endswith("trains with others: per_device_train_batch_size=2 (line 2 has 16)")
    assert command_after(source, per_device_train_batch_size=16)[1] == ""


def test_a_script_that_reads_a_file_keeps_its_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = (
        "parser = HfArgumentParser(TrainingArguments)\n"
        "arguments = parser.parse_json_file(sys.argv[1]) or parser.parse_args_into_dataclasses()\n"
    )
    words, missing = command_after(source, "run.json")
    assert words == "run.json"
    assert missing.startswith("run.json takes these numbers of the plan from no option")


@pytest.mark.parametrize("source", ["def broken(:", "x = 1\0", "(" * 5000])
def test_a_script_that_cannot_be_read_is_left_alone(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command_after(source, "--epochs", "1") == ("--epochs 1", "")


def test_the_written_launch_says_what_is_missing(written):
    launch = written(mode="ddp", batch=64)
    assert launch.missing is not None
    shell, said, command = Path("out/launch.sh").read_text().splitlines()
    assert (shell, command.split()[-2:]) == ("#!/bin/sh", ["--epochs", "1"])
    assert said.startswith("# train.py takes these numbers of the plan from no option")
