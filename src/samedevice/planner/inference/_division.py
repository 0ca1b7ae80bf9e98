"""The best division of a row of blocks over GPUs, exactly. Needs no torch.

Must guarantee: no division of the row into one run of blocks for each GPU, in whatever order unlike GPUs
come, is better by the objective. How: with a threshold for the objective, the row is filled GPU by GPU,
each taking as many blocks as it may; for each number of GPUs of each kind the farthest block is kept, since
whoever is ahead can do what the others can. So whether a threshold can be met is decided exactly, and the
best one is found by halving. A longer run of blocks never needs less (`Loads`), which makes the filling
right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from samedevice.planner.inference._blocks import Loads

Objective = Literal["room", "stage", "gpus", "price"]
OBJECTIVES: tuple[Objective, ...] = ("room", "stage", "gpus", "price")

_NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Slot:
    """A GPU as far as a division asks."""

    budget: int
    """Bytes that may be used."""
    speed: float = 0.0
    """Bytes that it reads in a second; 0 where that is not known."""
    price: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks on one GPU: those from `start` to before `stop`."""

    gpu: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Division:
    """The best division, in the order of execution, with what proves that it is."""

    runs: tuple[Run, ...]
    room: int
    """Bytes that are left on the GPU with the fewest; negative where it does not fit."""
    bound: int
    """No division whatever, even one that cuts tensors, leaves more on every GPU."""
    tried: int
    """Thresholds for which the farthest reach was computed."""
    stage: float | None = None
    """Seconds that the slowest GPU takes to read what it holds once; None where a speed is not known."""


def divide(loads: Loads, slots: Sequence[Slot], objective: Objective = "room") -> Division:
    """The best division of the blocks over some or all of the GPUs.

    Where it does not fit, the one that lacks the fewest bytes: its `room` is negative.
    """
    if not len(loads) or not slots:
        raise ValueError("a division needs blocks and GPUs")
    search = _Search(loads, slots)
    room = search.most_room(search.all)
    counts = search.all
    stage = None
    if room >= 0 and objective in ("gpus", "price"):
        counts = search.cheapest(by_price=objective == "price")
        room = search.most_room(counts)
    if room >= 0 and objective == "stage":
        stage = search.least_stage()
    order = search.order(counts, room, stage) if stage is None else search.order(counts, 0, stage)
    runs = _balanced(loads, order, slots, room if stage is None else 0, stage)
    return Division(
        runs=runs,
        room=min(slots[run.gpu].budget - loads.peak(run.start, run.stop) for run in runs),
        bound=_bound(loads, [slots[gpu].budget for gpu in search.gpus_of(counts)]),
        tried=search.tried,
        stage=_slowest(loads, runs, slots),
    )


def seconds(loads: Loads, run: Run, slot: Slot) -> float:
    """Time in which a GPU reads its weights and caches once, as it does for each token."""
    return loads.kept(run.start, run.stop) / slot.speed


def _slowest(loads: Loads, runs: Sequence[Run], slots: Sequence[Slot]) -> float | None:
    if not all(slots[run.gpu].speed for run in runs):
        return None
    return max(seconds(loads, run, slots[run.gpu]) for run in runs)


def _bound(loads: Loads, budgets: Sequence[int]) -> int:
    """The mean of what is left when weights and caches are spread like sand, over the best number of GPUs."""
    kept, best, held = loads.kept(0, len(loads)), None, 0
    for count, budget in enumerate(sorted(budgets, reverse=True), 1):
        held += budget
        left = (held - kept) // count
        best = left if best is None else max(best, left)
    assert best is not None, "there is a GPU"
    return best


_Counts = tuple[int, ...]
"""How many GPUs of each kind."""


class _Search:
    """What can be reached with which GPUs; alike ones are one kind."""

    def __init__(self, loads: Loads, slots: Sequence[Slot]) -> None:
        self.loads = loads
        self.kinds = tuple(dict.fromkeys(slots))
        self.members = [[i for i, slot in enumerate(slots) if slot == kind] for kind in self.kinds]
        self.all: _Counts = tuple(map(len, self.members))
        self.tried = 0

    def gpus_of(self, counts: _Counts) -> list[int]:
        """The first GPUs of each kind."""
        return [gpu for members, count in zip(self.members, counts, strict=True) for gpu in members[:count]]

    def most_room(self, counts: _Counts) -> int:
        """The most bytes that can be left on each used GPU; negative where it does not fit."""
        whole = self.loads.peak(0, len(self.loads))
        low, high = -whole, max(kind.budget for kind in self.kinds)  # low can be met by a single GPU
        while low < high:
            middle = (low + high + 1) // 2
            if self._reaches_end(counts, self._within_room(middle)):
                low = middle
            else:
                high = middle - 1
        return low

    def least_stage(self) -> int:
        """The fewest nanoseconds that the slowest GPU can have where everything fits."""
        slowest = min(kind.speed for kind in self.kinds)
        low, high = 0, int(self.loads.kept(0, len(self.loads)) / slowest * _NANOSECONDS) + 1
        while low < high:
            middle = (low + high) // 2
            if self._reaches_end(self.all, self._within_stage(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def cheapest(self, *, by_price: bool) -> _Counts:
        """The cheapest GPUs that suffice, the fewest of equally cheap ones."""
        reach = self._reach(self.all, self._within_room(0))
        enough = [counts for counts, (stop, _) in reach.items() if stop == len(self.loads)]

        def cost(counts: _Counts) -> tuple[float, int]:
            price = sum(kind.price * count for kind, count in zip(self.kinds, counts, strict=True))
            return (price if by_price else 0.0, sum(counts))

        cheapest = min(map(cost, enough))
        # Of equally cheap ones, those that leave the most room.
        return max((counts for counts in enough if cost(counts) == cheapest), key=self.most_room)

    def order(self, counts: _Counts, room: int, stage: int | None) -> list[int]:
        """The fewest GPUs that keep the threshold, in the order in which they are filled."""
        fits = self._within_room(room) if stage is None else self._within_stage(stage)
        reach = self._reach(counts, fits)
        enough = [each for each, (stop, _) in reach.items() if stop == len(self.loads)]
        state = min(enough, key=sum)
        kinds: list[int] = []
        while any(state):
            kind = reach[state][1]
            kinds.append(kind)
            state = _less(state, kind)
        waiting = [iter(members) for members in self.members]
        return [next(waiting[kind]) for kind in reversed(kinds)]

    def _within_room(self, room: int) -> Callable[[int, int, int], bool]:
        return lambda kind, start, stop: self.loads.peak(start, stop) <= self.kinds[kind].budget - room

    def _within_stage(self, limit: int) -> Callable[[int, int, int], bool]:
        fits = self._within_room(0)

        def within(kind: int, start: int, stop: int) -> bool:
            time = self.loads.kept(start, stop) / self.kinds[kind].speed * _NANOSECONDS
            return time <= limit and fits(kind, start, stop)

        return within

    def _reaches_end(self, counts: _Counts, fits: Callable[[int, int, int], bool]) -> bool:
        return self._reach(counts, fits)[counts][0] == len(self.loads)

    def _reach(
        self, counts: _Counts, fits: Callable[[int, int, int], bool]
    ) -> dict[_Counts, tuple[int, int]]:
        """For each choice of GPUs, the farthest block, and the kind that was filled last."""
        self.tried += 1
        reach: dict[_Counts, tuple[int, int]] = {}
        for state in product(*(range(count + 1) for count in counts)):
            best = (0, -1)
            for kind, used in enumerate(state):
                if used:
                    start = reach[_less(state, kind)][0]
                    stop = self._farthest(kind, start, fits)
                    best = max(best, (stop, kind), key=lambda pair: pair[0])
            reach[state] = best
        return reach

    def _farthest(self, kind: int, start: int, fits: Callable[[int, int, int], bool]) -> int:
        low, high = start, len(self.loads)
        while low < high:
            middle = (low + high + 1) // 2
            if fits(kind, start, middle):
                low = middle
            else:
                high = middle - 1
        return low


def _less(state: _Counts, kind: int) -> _Counts:
    return (*state[:kind], state[kind] - 1, *state[kind + 1 :])


def _balanced(
    loads: Loads, order: Sequence[int], slots: Sequence[Slot], room: int, stage: int | None
) -> tuple[Run, ...]:
    """Of the divisions over these GPUs that keep the threshold, the one with the least sum of squares.

    Filling alone would leave the last GPU with what remains.
    """
    end = len(loads)
    best: dict[int, tuple[float, tuple[Run, ...]]] = {0: (0.0, ())}
    for number, gpu in enumerate(order):
        slot, left = slots[gpu], len(order) - number - 1
        found: dict[int, tuple[float, tuple[Run, ...]]] = {}
        for start, (cost, runs) in best.items():
            for stop in _stops(loads, slot, start, room, stage):
                if (left == 0) != (stop == end):
                    continue
                total = cost + (loads.peak(start, stop) / slot.budget) ** 2
                if stop not in found or total < found[stop][0]:
                    found[stop] = (total, (*runs, Run(gpu, start, stop)))
        best = found
    return best[end][1]


def _stops(loads: Loads, slot: Slot, start: int, room: int, stage: int | None) -> Iterator[int]:
    """Where a run that begins at a block may end."""
    for stop in range(start + 1, len(loads) + 1):
        if loads.peak(start, stop) > slot.budget - room:
            return
        if stage is not None and loads.kept(start, stop) / slot.speed * _NANOSECONDS > stage:
            return
        yield stop
