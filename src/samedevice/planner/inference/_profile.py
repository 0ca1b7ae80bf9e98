"""What each block of a model needs, measured.

The whole model runs once on a single virtual GPU without a limit, and the ledger is read before and after
each block. Weights have no values, so this costs seconds for any size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from samedevice.errors import SameDeviceError, UsageError
from samedevice.messages import Phrase
from samedevice.planner._trial import endless
from samedevice.planner.inference._blocks import Block, Workload, merged
from samedevice.planner.inference._passes import Passes, parts_of, quiet
from samedevice.planner.inference._pictures import Pictures
from samedevice.planner.inference._sounds import Sound
from samedevice.planner.inference._source import ModelSource, build_model
from samedevice.planner.inference._tree import Unit, shared, units_of

if TYPE_CHECKING:
    import torch

_GRAIN = 512
"""Bytes: torch's caching allocator hands out multiples of it (`kMinBlockSize`)."""
_HOME = "cuda:0"


@dataclass(frozen=True, slots=True)
class Profile:
    """The blocks of a model in the order in which they run."""

    source: ModelSource
    workload: Workload
    blocks: tuple[Block, ...]
    parameters: int
    pictures: Pictures | None = None
    """Those of each sequence."""
    sound: Sound | None = None
    """That of each sequence, in the place of a prompt."""

    def with_blocks(self, blocks: tuple[Block, ...]) -> Profile:
        """The same with another row of blocks."""
        return replace(self, blocks=blocks)


@dataclass(slots=True)
class _Seen:
    """What a unit did in both passes."""

    order: int | None = None
    needed: dict[str, int] = field(default_factory=dict)
    """By the name of a field of `Block`."""
    cache_of: set[tuple[Any, ...]] = field(default_factory=set)


Measure = Callable[[Workload], Profile]


def profile_model(source: ModelSource, workload: Workload) -> Profile:
    """Measure the blocks of a model. Raises UsageError where it cannot be built or does not run."""
    with measuring(source) as measure:
        return measure(workload)


@contextlib.contextmanager
def measuring(source: ModelSource) -> Iterator[Measure]:
    """Inside, a model can be measured for several workloads. Raises as `profile_model` does."""
    import torch

    from samedevice.runtime import VirtualMachine

    with quiet():
        model: Any = build_model(source)
        units, parameters = units_of(model), sum(each.numel() for each in model.parameters())
        groups = shared(units)
        sizes = [
            rounded([tensor for position in group for tensor in units[position].tensors]) for group in groups
        ]
        virtual = VirtualMachine(endless(1))
        virtual.leave_out_workspaces()  # they are in the reserve
        with virtual, torch.no_grad():
            model.to_empty(device=_HOME)
            for buffer in model.buffers():
                if not buffer.is_floating_point():
                    buffer.zero_()  # an index, such as position ids: what was in the memory is none
            model.tie_weights()
            model.eval()

            def measure(workload: Workload) -> Profile:
                virtual.keep_values(workload.nbytes)
                measured = _Measured(model, units, workload)
                try:
                    measured.run()
                except SameDeviceError:
                    raise
                except Exception as error:  # of the model's own code, whatever it is
                    reason = f"{type(error).__name__}: {error}"
                    raise UsageError(
                        Phrase("place.unrunnable", architecture=source.architecture, reason=reason)
                    ) from error
                blocks = _blocks(groups, sizes, measured)
                return Profile(source, workload, blocks, parameters, measured.pictures, measured.sound)

            yield measure


def _blocks(groups: list[list[int]], sizes: list[int], measured: _Measured) -> tuple[Block, ...]:
    """The blocks in the order in which they run."""
    placed = [
        (measured.place_of(group), _block(group, size, measured))
        for group, size in zip(groups, sizes, strict=True)
    ]
    placed.sort(key=lambda pair: pair[0])
    first, *others = [block for _, block in placed]
    # What the caller holds (ids, masks, logits) is where the first block is.
    first = replace(
        first,
        home_prefill=max(first.home_prefill, measured.between["early"]),
        home_late=max(first.home_late, measured.between["prefill"]),
        home_decode=max(first.home_decode, measured.between["decode"]),
    )
    return (first, *others)


def rounded(tensors: list[torch.Tensor]) -> int:
    """Bytes that different tensors take on a GPU."""
    different = {id(tensor): tensor for tensor in tensors}.values()
    return sum(_on_gpu(tensor.numel() * tensor.element_size()) for tensor in different)


def _on_gpu(nbytes: int) -> int:
    return -(-nbytes // _GRAIN) * _GRAIN


def _block(group: list[int], weights: int, measured: _Measured) -> Block:
    """Units that share memory as one block, at the place of the first that runs."""
    caches = measured.caches()
    members = [_of_unit(position, measured, caches) for position in sorted(group, key=measured.place)]
    return merged(members, weights)


def _of_unit(position: int, measured: _Measured, caches: tuple[list[int], list[int]]) -> Block:
    """One unit; its weights are told by whoever knows what others share."""
    unit, seen = measured.units[position], measured.seen[position]
    prompt, cache = caches
    return Block(
        names=(unit.name,),
        kind=unit.kind,
        weights=0,
        prompt_cache=prompt[position],
        cache=cache[position],
        matrices=_matrices(unit),
        idle=seen.order is None,
        **seen.needed,
    )


def _matrices(unit: Unit) -> int:
    """Bytes of the matrices of linear layers inside a block of several modules."""
    import torch

    if unit.module is None or isinstance(unit.module, torch.nn.Linear):
        return 0  # a head stays as it is when a model is quantized
    inner = [module for module in unit.module.modules() if isinstance(module, torch.nn.Linear)]
    return sum(module.weight.numel() * module.weight.element_size() for module in inner)


class _Measured:
    """One model on one GPU, watched at the borders of its units."""

    def __init__(self, model: Any, units: list[Unit], workload: Workload) -> None:
        self.units = units
        self.seen = [_Seen() for _ in units]
        self.between = {"early": 0, "prefill": 0, "decode": 0}
        """Needed while none of the units ran, `early` before anything was in the cache."""
        self._passes = Passes(model, workload, _HOME)
        self.pictures, self.sound = self._passes.pictures, self._passes.sound
        self._phase = "prefill"
        self._calls = 0
        self._left: int | None = None
        """The unit that ran last."""
        self._before: dict[tuple[Any, ...], int] = {}
        self._inputs = self._entered = 0
        self._base = self._allocated()
        self._last: list[dict[tuple[Any, ...], int]] = []

    def run(self) -> None:
        """Both passes."""
        handles = []
        for position, unit in enumerate(self.units):
            if unit.module is not None:
                handles += [
                    unit.module.register_forward_pre_hook(self._entering(position), with_kwargs=True),
                    unit.module.register_forward_hook(self._leaving(position)),
                ]
        try:
            self._border()
            self._passes.prompt()
            self._close("prefill")
            self._phase = "decode"
            self._passes.last()
            self._close("decode")
        finally:
            for handle in handles:
                handle.remove()

    def caches(self) -> tuple[list[int], list[int]]:
        """Bytes of the cache that belong to each unit after the prompt and at the end."""
        return tuple(
            [sum(held.get(path, 0) for path in each.cache_of) for each in self.seen] for held in self._last
        )  # type: ignore[return-value] # two

    def place(self, position: int) -> float:
        """When a unit first runs; of one that does not, just before what is defined behind it."""
        order = self.seen[position].order
        if order is not None:
            return float(order)
        for later in range(position + 1, len(self.seen)):
            found = self.seen[later].order
            if found is not None:
                return found - 1 + (position + 1) / (len(self.seen) + 1)
        return float(len(self.seen) + position)

    def place_of(self, group: list[int]) -> float:
        """When the first unit of a group runs, whatever is idle."""
        running = [position for position in group if self.seen[position].order is not None]
        return min(self.place(position) for position in running or group)

    def _entering(self, position: int) -> Callable[..., None]:
        def enter(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._note_between()
            seen = self.seen[position]
            if seen.order is None:
                seen.order = self._calls
            self._calls += 1
            self._before = self._cache()
            self._inputs = self._size_of((args, kwargs))
            self._entered = self._allocated()
            self._border()

        return enter

    def _leaving(self, position: int) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            seen = self.seen[position]
            peak = self._peak()
            here = peak - self._base - sum(self._before.values())
            # Elsewhere only what the block is given is held besides.
            away = min(here, self._inputs + peak - self._entered)
            for name, needed in ((self._phase, away), (f"home_{self._phase}", here)):
                seen.needed[name] = max(seen.needed.get(name, 0), needed)
            if self._phase == "prefill":
                now = self._cache()
                seen.cache_of |= {path for path, size in now.items() if self._before.get(path) != size}
            self._left = position
            self._border()

        return leave

    def _size_of(self, given: Any) -> int:
        """Bytes of what a block is given, without the cache."""
        held = {id(tensor) for _, tensor in parts_of(self._passes.cache)}
        return rounded([tensor for _, tensor in parts_of(given) if id(tensor) not in held])

    def _note_between(self) -> None:
        held = sum(self._cache().values())
        phase = self._phase if held else "early"
        needed = self._peak() - self._base - held
        self.between[phase] = max(self.between[phase], needed)
        if phase == "early" and self._left is not None:
            # What is made of a block's output is where it is; only the pixels are where the first block is.
            away = self.seen[self._left].needed
            away["prefill"] = max(away.get("prefill", 0), needed - self._passes.nbytes_beside_text)

    def _close(self, phase: str) -> None:
        self._note_between()
        assert phase == self._phase
        self._last.append(self._cache())
        self._border()

    def _cache(self) -> dict[tuple[Any, ...], int]:
        """Bytes of each part of the cache; a window over the last tokens keeps the memory of all of them."""
        held: dict[int, tuple[tuple[Any, ...], int]] = {}
        for path, tensor in parts_of(self._passes.cache):
            storage = tensor.untyped_storage()
            held.setdefault(storage._cdata, (path, _on_gpu(storage.nbytes())))
        return dict(held.values())

    def _allocated(self) -> int:
        import torch

        return torch.cuda.memory_allocated()

    def _peak(self) -> int:
        import torch

        return torch.cuda.max_memory_allocated()

    def _border(self) -> None:
        import torch

        torch.cuda.reset_peak_memory_stats()
