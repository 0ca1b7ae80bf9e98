"""What a launch is: which program, in how many processes, on which GPUs, with which configuration files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from samedevice.launchers import Launcher
from samedevice.machines import visible_gpus
from samedevice.preflight.launch.tools import Tool
from samedevice.static import UNTOLD, Document, Origin, Start, Text


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch, as it was asked for."""

    launcher: Launcher
    processes: int
    """Per machine."""
    visible: tuple[int, ...]
    """GPUs that the processes see, as the machine numbers them; all where `hidden` says that it cannot be
    told.
    """
    script: Path | None = None
    arguments: tuple[Text, ...] = ()
    nodes: int = 1
    distributed_type: str = "NO"
    """In accelerate's words: NO, MULTI_GPU, DEEPSPEED, FSDP, ..."""
    accelerate: Document | None = None
    deepspeed: Document | None = None
    """The configuration that DeepSpeed itself gets."""
    zero_stage: int | None = None
    fsdp_version: int | None = None
    training: Document | None = None
    """A file of training arguments."""
    environment: dict[str, str] = field(default_factory=dict)
    origin: Origin | None = None
    """The command, where there is one."""
    words: tuple[Text, ...] = ()
    module: bool = False
    tool: Tool | None = None
    cluster: bool = False
    """The environment that a cluster gave makes each process part of a group (`RANK`, `WORLD_SIZE`)."""
    unexported: dict[str, tuple[int, str]] = field(default_factory=dict)
    missing: str = ""
    """A configuration that the command names and that is not there."""
    hidden: bool = False
    """Whether CUDA_VISIBLE_DEVICES is set to something that only a run would tell."""
    asked: int | None = None
    """What the command itself says of the number of processes."""
    unread: tuple[str, ...] = ()
    """What else the target starts that could not be read, as `file:line words`."""

    @property
    def group(self) -> int:
        """All processes, those of other machines included; at least 2 in a cluster's group."""
        return max(self.processes * self.nodes, 2 if self.cluster else 1)

    @property
    def distributed(self) -> bool:
        """Whether several processes train together."""
        return self.group > 1

    @property
    def passes_local_rank(self) -> bool:
        """Whether the launcher adds `--local_rank` to the script's arguments."""
        return self.launcher.passes_local_rank(self.words)

    def rank_environment(self, local_rank: int) -> dict[str, str]:
        """What a process of the last machine finds in `os.environ`, beside the rest."""
        found = dict(self.environment)
        if self.visible and self.launcher.names_gpus:
            found.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, self.visible)))
        return found | self.launcher.variables(self, local_rank)

    def start(self, local_rank: int, *, last: bool = False) -> Start:
        """One process of the launch, for reading its program."""
        return Start(
            self.script,
            self.arguments,
            self.training,
            self.rank_environment(local_rank),
            local_rank,
            last,
            self.processes,
            self.nodes,
            self.visible,
            self.hidden,
            self.distributed_type,
            self.zero_stage,
            self.launcher.reads_configuration,
            self.group == 1,
            self.passes_local_rank,
        )


def visible_of(setting: str | None, gpus: int) -> tuple[int, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; all where that cannot be told."""
    return visible_gpus(None if UNTOLD in (setting or "") else setting, gpus)
