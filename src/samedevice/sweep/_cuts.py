"""Where a model is cut: every device map that automatic placement can choose.

Automatic placement fills one GPU after the other, so a cut is a budget of the first GPU. Budgets are tried
between nothing and the whole model; where two budgets give two maps, those between them are tried, too, until
neighbours are one parameter apart or the limit is reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Map = dict[str, Any]
Infer = Callable[[Mapping[Any, int]], Map]

LIMIT = 16
"""Most cuts of one model on two GPUs."""
_PLENTY = 1 << 40
_CALLS = 5
"""Most calls of the library's placement for one model, for each cut that is wanted."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A device map, and the budgets by which the library makes it."""

    name: str
    max_memory: tuple[tuple[int | str, int], ...]
    placed: tuple[tuple[str, Any], ...]
    way: str = ""
    """A way to offload, where there is no map."""

    @property
    def map(self) -> Map:
        """As `dispatch_model` takes it."""
        return dict(self.placed)


def cut_of(placed: Sequence[tuple[str, Any]], memory: Mapping[Any, int]) -> Cut:
    """A map that is no single device, and the budgets by which it came about."""
    return Cut(_name(placed), tuple(memory.items()), tuple(placed))


def walk(total: int, infer: Infer, limit: int = LIMIT) -> list[Cut]:
    """All cuts on two GPUs, at most `limit`, spread evenly over the model."""
    found: dict[tuple[tuple[str, Any], ...], Cut] = {}
    seen: dict[int, tuple[tuple[str, Any], ...]] = {}

    def at(budget: int) -> tuple[tuple[str, Any], ...]:
        if budget not in seen:
            memory: dict[Any, int] = {0: budget, 1: _PLENTY}
            placed = _placed(infer, memory)
            seen[budget] = placed
            if _is_split(placed) and placed not in found:
                found[placed] = cut_of(placed, memory)
        return seen[budget]

    waiting = deque([(0, 2 * total)])
    while waiting and len(seen) < _CALLS * limit + 10:
        low, high = waiting.popleft()
        if high - low > max(1, total // 4000) and at(low) != at(high):
            middle = (low + high) // 2
            waiting += [(low, middle), (middle, high)]
    ordered = sorted(found.values(), key=lambda cut: cut.max_memory[0][1])
    return _spread(ordered, limit)


def shares(total: int, gpus: int, infer: Infer) -> list[Cut]:
    """Cuts over more GPUs: even ones, and ones that give the first or the last more."""
    found: dict[tuple[tuple[str, Any], ...], Cut] = {}
    for first, last in ((1.0, 1.0), (0.4, 1.0), (1.6, 1.0), (1.3, 1.3)):
        # Placement keeps room for the largest layer on the first GPU, so a share is more than its part.
        even = total * 1.25 / gpus
        memory: dict[Any, int] = {gpu: int(even) for gpu in range(gpus)}
        memory[0], memory[gpus - 1] = int(even * first * 1.5), _PLENTY
        memory.update({gpu: int(even * last) for gpu in range(1, gpus - 1)})
        placed = _placed(infer, memory)
        if _is_split(placed):
            found.setdefault(placed, cut_of(placed, memory))
    return list(found.values())


def offloaded(total: int, infer: Infer) -> list[Cut]:
    """Half of the model on a GPU, the rest in host memory."""
    for part in (1.5, 1.0, 2.0):
        memory: dict[Any, int] = {0: int(total / 2 * part), "cpu": _PLENTY}
        placed = _placed(infer, memory)
        if _is_split(placed):
            return [cut_of(placed, memory)]
    return []


def _placed(infer: Infer, memory: Mapping[Any, int]) -> tuple[tuple[str, Any], ...]:
    """The map for some budgets; empty where placement itself fails, as it does for some tied weights."""
    try:
        return tuple(infer(memory).items())
    except Exception:  # foreign code
        return ()


def _is_split(placed: Sequence[tuple[str, Any]]) -> bool:
    return len({device for _, device in placed}) > 1


def _name(placed: Sequence[tuple[str, Any]]) -> str:
    """The first module that is not where the first one is, as `module@device`."""
    home = placed[0][1]
    name, device = next((name, device) for name, device in placed if device != home)
    return f"{name}@{device}"


def _spread(cuts: list[Cut], limit: int) -> list[Cut]:
    if len(cuts) <= limit:
        return cuts
    places = {round(step * (len(cuts) - 1) / (limit - 1)) for step in range(limit)}
    return [cuts[place] for place in sorted(places)]
