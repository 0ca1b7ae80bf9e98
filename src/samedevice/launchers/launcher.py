"""What a launcher is, as data.

Everything that differs between launchers is a field here; no other code asks for a launcher's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Job(Protocol):
    """What a launch comes to, as far as its processes are told of it."""

    @property
    def processes(self) -> int:
        """Per machine."""

    @property
    def nodes(self) -> int:
        """Machines."""

    @property
    def distributed_type(self) -> str:
        """In accelerate's words: NO, MULTI_GPU, DEEPSPEED, FSDP, ..."""

    @property
    def zero_stage(self) -> int | None:
        """DeepSpeed's."""


@dataclass(frozen=True, slots=True)
class Options:
    """A launcher's own options by what they mean, spelled with `_`; each may also be written with `-`."""

    flags: tuple[str, ...] = ()
    """Options that take no value; every other one takes one."""
    processes: tuple[str, ...] = ()
    """The number of processes on each machine, or `gpu` for one on each GPU."""
    all_processes: tuple[str, ...] = ()
    """The number of processes on all machines together."""
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    """The GPUs to use, by their numbers."""
    configuration: str = ""
    """A file of accelerate's configuration."""
    module: tuple[str, ...] = ()
    """Flags that say that the program is a module."""
    any_program: tuple[str, ...] = ()
    """Flags that say that the program is started without Python."""
    types: tuple[tuple[str, str], ...] = ()
    """Flags and the distributed type that they ask for; a later one wins."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Options of a program that starts several tasks of any command, as they are spelled."""

    per_node: tuple[str, ...]
    total: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    gpus_each: tuple[str, ...] = ()
    """GPUs that each task sees, by numbers that begin at 0."""


def _nothing(job: Job, local_rank: int) -> dict[str, str]:
    return {}


def _never(words: Sequence[str]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Launcher:
    """One program that starts training processes."""

    name: str
    source: str
    """Where the facts below are from."""
    commands: tuple[tuple[str, ...], ...] = ()
    """First words of a command line that names it."""
    modules: tuple[tuple[str, ...], ...] = ()
    """The same behind `python -m`."""
    options: Options = Options()
    tasks: Tasks | None = None
    """For a program that starts several tasks of any command, and knows nothing of training."""
    each_gpu: bool = False
    """Without being told, it starts one process on each visible GPU."""
    distributed_type: str = "NO"
    """What its processes are to accelerate, unless an option says so."""
    variables: Callable[[Job, int], dict[str, str]] = _nothing
    """What it sets for the process of a local rank on the last machine."""
    names_gpus: bool = False
    """It tells its processes in `CUDA_VISIBLE_DEVICES` which GPUs they have."""
    passes_local_rank: Callable[[Sequence[str]], bool] = _never
    """Whether this command line makes it add `--local_rank` to the program's arguments."""
    starts: bool = True
    """It starts processes; plain Python is one."""
    in_front: bool = True
    """It stands before the program on the command line."""
    joins: bool = True
    """The processes that it starts are one group."""
    package: str = ""
    """What has to be installed."""
    start: Callable[[int, Sequence[str]], list[str]] | None = None
    """Words behind `python -m` that start a number of processes on this machine, beside the options that are
    given; None for what `samedevice run` does not start.
    """

    @property
    def reads_configuration(self) -> bool:
        """Whether it reads accelerate's configuration."""
        return bool(self.options.configuration)
