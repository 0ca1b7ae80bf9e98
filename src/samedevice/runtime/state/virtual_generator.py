"""A random number generator that lives on a virtual GPU.

Must guarantee: it is a `torch.Generator` for every isinstance check, C++ included, `.device` answers the
virtual GPU, and its state is that of CUDA's: 16 bytes, a seed and a Philox offset. The next numbers hang on
these two alone, so a state that was computed (as DTensor computes it), loaded or kept means the same numbers
in every process. They are those of torch's CPU engine, not of a real GPU's Philox engine: after seeding, the
first draw is what the CPU draws from that seed.

Note [A generator loses its Python object]
C++ hands an operator's generator to a dispatch mode as a new `torch._C.Generator` on the same engine. The
engine's address is what both have in common, so the state is looked up by it. The engine itself never draws.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from samedevice.runtime.state import plain

# The classes themselves: inside a machine torch's names are replaced.
TorchGenerator = torch._C.Generator
_TorchDevice = torch.device

_SEED_BYTES = 8
_STATE_BYTES = 16
_64_BITS = (1 << 64) - 1


class Philox:
    """Seed and offset; several generators may share one."""

    __slots__ = ("__weakref__", "device", "offset", "seed")

    def __init__(self, device: torch.device, seed: int, offset: int = 0) -> None:
        self.device = device
        self.seed = seed
        self.offset = offset

    def draw(self, used: int) -> torch._C.Generator:
        """A CPU engine for one operator, which uses so much of the offset."""
        engine = TorchGenerator()
        engine.manual_seed(self.seed if self.offset == 0 else _mixed(self.seed, self.offset))
        self.offset = (self.offset + used) & _64_BITS
        return engine


_philox_of_engine: dict[int, Philox] = {}


class VirtualGenerator(TorchGenerator):
    """Seed and offset behind the face of a CPU engine."""

    def __new__(cls, device: torch.device) -> VirtualGenerator:
        generator: VirtualGenerator = super().__new__(cls)
        address = _address(generator)
        _philox_of_engine[address] = Philox(device, TorchGenerator.initial_seed(generator))
        weakref.finalize(generator, _philox_of_engine.pop, address, None).atexit = False
        return generator

    def __init__(self, device: torch.device) -> None:
        pass

    @property
    def _philox(self) -> Philox:
        return _philox_of_engine[_address(self)]

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # torch's stub declares a plain attribute
        """The virtual GPU."""
        return self._philox.device

    def manual_seed(self, seed: int) -> VirtualGenerator:
        """Begin anew from a seed."""
        super().manual_seed(seed)  # it knows which numbers are seeds
        self._philox.seed, self._philox.offset = super().initial_seed(), 0
        return self

    def seed(self) -> int:
        """Begin anew from a seed that nobody knows."""
        self._philox.seed, self._philox.offset = super().seed(), 0
        return self._philox.seed

    def initial_seed(self) -> int:
        """The seed."""
        return self._philox.seed

    def get_state(self) -> torch.Tensor:
        """Seed and offset, as CUDA lays them out."""
        philox = self._philox
        return plain.tensor(
            [*philox.seed.to_bytes(8, "little"), *philox.offset.to_bytes(8, "little")],
            dtype=torch.uint8,
            device="cpu",
        )

    def set_state(self, new_state: torch.Tensor) -> VirtualGenerator:
        """Go to a place that `get_state` told, also one of a real GPU."""
        if not isinstance(new_state, torch.Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if (
            new_state.layout != torch.strided
            or new_state.device.type != "cpu"
            or new_state.dtype != torch.uint8
        ):
            raise TypeError("RNG state must be a torch.ByteTensor")
        if not new_state.is_contiguous():
            raise RuntimeError("RNG state must be contiguous")
        if new_state.numel() not in (_SEED_BYTES, _STATE_BYTES):
            raise RuntimeError("RNG state is wrong size")
        state = bytes(new_state.flatten().tolist())
        offset = int.from_bytes(state[_SEED_BYTES:], "little")
        _check_offset(offset)
        self._philox.seed, self._philox.offset = int.from_bytes(state[:_SEED_BYTES], "little"), offset
        return self

    def clone_state(self) -> VirtualGenerator:
        """A generator of its own with the same state."""
        return _rebuild_at(self._philox.device, self.get_state())

    def graphsafe_get_state(self) -> VirtualGenerator:
        """A generator that shares this one's state."""
        twin = VirtualGenerator(self._philox.device)
        return twin.graphsafe_set_state(self)

    def graphsafe_set_state(self, state: torch._C.Generator) -> VirtualGenerator:
        """Share the state of another generator from now on."""
        if not isinstance(state, VirtualGenerator):
            raise RuntimeError("graphsafe_set_state: expected a generator of a GPU")
        _philox_of_engine[_address(self)] = state._philox
        return self

    def get_offset(self) -> int:
        """How far it has come from its seed."""
        return self._philox.offset

    def set_offset(self, offset: int) -> VirtualGenerator:
        """Go to a place behind the seed."""
        _check_offset(offset)
        self._philox.offset = int(offset)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._philox.device.index, self.get_state())


def _check_offset(offset: int) -> None:
    if offset % 4:
        raise RuntimeError("offset must be a multiple of 4")


def _mixed(seed: int, offset: int) -> int:
    """A seed for one place of the sequence.

    All 128 bits count, and the CPU's engine takes 32 of them (SplitMix64's finalizer).
    """
    value = seed
    for part in (0, offset):
        value = (value + part + 0x9E3779B97F4A7C15) & _64_BITS
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _64_BITS
        value ^= value >> 31
    return value


def _address(generator: torch._C.Generator) -> int:
    address: int = generator._cdata  # type: ignore[attr-defined]  # missing in torch's stub
    return address


def virtual_state(generator: torch._C.Generator) -> Philox | None:
    """The state of a generator of a virtual GPU, also of a plain object on its engine; None on the host.

    See Note [A generator loses its Python object].
    """
    return _philox_of_engine.get(_address(generator))


def whole(generator: torch._C.Generator) -> torch._C.Generator:
    """A generator with its face, for a plain object on a virtual generator's engine.

    See Note [A generator loses its Python object].
    """
    state = virtual_state(generator)
    if state is None or isinstance(generator, VirtualGenerator):
        return generator
    found = VirtualGenerator(state.device)
    _philox_of_engine[_address(found)] = state
    return found


def all_states() -> list[Philox]:
    """The states of all generators of virtual GPUs."""
    return list(_philox_of_engine.values())


def _rebuild_at(device: torch.device, state: torch.Tensor) -> VirtualGenerator:
    generator = VirtualGenerator(device)
    generator.set_state(state)
    return generator


def _rebuild(index: int, state: torch.Tensor) -> VirtualGenerator:
    return _rebuild_at(_TorchDevice("cuda", index), state)


def generator_device(generator: torch._C.Generator) -> torch.device:
    """Where a generator lives: a virtual GPU or the host."""
    state = virtual_state(generator)
    return generator.device if state is None else state.device
