"""How a program starts, as far as reading it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from samedevice.static.documents import Document
from samedevice.static.values import Text


@dataclass(frozen=True, slots=True)
class Start:
    """One process of a program at its start: by default the only one, on a machine without a GPU."""

    script: Path | None = None
    arguments: tuple[Text, ...] = ()
    settings: Document | None = None
    """A file of training arguments."""
    environment: Mapping[str, str] = field(default_factory=dict)
    local_rank: int = 0
    last: bool = False
    """Whether a script that starts processes itself is read as the last of them."""
    processes: int = 1
    """Per machine."""
    nodes: int = 1
    gpus: tuple[int, ...] = ()
    """GPUs that the processes see, as the machine numbers them."""
    gpus_untold: bool = False
    """Whether these are all of the machine, because it cannot be told which of them are seen."""
    distributed_type: str = "NO"
    """In accelerate's words: NO, MULTI_GPU, DEEPSPEED, FSDP, ..."""
    zero_stage: int | None = None
    by_accelerate: bool = False
    """Whether accelerate's launcher says the distributed type."""
    alone: bool = True
    """Whether no other process trains with it, of a cluster's job neither."""
    passes_local_rank: bool = False
    """Whether the launcher adds `--local_rank` to the arguments."""

    @property
    def world(self) -> int:
        """All processes."""
        return self.processes * self.nodes
