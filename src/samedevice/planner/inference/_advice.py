"""What would fit where a plan does not: every way by calculation, none of them tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from samedevice.machines import Gpu, Machine, gpu_table
from samedevice.messages import Bytes, Phrase
from samedevice.planner.inference._blocks import Block, Loads
from samedevice.planner.inference._division import Slot, divide
from samedevice.planner.inference._profile import Profile

_BITS = {8: 0.5, 4: (0.5 + 1 / 64 + 4 / (64 * 256)) / 2}
"""Part of a 16-bit matrix that is left by bitsandbytes: 8 bits; or 4, with a byte for each 64 weights and 4
bytes for each 256 of those (arXiv:2305.14314, section 3).
"""
COUNTS = (1, 2, 4, 8)
"""Machines of the table are tried with so many of one GPU."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine of one kind of GPU on which a model fits."""

    gpu: Gpu
    count: int
    room: int
    """Bytes left on the fullest GPU."""
    price: float | None

    @property
    def spec(self) -> str:
        """As `--machine` takes it."""
        return f"{self.count}x{self.gpu.key}"


def offers(profile: Profile, reserve: int, prices: Mapping[str, float]) -> list[Offer]:
    """For each GPU of the table, the fewest with which the model fits; in the order of `fewest_of_each`."""
    loads = Loads(profile.blocks)

    def room(budget: int, count: int) -> int:
        if budget * count < (kept := loads.kept(0, len(loads))):
            return budget * count - kept
        return divide(loads, [Slot(budget)] * count).room

    return fewest_of_each(room, reserve, prices)


def fewest_of_each(
    room_on: Callable[[int, int], int], reserve: int, prices: Mapping[str, float]
) -> list[Offer]:
    """For each GPU of the table, the fewest with which nothing is lacking.

    Cheapest first where prices are known, then those with the least memory in all.

    Args:
        room_on: bytes left on the fullest of so many GPUs with a budget of so many bytes each; negative where
            they do not suffice.
        reserve: bytes of each GPU that are left alone.
        prices: of one GPU, by its name in the table.
    """
    found = []
    for gpu in gpu_table():
        for count in COUNTS:
            room = room_on(gpu.total_memory - reserve, count)
            if room >= 0:
                price = prices.get(gpu.key)
                found.append(Offer(gpu, count, room, None if price is None else price * count))
                break

    def order(offer: Offer) -> tuple[bool, float, int, int]:
        total = offer.count * offer.gpu.total_memory
        return (offer.price is None, offer.price or 0.0, total, -offer.room)

    return sorted(found, key=order)


def ways_out(profile: Profile, machine: Machine, slots: Sequence[Slot], reserve: int) -> Iterator[Phrase]:
    """What else would fit, one sentence each."""
    for bits in _BITS:
        if profile.source.dtype != "float32" and _fits(quantized(profile.blocks, bits), slots):
            yield Phrase("place.out-quantized", bits=bits)
            break
    if (offloaded := _offloaded(profile.blocks, slots)) is not None:
        yield Phrase(
            "place.out-offloaded",
            count=len(offloaded),
            amount=Bytes(sum(block.weights for block in offloaded)),
        )
    alike = {gpu.key for gpu in machine.gpus}
    if len(alike) == 1:
        slot = slots[0]
        for count in range(len(slots) + 1, 8 * len(slots) + 1):
            if _fits(profile.blocks, [slot] * count):
                yield Phrase("place.out-more", spec=f"{count}x{machine.gpus[0].key}")
                break
    if found := offers(profile, reserve, {}):
        yield Phrase("place.out-other", specs=", ".join(offer.spec for offer in found[:3]))


def _fits(blocks: Sequence[Block], slots: Sequence[Slot]) -> bool:
    return divide(Loads(blocks), slots).room >= 0


def quantized(blocks: Sequence[Block], bits: int) -> list[Block]:
    """The blocks with the matrices of their linear layers in 8 or 4 bits."""
    part = _BITS[bits]
    return [
        replace(block, weights=block.weights - round(block.matrices * (1 - part)), matrices=0)
        for block in blocks
    ]


def _offloaded(blocks: Sequence[Block], slots: Sequence[Slot]) -> list[Block] | None:
    """The fewest last layers whose weights wait on the host; None where that does not help.

    A layer comes to the last GPU for as long as it runs, so that one of them has to fit there besides.
    """
    layers = [position for position, block in enumerate(blocks) if block.cache]

    def left(count: int) -> list[Block]:
        away = set(layers[len(layers) - count :])
        return [
            replace(
                block,
                weights=0,
                prefill=block.prefill + block.weights,
                decode=block.decode + block.weights,
                home_prefill=block.home_prefill + block.weights,
                home_decode=block.home_decode + block.weights,
            )
            if position in away
            else block
            for position, block in enumerate(blocks)
        ]

    fewest = _first(lambda count: _fits(left(count), slots), len(layers))
    return None if fewest is None else [blocks[position] for position in layers[len(layers) - fewest :]]


def _first(holds: Callable[[int], bool], most: int) -> int | None:
    """The smallest number from 1 for which something holds that holds for all larger ones."""
    if most < 1 or not holds(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
