"""A machine: its GPUs in device order, what joins them, and its host."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from samedevice.machines._gpu import Gpu
from samedevice.machines._link import SELF, Link

MAX_GPUS = 1024


@dataclass(frozen=True, slots=True)
class Machine:
    """What `parse_machine` understood. `spec` reads back to an equal machine; `cuda:i` is `gpus[i]`.

    `links` holds what a machine file says of single pairs, `every_link` what it says of all pairs.
    """

    spec: str
    gpus: tuple[Gpu, ...]
    host_memory: int | None = None
    host_cores: int | None = None
    name: str | None = None
    links: tuple[tuple[int, int, Link], ...] = ()
    every_link: Link | None = None

    def link(self, first: int, second: int) -> Link:
        """What joins two GPUs. `str()` of it is `NVLink`, `PCIe`, or `Self` for one and the same GPU.

        Raises IndexError for a device that the machine does not have.
        """
        for index in (first, second):
            if not 0 <= index < len(self.gpus):
                raise IndexError(
                    f"machine {self.spec!r} has no GPU {index}; its GPUs are 0 to {len(self.gpus) - 1}"
                )
        if first == second:
            return SELF
        for one, other, link in self.links:
            if {one, other} == {first, second}:
                return link
        if self.every_link is not None:
            return self.every_link
        return _usual_link(self.gpus[first], self.gpus[second])

    def describe(self) -> dict[str, Any]:
        """The machine as JSON-able data, for a report."""
        return {
            "spec": self.spec,
            "name": self.name,
            "gpus": [
                {
                    "index": index,
                    "key": gpu.key,
                    "name": gpu.name,
                    "total_memory": gpu.total_memory,
                    "memory_mib": gpu.memory_mib,
                    "capability": list(gpu.capability),
                    "sm_count": gpu.sm_count,
                }
                for index, gpu in enumerate(self.gpus)
            ],
            "host": {"memory": self.host_memory, "cores": self.host_cores},
        }

    def __str__(self) -> str:
        runs = ((name, len(list(run))) for name, run in groupby(gpu.name for gpu in self.gpus))
        return " + ".join(f"{count} x {name}" for name, count in runs)


def _usual_link(one: Gpu, other: Gpu) -> Link:
    """NVLink joins GPUs of one product on one board.

    Everything else meets on the slower of the two PCIe slots.
    """
    if one.link.kind == "NVLink" and one.key == other.key:
        return one.link
    return min(one.pcie, other.pcie, key=lambda link: link.gbps or 0.0)
