"""The files of a launch that works, and its command.

Accelerate's configuration, DeepSpeed's where it is wanted, and training arguments that agree with both.

Must guarantee: the same numbers in every file (DeepSpeed and the Trainer refuse a disagreement), no file of
another content overwritten, and at the top of the configuration three lines that say why.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from samedevice.errors import UsageError
from samedevice.findings import Renderer
from samedevice.machines import Machine
from samedevice.messages import Bytes, Phrase
from samedevice.planner import (
    ATTENTION,
    RESERVE,
    Full,
    Lora,
    Mode,
    Sharding,
    Training,
    TrainingShape,
    Tuning,
    capacity,
    choose_launch,
    describe,
    describe_host,
    describe_moment,
    largest_micro_batch,
    parted,
    training_memory,
)
from samedevice.preflight.needs.passing import passed
from samedevice.preflight.needs.program import training_program

MODES: tuple[Mode, ...] = ("ddp", "fsdp", "zero2", "zero3")
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
_DISTRIBUTED_TYPE = {
    "single": "'NO'",
    "ddp": "MULTI_GPU",
    "fsdp": "FSDP",
    "zero1": "DEEPSPEED",
    "zero2": "DEEPSPEED",
    "zero3": "DEEPSPEED",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a launch is written for; without a mode, the planner chooses one."""

    model: Path
    batch: int = 1
    """Samples of one optimizer step over all GPUs; at least that many."""
    context: int = 2048
    mode: str | None = None
    sharding: Sharding = "fsdp"
    tuning: Tuning = field(default_factory=Full)


class NothingFits(UsageError):
    """No way of training fits the machine."""


@dataclass(frozen=True, slots=True)
class WrittenLaunch:
    """Files that were written, and why this launch."""

    files: tuple[Path, ...]
    why: tuple[Phrase, ...]
    training: Training
    missing: Phrase | None = None
    """Numbers of it that the script does not take from its launch."""

    @property
    def told(self) -> tuple[Phrase, ...]:
        """What there is to say of it, in order."""
        missing = () if self.missing is None else (self.missing,)
        return (*self.why, *missing, Phrase("preflight.written", files=", ".join(map(str, self.files))))


def write_launch(
    folder: Path,
    wanted: Wanted,
    machine: Machine,
    script: Path | None,
    arguments: Sequence[str],
    renderer: Renderer,
) -> WrittenLaunch:
    """Write the files into `folder`, with the reasons as comments.

    Raises `UsageError` when nothing fits, or a file of another content is in the way.
    """
    training, why = chosen_training(wanted, machine)
    reasons = [renderer.text(each) for each in why]
    told = passed(script, arguments, training_arguments(training))
    files = launch_files(training, _processes(training, machine), folder, script, told.arguments, reasons)
    if told.missing is not None:
        first, command = files["launch.sh"].split("\n", 1)
        files["launch.sh"] = f"{first}\n# {renderer.text(told.missing)}\n{command}"
    return WrittenLaunch(_put(folder, files), why, training, told.missing)


def write_training(
    folder: Path, training: Training, model: str, machine: Machine, why: Sequence[str]
) -> tuple[Path, ...]:
    """Write the files of a way of training that was chosen into `folder`, with a program that trains by it.

    `model` is as a program names it. Raises `UsageError` when a file of another content is in the way.
    """
    program, settings = folder / "train.py", (folder / "training.yaml").as_posix()
    files = launch_files(training, _processes(training, machine), folder, program, [settings], why)
    # What follows the name of launch.sh are the texts.
    files["launch.sh"] = files["launch.sh"].rstrip("\n") + ' "$@"\n'
    return _put(folder, {**files, "train.py": training_program(training, model)})


def _processes(training: Training, machine: Machine) -> int:
    return 1 if training.mode == "single" else training.chosen_ranks or len(machine.gpus)


def _put(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Write the files, none over one of another content."""
    paths = {folder / name: text for name, text in files.items()}
    for path, text in paths.items():
        if path.exists() and (not path.is_file() or path.read_text("utf-8") != text):
            raise UsageError(Phrase("preflight.in-the-way", path=str(path)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(
            Phrase("file.unreadable", path=str(folder), reason=error.strerror or str(error))
        ) from None
    return tuple(paths)


def launch_files(
    training: Training,
    processes: int,
    folder: Path,
    script: Path | None,
    arguments: Sequence[str] = (),
    why: Sequence[str] = (),
) -> dict[str, str]:
    """Names and contents of the files for a way of training that was decided.

    Paths in them are seen from the working folder.
    """
    words = [
        "accelerate",
        "launch",
        "--config_file",
        (folder / "accelerate.yaml").as_posix(),
        str(script or "train.py"),
        *arguments,
    ]
    found = {
        "accelerate.yaml": _yaml(_accelerate(training, processes, folder), why),
        "training.yaml": _yaml(
            training_arguments(training), ("for TrainingArguments; it has to agree with accelerate.yaml",)
        ),
        "launch.sh": f"#!/bin/sh\n{shlex.join(words)}\n",
    }
    if training.mode.startswith("zero"):
        found["deepspeed.json"] = json.dumps(_deepspeed(training), indent=2) + "\n"
    return found


def wanted_training(wanted: Wanted, shape: TrainingShape) -> Training:
    """What is asked of the planner; adapters of a model with experts are on its attention."""
    tuning = wanted.tuning
    if isinstance(tuning, Lora) and shape.dimensions is not None and shape.dimensions.experts:
        tuning = replace(tuning, targets=ATTENTION)
    return Training(context=wanted.context, tuning=tuning)


def chosen_training(
    wanted: Wanted, machine: Machine, reserve: int = RESERVE
) -> tuple[Training, tuple[Phrase, ...]]:
    """The way of training that fits, with the reasons in three sentences.

    Raises `NothingFits` when nothing does, and `UsageError` for a mode that is none of `MODES`.
    """
    shape = TrainingShape.from_folder(wanted.model)
    basis = wanted_training(wanted, shape)
    if wanted.mode is None:
        plan = choose_launch(
            shape,
            machine,
            basis,
            global_batch=wanted.batch,
            sharding=wanted.sharding,
            reserve=reserve,
        )
        if not plan.fits:
            what, needs, why = plan.explain()
            raise NothingFits(Phrase("plan.whole", what=what, needs=needs, why=why))
        return plan.training, plan.explain()
    mode = next((each for each in MODES if each == wanted.mode), None)
    if mode is None:
        raise UsageError(Phrase("preflight.mode", given=wanted.mode, known=", ".join(MODES)))
    ranks = len(machine.gpus)
    share = -(-wanted.batch // ranks)
    for way in _ways(replace(basis, mode=mode, accumulation=2 if share > 1 else 1)):
        found = largest_micro_batch(shape, machine, way, reserve)
        if found:
            micro, steps = parted(share, found)
            training = replace(way, micro_batch=micro, accumulation=steps)
            estimate = training_memory(shape, machine, training)
            batch = micro * steps * ranks
            what = Phrase(
                "plan.what",
                way=describe(training),
                micro=training.micro_batch,
                accumulation=steps,
                ranks=ranks,
                batch=batch,
            )
            needs = Phrase(
                "plan.needs",
                peak=Bytes(estimate.peak, "GiB"),
                limit=Bytes(capacity(machine, reserve), "GiB"),
                moment=describe_moment(estimate.worst),
                host=describe_host(estimate),
            )
            return training, (what, needs, Phrase("preflight.asked-mode", mode=mode))
    raise NothingFits(Phrase("preflight.no-fit", mode=mode, machine=machine.spec))


def _ways(training: Training) -> list[Training]:
    """What keeps the mode and saves memory, cheapest first."""
    found = [training, replace(training, checkpointing=True)]
    if training.mode in ("zero2", "zero3"):
        found.append(replace(training, checkpointing=True, offload="optimizer"))
    if training.mode in ("fsdp", "zero3"):
        found.append(replace(training, checkpointing=True, offload="parameters"))
    return found


def _mixed(training: Training) -> str:
    return training.precision.partition("-")[0] if training.precision.endswith("-mixed") else "no"


def _accelerate(training: Training, processes: int, folder: Path) -> dict[str, Any]:
    """What `accelerate config` would write (`accelerate/commands/config/config_args.py`, `ClusterConfig`)."""
    config: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": _DISTRIBUTED_TYPE[training.mode],
        "num_machines": 1,
        "machine_rank": 0,
        "num_processes": processes,
        "gpu_ids": "all",
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
        "debug": False,
    }
    if training.mode.startswith(
        "zero"
    ):  # its own file says precision and accumulation; accelerate refuses to hear them twice
        config["deepspeed_config"] = {
            "deepspeed_config_file": (folder / "deepspeed.json").as_posix(),
            "zero3_init_flag": training.mode == "zero3",
        }
        return config
    config["mixed_precision"] = f"'{_mixed(training)}'"
    if training.mode == "fsdp":
        config["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": True,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_offload_params": training.offload == "parameters",
            "fsdp_activation_checkpointing": training.checkpointing,
        }
    return config


def _deepspeed(training: Training) -> dict[str, Any]:
    """DeepSpeed's configuration (`deepspeed/runtime/config.py`); an optimizer is the script's own."""
    zero: dict[str, Any] = {
        "stage": int(training.mode[-1]),
        "overlap_comm": True,
        "contiguous_gradients": True,
    }
    if training.offload in ("optimizer", "parameters"):
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if training.offload == "parameters":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    if training.mode == "zero3":
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": training.micro_batch,
        "gradient_accumulation_steps": training.accumulation,
        "gradient_clipping": 1.0,
        "zero_optimization": zero,
        "bf16": {"enabled": training.precision.startswith("bf16")},
        "fp16": {"enabled": training.precision.startswith("fp16")},
    }
    if training.offload != "none":
        config["zero_force_ds_cpu_optimizer"] = False
    return config


def training_arguments(training: Training) -> dict[str, Any]:
    """Arguments of `TrainingArguments` that agree with the launch."""
    return {
        "per_device_train_batch_size": training.micro_batch,
        "gradient_accumulation_steps": training.accumulation,
        "gradient_checkpointing": training.checkpointing and training.mode != "fsdp",
        "max_grad_norm": 1.0,
        "bf16": training.precision.startswith("bf16"),
        "fp16": training.precision.startswith("fp16"),
    }


def _yaml(values: Mapping[str, Any], why: Sequence[str]) -> str:
    """Plain YAML: what is quoted comes quoted."""
    lines = [f"# {line}" for line in why]
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"{name}:")
            lines += [f"  {key}: {_scalar(each)}" for key, each in value.items()]
        else:
            lines.append(f"{name}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
