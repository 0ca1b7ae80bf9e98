"""The best division of blocks over GPUs, beside a search through all of them."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samedevice.planner.inference import Block, Loads, Slot, divide, largest

sizes = st.integers(0, 60)
blocks = st.builds(
    lambda weights, prompt, grown, *needed: Block(("b",), "B", weights, prompt, prompt + grown, *needed),
    *[sizes] * 8,
)
rows = st.lists(blocks, min_size=1, max_size=6).map(Loads)
slots = st.builds(Slot, st.integers(1, 300), st.integers(1, 3).map(float), st.integers(0, 3).map(float))
machines = st.lists(slots, min_size=1, max_size=4)


def divisions(loads, machine):
    """Every division of the row over some GPUs in some order, as (gpu, start, stop)."""
    end = len(loads)
    for count in range(1, min(len(machine), end) + 1):
        for cuts in combinations(range(1, end), count - 1):
            borders = (0, *cuts, end)
            for order in permutations(range(len(machine)), count):
                yield [(gpu, borders[i], borders[i + 1]) for i, gpu in enumerate(order)]


def room(loads, machine, division):
    return min(machine[gpu].budget - loads.peak(start, stop) for gpu, start, stop in division)


def slowest(loads, machine, division):
    return max(loads.kept(start, stop) / machine[gpu].speed for gpu, start, stop in division)


def tuples(division):
    return [(run.gpu, run.start, run.stop) for run in division.runs]


@given(rows, machines)
@settings(max_examples=150, deadline=None)
def test_no_division_leaves_more_room(loads, machine):
    found = divide(loads, machine)
    best = max(room(loads, machine, each) for each in divisions(loads, machine))
    assert found.room == room(loads, machine, tuples(found)) == best <= found.bound


@given(rows, machines)
@settings(max_examples=100, deadline=None)
def test_no_division_has_a_faster_slowest_gpu(loads, machine):
    fitting = [each for each in divisions(loads, machine) if room(loads, machine, each) >= 0]
    found = divide(loads, machine, "stage")
    if not fitting:
        assert found.room < 0
        return
    best = min(slowest(loads, machine, each) for each in fitting)
    assert found.stage == pytest.approx(best, abs=2e-9)
    assert found.room >= 0


@given(rows, machines)
@settings(max_examples=100, deadline=None)
def test_fewer_or_cheaper_gpus_do_not_suffice(loads, machine):
    fitting = [each for each in divisions(loads, machine) if room(loads, machine, each) >= 0]
    fewest, cheapest = divide(loads, machine, "gpus"), divide(loads, machine, "price")
    if not fitting:
        assert fewest.room < 0
        return
    assert len(fewest.runs) == min(map(len, fitting))
    assert sum(machine[run.gpu].price for run in cheapest.runs) == min(
        sum(machine[gpu].price for gpu, _, _ in each) for each in fitting
    )


@given(rows)
def test_more_blocks_never_need_less(loads):
    for start in range(len(loads)):
        for stop in range(start, len(loads)):
            assert loads.peak(start, stop) <= loads.peak(start, stop + 1)
            assert loads.peak(start + 1, stop + 1) <= loads.peak(start, stop + 1) or loads_home_is_smaller(
                loads
            )


def loads_home_is_smaller(loads):
    """Whether a block was drawn that needs less where the first one is; measured ones never do."""
    return any(each.home_prefill < each.prefill or each.home_decode < each.decode for each in loads.blocks)


def test_alike_gpus_are_filled_evenly_and_unneeded_ones_stay_empty():
    loads = Loads([Block((str(n),), "B", 10) for n in range(8)])
    found = divide(loads, [Slot(100)] * 4)
    assert tuples(found) == [(0, 0, 2), (1, 2, 4), (2, 4, 6), (3, 6, 8)]
    assert (found.room, found.bound) == (80, 80)
    one = divide(Loads([Block(("a",), "B", 50), Block(("b",), "B", 10)]), [Slot(100)] * 4)
    assert one.room == 50
    assert len(one.runs) == 2


def test_a_large_row_takes_moments():
    loads = Loads([Block((str(n),), "B", 1 << 33, 1 << 20, 1 << 21, 1 << 30) for n in range(130)])
    found = divide(loads, [Slot(140 << 30)] * 8 + [Slot(80 << 30)] * 8)
    assert found.room > 0
    assert found.tried < 100


def test_nothing_to_divide():
    with pytest.raises(ValueError, match="needs blocks and GPUs"):
        divide(Loads([]), [Slot(1)])


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 3), st.integers(-3, 3))
@settings(max_examples=200, deadline=None)
def test_the_largest_number_that_fits(limit, place, bend, shift):
    """Falling functions that cross zero between `place` and the next number, straight and bent."""

    def room(number):
        return (place**2 - number**2) * bend + (place - number) * 7 + min(shift, 0) * (number > place)

    found, limited, asked = largest(room, limit)
    assert (found, limited) == ((limit, True) if limit <= place else (place, False))
    assert asked <= 40


def test_nothing_fits():
    assert largest(lambda number: -number, 100) == (0, False, 1)
