"""Workers of a Ray cluster: the same processes as on this computer, started by Ray wherever it has room.

Must guarantee: a target is tried by the very code that tries it here, and comes out once; an actor that is
lost costs the one target that it had.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.sweep._pool import Order, Told, Worker, marks_of

_PACKAGE = Path(__file__).parents[1]
"""The folder of samedevice, which the workers of a cluster are given."""


class RayPool:
    """Processes of a cluster.

    Args:
        address: `ray`, which is the cluster of `RAY_ADDRESS` or one on this computer, or `ray://host:port`.
        jobs: How many targets are tried at a time.
    """

    def __init__(self, address: str, jobs: int) -> None:
        self._address = None if address == "ray" else address
        self._jobs = jobs

    def run(self, order: Order, names: Iterable[str], known: set[str]) -> Generator[Told, None, None]:
        """See `Pool`."""
        waiting = deque(names)
        if not waiting:
            return
        ray = _ray()
        began = not ray.is_initialized()
        if began:
            _connect(ray, self._address)
        try:
            yield from _shared_out(ray, order, waiting, known, self._jobs)
        finally:
            if began:
                ray.shutdown()


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError:
        raise UsageError(Phrase("sweep.no-ray", python=sys.executable)) from None


def _connect(ray: Any, address: str | None) -> None:
    code = {"py_modules": [str(_PACKAGE)]}
    try:
        ray.init(
            address=address,
            runtime_env=code if address or os.environ.get("RAY_ADDRESS") else None,
            log_to_driver=False,
            logging_level="ERROR",
            include_dashboard=None if address else False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(Phrase("sweep.no-cluster", address=address or "ray", reason=str(error))) from None


def _shared_out(ray: Any, order: Order, waiting: deque[str], known: set[str], jobs: int) -> Iterator[Told]:
    """Each actor has one target at a time."""
    actor = ray.remote(num_cpus=1, max_restarts=0)(Host)
    here = order.python == sys.executable
    order = replace(order, python="" if here else order.python, environment=_own(order))
    running: dict[Any, tuple[Any, str]] = {}

    def start(host: Any) -> None:
        name = waiting.popleft()
        running[host.tried.remote(name, sorted(known))] = (host, name)

    for _ in range(min(jobs, len(waiting))):
        start(actor.remote(order))
    while running:
        done, _ = ray.wait(list(running), num_returns=1)
        host, name = running.pop(done[0])
        try:
            told = ray.get(done[0])
        except ray.exceptions.RayActorError:
            told, host = Told(name, "worker died", 0.0, 0, ()), None
        except ray.exceptions.RayTaskError as error:
            raise RuntimeError(str(error.cause)) from None
        known |= marks_of(told)
        yield told
        if waiting:
            start(host or actor.remote(order))


def _own(order: Order) -> dict[str, str]:
    """Of the environment what the sweep itself sets: the rest is the node's."""
    return {name: value for name, value in (order.environment or {}).items() if os.environ.get(name) != value}


class Host:
    """An actor: one worker process after the other, on the computer where Ray put it."""

    def __init__(self, order: Order) -> None:
        inherited = {**os.environ, **(order.environment or {})}
        path = [str(_PACKAGE.parent), inherited.get("PYTHONPATH", "")]
        inherited["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        self._order = replace(order, python=order.python or sys.executable, environment=inherited)
        self._worker: Worker | None = None

    def tried(self, name: str, known: list[str]) -> Told:
        """Try one target. Raises `RuntimeError` where no worker starts, or one of other releases."""
        if self._worker is None:
            try:
                self._worker = Worker(self._order, "try").__enter__()
            except OSError as error:  # the interpreter of a release that only another computer has
                raise RuntimeError(str(error)) from error
            self._worker.make_ready()
        told = self._worker.tried(name, known)
        if told.how == "worker died":
            self._worker.__exit__()
            self._worker = None
        return told
