"""Whole components on the GPUs of a machine: the best of all placements that differ. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Component:
    """A model of a pipeline; bytes."""

    name: str
    kind: str
    weights: int
    parameters: int
    working: int
    """Needed while it runs, beyond the weights, with what the pipeline holds then."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where each component is."""

    gpus: Mapping[str, int]
    loads: Mapping[int, int]
    """Most bytes on each GPU in use."""
    room: int
    """Bytes left on the GPU with the fewest; negative where it does not fit."""
    tried: int
    """Placements that were looked at."""


def load_of(components: Sequence[Component], held: int = 0) -> int:
    """Most bytes of a GPU with these components, of which one runs at a time; 0 for none.

    `held`: what the pipeline itself keeps there (prompts, latents) while others run.
    """
    if not components:
        return 0
    return sum(each.weights for each in components) + max(held, *(each.working for each in components))


def place_whole(components: Sequence[Component], budgets: Sequence[int], held: int = 0) -> Placement:
    """The placement that leaves the most memory on the fullest GPU, and of those one with the fewest GPUs.

    What the pipeline itself holds is where its first component is.
    """
    home = components[0].name
    order = sorted(components, key=lambda each: -each.weights)
    best: tuple[tuple[int, int, int], dict[int, list[Component]]] | None = None
    tried = 0
    for groups in _groupings(order, budgets, {}, 0):
        tried += 1
        loads = {
            gpu: load_of(own, held if any(each.name == home for each in own) else 0)
            for gpu, own in groups.items()
        }
        room = min(budgets[gpu] - load for gpu, load in loads.items())
        worth = (room, -len(loads), -sum(load * load for load in loads.values()))
        if best is None or worth > best[0]:
            best = worth, {gpu: list(own) for gpu, own in groups.items()}
    assert best is not None, "there is a placement for every pipeline: all on the first GPU"
    places = {each.name: gpu for gpu, own in best[1].items() for each in own}
    return Placement(
        {each.name: places[each.name] for each in components},
        {
            gpu: load_of(own, held if any(each.name == home for each in own) else 0)
            for gpu, own in sorted(best[1].items())
        },
        best[0][0],
        tried,
    )


def _groupings(
    order: Sequence[Component], budgets: Sequence[int], groups: dict[int, list[Component]], number: int
) -> Iterator[dict[int, list[Component]]]:
    """Every placement; of empty GPUs that are alike only the first gets a component."""
    if number == len(order):
        yield groups
        return
    seen: set[int] = set()
    for gpu, budget in enumerate(budgets):
        if gpu not in groups:
            if budget in seen:
                continue
            seen.add(budget)
        groups.setdefault(gpu, []).append(order[number])
        yield from _groupings(order, budgets, groups, number + 1)
        groups[gpu].pop()
        if not groups[gpu]:
            del groups[gpu]
