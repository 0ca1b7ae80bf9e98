"""A random number generator that lives on a virtual GPU.

Must guarantee: it is a `torch.Generator` for every isinstance check, C++ included, and `.device` answers the virtual GPU. Its
engine is torch's CPU engine, so the numbers are not those of a real GPU's Philox engine; equal seeds still give equal numbers.

Note [A generator loses its Python object]
C++ hands an operator's generator to a dispatch mode as a new `torch._C.Generator` on the same engine. The engine's address
is what both have in common, so devices are looked up by it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from samedevice.errors import UnsupportedFeatureError

# The classes themselves: inside a machine torch's names are replaced.
TorchGenerator = torch._C.Generator
_TorchDevice = torch.device

_CUDA_STATE_BYTES = 16

_device_of_engine: dict[int, torch.device] = {}


class VirtualGenerator(TorchGenerator):
    """A CPU engine that answers a virtual device."""

    _virtual_device: torch.device

    def __new__(cls, device: torch.device) -> VirtualGenerator:
        generator: VirtualGenerator = super().__new__(cls)
        generator._virtual_device = device
        address = _address(generator)
        _device_of_engine[address] = device
        weakref.finalize(generator, _device_of_engine.pop, address, None).atexit = False
        return generator

    def __init__(self, device: torch.device) -> None:
        pass

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # torch's stub declares a plain attribute
        """The virtual GPU."""
        return self._virtual_device

    def set_state(self, new_state: torch.Tensor) -> VirtualGenerator:
        """Take a state of this class, or the 16 bytes (seed, offset) that a checkpoint from a real GPU holds.

        Of the latter only the seed can be honoured.
        """
        if new_state.numel() == _CUDA_STATE_BYTES:
            seed = int.from_bytes(bytes(new_state[:8].tolist()), "little")
            self.manual_seed(seed)
            return self
        super().set_state(new_state)
        return self

    def clone_state(self) -> VirtualGenerator:
        """A generator of its own with the same state."""
        twin = VirtualGenerator(self._virtual_device)
        twin.set_state(self.get_state())
        return twin

    def get_offset(self) -> int:
        """Not there: the engine counts no offset."""
        raise UnsupportedFeatureError("torch.Generator.get_offset is not supported: a virtual GPU's generator has no Philox offset.")

    def set_offset(self, offset: int) -> TorchGenerator:
        """Not there: the engine counts no offset."""
        raise UnsupportedFeatureError("torch.Generator.set_offset is not supported: a virtual GPU's generator has no Philox offset.")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._virtual_device.index, self.get_state())


def _address(generator: torch._C.Generator) -> int:
    address: int = generator._cdata  # type: ignore[attr-defined]  # missing in torch's stub
    return address


def virtual_device(generator: torch._C.Generator) -> torch.device | None:
    """The virtual GPU of a generator, also of a plain object on a virtual generator's engine; None on the host.

    See Note [A generator loses its Python object].
    """
    return _device_of_engine.get(_address(generator))


def _rebuild(index: int, state: torch.Tensor) -> VirtualGenerator:
    generator = VirtualGenerator(_TorchDevice("cuda", index))
    generator.set_state(state)
    return generator
