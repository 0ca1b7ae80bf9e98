"""A plan on trial: the model loads with the device map on a virtual machine, reads a prompt and goes on.

Must guarantee: what runs is what a script would run (`from_pretrained` with this map, accelerate's hooks,
`generate`), at full size, on the machine that was named; of the model only its configuration is used.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samedevice.errors import SameDeviceError, UsageError
from samedevice.events import Event
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.planner.inference._blocks import Workload
from samedevice.planner.inference._passes import Passes, quiet
from samedevice.planner.inference._profile import endless
from samedevice.planner.inference._source import ModelSource, config_text, model_class

if TYPE_CHECKING:
    from samedevice.runtime import VirtualMachine

Place = int | str
"""Number of a GPU, `cpu` or `disk`."""

_PACKAGES = ("torch", "transformers", "accelerate")
_PHASES = ("load", "prompt", "last")
_AUTOMATIC = "auto"
EXPANDABLE = "expandable_segments:True"
_NAMED_DTYPE = (4, 56)
"""Since this release of transformers `dtype` is the name of what was `torch_dtype`."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that tensors held on one GPU, in each part of the trial."""

    gpu: int
    load: int
    prompt: int
    last: int
    reserved: int
    """The most that the caching allocator would have asked of the driver."""

    @property
    def allocated(self) -> int:
        """The largest of the three."""
        return max(self.load, self.prompt, self.last)


@dataclass(frozen=True, slots=True)
class Proof:
    """What happened on trial."""

    device_map: Mapping[str, Place]
    peaks: tuple[Peak, ...]
    events: tuple[tuple[Event, int], ...]
    """What the machine recorded, with how often: a finding each."""
    out_of_memory: bool
    """The machine's memory did not suffice; the peaks are from a second trial without a limit."""
    error: str | None
    """What else ended the trial."""
    seconds: float
    versions: Mapping[str, str]
    expandable: bool = False
    """Gaps between blocks made it run out of memory; all else here is of a second trial, in which torch's
    allocator was told `expandable_segments:True`.
    """

    def holds(self, budgets: Mapping[int, int]) -> bool:
        """Whether nothing was found and every peak is within its GPU's budget."""
        within = all(peak.allocated <= budgets[peak.gpu] for peak in self.peaks)
        return within and not self.events and not self.out_of_memory and self.error is None


def prove_automatic(source: ModelSource, machine: Machine, workload: Workload) -> Proof:
    """The same with the map that `device_map="auto"` comes to; its map is empty where that did not load."""
    import torch

    _needs_accelerate()
    began = time.perf_counter()
    trial = _Trial(source, _AUTOMATIC, workload, range(len(machine.gpus)))
    out_of_memory = False
    try:
        trial.run(machine)
    except torch.OutOfMemoryError:
        out_of_memory = True
    return _proof(trial, out_of_memory, began)


def budgets_of(machine: Machine, reserve: int) -> dict[int, int]:
    """Bytes of each GPU that a plan may use."""
    return {index: gpu.total_memory - reserve for index, gpu in enumerate(machine.gpus)}


def prove(
    source: ModelSource, machine: Machine, device_map: Mapping[str, Place], workload: Workload
) -> Proof:
    """Load the model by the map on a virtual `machine`, read the prompt, make the last token."""
    import torch

    _needs_accelerate()
    began = time.perf_counter()
    used = sorted({place for place in device_map.values() if isinstance(place, int)})
    trial = _Trial(source, device_map, workload, used)
    out_of_memory = expandable = False
    try:
        trial.run(machine)
    except torch.OutOfMemoryError:
        expandable = True
    if expandable:
        try:
            trial = _Trial(source, device_map, workload, used)
            trial.run(machine, EXPANDABLE)
        except torch.OutOfMemoryError:
            out_of_memory = True
    if out_of_memory:
        expandable = False
        limitless = endless(len(machine.gpus))
        machine = replace(limitless, links=machine.links, every_link=machine.every_link)
        trial = _Trial(source, device_map, workload, used)
        trial.run(machine)
    return _proof(trial, out_of_memory, began, expandable=expandable)


def _proof(trial: _Trial, out_of_memory: bool, began: float, *, expandable: bool = False) -> Proof:
    placed = {} if isinstance(trial.device_map, str) else dict(trial.device_map)
    return Proof(
        placed,
        tuple(trial.peaks),
        tuple(trial.events),
        out_of_memory,
        trial.error,
        time.perf_counter() - began,
        {name: importlib.metadata.version(name) for name in _PACKAGES},
        expandable,
    )


def _needs_accelerate() -> None:
    try:
        import accelerate  # noqa: F401 # transformers asks for it when a device map is used
    except ImportError:
        raise UsageError(Phrase("place.no-accelerate")) from None


def _places_of(model: Any) -> dict[str, Place]:
    """The map that a loaded model carries; one without any is on a single device."""
    places = getattr(model, "hf_device_map", None) or {"": next(model.parameters()).device}
    found: dict[str, Place] = {}
    for name, place in places.items():
        text = str(place).removeprefix("cuda:")
        found[name] = int(text) if text.isdecimal() else text
    return found


class _Trial:
    """One model on one machine."""

    def __init__(
        self,
        source: ModelSource,
        device_map: Mapping[str, Place] | str,
        workload: Workload,
        gpus: Iterable[int],
    ) -> None:
        self.source = source
        self.device_map = device_map
        self.workload = workload
        self.gpus = tuple(gpus)
        self.peaks: list[Peak] = []
        self.events: list[tuple[Event, int]] = []
        self.error: str | None = None

    def run(self, machine: Machine, allocator: str = "") -> None:
        """The whole trial, with these settings of torch's allocator.

        Raises torch.OutOfMemoryError where the machine is too small.
        """
        import torch

        from samedevice.runtime import VirtualMachine

        with tempfile.TemporaryDirectory() as folder, quiet():
            Path(folder, "config.json").write_text(config_text(self.source), "utf-8")
            virtual = VirtualMachine(machine, on_mismatch="record", allocator=allocator or None)
            phases: list[list[int]] = []
            try:
                with virtual, torch.no_grad():
                    self._phases(folder, phases, virtual)
            except torch.OutOfMemoryError:
                raise
            except SameDeviceError:
                raise
            except Exception as error:  # of the model's own code, whatever it is
                self.error = f"{type(error).__name__}: {error}"
            self.events = list(zip(virtual.events, virtual.event_counts, strict=True))
            memory = virtual.memory()
            phases += [[0] * len(self.gpus)] * (len(_PHASES) - len(phases))
            self.peaks = [
                Peak(gpu, load, prompt, last, memory[f"cuda:{gpu}"].peak_reserved)
                for gpu, load, prompt, last in zip(self.gpus, *phases, strict=True)
            ]

    def _phases(self, folder: str, phases: list[list[int]], virtual: VirtualMachine) -> None:
        import transformers

        release = tuple(int(part) for part in transformers.__version__.split(".")[:2])
        named = "dtype" if release >= _NAMED_DTYPE else "torch_dtype"
        family: Any = model_class(self.source) or transformers.AutoModelForCausalLM
        model = family.from_pretrained(
            folder,
            device_map=self.device_map if isinstance(self.device_map, str) else dict(self.device_map),
            offload_folder=str(Path(folder, "offload")),
            **{named: self.source.dtype},
        ).eval()
        phases.append(self._peaks())
        if isinstance(self.device_map, str):
            self.device_map = _places_of(model)
        virtual.keep_values(self.workload.nbytes)  # not before: weights of that size need none
        first = next((place for place in self.device_map.values() if isinstance(place, int)), None)
        passes = Passes(model, self.workload, "cpu" if first is None else f"cuda:{first}")
        for step in (passes.prompt, passes.last):
            step()
            phases.append(self._peaks())

    def _peaks(self) -> list[int]:
        """Peaks since the last call."""
        import torch

        peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in self.gpus]
        for gpu in self.gpus:
            torch.cuda.reset_peak_memory_stats(gpu)
        return peaks
