"""The largest number that fits: tokens of a prompt, or sequences at once.

Must guarantee: the answer was measured to fit, and one `grain` more was measured not to, unless a limit of
the model or of the search stands there. What a model needs is nearly linear in either number, so that a
straight line through the last two measurements finds the place in a few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from samedevice.planner.inference._blocks import Loads, Workload
from samedevice.planner.inference._division import Slot, divide
from samedevice.planner.inference._profile import Measure

Axis = Literal["context", "batch"]
GRAIN: Mapping[Axis, int] = {"context": 64, "batch": 1}
"""Answers are whole multiples of it."""
_MOST: Mapping[Axis, int] = {"context": 1 << 22, "batch": 1 << 14}
_STEPS = 40


@dataclass(frozen=True, slots=True)
class Most:
    """The largest value of one number of a workload."""

    axis: Axis
    value: int
    """0 where not even the smallest fits."""
    limited: bool
    """The limit was reached: the model's own, or that of the search."""
    measured: int
    """Measurements that were made."""


def most_that_fits(
    measure: Measure,
    slots: list[Slot],
    workload: Workload,
    axis: Axis,
    values: Mapping[str, Any],
    least: int = 1,
) -> Most:
    """The longest context, or the most sequences, for which some division fits; not less than `least`."""
    grain = GRAIN[axis]

    def room(steps: int) -> int:
        profile = measure(workload.with_number(axis, max(steps * grain, least)))
        return divide(Loads(profile.blocks), slots).room

    limit = _MOST[axis]
    if axis == "context":
        own = positions_of(values)
        limit = limit if own is None else max(own - workload.new_tokens + 1, grain)
    steps, limited, measured = largest(room, limit // grain)
    return Most(axis, max(steps * grain, least) if steps else 0, limited, measured)


def largest(room: Callable[[int], int], limit: int) -> tuple[int, bool, int]:
    """The largest number up to `limit` for which a falling function is not negative.

    Returns it, or 0; whether it is the limit; and how often the function was asked.
    """
    low, low_room = 1, room(1)
    if low_room < 0:
        return 0, False, 1
    high, high_room = limit, low_room if limit <= 1 else room(limit)
    asked = 2
    if high_room >= 0:
        return max(limit, 1), True, asked
    side = 0
    while high - low > 1 and asked < _STEPS:
        guess = low + int((high - low) * low_room / (low_room - high_room))
        # Twice on one side: a step to the middle, so that a bent function cannot hold the search up.
        guess = (low + high) // 2 if abs(side) > 1 else guess
        guess = min(max(guess, low + 1), high - 1)
        found = room(guess)
        asked += 1
        if found >= 0:
            low, low_room, side = guess, found, max(side, 0) + 1
        else:
            high, high_room, side = guess, found, min(side, 0) - 1
        if abs(side) == 1 and high - low > 2:  # the line was right: look right beside it
            beside = low + 1 if side > 0 else high - 1
            near = room(beside)
            asked += 1
            if near >= 0:
                low, low_room = beside, near
            else:
                high, high_room = beside, near
    return low, False, asked


def positions_of(values: Mapping[str, Any]) -> int | None:
    """How many tokens the model was made for, where its configuration tells."""
    for part in (values, values.get("text_config")):
        if isinstance(part, Mapping):
            for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
                if isinstance(part.get(name), int) and part[name] > 0:
                    return int(part[name])
    return None
