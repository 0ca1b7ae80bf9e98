"""What a launch is refused for by its command, its settings and the arguments of its program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samedevice.messages import Phrase
from samedevice.preflight.launch import Launch, visible_of
from samedevice.preflight.verdict.refusal import Refusal, devices_text, map_text, shards
from samedevice.static import SPREADING, Document, given_options

_MAP = "device-map-in-multi-process-launch"
_READ_BY_TOOLS = (
    "NPROC_PER_NODE",
    "NNODES",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "FORCE_TORCHRUN",
    "CUDA_VISIBLE_DEVICES",
)


def of_arguments(launch: Launch) -> Iterator[Refusal]:
    """From the arguments of the program, and from the files that hold them."""
    given = given_options(launch.arguments, launch.training)
    yield from _map_of_arguments(launch, given)
    yield from _of_tool(launch, given)


def of_settings(launch: Launch) -> Iterator[Refusal]:
    """From the launch itself and the settings of its launcher."""
    where = _command(launch)
    if launch.processes > max(1, len(launch.visible)) and launch.launcher.starts:
        values = {"processes": str(launch.processes), "gpus": str(len(launch.visible))}
        settings = launch.accelerate
        file, line = (
            (settings.file, settings.line("num_processes"))
            if settings is not None and launch.asked is None
            else where
        )
        yield Refusal(
            "processes-exceed-gpus",
            file,
            line,
            Phrase("because.too-many", **values),
            repair="fewer-processes",
            detail={"gpus": len(launch.visible)},
        )
    if lost := _lost(launch):
        line = launch.unexported[lost[0]][0]
        yield Refusal(
            "launch-variable-not-exported",
            where[0],
            line,
            Phrase("because.not-exported", name=", ".join(lost)),
            repair="export",
            detail={"names": lost},
        )
    yield from _of_accelerate(launch)
    yield from _of_deepspeed(launch)


def _lost(launch: Launch) -> list[str]:
    """Variables that the started program would read, that the script sets, and that never reach it.

    Harmless ones are left out.
    """
    read = _READ_BY_TOOLS if launch.tool is not None else ("CUDA_VISIBLE_DEVICES",)
    found = [name for name in read if name in launch.unexported]
    if "CUDA_VISIBLE_DEVICES" in found:
        meant = visible_of(launch.unexported["CUDA_VISIBLE_DEVICES"][1], len(launch.visible))
        used = (
            launch.processes if launch.processes > 1 else len(launch.visible)
        )  # each of several ranks takes the GPU of its number
        if meant[:used] == launch.visible[:used]:
            found.remove("CUDA_VISIBLE_DEVICES")
    return found


def _of_accelerate(launch: Launch) -> Iterator[Refusal]:
    settings = launch.accelerate
    if settings is None:
        return
    kind = launch.distributed_type
    yield from _kind_and_number(launch, settings)
    ids = settings.get("gpu_ids")
    listed = isinstance(ids, (str, int)) and str(ids) != "all"
    if listed and kind == "MULTI_GPU" and len(str(ids).split(",")) < 2:
        yield _contradiction(settings, "gpu_ids", Phrase("because.one-id", ids=str(ids)), value="all")
    inline = settings.get("deepspeed_config")
    if kind == "DEEPSPEED" and isinstance(inline, dict) and inline.get("deepspeed_config_file"):
        extra = [f"deepspeed_config.{key}" for key in sorted(_OWNED_BY_FILE & inline.keys())]
        if extra:
            keys = ", ".join(key.rpartition(".")[2] for key in extra)
            reason = Phrase("because.keys-twice", keys=keys)
            yield _contradiction(settings, extra[0], reason, remove=tuple(extra))
    for section, wanted in (("deepspeed_config", "DEEPSPEED"), ("fsdp_config", "FSDP")):
        filled = isinstance(settings.get(section), dict) and settings.get(section)
        if kind in ("NO", "MULTI_GPU") and filled:
            unused = Phrase("because.section-unused", section=section, kind=kind)
            yield _contradiction(settings, section, unused, set="distributed_type", value=wanted)
    if launch.launcher.in_front and not launch.launcher.reads_configuration:
        reason = Phrase("because.not-read", launcher=launch.launcher.name)
        yield _contradiction(settings, "distributed_type", reason, value="")


def _kind_and_number(launch: Launch, settings: Document) -> Iterator[Refusal]:
    """The distributed type and the number of processes, which say the same."""
    kind, count = launch.distributed_type, settings.get("num_processes")
    total = count if isinstance(count, int) else launch.processes
    total = total if launch.asked is None else launch.asked
    reason = Phrase("because.kind-and-number", kind=kind, processes=total)
    if kind == "NO" and total > 1:
        yield _contradiction(settings, "distributed_type", reason, value="MULTI_GPU")
    if kind == "MULTI_GPU" and total == 1:
        yield _contradiction(settings, "distributed_type", reason, value="'NO'")


def _of_deepspeed(launch: Launch) -> Iterator[Refusal]:
    """DeepSpeed demands that its three numbers and the processes agree.

    Source: `deepspeed/runtime/config.py`, `_batch_assertion`.
    """
    settings = launch.deepspeed
    if settings is None or not launch.launcher.starts:
        return
    batch, micro = settings.get("train_batch_size"), settings.get("train_micro_batch_size_per_gpu")
    given = settings.get("gradient_accumulation_steps")
    if (
        not isinstance(batch, int)
        or not isinstance(micro, int)
        or not (given is None or isinstance(given, int))
        or micro < 1
    ):
        return
    steps = given if given is not None else max(1, batch // (micro * launch.group))
    meant, rest = divmod(batch, max(1, micro * steps))
    if launch.script is None and launch.asked is None and rest == 0 and 0 < meant <= launch.group:
        return  # nobody said how many processes there are, and the file fits fewer
    if micro * steps * launch.group != batch:
        values = {
            "batch": str(batch),
            "micro": str(micro),
            "steps": str(steps),
            "processes": str(launch.group),
        }
        reason = Phrase("because.batch-sizes", **values, product=str(micro * steps * launch.group))
        yield _contradiction(settings, "train_batch_size", reason, value=micro * steps * launch.group)


_OWNED_BY_FILE = frozenset(
    {
        "gradient_accumulation_steps",
        "gradient_clipping",
        "zero_stage",
        "offload_optimizer_device",
        "offload_param_device",
        "zero3_save_16bit_model",
    }
)
"""Keys that accelerate refuses beside `deepspeed_config_file` (`accelerate/utils/dataclasses.py`,
`DeepSpeedPlugin`).
"""


def _contradiction(settings: Document, key: str, reason: Phrase, **detail: Any) -> Refusal:
    return Refusal(
        "launch-config-contradiction",
        settings.file,
        settings.line(key),
        reason,
        repair="setting",
        detail={"key": key, "settings": settings, **detail},
    )


def _map_of_arguments(launch: Launch, given: Mapping[str, Any]) -> Iterator[Refusal]:
    """A map among the arguments of a program that is not at hand."""
    device_map = given.get("device_map")
    named = isinstance(device_map, (str, dict)) and device_map not in ("none", "None", "")
    if launch.script is not None or not named:
        return
    zero3, several = launch.zero_stage == 3, launch.distributed or shards(launch)
    if isinstance(device_map, dict):
        split = len(set(map(str, device_map.values()))) > 1
    else:
        split = device_map in SPREADING
    if not zero3 and not (several and split):
        return
    values = {
        "map": map_text(device_map, False),
        "processes": str(launch.group),
        "devices": devices_text(tuple(f"cuda:{index}" for index in range(len(launch.visible)))),
    }
    reason = Phrase("because.map-zero3" if zero3 else "because.map-launched", **values)
    file, line = _written(launch, "device_map")
    yield Refusal(_MAP, file, line, reason, repair="no-option", detail={"name": "device_map"})


def _of_tool(launch: Launch, given: Mapping[str, Any]) -> Iterator[Refusal]:
    """What an installed program makes of its arguments."""
    tool = launch.tool
    if tool is None:
        return
    for name in tool.mapped_by:
        if launch.zero_stage == 3 and given.get(name) not in (None, False, "false", "False"):
            file, line = _written(launch, name)
            reason = Phrase("because.tool-maps", tool=tool.name, option=name)
            yield Refusal(_MAP, file, line, reason, repair="no-option", detail={"name": name})
    gpus = len(launch.visible)
    alone = tool.maps_alone and launch.processes == 1 and gpus > 1 and "device_map" not in given
    if alone and (launch.cluster or launch.distributed_type == "DEEPSPEED"):
        file, line = _command(launch)
        yield Refusal(_MAP, file, line, Phrase("because.tool-maps-alone", tool=tool.name, gpus=gpus))


def _written(launch: Launch, name: str) -> tuple[Path, int]:
    if launch.training is not None and name in launch.training.data:
        return launch.training.file, launch.training.line(name)
    for word in launch.arguments:
        if word.lstrip("-").partition("=")[0].replace("-", "_") == name and word.origin is not None:
            return word.origin.file, word.origin.line
    return _command(launch)


def _command(launch: Launch) -> tuple[Path, int]:
    if launch.origin is not None:
        return launch.origin.file, launch.origin.line
    settings = launch.accelerate or launch.training or launch.deepspeed
    file = launch.script or (settings.file if settings is not None else Path("-"))
    return file, 0
