"""What a launch is refused for: facts of every rank beside what the launch is. No check knows any script by
name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from samedevice.messages import Phrase
from samedevice.preflight.launch import Launch, visible_of
from samedevice.static import (
    SPREADING,
    UNKNOWN,
    Document,
    External,
    Fact,
    Instance,
    Model,
    Placement,
    given_options,
)

_MAP = "device-map-in-multi-process-launch"
_STATE_AT_BIRTH = ("Adagrad",)
"""Optimizers of torch that make their state when they are built (`torch/optim/adagrad.py`, `__init__`)."""
_READ_BY_TOOLS = (
    "NPROC_PER_NODE",
    "NNODES",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "FORCE_TORCHRUN",
    "CUDA_VISIBLE_DEVICES",
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is wrong, with what a repair needs."""

    rule: str
    file: Path
    line: int
    reason: Phrase
    node: ast.AST | None = None
    fact: Fact | None = None
    repair: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


def refusals(launch: Launch, ranks: Sequence[Sequence[Fact]]) -> list[Refusal]:
    """Every refusal of a launch, once each; what stands under a condition that could not be told is left
    out.
    """
    found = list(_of_settings(launch))
    shared = _shared(ranks)
    for facts in ranks:
        told = [_with_sharing(fact, shared) for fact in facts if not fact.maybe]
        for check in (
            _maps,
            _data_parallel,
            _moves,
            _current_device,
            _optimizers,
            _checkpoints,
            _losses,
            _trainers,
        ):
            found += check(launch, told)
    found += _of_launch(launch)
    unique: dict[tuple[str, Path, int], Refusal] = {}
    for each in found:
        unique.setdefault((each.rule, each.file, each.line), each)
    return list(unique.values())


def _shared(ranks: Sequence[Sequence[Fact]]) -> set[tuple[int, int | None]]:
    """Places of the program and the GPU that every rank means there. A device that is computed from the rank
    is not among them.
    """
    meant = [{(id(fact.node), fact["gpu"]) for fact in facts if fact["own"] is not None} for facts in ranks]
    return set.intersection(*[each for each in meant if each]) if any(meant) else set()


def _with_sharing(fact: Fact, shared: set[tuple[int, int | None]]) -> Fact:
    """The fact, which does not count as another rank's GPU unless all ranks mean the same one there."""
    if fact["own"] is not False or (id(fact.node), fact["gpu"]) in shared:
        return fact
    return replace(fact, values=fact.values | {"own": None})


def shards(launch: Launch) -> bool:
    """Whether accelerate counts the launch as distributed whatever the number of processes."""
    return launch.distributed_type == "DEEPSPEED"


# From the facts of a rank


def _maps(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    trained = {id(fact["model"]) for fact in facts if fact.kind in ("prepare", "trainer", "wrap")}
    asked = {fact["by"]: fact for fact in facts if fact.kind == "sharding"}
    deepspeed, fsdp = (
        shards(launch) or "DeepSpeed" in asked,
        launch.distributed_type == "FSDP" or bool({"FSDP", "FSDP2"} & asked.keys()),
    )
    zero3 = 3 in (launch.zero_stage, *(fact["stage"] for fact in asked.values()))
    for fact in facts:
        if fact.kind != "load" or fact["sharded"]:
            continue
        placement: Placement = fact["placement"]
        several = (fact["world"] or 1) > 1 or launch.cluster
        shown = map_text(fact["map"], fact["implied"])
        where = {
            "map": shown,
            "processes": str(max(fact["world"] or 1, launch.group)),
            "devices": devices_text(placement.devices),
        }
        if fact["gpus"] == 0:
            continue
        if fact["zero3"] and (fact["map"] is not None or fact["implied"]) and fact["map"] is not UNKNOWN:
            yield _refusal(_MAP, fact, Phrase("because.map-zero3", **where), "no-map")
        elif fact["zero3"] and fact["low_memory"] is True and _transformers_before_5():
            yield _refusal(
                _MAP,
                fact,
                Phrase("because.low-memory-zero3", **where),
                "no-low-memory",
            )
        elif placement.kind == "split" and several:
            reason = _several_maps(fact["bits"] in (4, 8), fsdp, where)
            no_map = (zero3 and not fact["bits"]) or (fsdp and fact["bits"] not in (4, 8))
            yield _refusal(_MAP, fact, reason, "no-map" if no_map else "rank-map")
        elif placement.kind == "split" and deepspeed and id(fact["model"]) in trained:
            yield _refusal(
                _MAP,
                fact,
                Phrase("because.map-deepspeed", **where),
                "no-map" if zero3 else "rank-map",
            )
        elif (
            placement.kind == "device"
            and several
            and fact["map"] is not None
            and _one_gpu_for_all(launch, fact)
        ):
            yield _refusal(
                _MAP,
                fact,
                Phrase("because.map-same-gpu", **where),
                "rank-map",
            )


def _several_maps(quantized: bool, fsdp: bool, where: dict[str, str]) -> Phrase:
    if quantized:
        return Phrase("because.map-quantized", **where)
    return Phrase("because.map-fsdp" if fsdp else "because.map-launched", **where)


def _one_gpu_for_all(launch: Launch, fact: Fact) -> bool:
    """The map names a GPU that is not the one of this rank."""
    return fact["own"] is False


def _transformers_before_5() -> bool:
    try:
        return Version(version("transformers")).major < 5
    except (PackageNotFoundError, InvalidVersion):
        return True


def _data_parallel(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    for fact in facts:
        if fact.kind == "wrap" and fact["by"] == "DataParallel":
            placement: Placement = fact["placement"]
            if placement.kind == "split":
                yield _refusal(
                    "data-parallel-replica-device",
                    fact,
                    Phrase(
                        "because.wrapped-split", devices=devices_text(placement.devices), by="DataParallel"
                    ),
                    "unwrap",
                )
                continue
            ids = fact["ids"]
            first = (
                ids[0]
                if isinstance(ids, (list, tuple)) and ids and isinstance(ids[0], int)
                else 0
                if ids is None
                else None
            )
            if (
                placement.kind == "device"
                and first is not None
                and fact["world"] == 1
                and placement.devices[0] != f"cuda:{first}"
            ):
                values = {"device": placement.devices[0], "first": f"cuda:{first}"}
                yield _refusal(
                    "data-parallel-replica-device", fact, Phrase("because.wrapped-elsewhere", **values), ""
                )


def _moves(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    refused = {id(each.fact["model"]) for each in _maps(launch, facts) if each.fact is not None}
    for fact in facts:
        if fact.kind == "move" and isinstance(fact["model"], Model) and id(fact["model"]) not in refused:
            before: Placement = fact["before"]
            if before.kind == "split" and before.spread and fact["model"].map is not None:
                values = {"map": map_text(fact["model"].map, False), "devices": devices_text(before.devices)}
                yield _refusal(
                    "dispatched-model-moved", fact, Phrase("because.moved-whole", **values), "no-move"
                )


def _current_device(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    started = [fact for fact in facts if fact.kind == "group" and fact["backend"] != "gloo"]
    wrapped = [fact for fact in facts if fact.kind == "wrap" and fact["by"] in ("DDP", "FSDP", "FSDP2")]
    if not (started or wrapped):
        return
    for fact in facts:
        if (
            fact.kind in ("move", "use")
            and fact["own"] is False
            and not (fact.kind == "move" and fact["before"].kind == "split")
        ):
            values = {"device": str(fact["device"]), "processes": str(fact["world"])}
            current = fact["bare"] or fact.kind == "use"
            yield _refusal(
                "rank-device-not-set",
                fact,
                Phrase("because.current-device" if current else "because.fixed-device", **values),
                "set-device" if current else "rank-device",
                started=started,
            )
            return


def _optimizers(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    built: list[Fact] = []
    loaded: list[Fact] = []
    for fact in facts:
        if fact.kind == "optimizer" and fact["model"] is not None:
            built.append(fact)
        elif fact.kind == "optimizer-load" and fact["placement"].kind == "host":
            loaded.append(fact)
        elif fact.kind == "move" and fact["device"] is not None and fact["device"].type == "cuda":
            for earlier in loaded:
                if earlier["optimizer"].model is fact["model"]:
                    yield _refusal(
                        "optimizer-state-on-other-device",
                        earlier,
                        Phrase("because.state-before-move", line=str(_line(fact))),
                        "move-first",
                        move=fact,
                    )
            for earlier in built:
                if (
                    earlier["model"] is fact["model"]
                    and earlier["optimizer"].name in _STATE_AT_BIRTH
                    and earlier["placement"].kind == "host"
                ):
                    values = {"optimizer": earlier["optimizer"].name, "line": str(_line(fact))}
                    yield _refusal(
                        "optimizer-built-before-move",
                        earlier,
                        Phrase("because.state-at-birth", **values),
                        "move-first",
                        move=fact,
                    )
        elif fact.kind == "wrap" and fact["by"] in ("FSDP", "FSDP2"):
            for earlier in built:
                if earlier["model"] is fact["model"]:
                    yield _refusal(
                        "optimizer-built-before-move",
                        earlier,
                        Phrase("because.parameters-replaced", line=str(_line(fact))),
                        "move-first",
                        move=fact,
                    )


def _checkpoints(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    for fact in facts:
        if fact.kind == "resume" and not fact["checkpoint"].mapped and (fact["world"] or 1) > 1:
            node = fact["load"]
            values = {"processes": str(fact["world"])}
            yield Refusal(
                "checkpoint-map-location",
                fact["load_file"],
                getattr(node, "lineno", 1),
                Phrase("because.loaded-by-all", **values),
                node,
                fact,
                "map-location",
            )


def _losses(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    for fact in facts:
        if fact.kind == "mismatch" and fact["what"] == "loss":
            yield _refusal(
                "loss-or-label-on-other-device",
                fact,
                Phrase("because.loss-apart", devices=", ".join(fact["devices"])),
                "loss",
            )


def _trainers(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    if launch.launcher.starts or launch.cluster or launch.tool is not None or shards(launch):
        return
    if any(fact.kind == "sharding" for fact in facts):
        return  # `TrainingArguments` with DeepSpeed count one GPU
    for fact in facts:
        model, arguments = fact["model"], fact["arguments"]
        if (
            fact.kind != "trainer"
            or (fact["gpus"] or 0) < 2
            or fact["world"] != 1
            or not isinstance(model, Model)
        ):
            continue
        given = arguments.attributes if isinstance(arguments, Instance) else {}
        if (
            given.get("use_cpu") is True
            or given.get("no_cuda") is True
            or given.get("_n_gpu") == 1
            or model.wrapped == "model-parallel"
        ):
            continue
        if model.bits in (4, 8):
            continue  # transformers wraps no such model (`Trainer._wrap_model`)
        if fact["placement"].kind in ("host", "device") and not model.sharded:
            values = {"gpus": str(fact["gpus"]), "trainer": str(fact["name"])}
            yield _refusal(
                "trainer-chooses-data-parallel",
                fact,
                Phrase("because.trainer-sees", **values),
                "one-process-each",
            )


# From the launch and its files


def _of_launch(launch: Launch) -> Iterator[Refusal]:
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
    """Variables that the started program itself would read, that the script sets, and that never reach it;
    harmless ones left out.
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
    kind, count = launch.distributed_type, settings.get("num_processes")
    total = (
        launch.asked if launch.asked is not None else count if isinstance(count, int) else launch.processes
    )
    if kind == "NO" and total > 1:
        values = {"kind": "NO", "processes": str(total)}
        yield _contradiction(
            settings, "distributed_type", Phrase("because.kind-and-number", **values), value="MULTI_GPU"
        )
    if kind == "MULTI_GPU" and total == 1:
        values = {"kind": kind, "processes": "1"}
        yield _contradiction(
            settings, "distributed_type", Phrase("because.kind-and-number", **values), value="'NO'"
        )
    ids = settings.get("gpu_ids")
    if (
        isinstance(ids, (str, int))
        and str(ids) != "all"
        and kind == "MULTI_GPU"
        and len(str(ids).split(",")) < 2
    ):
        yield _contradiction(settings, "gpu_ids", Phrase("because.one-id", ids=str(ids)), value="all")
    inline = settings.get("deepspeed_config")
    if kind == "DEEPSPEED" and isinstance(inline, dict) and inline.get("deepspeed_config_file"):
        extra = sorted(_OWNED_BY_FILE & inline.keys())
        if extra:
            values = {"keys": ", ".join(extra)}
            yield _contradiction(
                settings,
                f"deepspeed_config.{extra[0]}",
                Phrase("because.keys-twice", **values),
                remove=tuple(f"deepspeed_config.{key}" for key in extra),
            )
    if kind not in ("DEEPSPEED",) and isinstance(inline, dict) and inline and kind in ("NO", "MULTI_GPU"):
        unused = Phrase("because.section-unused", section="deepspeed_config", kind=kind)
        yield _contradiction(settings, "deepspeed_config", unused, set="distributed_type", value="DEEPSPEED")
    fsdp = settings.get("fsdp_config")
    if kind in ("NO", "MULTI_GPU") and isinstance(fsdp, dict) and fsdp:
        unused = Phrase("because.section-unused", section="fsdp_config", kind=kind)
        yield _contradiction(settings, "fsdp_config", unused, set="distributed_type", value="FSDP")
    if launch.launcher.in_front and not launch.launcher.reads_configuration:
        yield _contradiction(
            settings, "distributed_type", Phrase("because.not-read", launcher=launch.launcher.name), value=""
        )


def _of_deepspeed(launch: Launch) -> Iterator[Refusal]:
    """DeepSpeed demands that its three numbers and the processes agree (`deepspeed/runtime/config.py`,
    `_batch_assertion`).
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


def _of_settings(launch: Launch) -> Iterator[Refusal]:
    """Files of training arguments, and what installed tools make of them."""
    given = given_options(launch.arguments, launch.training)
    zero3 = launch.zero_stage == 3
    several = launch.distributed or shards(launch)
    device_map = given.get("device_map")
    values = {
        "processes": str(launch.group),
        "devices": devices_text(tuple(f"cuda:{index}" for index in range(len(launch.visible)))),
    }
    if (
        launch.script is None
        and isinstance(device_map, (str, dict))
        and device_map not in ("none", "None", "")
    ):
        split = (isinstance(device_map, str) and device_map in SPREADING) or (
            isinstance(device_map, dict) and len(set(map(str, device_map.values()))) > 1
        )
        values["map"] = map_text(device_map, False)
        if (zero3 or several) and (split or zero3):
            file, line = _written(launch, "device_map")
            yield Refusal(
                _MAP,
                file,
                line,
                Phrase("because.map-zero3" if zero3 else "because.map-launched", **values),
                repair="no-option",
                detail={"name": "device_map"},
            )
    tool = launch.tool
    if tool is None:
        return
    for name in tool.mapped_by:
        if zero3 and given.get(name) not in (None, False, "false", "False"):
            file, line = _written(launch, name)
            yield Refusal(
                _MAP,
                file,
                line,
                Phrase("because.tool-maps", tool=tool.name, option=name),
                repair="no-option",
                detail={"name": name},
            )
    alone = (
        tool.maps_alone and launch.processes == 1 and len(launch.visible) > 1 and "device_map" not in given
    )
    if alone and (launch.cluster or launch.distributed_type == "DEEPSPEED"):
        file, line = _command(launch)
        values = {"tool": tool.name, "gpus": str(len(launch.visible))}
        yield Refusal(
            _MAP,
            file,
            line,
            Phrase("because.tool-maps-alone", **values),
            repair="",
        )


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


def _refusal(rule: str, fact: Fact, reason: Phrase, repair: str, **detail: Any) -> Refusal:
    return Refusal(rule, fact.file, _line(fact), reason, fact.node, fact, repair, detail)


def _line(fact: Fact) -> int:
    return getattr(fact.node, "lineno", 1)


def devices_text(devices: Sequence[str]) -> str:
    """`cuda:0`, or `cuda:0 ... cuda:7` for many."""
    return ", ".join(devices) if len(devices) < 4 else f"{devices[0]} ... {devices[-1]}"


def map_text(device_map: Any, implied: Any) -> str:
    """A map as people write it."""
    if implied:
        return "device_map (the library's own)"
    if isinstance(device_map, str):
        return f'device_map="{device_map}"'
    if isinstance(device_map, dict) and len(device_map) <= 2:
        inside = ", ".join(
            f'"{key}": {value if isinstance(value, int) else chr(34) + str(value) + chr(34)}'
            for key, value in device_map.items()
        )
        return f"device_map={{{inside}}}"
    if isinstance(device_map, External):
        return "device_map"
    return "device_map" if device_map is None or isinstance(device_map, dict) else f"device_map={device_map}"
