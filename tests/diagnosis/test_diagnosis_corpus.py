"""The labelled texts: no wrong answer is called certain, and what was right stays right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence.bugs.corpus import COLLECTIONS, FROM_FRAMES, Tally, main

ROOT = Path(__file__).parents[2]
PARTS = [(each, name, chosen) for each in COLLECTIONS for name, _, chosen in each.parts()]


@pytest.mark.parametrize(
    ("collection", "chosen"),
    [(each, chosen) for each, _, chosen in PARTS],
    ids=[name for _, name, _ in PARTS],
)
def test_nothing_wrong_is_certain(collection, chosen):
    counts = collection.tally(chosen)
    assert counts.entries == len(chosen) > 10
    assert counts.wrong_certain == []


def test_first_collection():
    first = COLLECTIONS[0]
    right, every = first.tally(first.entries()).share(FROM_FRAMES)
    assert right >= 0.9 * every > 0


def test_table(capsys):
    assert main(["--misses"]) == 0  # the targets are reached in every part
    shown = capsys.readouterr().out
    assert "second collection, half not in view: 45 entries" in shown
    for collection in (each for each in COLLECTIONS if each.halved):
        unseen = next(chosen for _, seen, chosen in collection.parts() if not seen)
        assert [entry["id"] for entry in unseen if entry["id"] in shown] == []


def test_entries_without_a_paste():
    """Their labels are inferred, so the bar is lower; none may be called certain and be wrong."""
    first = COLLECTIONS[0]
    counts: Tally = first.tally(first.entries(unscored=True))
    right, every = counts.share(FROM_FRAMES)
    assert right >= 0.9 * every
    assert counts.wrong_certain == []


def test_no_rule_knows_a_thread():
    sources = "".join(
        path.read_text("utf-8") for path in (ROOT / "src" / "samedevice" / "diagnosis").rglob("*.py")
    )
    names = [
        entry["id"]
        for collection in COLLECTIONS
        for entry in json.loads((collection.path / "corpus.json").read_text("utf-8"))
    ]
    assert [name for name in names if name in sources] == []
