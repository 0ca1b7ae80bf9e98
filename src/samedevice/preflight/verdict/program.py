"""What a launch is refused for by what its program does. No check knows any script by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.version import InvalidVersion, Version

from samedevice.messages import Phrase
from samedevice.preflight.launch import Launch
from samedevice.preflight.verdict.refusal import Refusal, devices_text, map_text, shards
from samedevice.static import UNKNOWN, Fact, Instance, Model, Placement

_MAP = "device-map-in-multi-process-launch"
_STATE_AT_BIRTH = ("Adagrad",)
"""Optimizers of torch that make their state when they are built (`torch/optim/adagrad.py`, `__init__`)."""


def of_program(launch: Launch, ranks: Sequence[Sequence[Fact]]) -> Iterator[Refusal]:
    """From the facts of every rank; what stands under a condition that could not be told is left out."""
    shared = _shared(ranks)
    for facts in ranks:
        certain = [_with_sharing(fact, shared) for fact in facts if not fact.maybe]
        for check in _CHECKS:
            yield from check(launch, certain)


def _shared(ranks: Sequence[Sequence[Fact]]) -> set[tuple[int, int | None]]:
    """Places of the program and the GPU that every rank means there.

    A device that is computed from the rank is not among them.
    """
    meant = [{(id(fact.node), fact["gpu"]) for fact in facts if fact["own"] is not None} for facts in ranks]
    return set.intersection(*[each for each in meant if each]) if any(meant) else set()


def _with_sharing(fact: Fact, shared: set[tuple[int, int | None]]) -> Fact:
    """The fact, which does not count as another rank's GPU unless all ranks mean the same one there."""
    if fact["own"] is not False or (id(fact.node), fact["gpu"]) in shared:
        return fact
    return replace(fact, values=fact.values | {"own": None})


def _maps(launch: Launch, facts: Sequence[Fact]) -> Iterator[Refusal]:
    trained = {id(fact["model"]) for fact in facts if fact.kind in ("prepare", "trainer", "wrap")}
    asked = {fact["by"]: fact for fact in facts if fact.kind == "sharding"}
    deepspeed = shards(launch) or "DeepSpeed" in asked
    fsdp = launch.distributed_type == "FSDP" or bool({"FSDP", "FSDP2"} & asked.keys())
    zero3 = 3 in (launch.zero_stage, *(fact["stage"] for fact in asked.values()))
    for fact in facts:
        if fact.kind != "load" or fact["sharded"] or fact["gpus"] == 0:
            continue
        where = {
            "map": map_text(fact["map"], fact["implied"]),
            "processes": str(max(fact["world"] or 1, launch.group)),
            "devices": devices_text(fact["placement"].devices),
        }
        if (under_zero3 := _map_under_zero3(fact, where)) is not None:
            yield under_zero3
        elif fact["placement"].kind == "split" and _several(launch, fact):
            quantized = fact["bits"] in (4, 8)
            no_map = (zero3 and not fact["bits"]) or (fsdp and not quantized)
            reason = _several_maps(quantized, fsdp, where)
            yield _refusal(_MAP, fact, reason, "no-map" if no_map else "rank-map")
        elif fact["placement"].kind == "split" and deepspeed and id(fact["model"]) in trained:
            reason = Phrase("because.map-deepspeed", **where)
            yield _refusal(_MAP, fact, reason, "no-map" if zero3 else "rank-map")
        elif _one_gpu_for_all(launch, fact):
            yield _refusal(_MAP, fact, Phrase("because.map-same-gpu", **where), "rank-map")


def _several(launch: Launch, fact: Fact) -> bool:
    """Whether several processes do this."""
    return (fact["world"] or 1) > 1 or launch.cluster


def _map_under_zero3(fact: Fact, where: dict[str, str]) -> Refusal | None:
    if not fact["zero3"]:
        return None
    if (fact["map"] is not None or fact["implied"]) and fact["map"] is not UNKNOWN:
        return _refusal(_MAP, fact, Phrase("because.map-zero3", **where), "no-map")
    if fact["low_memory"] is True and _transformers_before_5():
        return _refusal(_MAP, fact, Phrase("because.low-memory-zero3", **where), "no-low-memory")
    return None


def _several_maps(quantized: bool, fsdp: bool, where: dict[str, str]) -> Phrase:
    if quantized:
        return Phrase("because.map-quantized", **where)
    return Phrase("because.map-fsdp" if fsdp else "because.map-launched", **where)


def _one_gpu_for_all(launch: Launch, fact: Fact) -> bool:
    """The map of each of several processes names a GPU that is not the one of its rank."""
    one_gpu = fact["placement"].kind == "device" and fact["map"] is not None
    return one_gpu and _several(launch, fact) and fact["own"] is False


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


def _refusal(rule: str, fact: Fact, reason: Phrase, repair: str, **detail: Any) -> Refusal:
    return Refusal(rule, fact.file, _line(fact), reason, fact.node, fact, repair, detail)


def _line(fact: Fact) -> int:
    return getattr(fact.node, "lineno", 1)


_CHECKS = (
    _maps,
    _data_parallel,
    _moves,
    _current_device,
    _optimizers,
    _checkpoints,
    _losses,
    _trainers,
)
