"""A real GPU's recording: the model of the caching allocator answers as the allocator did there."""

from __future__ import annotations

import gzip
import json

import pytest

from evidence.memory.allocator_sequences import run
from evidence.memory.replay_memory import RECORDINGS, answers, layouts
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

SHORT = 3000
"""Words of a history that is replayed here; `python -m evidence replay-memory` replays all."""


@pytest.fixture(scope="module")
def recorded():
    with gzip.open(RECORDINGS / "h100-torch-2.11.json.gz", "rt", encoding="utf-8") as stream:
        return json.load(stream)


def test_real_requests_get_the_segments_that_they_got(recorded):
    histories = {name: case["events"].split() for name, case in recorded["cases"].items() if "events" in case}
    short = {name: words for name, words in histories.items() if len(words) < SHORT}
    known = "infer ViT-B/16 fp16, 64 pictures"  # other addresses of its first segments explain it
    asked = {name: [word for word in words if word[0] in "SR"] for name, words in short.items()}
    other = {name for name, words in short.items() if list(answers(words)) != asked[name]}
    assert len(short) > 10
    assert other == {known}


@pytest.mark.filterwarnings("ignore:torch.cuda._set_allocator_settings is deprecated:FutureWarning")
@pytest.mark.parametrize(
    "name", ["|scarce", "max_split_size_mb:32|plain", "roundup_power2_divisions:4|scarce"]
)
def test_drawn_allocations_leave_the_statistics_that_they_left(recorded, name):
    with VirtualMachine(parse_machine("1xH100-80G")):
        assert run(name) == recorded["sequences"][name]


def test_segments_of_one_size_lie_in_the_order_that_was_seen():
    with gzip.open(RECORDINGS / "h100-torch-2.11-segments.json.gz", "rt", encoding="utf-8") as stream:
        recorded = json.load(stream)["layouts"]
    rows = layouts(dict(list(recorded.items())[::4]))
    alike, pairs = (sum(row["order"][at] for row in rows) for at in (0, 1))
    assert pairs > 50_000
    assert alike / pairs > 0.97
