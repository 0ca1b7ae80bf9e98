"""Drawn programs in processes of their own, several at once; for `heal-proof`.

torch itself crashes on one in some thousands, which is `crashed`. Must guarantee: this process asks nothing
of CUDA, since no fork of one that has could use a GPU.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

import samedevice as sd
from evidence.healing.healed_programs import Program, drawn, outcome

_CHUNK = 100
"""Programs that share a process."""
PATIENCE = 120.0
"""Seconds after which a program counts as hung."""
_NO_GPU, _TOUCHED = 10, 11
"""Exit statuses of a process that cannot use a GPU."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the programs run on."""

    where: str
    """`virtual` and `twin` have two devices and a host, `gpu` and `self-check`, its stand-in, one."""

    def program(self, seed: int, number: int) -> Program:
        """A program, placed here."""
        program = drawn(Random(f"{seed}:{number}"))
        if self.where == "twin":
            return program.on_twins()
        return program if self.where == "virtual" else program.on_one_gpu()

    def entered(self) -> contextlib.AbstractContextManager[Any]:
        """The devices, for this process."""
        if self.where == "gpu":
            return _a_gpu()
        machines = {"virtual": "2x24GB", "self-check": "1x24GB"}
        return sd.machine(machines[self.where]) if self.where in machines else contextlib.nullcontext()


@contextlib.contextmanager
def _a_gpu() -> Iterator[None]:
    """A real one, that computes the same twice, and not in TF32."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    if torch.cuda._is_in_bad_fork():
        os._exit(_TOUCHED)
    if not torch.cuda.is_available():
        os._exit(_NO_GPU)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield


def outcomes(
    seed: int, numbers: Sequence[int], setting: Setting, jobs: int = 1, deadline: float = float("inf")
) -> Iterator[tuple[int, tuple[str, str]]]:
    """How each program ends; those that end before the deadline."""
    waiting = [list(numbers[start : start + _CHUNK]) for start in range(0, len(numbers), _CHUNK)][::-1]
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        forks: list[_Fork] = []

        @stack.callback
        def end() -> None:
            for fork in forks:
                fork.kill()

        while waiting or forks:
            while waiting and len(forks) < jobs:
                fork = _Fork.begun(seed, waiting.pop(), setting, alone=jobs == 1)
                forks.append(fork)
                selector.register(fork.pipe, selectors.EVENT_READ, fork)
            for key, _ in selector.select(1.0):
                fork = key.data
                lines = fork.heard()
                for number, found in lines or ():
                    yield number, (found[0], found[1])
                if lines is not None:
                    continue
                selector.unregister(fork.pipe)
                forks.remove(fork)
                status = fork.ended()
                if status in (_NO_GPU, _TOUCHED):
                    raise SystemExit(
                        "no CUDA GPU here: use --self-check to try the proof on a virtual machine"
                        if status == _NO_GPU
                        else "CUDA was used before the programs were forked"
                    )
                if fork.left:
                    number, *left = fork.left
                    yield number, ("crashed", f"the process ended with {status}, with or without healing")
                    if left:
                        waiting.append(left)
            if (now := time.monotonic()) >= deadline:
                return
            for fork in forks:
                if now - fork.last > PATIENCE:
                    fork.kill()


@dataclass
class _Fork:
    pid: int
    pipe: int
    left: list[int]
    """Programs without an outcome, in order."""
    last: float
    """When it was heard of."""
    half: bytes = b""

    @classmethod
    def begun(cls, seed: int, numbers: list[int], setting: Setting, *, alone: bool) -> _Fork:
        """A process that runs programs, one after the other."""
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 counts torch's idle threads
            pid = os.fork()
        if pid == 0:
            os.close(reading)
            status = 1
            try:
                _run(seed, numbers, setting, writing, alone=alone)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writing)
        return cls(pid, reading, numbers, time.monotonic())

    def heard(self) -> list[tuple[int, tuple[str, str]]] | None:
        """Outcomes that were written; None at the end."""
        chunk = os.read(self.pipe, 1 << 16)
        if not chunk:
            return None
        self.last = time.monotonic()
        *lines, self.half = (self.half + chunk).split(b"\n")
        found = [json.loads(line) for line in lines]
        for number, _ in found:
            self.left.remove(number)
        return found

    def kill(self) -> None:
        """End it; it is buried when its pipe ends."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> int:
        """Its exit status, negative for a signal."""
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _run(seed: int, numbers: list[int], setting: Setting, pipe: int, *, alone: bool) -> None:
    for ending in (signal.SIGINT, signal.SIGTERM):  # the parent ends its forks itself
        signal.signal(ending, signal.SIG_IGN)
    if not alone:
        torch.set_num_threads(1)
    with os.fdopen(pipe, "w", encoding="utf-8") as file, setting.entered():
        for number in numbers:
            found = outcome(setting.program(seed, number))
            if setting.where == "gpu":
                torch.cuda.synchronize()  # raises where the context is lost, and all later calls with it
            file.write(json.dumps((number, found)) + "\n")
            file.flush()
