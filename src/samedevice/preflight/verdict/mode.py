"""The parallel mode that a launch results in, in one line, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samedevice.messages import Phrase
from samedevice.preflight.launch import Launch
from samedevice.static import Fact, Instance, Model

_TITLES = {
    "single-gpu": Phrase("parallel.single-gpu"),
    "naive-model-parallel": Phrase("parallel.naive-model-parallel"),
    "data-parallel": Phrase("parallel.data-parallel"),
    "ddp": Phrase("parallel.ddp"),
    "fsdp": Phrase("parallel.fsdp"),
    "fsdp2": Phrase("parallel.fsdp2"),
    "tensor-parallel": Phrase("parallel.tensor-parallel"),
    "independent": Phrase("parallel.independent"),
    "unknown": Phrase("parallel.unknown"),
}


@dataclass(frozen=True, slots=True)
class Mode:
    """A parallel mode and why it results."""

    name: str
    """`single-gpu`, `naive-model-parallel`, `data-parallel`, `ddp`, `fsdp`, `fsdp2`, `zero-0` to `zero-3`,
    `tensor-parallel`, `independent`, `unknown`.
    """
    reason: Phrase
    processes: int = 1
    """All processes that train, those that the script itself starts included."""

    @property
    def title(self) -> Phrase:
        """`DDP`."""
        if self.name.startswith("zero-"):
            return Phrase("parallel.zero", stage=self.name.removeprefix("zero-"))
        return _TITLES[self.name]

    @property
    def phrase(self) -> Phrase:
        """`DDP: torchrun starts 8 processes ...`."""
        return Phrase("parallel.line", name=self.title, reason=self.reason)


class _Telling:
    """What the launch and the script say together, looked at for one mode after the other."""

    def __init__(self, launch: Launch, facts: Sequence[Fact]) -> None:
        self.launch = launch
        self.facts = facts
        self.certain = [fact for fact in facts if not fact.maybe] or list(facts)
        """What happens in any case, or everything where nothing does; of several loads the first counts."""
        self.count = max([launch.processes * launch.nodes, *(fact["spawned"] or 0 for fact in self.certain)])
        self.wraps: dict[Any, Fact] = {
            fact["by"]: fact
            for fact in self.certain
            if fact.kind in ("wrap", "sharding") or (fact.kind == "lightning" and self.count > 1)
        }
        self.trains = (
            any(fact.kind in ("trainer", "prepare", "lightning") for fact in self.certain)
            or launch.training is not None
            or launch.tool is not None
        )
        self.gpus = len(launch.visible)

    def of_kind(self, *kinds: str) -> list[Fact]:
        return [fact for fact in self.certain if fact.kind in kinds]

    def mode(self, name: str, reason: Phrase) -> Mode:
        return Mode(name, reason, self.count)

    def asks_for(self, distributed_type: str) -> bool:
        """Whether the launch says so, and what it starts trains, as far as that can be told."""
        return self.launch.distributed_type == distributed_type and (self.trains or not self.certain)


def mode_of(launch: Launch, facts: Sequence[Fact]) -> Mode:
    """What the launch and the script make together."""
    telling = _Telling(launch, facts)
    return _sharded(telling) or _several_processes(telling) or _one_process(telling)


def _sharded(telling: _Telling) -> Mode | None:
    """Parameters that are parted over the processes."""
    launch, wraps, count, gpus = telling.launch, telling.wraps, telling.count, telling.gpus
    if any(fact["sharded"] for fact in telling.of_kind("load")):
        return telling.mode("tensor-parallel", Phrase("parallel-because.plan", processes=count))
    if "DeepSpeed" in wraps or telling.asks_for("DEEPSPEED"):
        stage = wraps["DeepSpeed"]["stage"] if "DeepSpeed" in wraps else None
        stage = stage if isinstance(stage, int) else launch.zero_stage
        if stage is None:
            return telling.mode("unknown", Phrase("parallel-because.no-stage"))
        return telling.mode(
            f"zero-{stage}", Phrase("parallel-because.configured", processes=count, gpus=gpus)
        )
    sharded = Phrase("parallel-because.sharded", processes=count)
    configured = telling.asks_for("FSDP")
    if "FSDP2" in wraps or (configured and launch.fsdp_version == 2):
        return telling.mode("fsdp2", sharded)
    return telling.mode("fsdp", sharded) if "FSDP" in wraps or configured else None


def _several_processes(telling: _Telling) -> Mode | None:
    launch, count, gpus = telling.launch, telling.count, telling.gpus
    if launch.cluster and count == 1:
        return telling.mode("ddp", Phrase("parallel-because.from-cluster"))
    if count == 1:
        return None
    name = launch.launcher.name
    if not telling.certain and not launch.launcher.joins:
        return telling.mode("unknown", Phrase("parallel-because.tasks", launcher=name, processes=count))
    if not ("DDP" in telling.wraps or telling.trains or not telling.certain):
        if (perhaps := _perhaps_joined(telling)) is not None:
            return telling.mode("unknown", perhaps)
        return telling.mode("independent", Phrase("parallel-because.nothing-joins", processes=count))
    if launch.nodes == 1:
        reason = Phrase("parallel-because.one-each", launcher=name, processes=count, gpus=gpus)
    else:
        reason = Phrase(
            "parallel-because.one-each-machines",
            launcher=name,
            processes=count,
            nodes=launch.nodes,
            gpus=gpus,
        )
    return telling.mode("ddp", reason)


def _perhaps_joined(telling: _Telling) -> Phrase | None:
    """What joins the processes on a way that may be taken or not."""
    joining = ("wrap", "sharding", "trainer", "prepare", "lightning")
    fact = next((each for each in telling.facts if each.kind in joining), None)
    if fact is None:
        return None
    by = fact["by"] or fact["name"] or fact.kind
    where = f"{fact.file.name}:{getattr(fact.node, 'lineno', 1)}"
    return Phrase("parallel-because.may-join", processes=telling.count, by=str(by), where=where)


def _one_process(telling: _Telling) -> Mode:
    launch, gpus = telling.launch, telling.gpus
    if launch.script is not None and not telling.facts and launch.training is None and launch.tool is None:
        return telling.mode("unknown", Phrase("parallel-because.nothing-seen"))
    if "DataParallel" in telling.wraps:
        return telling.mode("data-parallel", Phrase("parallel-because.wrapped"))
    kinds = _placements(telling)
    alone = launch.tool is not None and launch.tool.maps_alone and gpus > 1
    if "split" in kinds or alone:
        return telling.mode("naive-model-parallel", Phrase("parallel-because.spread", gpus=gpus))
    untold = Phrase("parallel-because.untold", gpus=gpus)
    if "unknown" in kinds and gpus > 1:
        return telling.mode("unknown", untold)
    trainers = telling.of_kind("trainer")
    if trainers and launch.hidden:
        return telling.mode("unknown", Phrase("parallel-because.hidden"))
    model = trainers[0]["model"] if trainers else None
    if isinstance(model, str) and gpus > 1:  # trl loads it, by a map of its own in some releases
        return telling.mode("unknown", untold)
    quantized = isinstance(model, Model) and model.bits in (4, 8)
    if trainers and (trainers[0]["gpus"] or 0) > 1 and not quantized and gpus > 1:
        if not launch.launcher.starts:
            return telling.mode("data-parallel", Phrase("parallel-because.trainer", gpus=gpus))
    return telling.mode("single-gpu", Phrase("parallel-because.one-process"))


def _placements(telling: _Telling) -> set[str]:
    """Where models are, in one word each."""
    loads = telling.of_kind("load") or [fact for fact in telling.facts if fact.kind == "load"]
    holders = [
        fact
        for fact in telling.of_kind("wrap", "trainer", "optimizer")
        if isinstance(fact["model"], (Model, Instance))
    ]
    return {fact["placement"].kind for fact in (*loads, *holders)}
