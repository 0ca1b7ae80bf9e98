"""GPU products, from `gpus.toml`. The table is read once, and only when a product is asked for by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from samedevice.machines._link import Link

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as its driver reports it. `key` is its name in a machine specification.

    `link` is its fastest way to a neighbour without optional parts, `bridge` what a bridge between two of
    them would give.
    """

    name: str
    memory_mib: int
    capability: tuple[int, int]
    sm_count: int
    bandwidth_gbps: float | None
    link: Link
    pcie: Link
    source: str
    key: str
    memory_gb: float
    model: str = ""
    form: str = ""
    default: bool = True
    aliases: tuple[str, ...] = ()
    bridge: Link | None = None
    torch_total_bytes: int | None = None

    @property
    def total_memory(self) -> int:
        """Bytes, as `torch.cuda.get_device_properties().total_memory` says.

        Where that is not known, `memory_mib`.
        """
        return self.memory_mib * MIB if self.torch_total_bytes is None else self.torch_total_bytes

    def describe(self) -> dict[str, Any]:
        """The product as JSON-able data."""
        return {
            "key": self.key,
            "aliases": list(self.aliases),
            "name": self.name,
            "total_memory": self.total_memory,
            "memory_mib": self.memory_mib,
            "capability": list(self.capability),
            "sm_count": self.sm_count,
            "bandwidth_gbps": self.bandwidth_gbps,
            "link": str(self.link),
            "source": self.source,
        }


@cache
def gpu_table() -> tuple[Gpu, ...]:
    """Every known GPU product, in the order of the file.

    >>> next(gpu.name for gpu in gpu_table() if gpu.key == "A100-80G")
    'NVIDIA A100-SXM4-80GB'
    """
    import pkgutil  # finds the file inside a zip too, at a tenth of what importlib.resources costs to import
    import tomllib

    data = pkgutil.get_data("samedevice.machines", "gpus.toml")
    assert data is not None, "gpus.toml is part of the package"
    return tuple(_gpu_from_row(row) for row in tomllib.loads(data.decode())["gpu"])


def _gpu_from_row(row: dict[str, Any]) -> Gpu:
    nvlink, bridge, total_mib = row.get("nvlink"), row.get("bridge"), row.get("torch_total_mib")
    pcie = Link.pcie(*row["pcie"])
    major, minor = row["capability"].split(".")
    return Gpu(
        name=row["name"],
        memory_mib=row["memory_mib"],
        capability=(int(major), int(minor)),
        sm_count=row["sm_count"],
        bandwidth_gbps=float(row["bandwidth_gbps"]) if "bandwidth_gbps" in row else None,
        link=Link.nvlink(*nvlink) if nvlink else pcie,
        pcie=pcie,
        source=row["source"],
        key=row["key"],
        memory_gb=row["memory_gb"],
        model=row["model"],
        form=row.get("form", ""),
        default=row.get("default", True),
        aliases=tuple(row.get("aliases", ())),
        bridge=Link.nvlink(*bridge) if bridge else None,
        torch_total_bytes=row.get("torch_total_bytes", None if total_mib is None else total_mib * MIB),
    )
