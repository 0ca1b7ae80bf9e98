"""What files and arguments say of a launch: accelerate's configuration, DeepSpeed's, training arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from samedevice.preflight.launch.launch import Launch
from samedevice.static import UNTOLD, Document, Text, read_document

_TRAINING = frozenset(
    "output_dir model_name_or_path base_model model_id model_path model_type per_device_train_batch_size "
    "per_device_eval_batch_size micro_batch_size gradient_accumulation_steps learning_rate "
    "num_train_epochs num_epochs max_steps warmup_steps warmup_ratio lr_scheduler_type optim bf16 fp16 "
    "tf32 deepspeed fsdp fsdp_config device_map load_in_4bit load_in_8bit quantization_bit "
    "gradient_checkpointing ddp_find_unused_parameters ddp_backend finetuning_type lora_r lora_rank "
    "lora_target adapter sequence_len cutoff_len max_seq_length max_length dataset_name train_file "
    "do_train train_type save_steps logging_steps".split()
)
"""Names of training arguments; one of them makes a document more than a heap of settings."""


def with_configuration(launch: Launch, settings: Document, asked: int | None) -> Launch:
    """The launch with accelerate's configuration file read into it, or DeepSpeed's."""
    if is_deepspeed(settings):
        stage = settings.get("zero_optimization.stage", 0)
        return replace(launch, deepspeed=settings, zero_stage=stage if isinstance(stage, int) else None)
    kind = str(settings.get("distributed_type") or "NO").upper().replace("'", "")
    count = settings.get("num_processes")
    nodes = settings.get("num_machines") or 1
    total = (
        asked if asked is not None else count if isinstance(count, int) and count > 0 else launch.processes
    )
    nodes = nodes if isinstance(nodes, int) and nodes > 0 else 1
    visible = launch.visible
    ids = settings.get("gpu_ids")
    if isinstance(ids, (str, int)) and not isinstance(ids, bool) and str(ids) != "all":
        wanted = [int(part) for part in str(ids).split(",") if part.strip().isdigit()]
        visible = tuple(index for index in wanted if index in visible)
    launch = replace(
        launch,
        processes=max(1, total // nodes) if total >= nodes else total,
        nodes=nodes,
        accelerate=settings,
        distributed_type=kind,
        visible=visible,
    )
    if kind == "DEEPSPEED":
        launch = _with_deepspeed(launch, settings)
    if kind == "FSDP":
        version = settings.get("fsdp_config.fsdp_version", 1)
        launch = replace(launch, fsdp_version=version if isinstance(version, int) else 1)
    return launch


def _with_deepspeed(launch: Launch, settings: Document) -> Launch:
    inline = settings.get("deepspeed_config") or {}
    if not isinstance(inline, dict):
        return launch
    stage = inline.get("zero_stage", 2)
    if isinstance(file := inline.get("deepspeed_config_file"), str):
        path = beside(Path.cwd(), file) or beside(settings.file.parent, file)
        if path is not None:
            found = read_document(path)
            stage = found.get("zero_optimization.stage", 0)
            launch = replace(launch, deepspeed=found)
        else:
            stage = None
    return replace(launch, zero_stage=stage if isinstance(stage, int) else None)


def is_deepspeed(settings: Document) -> bool:
    """Whether a document is DeepSpeed's own configuration."""
    return bool(
        {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"} & settings.data.keys()
    ) and ("output_dir" not in settings.data and "distributed_type" not in settings.data)


def is_training(settings: Document) -> bool:
    """Whether a document holds training arguments.

    Names that transformers, TRL, LLaMA-Factory, axolotl or ms-swift read.
    """
    return bool(_TRAINING & settings.data.keys())


def is_accelerate(settings: Document) -> bool:
    """Whether a document is accelerate's configuration."""
    return bool({"distributed_type", "compute_environment", "num_machines"} & settings.data.keys())


def with_arguments(launch: Launch, folder: Path) -> Launch:
    """The launch with what the script's own arguments say of DeepSpeed, FSDP and further files."""
    words = list(launch.arguments)
    if len(words) >= 1 and Path(words[0]).suffix in (".yaml", ".yml", ".json") and launch.training is None:
        path = beside(folder, words[0])
        if path is not None:
            settings = read_document(path)
            launch = with_training(launch, settings, folder)
    for name in ("deepspeed", "deepspeed_config"):
        value = option(words, name)
        if isinstance(value, str) and launch.deepspeed is None:
            launch = with_deepspeed_file(launch, value, folder)
    fsdp = option(words, "fsdp")
    if isinstance(fsdp, str) and fsdp and fsdp.lower() not in ("false", "none"):
        launch = replace(launch, distributed_type="FSDP", fsdp_version=launch.fsdp_version or 1)
    return launch


def with_training(launch: Launch, settings: Document, folder: Path) -> Launch:
    """The launch with a file of training arguments."""
    launch = replace(launch, training=settings)
    value = settings.get("deepspeed")
    if isinstance(value, str):
        launch = with_deepspeed_file(launch, value, folder, settings.file.parent)
    elif isinstance(value, dict):
        stage = settings.get("deepspeed.zero_optimization.stage")
        launch = replace(
            launch, zero_stage=stage if isinstance(stage, int) else 0, distributed_type="DEEPSPEED"
        )
    fsdp = settings.get("fsdp")
    if fsdp or (settings.get("fsdp_config") and settings.get("fsdp_version") is not None):
        version = settings.get("fsdp_version", settings.get("fsdp_config.fsdp_version", 1))
        launch = replace(
            launch, distributed_type="FSDP", fsdp_version=version if isinstance(version, int) else 1
        )
    return launch


def with_deepspeed_file(launch: Launch, value: str, folder: Path, other: Path | None = None) -> Launch:
    """The launch with the file that DeepSpeed itself gets, by its path or by ms-swift's name for it."""
    named = re.fullmatch(
        r"(?:default-)?zero([0-3])(?:[_-]offload)?", value
    )  # ms-swift's own names for its files
    if named:
        return replace(launch, zero_stage=int(named[1]), distributed_type="DEEPSPEED")
    path = beside(folder, value) or (beside(other, value) if other is not None else None)
    if path is None:
        return replace(launch, distributed_type="DEEPSPEED")
    found = read_document(path)
    stage = found.get("zero_optimization.stage", 0)
    return replace(
        launch,
        deepspeed=found,
        zero_stage=stage if isinstance(stage, int) else None,
        distributed_type="DEEPSPEED",
    )


def option(words: Sequence[str], name: str) -> Any:
    """The value of `--name value` or `--name=value`; None when it is not there, True when it has no value."""
    spellings = {f"--{name}", f"--{name.replace('_', '-')}"}
    for index, word in enumerate(words):
        head, has_value, value = word.partition("=")
        if head in spellings:
            if has_value:
                return Text(value, getattr(word, "origin", None))
            following = words[index + 1] if index + 1 < len(words) else None
            return True if following is None or following.startswith("--") else following
    return None


def without_option(words: Sequence[str], name: str) -> tuple[str, ...]:
    """Arguments without `--name value`."""
    kept: list[str] = []
    skip = False
    for index, word in enumerate(words):
        if skip:
            skip = False
            continue
        head, has_value, _ = word.partition("=")
        if head in (f"--{name}", f"--{name.replace('_', '-')}"):
            skip = not has_value and index + 1 < len(words) and not words[index + 1].startswith("-")
            continue
        kept.append(str(word))
    return tuple(kept)


def beside(folder: Path, name: str) -> Path | None:
    """A file as a path in a folder; None when it is not there."""
    if UNTOLD in name:
        return None
    path = Path(name) if Path(name).is_absolute() else folder / name
    return path if path.is_file() else None
