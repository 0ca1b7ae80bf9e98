"""What several processes told, put together: memory of GPUs that they share."""

from __future__ import annotations

import math

from samedevice.diagnosis import judge
from samedevice.events import DeviceMemory
from samedevice.ranks import Member, crowded, memory_by_gpu, memory_by_rank
from samedevice.report import render_finding

GIB = 1 << 30


def member(pid, held, rank=None, began=0.0, ended=math.inf, first=0):
    """A process whose `cuda:0`, GPU `first` of the machine, had a peak of `held` GiB; the machine's GPUs have
    24.
    """
    memory = {"cuda:0": DeviceMemory(0, 0, held * GIB, held * GIB, 24 * GIB)}
    return Member(rank, pid, "completed", (), (), memory, {"cuda:0": first}, began=began, ended=ended)


def peaks(memory):
    return {name: own.peak_allocated // GIB for name, own in memory.items()}


def test_ranks_that_share_a_gpu_are_added_up():
    ranks = [member(7, 10, 0), member(8, 11, 1), member(9, 5, 2, first=1)]
    assert peaks(memory_by_gpu(ranks)) == {"cuda:0": 21, "cuda:1": 5}
    assert peaks(memory_by_rank(ranks)) == {
        "rank 0 cuda:0": 10,
        "rank 1 cuda:0": 11,
        "rank 2 cuda:0": 5,
        "GPU 0: rank 0 + rank 1": 21,
    }
    assert crowded(ranks) == []


def test_more_than_the_gpu_has_is_a_finding():
    (event,) = crowded([member(7, 13, 0, first=1), member(8, 12, 1, first=1), member(9, 20, 2)])
    finding = render_finding(judge(event))
    assert (finding.code, finding.title) == (
        "SD110",
        "processes that share cuda:1 need more memory than it has",
    )
    assert finding.notes == ("rank 0: 13.0 GiB", "rank 1: 12.0 GiB")
    assert finding.as_json()["memory"]["cuda:1"]["allocated"] == 25 * GIB
    assert "cuda:1" in render_finding(judge(event), "zh").title


def test_processes_one_after_the_other_are_not_added_up():
    after = [member(1, 0), member(2, 15, began=10, ended=20), member(3, 16, began=21, ended=30)]
    assert peaks(memory_by_gpu(after)) == {"cuda:0": 16}
    assert crowded(after) == [] and len(memory_by_rank(after)) == 2
    meanwhile = [*after, member(4, 9, began=19, ended=22)]
    assert peaks(memory_by_gpu(meanwhile)) == {"cuda:0": 25}
    assert len(crowded(meanwhile)) == 1


def test_many_processes_have_a_short_row():
    many = [member(pid, 1, pid) for pid in range(6)]
    assert "GPU 0: 6 processes" in memory_by_rank(many)
