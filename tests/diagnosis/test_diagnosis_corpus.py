"""The labelled errors: the targets are reached, over all and in each half."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence.bugs.corpus import FROM_FRAMES, entries, half, main, met, tally

ROOT = Path(__file__).parents[2]


def test_targets(capsys):
    assert main(["--misses"]) == 0
    assert "wrong and called certain                   0 of" in capsys.readouterr().out


@pytest.mark.parametrize("number", [0, 1])
def test_targets_in_each_half(number):
    assert met(tally([entry for entry in entries() if half(entry) == number]))


def test_entries_without_a_paste():
    """Their labels are inferred, so the bar is lower; none may be called certain and be wrong."""
    counts = tally(entries(unscored=True))
    right, every = counts.share(FROM_FRAMES)
    assert right >= 0.9 * every
    assert counts.wrong_certain == []


def test_no_rule_knows_a_thread():
    sources = "".join(
        path.read_text("utf-8") for path in (ROOT / "src" / "samedevice" / "diagnosis").rglob("*.py")
    )
    names = [entry["id"] for entry in json.loads((ROOT / "corpus" / "corpus.json").read_text("utf-8"))]
    assert [name for name in names if name in sources] == []
