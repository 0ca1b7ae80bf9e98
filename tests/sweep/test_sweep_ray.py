"""Targets on a Ray cluster: each once, and a lost actor costs one.

Ray itself is a stand-in, but for the last test, which needs it.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from samedevice.errors import UsageError
from samedevice.sweep import _ray
from samedevice.sweep._pool import Order, Told, Worker
from samedevice.sweep._ray import Host, RayPool

ORDER = Order("transformers", {}, 1.0, 1, "en", environment={"OMP_NUM_THREADS": "1"})
FOUND = {"kind": "finding", "statement": "a.py:1", "root": "labels"}


class Lost(Exception):
    """An actor is gone."""


class Failed(Exception):
    """An actor raised."""

    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class Cluster:
    """What of Ray the pool uses, in this process: calls are made when they are waited for."""

    exceptions = SimpleNamespace(RayActorError=Lost, RayTaskError=Failed)

    def __init__(self, tried):
        self.tried, self.actors, self.given, self.connected = tried, 0, {}, False

    def is_initialized(self):
        return self.connected

    def init(self, **settings):
        self.connected = True

    def shutdown(self):
        self.connected = False

    def remote(self, **settings):
        return lambda host: SimpleNamespace(remote=self.start)

    def start(self, order):
        self.actors += 1
        return SimpleNamespace(tried=SimpleNamespace(remote=lambda name, known: (name, tuple(known))))

    def wait(self, running, num_returns):
        return running[:1], running[1:]

    def get(self, call):
        name, known = call
        self.given[name] = known
        return self.tried(name)


def swept(monkeypatch, tried, jobs=2):
    cluster, known = Cluster(tried), set()
    monkeypatch.setattr(_ray, "_ray", lambda: cluster)
    told = list(RayPool("ray", jobs).run(ORDER, ["a", "b", "c", "d"], known))
    return cluster, told, known


def test_each_target_comes_out_once_and_later_ones_know_what_was_found(monkeypatch):
    cluster, told, known = swept(monkeypatch, lambda name: Told(name, "ended", 1.0, 1, (FOUND,)))
    assert [each.name for each in told] == ["a", "b", "c", "d"]
    assert known == {"a.py:1 | labels"}
    assert (cluster.given["a"], cluster.given["d"]) == ((), ("a.py:1 | labels",))
    assert cluster.actors == 2
    assert not cluster.connected


def test_a_lost_actor_costs_the_target_that_it_had(monkeypatch):
    def tried(name):
        if name == "b":
            raise Lost
        return Told(name, "ended", 1.0, 1, ())

    cluster, told, _ = swept(monkeypatch, tried)
    assert {each.name: each.how for each in told} == {
        "a": "ended",
        "b": "worker died",
        "c": "ended",
        "d": "ended",
    }
    assert cluster.actors == 3


def test_an_actor_that_cannot_start_a_worker_ends_the_sweep(monkeypatch):
    def tried(name):
        raise Failed(RuntimeError("no module named transformers"))

    with pytest.raises(RuntimeError, match="no module named transformers"):
        swept(monkeypatch, tried)


def test_without_ray_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError):
        list(RayPool("ray", 1).run(ORDER, ["a"], set()))


def test_a_worker_with_other_releases_is_refused(tmp_path):
    answer = json.dumps({"kind": "ready", "versions": {"transformers": "5.1.0"}})
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{answer}'\ncat > /dev/null\n")
    program.chmod(0o755)
    order = Order("transformers", {}, 1.0, 1, "en", python=str(program), versions={"transformers": "5.1.0"})
    with Worker(order, "try") as worker:
        worker.make_ready()
    other = Order("transformers", {}, 1.0, 1, "en", python=str(program), versions={"transformers": "5.2.0"})
    with Worker(other, "try") as worker, pytest.raises(RuntimeError, match=r"5\.1\.0.*, not .*5\.2\.0"):
        worker.make_ready()


def test_an_interpreter_that_a_node_lacks_is_told(tmp_path):
    order = Order("transformers", {}, 1.0, 1, "en", python=str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match="nowhere"):
        Host(order).tried("a", [])


def test_a_real_cluster_of_two_workers_finds_what_this_computer_finds(tmp_path):
    pytest.importorskip("ray")
    pytest.importorskip("transformers")
    from samedevice.sweep import LocalPool, Store, sweep

    asked = {"machines": ["2x24GB"], "actions": ["loss"], "cuts": 3}
    order = Order("transformers", asked, 60.0, 4 << 30, "en")
    found = []
    for name, pool in (("here", LocalPool(2)), ("there", RayPool("ray", 2))):
        done = sweep(order, pool, Store(tmp_path / f"{name}.db"), "BertFor[MS]*")
        found.append(
            (done.counts, [(root.key, sorted(root.statements), root.targets) for root in done.roots])
        )
    assert found[0] == found[1]
    assert found[0][0]["built"] == 3
