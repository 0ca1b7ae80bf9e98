"""`torch.Generator` and the random state functions of `torch.cuda` on a virtual machine.

Must guarantee: `isinstance(x, torch.Generator)` holds for every generator, made before or inside the machine;
seeding never fixes the visible devices, as in CUDA, where seeds wait for the initialization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import torch

from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import (
    CPU,
    TorchDevice,
    TorchGenerator,
    VirtualGenerator,
    current_machine,
    whole,
)


class _GeneratorType(type):
    def __call__(cls, device: Any = CPU) -> TorchGenerator:
        if device is None:
            return TorchGenerator()
        place = current_machine().device(device)
        return VirtualGenerator(place) if place.type == "cuda" else TorchGenerator(place)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TorchGenerator)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, TorchGenerator)

    def __getattr__(cls, name: str) -> Any:
        return getattr(TorchGenerator, name)


class Generator(metaclass=_GeneratorType):
    """`torch.Generator` inside a machine."""

    __module__ = "torch"


class DefaultGenerators(Sequence[torch._C.Generator]):
    """`torch.cuda.default_generators`: one for each visible GPU of the machine that is entered now."""

    @overload
    def __getitem__(self, index: int) -> torch._C.Generator: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[torch._C.Generator, ...]: ...
    def __getitem__(self, index: int | slice) -> torch._C.Generator | tuple[torch._C.Generator, ...]:
        state = current_machine()
        chosen = range(state.device_count())[index]
        if isinstance(chosen, int):
            return state.generator(chosen)
        return tuple(state.generator(one) for one in chosen)

    def __len__(self) -> int:
        return current_machine().device_count()

    def __iter__(self) -> Iterator[torch._C.Generator]:
        return iter(self[:])

    def __repr__(self) -> str:
        return repr(self[:])


def _generator_of(device: Any) -> torch._C.Generator:
    """Default generator of a device, without initializing the machine."""
    state = current_machine()
    if not isinstance(device, int):
        device = TorchDevice(device).index
    return DefaultGenerators()[state.current_device() if device is None else device]


def get_rng_state(device: int | str | torch.device = "cuda") -> torch.Tensor:
    """State of a GPU's default generator."""
    current_machine().initialize()
    return _generator_of(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """State of every GPU's default generator."""
    return [get_rng_state(index) for index in range(current_machine().device_count())]


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "cuda") -> None:
    """Put a state back into a GPU's default generator."""
    _generator_of(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Put states back into all GPUs' default generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current GPU."""
    state = current_machine()
    if state.device_count():
        state.generator(state.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed all GPUs, also those whose generator does not exist yet."""
    current_machine().seed_all(int(seed))


def seed() -> None:
    """Seed the current GPU with a random number."""
    state = current_machine()
    if state.device_count():
        state.generator(state.current_device()).seed()


def seed_all() -> None:
    """Seed all GPUs with one random number."""
    state = current_machine()
    if state.device_count():
        state.seed_all(state.generator(0).seed())


def initial_seed() -> int:
    """The current GPU's seed."""
    state = current_machine()
    state.initialize()
    return int(state.generator(state.current_device()).initial_seed())


_RANDOM: tuple[Callable[..., Any], ...] = (
    get_rng_state,
    get_rng_state_all,
    set_rng_state,
    set_rng_state_all,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    initial_seed,
)


def _region(original: Any) -> Any:
    def distribute_region(self: Any, spec: Any, generator: torch._C.Generator | None = None) -> Any:
        # torch 2.6 hands on no generator
        return original(self, spec) if generator is None else original(self, spec, whole(generator))

    return distribute_region


PATCHES = (
    Patch("torch.Generator", Constant(Generator), "C++ makes no generator for CUDA without CUDA"),
    Patch(
        "torch.cuda.default_generators",
        lambda original: DefaultGenerators(),
        "each GPU has a default generator",
        copies="torch.cuda",
    ),
    *(
        Patch(
            f"torch.cuda.{function.__name__}",
            Constant(function),
            "torch's own draw on the generators of real GPUs",
            copies="torch.cuda",
        )
        for function in _RANDOM
    ),
    Patch(
        "torch.distributed.tensor._random.OffsetBasedRNGTracker._distribute_region",
        _region,
        "DTensor computes with the state of a generator that it got from C++, which lacks the virtual half",
        package="torch.distributed.tensor._random",
    ),
)
