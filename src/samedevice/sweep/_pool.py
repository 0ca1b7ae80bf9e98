"""Workers that try targets: processes of this computer.

Must guarantee: a worker that dies is replaced and costs the one target that it had; when the sweep ends,
however it does, no worker stays.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.sweep._case import Listed
from samedevice.sweep._causes import mark_of

_ENTRY = "samedevice.cli.sweep_worker"


@dataclass(frozen=True, slots=True)
class Order:
    """What every worker is told first."""

    package: str
    asked: Mapping[str, Any]
    seconds: float
    memory: int
    language: str
    python: str = sys.executable
    environment: Mapping[str, str] | None = None
    """That of this process where it is None."""
    versions: Mapping[str, str] | None = None
    """What the process that listed the targets has; every worker must have the same."""

    def line(self, job: str) -> str:
        """As the worker reads it."""
        order = {
            "job": job, "package": self.package, "asked": dict(self.asked), "seconds": self.seconds,
            "bytes": self.memory, "language": self.language,
        }  # fmt: skip
        return json.dumps(order) + "\n"


@dataclass(frozen=True, slots=True)
class Told:
    """All that was told of one target."""

    name: str
    how: str
    seconds: float
    """Of the processor."""
    peak: int
    lines: tuple[Mapping[str, Any], ...]


class Pool(Protocol):
    """What tries targets."""

    def run(self, order: Order, names: Iterable[str], known: set[str]) -> Generator[Told, None, None]:
        """Try them; each comes out once, in the order in which they end.

        Findings whose marks are in `known`, which grows meanwhile, are not made again.
        """


def list_targets(order: Order) -> tuple[list[Listed], dict[str, str]]:
    """The targets of a package, and the versions that its process has.

    Raises `UsageError` where the package, or one that it needs here, is not installed, and `RuntimeError`
    with what the process said where it ended otherwise.
    """
    with Worker(order, "list") as worker:
        found: list[Listed] = []
        for told in worker.lines():
            if told.get("kind") == "target":
                found.append(Listed(told["name"], told["print"]))
            elif told.get("kind") == "end":
                return found, told["versions"]
            elif told.get("kind") == "refused":
                raise UsageError(
                    Phrase(
                        "sweep.missing", package=order.package, module=told["missing"], python=order.python
                    )
                )
        raise RuntimeError(worker.said())


class LocalPool:
    """Processes on this computer."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def run(self, order: Order, names: Iterable[str], known: set[str]) -> Generator[Told, None, None]:
        """See `Pool`."""
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        total = 0
        for name in names:
            waiting.put(name)
            total += 1
        results: queue.SimpleQueue[Told | BaseException] = queue.SimpleQueue()
        stop = threading.Event()
        live: list[Worker] = []
        threads = [
            threading.Thread(target=_work, args=(order, waiting, results, stop, known, live), daemon=True)
            for _ in range(min(self._jobs, total))
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(total):
                result = results.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            stop.set()
            for worker in list(live):  # one that comes later sees that it is to stop
                worker.kill()
            for thread in threads:
                thread.join(10)


def _work(
    order: Order, waiting: Any, results: Any, stop: threading.Event, known: set[str], live: list[Worker]
) -> None:
    """Feed one worker after the other until nothing waits."""
    try:
        while not stop.is_set() and not waiting.empty():
            with Worker(order, "try") as worker:
                live.append(worker)
                for told in _fed(worker, waiting, stop, known):
                    results.put(told)
    except BaseException as error:  # told to the thread that waits
        results.put(error)


def _fed(worker: Worker, waiting: Any, stop: threading.Event, known: set[str]) -> Iterator[Told]:
    if stop.is_set():
        return
    worker.make_ready()
    told_it: set[str] = set()
    while not stop.is_set():
        try:
            name = waiting.get_nowait()
        except queue.Empty:
            return
        new = set(known) - told_it
        told_it |= new
        told = worker.tried(name, new)
        known |= marks_of(told)
        yield told
        if told.how == "worker died":
            return


def marks_of(told: Told) -> set[str]:
    """The marks of what a target was the first to find."""
    return {mark_of(each["statement"], each["root"]) for each in told.lines if each.get("kind") == "finding"}


class Worker:
    """One process and its pipes."""

    def __init__(self, order: Order, job: str) -> None:
        self._order, self._job = order, job

    def __enter__(self) -> Worker:
        self._folder = tempfile.mkdtemp(prefix="samedevice-sweep-")
        self._errors = (Path(self._folder) / "stderr").open("w+b")
        own = self._order.environment
        environment = {**(os.environ if own is None else own), "TMPDIR": self._folder}
        self._process = subprocess.Popen(
            [self._order.python, "-m", _ENTRY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            env=environment,
        )
        self._write(self._order.line(self._job))
        return self

    def kill(self) -> None:
        """End it while another thread waits for what it says."""
        self._process.kill()

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was written last goes nowhere
                    pass
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:  # it is dead; the reader finds out
            pass

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it says; a line that a kill cut off is left out."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict):
                yield told

    def make_ready(self) -> None:
        """Wait until it has imported what it needs.

        Raises `RuntimeError` where it cannot, or has other releases than those whose results are asked for.
        """
        told = next(self.lines(), {})
        if told.get("kind") != "ready":
            raise RuntimeError(self.said())
        if self._order.versions is not None and told["versions"] != dict(self._order.versions):
            raise RuntimeError(f"a worker has {told['versions']}, not {dict(self._order.versions)}")

    def said(self) -> str:
        """The last of what it wrote to standard error."""
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else "the worker ended without a word"

    def tried(self, name: str, known: Iterable[str]) -> Told:
        """Let it try one."""
        self._write(json.dumps({"name": name, "known": sorted(known)}) + "\n")
        lines: list[Mapping[str, Any]] = []
        for told in self.lines():
            if told.get("kind") == "end":
                return Told(name, told["how"], told["seconds"], told["peak"], tuple(lines))
            lines.append(told)
        return Told(name, "worker died", 0.0, 0, tuple(lines))
