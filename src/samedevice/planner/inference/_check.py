"""A device map that is there already, on trial on a machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.planner._trial import Place, Proof, budgets_of
from samedevice.planner.inference._blocks import Workload
from samedevice.planner.inference._proof import prove
from samedevice.planner.inference._source import Model, ModelSource, find_model

_AWAY = ("cpu", "disk")


@dataclass(frozen=True, slots=True)
class CheckedMap:
    """A map with its trial."""

    source: ModelSource
    machine: Machine
    workload: Workload
    reserve: int
    device_map: Mapping[str, Place]
    proof: Proof

    @property
    def budgets(self) -> dict[int, int]:
        """Bytes of each GPU that may be used."""
        return budgets_of(self.machine, self.reserve)

    @property
    def holds(self) -> bool:
        """Whether nothing was found and every peak is within its GPU's budget."""
        return self.proof.holds(self.budgets)


def check_map(
    model: Model,
    machine: Machine,
    device_map: Mapping[str, Place],
    workload: Workload,
    *,
    reserve: int,
    dtype: str | None = None,
) -> CheckedMap:
    """Try a map on a machine. Raises UsageError for one that names what the machine does not have."""
    for name, place in device_map.items():
        if isinstance(place, int) and not 0 <= place < len(machine.gpus):
            raise UsageError(
                Phrase("place.map-gpu", name=name, gpu=place, machine=machine.spec, count=len(machine.gpus))
            )
    source = find_model(model, dtype)
    proof = prove(source, machine, device_map, workload)
    return CheckedMap(source, machine, workload, reserve, dict(device_map), proof)


def read_map(path: Path) -> dict[str, Place]:
    """The device map in a JSON file: as it is, or in a plan of `--json`.

    Raises UsageError for another file.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(Phrase("place.map-unreadable", path=str(path), reason=str(error))) from None
    if isinstance(content, dict) and isinstance(content.get("device_map"), dict):
        content = content["device_map"]
    if not isinstance(content, dict) or not content:
        raise UsageError(Phrase("place.no-map", path=str(path)))
    return {name: _place(path, name, value) for name, value in content.items()}


def _place(path: Path, name: str, value: Any) -> Place:
    text = str(value).removeprefix("cuda:")
    if isinstance(value, (int, str)) and not isinstance(value, bool) and text.isdecimal() and len(text) < 5:
        return int(text)
    if value in _AWAY:
        return str(value)
    raise UsageError(Phrase("place.map-value", path=str(path), name=name, value=str(value)[:80]))
