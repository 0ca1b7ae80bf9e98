"""The parallel mode that a launch results in, in one line, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samedevice.messages import Language, say
from samedevice.preflight.launch import Launch
from samedevice.static import Fact, Instance, Model


@dataclass(frozen=True, slots=True)
class Mode:
    """A parallel mode and why it results."""

    name: str
    """`single-gpu`, `naive-model-parallel`, `data-parallel`, `ddp`, `fsdp`, `fsdp2`, `zero-0` to `zero-3`,
    `tensor-parallel`, `independent`, `unknown`.
    """
    reason: str
    values: tuple[tuple[str, str], ...] = ()

    @property
    def processes(self) -> int:
        """All processes that train, those that the script itself starts included."""
        return int(dict(self.values).get("processes", "1"))

    def title(self, language: Language) -> str:
        """`DDP`."""
        return say(
            f"parallel.{'zero' if self.name.startswith('zero-') else self.name}",
            language,
            stage=self.name[-1],
        )

    def text(self, language: Language) -> str:
        """`DDP: torchrun starts 8 processes ...`."""
        return say(
            "parallel.line",
            language,
            name=self.title(language),
            reason=say(f"parallel-because.{self.reason}", language, **dict(self.values)),
        )


def mode_of(launch: Launch, facts: Sequence[Fact]) -> Mode:
    """What the launch and the script make together; of several loads the first tells."""
    told = [fact for fact in facts if not fact.maybe] or list(facts)
    count = max([launch.processes * launch.nodes, *(fact["spawned"] or 0 for fact in told)])
    values: dict[str, str] = {
        "processes": str(count),
        "gpus": str(len(launch.visible)),
        "launcher": launch.launcher.name,
    }
    wraps = {
        fact["by"]: fact
        for fact in told
        if fact.kind in ("wrap", "sharding") or (fact.kind == "lightning" and count > 1)
    }
    trains = (
        any(fact.kind in ("trainer", "prepare", "lightning") for fact in told)
        or launch.training is not None
        or launch.tool is not None
    )
    if any(fact.kind == "load" and fact["sharded"] for fact in told):
        return _mode("tensor-parallel", "plan", values)
    if "DeepSpeed" in wraps or (launch.distributed_type == "DEEPSPEED" and (trains or not told)):
        stage = wraps["DeepSpeed"]["stage"] if "DeepSpeed" in wraps else launch.zero_stage
        stage = stage if isinstance(stage, int) else launch.zero_stage
        return (
            _mode(f"zero-{stage}", "configured", values)
            if stage is not None
            else _mode("unknown", "no-stage", values)
        )
    configured = launch.distributed_type == "FSDP" and (trains or not told)
    if "FSDP2" in wraps or (configured and launch.fsdp_version == 2):
        return _mode("fsdp2", "sharded", values)
    if "FSDP" in wraps or configured:
        return _mode("fsdp", "sharded", values)
    if launch.cluster and count == 1:
        return _mode("ddp", "from-cluster", values)
    if count > 1:
        if not told and not launch.launcher.joins:
            return _mode("unknown", "tasks", values)
        if "DDP" in wraps or trains or not told:
            return _mode(
                "ddp",
                "one-each" if launch.nodes == 1 else "one-each-machines",
                values | {"nodes": str(launch.nodes)},
            )
        return _mode("independent", "nothing-joins", values)
    return _one_process(launch, told, facts, wraps, values)


def _one_process(
    launch: Launch,
    told: Sequence[Fact],
    facts: Sequence[Fact],
    wraps: dict[Any, Fact],
    values: dict[str, str],
) -> Mode:
    if "DataParallel" in wraps:
        return _mode("data-parallel", "wrapped", values)
    placements = [fact["placement"] for fact in told if fact.kind == "load"] or [
        fact["placement"] for fact in facts if fact.kind == "load"
    ]
    holders = [fact for fact in told if fact.kind in ("wrap", "trainer", "optimizer")]
    placements += [fact["placement"] for fact in holders if isinstance(fact["model"], (Model, Instance))]
    if any(each.kind == "split" for each in placements) or (
        launch.tool is not None and launch.tool.maps_alone and len(launch.visible) > 1
    ):
        return _mode("naive-model-parallel", "spread", values)
    if any(each.kind == "unknown" for each in placements) and len(launch.visible) > 1:
        return _mode("unknown", "untold", values)
    trainers = [fact for fact in told if fact.kind == "trainer"]
    if trainers and launch.hidden:
        return _mode("unknown", "hidden", values)
    model = trainers[0]["model"] if trainers else None
    if (
        isinstance(model, str) and len(launch.visible) > 1
    ):  # trl loads it, by a map of its own in some releases
        return _mode("unknown", "untold", values)
    wrapped = (
        trainers
        and (trainers[0]["gpus"] or 0) > 1
        and not (isinstance(model, Model) and model.bits in (4, 8))
    )
    if wrapped and len(launch.visible) > 1 and not launch.launcher.starts:
        return _mode("data-parallel", "trainer", values)
    return _mode("single-gpu", "one-process", values)


def _mode(name: str, reason: str, values: dict[str, str]) -> Mode:
    return Mode(name, reason, tuple(values.items()))
