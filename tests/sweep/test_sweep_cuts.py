"""The cut is walked over every boundary that automatic placement may choose."""

from __future__ import annotations

from samedevice.sweep._cuts import offloaded, shares, walk

BLOCKS = {"embed": 50, "layers.0": 10, "layers.1": 10, "layers.2": 10, "head": 50}


def fill(memory):
    """What automatic placement does: one device after the other, in order."""
    left, devices, made = dict(memory), list(memory), {}
    for name, size in BLOCKS.items():
        while left[devices[0]] < size and len(devices) > 1:
            devices.pop(0)
        left[devices[0]] -= size
        made[name] = devices[0]
    return made


def test_every_boundary_is_a_cut_once():
    cuts = walk(sum(BLOCKS.values()), fill)
    assert [cut.name for cut in cuts] == ["layers.0@1", "layers.1@1", "layers.2@1", "head@1"]


def test_a_cut_is_what_its_budgets_make():
    assert all(fill(dict(cut.max_memory)) == cut.map for cut in walk(130, fill))


def test_with_a_limit_the_cuts_are_spread_over_the_model():
    assert [cut.name for cut in walk(130, fill, limit=2)] == ["layers.0@1", "head@1"]


def test_more_gpus_get_shares():
    cuts = shares(130, 3, fill)
    assert cuts
    assert all(len(set(cut.map.values())) > 1 for cut in cuts)


def test_the_rest_in_host_memory():
    (cut,) = offloaded(130, fill)
    assert set(cut.map.values()) == {0, "cpu"}


def test_a_placement_that_fails_is_no_cut():
    def fails(memory):
        raise IndexError

    assert walk(130, fails) == []
