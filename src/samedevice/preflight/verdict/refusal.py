"""One thing that a launch is refused for."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samedevice.messages import Phrase
from samedevice.preflight.launch import Launch
from samedevice.static import External, Fact


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is wrong, with what a repair needs."""

    rule: str
    file: Path
    line: int
    reason: Phrase
    node: ast.AST | None = None
    fact: Fact | None = None
    repair: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


def shards(launch: Launch) -> bool:
    """Whether accelerate counts the launch as distributed whatever the number of processes."""
    return launch.distributed_type == "DEEPSPEED"


def devices_text(devices: Sequence[str]) -> str:
    """`cuda:0`, or `cuda:0 ... cuda:7` for many."""
    return ", ".join(devices) if len(devices) < 4 else f"{devices[0]} ... {devices[-1]}"


def map_text(device_map: Any, implied: Any) -> str:
    """A map as people write it."""
    if implied:
        return "device_map (the library's own)"
    if isinstance(device_map, str):
        return f'device_map="{device_map}"'
    if isinstance(device_map, dict) and len(device_map) <= 2:
        inside = ", ".join(
            f'"{key}": {value if isinstance(value, int) else chr(34) + str(value) + chr(34)}'
            for key, value in device_map.items()
        )
        return f"device_map={{{inside}}}"
    if isinstance(device_map, External):
        return "device_map"
    return "device_map" if device_map is None or isinstance(device_map, dict) else f"device_map={device_map}"
