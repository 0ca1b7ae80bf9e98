"""How two GPUs of one machine reach each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LinkKind = Literal["NVLink", "PCIe", "Self"]

# Both directions together, in GB/s, per lane: 1 GB/s each way at generation 3, doubled by each later one.
_PCIE_LANE_GBPS = {1: 0.5, 2: 1.0, 3: 2.0, 4: 4.0, 5: 8.0, 6: 16.0}


@dataclass(frozen=True, slots=True)
class Link:
    """A connection: its kind, its generation, and its bandwidth in GB/s (both ways together).

    None is for an unknown one.
    """

    kind: LinkKind
    generation: int | None = None
    gbps: float | None = None

    @classmethod
    def pcie(cls, generation: int, lanes: int) -> Link:
        """A PCI Express link; its bandwidth follows from generation and lanes."""
        return cls("PCIe", generation, _PCIE_LANE_GBPS[generation] * lanes)

    @classmethod
    def nvlink(cls, generation: int, gbps: float) -> Link:
        """An NVLink connection of that generation and total bandwidth."""
        return cls("NVLink", generation, float(gbps))

    def __str__(self) -> str:
        return self.kind


SELF = Link("Self")
