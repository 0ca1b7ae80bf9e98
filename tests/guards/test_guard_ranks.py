"""One rank of a job tells a finding whole, whichever ranks fail and whichever are gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import samedevice as sd
from samedevice.guards import _ranks
from tests.warm_python import CHILDREN

SOURCES = str(Path(__file__).parents[2] / "src")
pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this torch has no torch.distributed"
)


@pytest.fixture
def finding():
    (found,) = sd.explain(
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
        "cuda:0 and cpu!"
    )
    return found


def test_the_first_speaks_and_names_the_others(finding):
    store, answers = torch.distributed.HashStore(), {}

    def ask(rank):
        _ranks._known.clear()
        answers[rank] = _ranks._first_time(store, "key", rank, 3, 5.0, 10.0)

    asking = [threading.Thread(target=ask, args=(rank,)) for rank in range(3)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert sorted(answer.speaks for answer in answers.values()) == [False, False, True]
    assert next(answer for answer in answers.values() if answer.speaks).ranks == (0, 1, 2)


def test_a_rank_alone_waits_a_moment_and_speaks(finding):
    begin = time.monotonic()
    answer = _ranks.agree_through(torch.distributed.HashStore(), 2, 4, finding, listens=0.3)
    assert answer == _ranks.Agreement(True, (2,))
    assert 0.3 <= time.monotonic() - begin < 2


def test_the_same_rank_speaks_again(finding):
    store = torch.distributed.HashStore()
    answers = [_ranks.agree_through(store, 0, 1, finding) for _ in range(2)]
    assert answers[0] is answers[1]


def test_a_store_that_does_not_answer(finding, monkeypatch):
    class Silent:
        def set(self, key, value):
            time.sleep(30)

    monkeypatch.setattr(_ranks, "_job", lambda: (Silent(), 0, 2))
    begin = time.monotonic()
    assert _ranks.agree(finding, limit=0.5).speaks
    assert time.monotonic() - begin < 5


def test_a_store_that_refuses(finding, monkeypatch):
    class Gone:
        def set(self, key, value):
            raise torch.distributed.DistNetworkError("gone")

    monkeypatch.setattr(_ranks, "_job", lambda: (Gone(), 0, 2))
    assert _ranks.agree(finding).speaks


JOB = """
import sys
import time
import torch
import torch.distributed as dist
import samedevice as sd

try:
    with sd.guard():  # before there is a job: what the diagnosis needs is imported
        torch.ones(2) - torch.ones(2, device="meta")
except RuntimeError as error:
    assert error.finding
dist.init_process_group("gloo")
rank = dist.get_rank()

def alone():
    torch.ones(2) + torch.ones(2, device="meta")

def together():
    torch.ones(2) * torch.ones(2, device="meta")

if rank == 1:
    begin = time.monotonic()
    try:
        with sd.guard():
            alone()
    except RuntimeError as error:
        print("ALONE", round(time.monotonic() - begin), error.__notes__[0].count("SD102"), "ranks" in error.__notes__[0], flush=True)
dist.barrier()
with sd.guard():
    together()
"""  # noqa: E501  # a text, line by line


def environment():
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", CHILDREN)}
    return {**kept, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}


@pytest.mark.usefixtures("warm_children")
def test_under_torchrun(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "job.py",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode != 0
    assert done.stdout.split("ALONE ")[1].split()[1:3] == ["1", "False"]
    assert int(done.stdout.split("ALONE ")[1].split()[0]) <= _ranks.LISTENS + 5
    assert done.stderr.count("SD102 unmaterialized-weights") == 1, done.stderr
    assert done.stderr.count("seen on ranks 0, 1") == 1
    assert (
        done.stderr.count("another rank of this job tells it whole") <= 1
    )  # torchrun may end it as soon as the other has spoken


LONELY = """
import os
import sys
import time
import torch
import torch.distributed as dist
import samedevice as sd

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
dist.barrier()
if rank == 0:
    os._exit(1)  # the store lived here
time.sleep(1)
begin = time.monotonic()
try:
    with sd.guard():
        torch.ones(2) + torch.ones(2, device="meta")
except RuntimeError as error:
    print(round(time.monotonic() - begin), error.__notes__[0].splitlines()[0], flush=True)
os._exit(0)
"""


@pytest.mark.usefixtures("warm")
def test_the_rank_that_had_the_store_has_died(tmp_path):
    (tmp_path / "job.py").write_text(LONELY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    ranks = [
        subprocess.Popen(
            [sys.executable, "job.py", str(rank), address],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    seconds, _, text = said[1].splitlines()[-1].partition(" ")  # gloo of torch 2.10 prints before
    assert text.startswith("SD102 unmaterialized-weights")
    assert int(seconds) <= _ranks.LIMIT + 2
