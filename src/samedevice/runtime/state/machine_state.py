"""The machine that is entered now: its visible devices, ledgers, current device and generators.

Machines nest: the innermost one answers. The current device belongs to the host thread, as in CUDA.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from samedevice.errors import UsageError
from samedevice.machines import Gpu, Machine, visible_gpus
from samedevice.runtime.state.allocator_settings import (
    AllocatorSettings,
    parse_settings,
    settings_of_environment,
)
from samedevice.runtime.state.ledger import DeviceLedger
from samedevice.runtime.state.virtual_generator import VirtualGenerator
from samedevice.torch_versions.adapter import TORCH

_Part = TypeVar("_Part")

# The class itself: inside a machine `torch.device` is replaced so that integers are devices.
TorchDevice = torch.device
CPU = torch.device("cpu")
META = torch.device("meta")

_INVALID_ORDINAL = (
    "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\nCUDA "
    "kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nDevice-side assertion tracking was "
    "not enabled by user."
)
_FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
    "'spawn' start method"
)
_LEFT = (
    "What was used here belongs to a virtual machine that was left, and none is entered. Use it inside of "
    "`with samedevice.machine(...)`."
)


class MachineState:
    """One entered machine."""

    def __init__(
        self, machine: Machine, assumed_ranks: int | None = None, allocator: str | None = None
    ) -> None:
        self.machine = machine
        self.assumed_ranks = assumed_ranks
        """Number of ranks of the launch that this process stands for; None: ranks are processes."""
        self.initialized = False
        self.type_on_gpu = False
        """Whether `torch.set_default_tensor_type` was given a type on the GPU: tensors are then made there.
        """
        self.pid = os.getpid()
        self.rank: int | None = None
        """Of this process in the process group that it made last, also after that group's end."""
        self.memory_observers: list[Callable[[int, int, int, int], object]] = []
        """Called with device, bytes asked for, total and free bytes before an allocation that does not fit
        raises.
        """
        self.registered: dict[int, int] = {}
        """Memory of the host that was pinned where it lies: bytes by address."""
        self.caching = True
        """Whether memory that is asked for as an address comes from the cache."""
        self.allocator_settings = (
            settings_of_environment() if allocator is None else parse_settings(allocator, AllocatorSettings())
        )
        self._physical = [
            DeviceLedger(gpu.total_memory, index, self.allocator_settings)
            for index, gpu in enumerate(machine.gpus)
        ]
        self._visible: tuple[int, ...] = ()
        self._devices = [TorchDevice("cuda", index) for index in range(len(machine.gpus))]
        self._local = threading.local()
        self._generators: dict[int, torch._C.Generator] = {}
        self._seed: int | None = None
        self._generator_lock = threading.Lock()
        self._parts: dict[type, Any] = {}
        self.refresh_visible()

    # -- parts

    def add(self, part: object) -> None:
        """Let others find what belongs to this machine."""
        self._parts[type(part)] = part

    def part(self, kind: type[_Part]) -> _Part:
        """What belongs to this machine, by its class: its engine, its recorder."""
        found: _Part = self._parts[kind]
        return found

    # -- devices

    def refresh_visible(self) -> None:
        """Read `CUDA_VISIBLE_DEVICES`; after initialization the choice stands, as in CUDA."""
        if not self.initialized:
            uuids = [gpu_uuid(index) for index in range(len(self.machine.gpus))]
            self._visible = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), len(uuids), uuids)

    def initialize(self) -> None:
        """What the first CUDA call does: the visible devices are fixed.

        Raises RuntimeError in a forked child.
        """
        if not self.initialized:
            self.refresh_visible()
            if not self._visible:
                raise RuntimeError("No CUDA GPUs are available")
            self.initialized = True
            self.pid = os.getpid()
        if os.getpid() != self.pid:
            raise RuntimeError(_FORKED)

    def in_bad_fork(self) -> bool:
        """Whether CUDA was initialized before this process was forked off."""
        return self.initialized and os.getpid() != self.pid

    def device_count(self) -> int:
        """Number of visible GPUs."""
        self.refresh_visible()
        return len(self._visible)

    def physical_index(self, index: int) -> int:
        """Position in the machine of the visible device `index`."""
        return self._visible[index]

    def gpu(self, index: int) -> Gpu:
        """Description of the visible device `index`."""
        return self.machine.gpus[self._visible[index]]

    def ledger(self, index: int) -> DeviceLedger:
        """Ledger of the visible device `index`."""
        return self._physical[self._visible[index]]

    def ledgers(self) -> dict[str, DeviceLedger]:
        """Ledger of each visible device, by device name."""
        return {f"cuda:{index}": self._physical[physical] for index, physical in enumerate(self._visible)}

    def physical_ledgers(self) -> list[DeviceLedger]:
        """Ledger of each GPU, whether it is visible or not."""
        return list(self._physical)

    def current_device(self) -> int:
        """Index of this thread's current device."""
        index: int = getattr(self._local, "current", 0)
        return index

    def set_current_device(self, index: int) -> None:
        """Make `index` this thread's current device; raises as CUDA does when there is none such."""
        self._local.current = self.cuda(index).index

    def cuda(self, index: int | None) -> torch.device:
        """The device object for a visible index; None is the current device."""
        if not self.initialized or os.getpid() != self.pid:
            self.initialize()
        if index is None:
            index = self.current_device()
        if not 0 <= index < len(self._visible):
            raise TORCH.accelerator_error(_INVALID_ORDINAL)
        return self._devices[index]

    def device(self, target: Any) -> torch.device:
        """Normalize what users write for a device.

        An integer, a string, a `torch.device`, None for the current GPU.
        """
        if target is None:
            return self.cuda(None)
        if isinstance(target, int):
            return self.cuda(target)
        if isinstance(target, torch.cuda.device):
            return self.cuda(target.idx)
        if not isinstance(target, TorchDevice):
            target = TorchDevice(target)
        if target.type == "cuda":
            return self.cuda(target.index)
        if target.type == "cpu":
            return CPU
        other: torch.device = target
        return other

    def rest_on(self, index: int) -> None:
        """Make `index` this thread's current device again, without initializing anything."""
        self._local.current = index

    def uninitialize(self) -> None:
        """As before the first CUDA call: `CUDA_VISIBLE_DEVICES` is read anew.

        Nothing may be held on any device.
        """
        self.initialized = False
        self.pid = os.getpid()
        self.refresh_visible()

    def index(self, target: Any) -> int:
        """Index of a GPU that is named in any way; raises ValueError for a device of another kind."""
        device = self.device(target)
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        return int(device.index)

    # -- random numbers

    def generator(self, index: int) -> torch._C.Generator:
        """Default generator of a device.

        A CPU engine of its own, seeded as torch seeds the CPU's until told otherwise.
        """
        with self._generator_lock:
            found = self._generators.get(index)
            if found is None:
                found = VirtualGenerator(self._devices[index])
                found.manual_seed(
                    torch.default_generator.initial_seed() if self._seed is None else self._seed
                )
                self._generators[index] = found
            return found

    def seed_all(self, seed: int) -> None:
        """`torch.cuda.manual_seed_all`: also for generators that do not exist yet."""
        with self._generator_lock:
            self._seed = seed
            for generator in self._generators.values():
                generator.manual_seed(seed)


def gpu_uuid(physical_index: int) -> str:
    """Stable made-up UUID of a virtual GPU, in NVML's form."""
    return f"GPU-5a3ede1c-0000-4000-8000-{physical_index:012x}"


_stack: list[MachineState] = []


def push_state(state: MachineState) -> None:
    """Enter a machine."""
    _stack.append(state)


def pop_state(state: MachineState) -> None:
    """Leave a machine; it must be the innermost one."""
    assert _stack and _stack[-1] is state, "virtual machines must be left in reverse order of entering"
    _stack.pop()


def current_machine() -> MachineState:
    """The innermost machine; outside of any, a script kept what belongs to one that was left."""
    if not _stack:
        raise UsageError(_LEFT)
    return _stack[-1]


def assumed_ranks() -> int | None:
    """Number of ranks of the launch that this process stands for.

    A machine inside of the one that was told knows it, too.
    """
    numbers = (machine.assumed_ranks for machine in reversed(_stack))
    return next((ranks for ranks in numbers if ranks is not None), None)


def entered() -> bool:
    """Whether any machine is entered."""
    return bool(_stack)
