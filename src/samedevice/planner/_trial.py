"""A plan on trial: what runs on a virtual machine, what it found, and what each GPU held in each part of it.

Must guarantee: what runs is what a script would run, on the machine that was named. Where its memory does not
suffice, the trial is made again with `expandable_segments:True`, and then without a limit, so that there are
peaks in any case.
"""

from __future__ import annotations

import importlib.metadata
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from samedevice.errors import SameDeviceError
from samedevice.events import Event
from samedevice.machines import Machine, parse_machine
from samedevice.messages import Phrase

if TYPE_CHECKING:
    from samedevice.runtime import VirtualMachine

Place = int | str
"""Number of a GPU, `cpu` or `disk`."""

_EXPANDABLE = "expandable_segments:True"
_ENDLESS = 1 << 50


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that tensors held on one GPU, in each part of the trial."""

    gpu: int
    phases: Mapping[str, int]
    reserved: int
    """The most that the caching allocator would have asked of the driver."""

    @property
    def allocated(self) -> int:
        """The largest of all parts."""
        return max(self.phases.values())


@dataclass(frozen=True, slots=True)
class Proof:
    """What happened on trial."""

    device_map: Mapping[str, Place]
    peaks: tuple[Peak, ...]
    events: tuple[tuple[Event, int], ...]
    """What the machine recorded, with how often: a finding each."""
    out_of_memory: bool
    """The machine's memory did not suffice; the peaks are from a trial without a limit."""
    error: str | None
    """What else ended the trial."""
    seconds: float
    versions: Mapping[str, str]
    expandable: bool = False
    """Gaps between blocks made it run out of memory; all else here is of a second trial, in which torch's
    allocator was told `expandable_segments:True`.
    """
    different: Phrase | None = None
    """What came out that is not what comes out on one GPU."""

    def holds(self, budgets: Mapping[int, int]) -> bool:
        """Whether nothing was found and every peak is within its GPU's budget."""
        within = all(peak.allocated <= budgets[peak.gpu] for peak in self.peaks)
        ran = self.error is None and self.different is None and not self.out_of_memory
        return ran and within and not self.events


class Trial(ABC):
    """One plan on one machine."""

    phases: ClassVar[tuple[str, ...]]
    """Names of the parts that are measured."""
    packages: ClassVar[tuple[str, ...]]
    """Those whose versions matter."""

    def __init__(self, device_map: Mapping[str, Place], gpus: Iterable[int]) -> None:
        self.device_map = device_map
        self.gpus = tuple(gpus)
        self.peaks: list[Peak] = []
        self.events: list[tuple[Event, int]] = []
        self.error: str | None = None
        self.different: Phrase | None = None

    @abstractmethod
    def around(self) -> AbstractContextManager[None]:
        """What is there while it runs: the files it needs, libraries that do not talk."""

    @abstractmethod
    def parts(self, virtual: VirtualMachine) -> Iterator[None]:
        """Do one part after the other, with a stop behind each."""

    def run(self, machine: Machine, allocator: str = "") -> None:
        """The whole trial, with these settings of torch's allocator.

        Raises torch.OutOfMemoryError where the machine is too small.
        """
        import torch

        from samedevice.runtime import VirtualMachine

        with self.around():
            virtual = VirtualMachine(machine, on_mismatch="record", allocator=allocator or None)
            measured: list[list[int]] = []
            try:
                virtual.leave_out_workspaces()  # they are in the reserve
                with virtual, torch.no_grad():
                    for _ in self.parts(virtual):
                        measured.append(self._peak_of_each())
            except (torch.OutOfMemoryError, SameDeviceError):
                raise
            except Exception as error:  # of the model's own code, whatever it is
                self.error = f"{type(error).__name__}: {error}"
            self.events = list(zip(virtual.events, virtual.event_counts, strict=True))
            memory = virtual.memory()
            measured += [[0] * len(self.gpus)] * (len(self.phases) - len(measured))
            self.peaks = [
                Peak(gpu, dict(zip(self.phases, peaks, strict=True)), memory[f"cuda:{gpu}"].peak_reserved)
                for gpu, *peaks in zip(self.gpus, *measured, strict=True)
            ]

    def proof(self, began: float, *, out_of_memory: bool = False, expandable: bool = False) -> Proof:
        """What the trial showed, which began at this time of `time.perf_counter`."""
        return Proof(
            dict(self.device_map),
            tuple(self.peaks),
            tuple(self.events),
            out_of_memory,
            self.error,
            time.perf_counter() - began,
            {name: importlib.metadata.version(name) for name in self.packages},
            expandable,
            self.different,
        )

    def _peak_of_each(self) -> list[int]:
        """Peaks since the last call."""
        import torch

        peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in self.gpus]
        for gpu in self.gpus:
            torch.cuda.reset_peak_memory_stats(gpu)
        return peaks


def tried(trial: Callable[[], Trial], machine: Machine) -> Proof:
    """What happens with a plan on a machine; `trial` makes one that has not run."""
    import torch

    began = time.perf_counter()
    for allocator in ("", _EXPANDABLE):
        one = trial()
        try:
            one.run(machine, allocator)
        except torch.OutOfMemoryError:
            continue
        return one.proof(began, expandable=bool(allocator))
    limitless = endless(len(machine.gpus))
    one = trial()
    one.run(replace(limitless, links=machine.links, every_link=machine.every_link))
    return one.proof(began, out_of_memory=True)


def budgets_of(machine: Machine, reserve: int) -> dict[int, int]:
    """Bytes of each GPU that a plan may use."""
    return {index: gpu.total_memory - reserve for index, gpu in enumerate(machine.gpus)}


def endless(count: int) -> Machine:
    """A machine with GPUs on which everything fits."""
    machine = parse_machine(f"{count}x80GB")
    gpu = replace(machine.gpus[0], torch_total_bytes=_ENDLESS)
    return replace(machine, gpus=(gpu,) * count)
