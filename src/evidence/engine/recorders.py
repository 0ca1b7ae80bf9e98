"""Workers that record, several at once, and what becomes of one that dies; for `record-rules`.

Workers take operators by turns out of one pipe, so that none is idle while another has a share left. One that
dies starts again with the operator that it was at.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evidence.engine.recordings import KINDS, Journals
from evidence.places import ROOT

FATAL = 3
"""Exit status of a worker whose GPU context is lost."""
TURNS = 4096
"""More than there are operators."""
START = 180.0
"""Seconds that a worker may take until its first case, and between two."""
PATIENCE = 60.0
"""Seconds after which a case counts as hung."""
TRIES = 3
"""Deaths in a row that say nothing of a case, before an operator is left out of this run."""
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
"""Signals that no kernel ends a process with."""
_TELL = 15.0


def record(journals: Journals, only: str, kinds: Sequence[str], jobs: int, deadline: float) -> bool:
    """Run workers until all is recorded or time is over; whether all is."""
    with turns() as pipe, selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        workers = [Worker(number, journals, only, pipe, jobs, kinds) for number in range(jobs)]
        told = time.monotonic()
        for worker in workers:
            if time.monotonic() >= deadline:
                return False
            worker.start(selector)
            stack.callback(worker.stop)
        while any(worker.process for worker in workers):
            for key, _ in selector.select(1.0):
                if not key.data.listen():
                    selector.unregister(key.fileobj)
                    if key.data.bury():
                        key.data.start(selector)
            if (now := time.monotonic()) >= deadline:
                return False
            for worker in workers:
                worker.watch(now)
            if now - told >= _TELL:
                told = now
                print(
                    f"{sum(worker.cases for worker in workers)} cases, at",
                    *(worker.operator for worker in workers if worker.process),
                    flush=True,
                )
    return not any(worker.left_out for worker in workers)


@contextlib.contextmanager
def turns() -> Iterator[int]:
    """A pipe with the numbers of all operators: who reads a number has that operator."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(4) for number in range(TURNS)))
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


@dataclass
class Worker:
    """A place at work: one process after the other."""

    number: int
    journals: Journals
    only: str
    pipe: int
    jobs: int
    kinds: Sequence[str] = KINDS
    process: subprocess.Popen[bytes] | None = None
    operator: str = ""
    at: str = ""
    """The case that runs now."""
    cases: int = 0
    left_out: list[str] = field(default_factory=list)
    _heard: float = 0.0
    _half: bytes = b""
    _hung: bool = False
    _deaths: int = 0
    """Since the last case that was recorded."""

    def start(self, selector: selectors.BaseSelector) -> None:
        """The next process."""
        command = [sys.executable, "-m", "evidence", "record-rules", str(self.journals.recording)]
        command += ["--worker", str(self.number), "--turns", str(self.pipe), "--only", self.only]
        command += ["--again", self.operator, *(["--self-check"] if self.journals.virtual else [])]
        command += ["--kinds", *self.kinds]
        threads = str(max(1, (os.cpu_count() or 1) // self.jobs))
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=(self.pipe,),
            start_new_session=True,  # Ctrl-C and `timeout` signal a whole group
        )
        self.at, self._half, self._hung, self._heard = "", b"", False, time.monotonic()
        assert self.process.stdout is not None
        selector.register(self.process.stdout, selectors.EVENT_READ, self)

    def listen(self) -> bool:
        """Take what the process says; whether it is still there."""
        assert self.process is not None
        assert self.process.stdout is not None
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        self._heard = time.monotonic()
        *lines, self._half = (self._half + chunk).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "operator":
                self.operator = rest
            elif word == "at":
                self.at = rest
            elif word == "recorded":
                self.at = ""
                self.cases += 1
                self._deaths = 0
        return bool(chunk)

    def watch(self, now: float) -> None:
        """End a process that has been silent for too long."""
        if self.process and not self._hung and now - self._heard > (PATIENCE if self.at else START):
            self._hung = True
            self.process.kill()

    def bury(self) -> bool:
        """Note what a process died of; whether another should go on."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.stdout.close()
        status = self.process.wait()
        self.process = None
        if status == 0:
            return False
        if status == FATAL:
            return True
        self._deaths += 1
        why = "hung" if self._hung else f"died of signal {-status}" if status < 0 else f"ended with {status}"
        outside = not self._hung and (status > 0 or -status in FROM_OUTSIDE)
        if self.at and not outside:
            with self.journals.noting(self.number) as note:
                note(key=self.at, outcome="crash", type="", message=why)
            self._deaths = 0
        elif self._deaths >= TRIES:
            self.left_out.append(self.operator or "everything")
            print(f"a worker {why} {TRIES} times at {self.left_out[-1]}, which is left out", file=sys.stderr)
            if not self.operator:
                return False
            self.operator, self._deaths = "", 0
        return True

    def stop(self) -> None:
        """Leave no process behind; one that the driver holds may stay."""
        if self.process:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
