"""In a process below a virtual machine: enter the same machine, and report what was seen.

It is entered as soon as torch is there.

Loaded by file before anything else of samedevice, so it imports the standard library only. Must guarantee:
what was seen is on disk whenever something new was seen, because a rank may be killed; helpers of a launcher
that never import torch are left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any


def wait_for_torch(inherited: dict[str, Any]) -> None:
    """Enter the machine that `inherited` describes right after torch's import.

    At once if torch is there already.
    """
    if os.environ.get("SAMEDEVICE_EDITED"):
        _by_file("_samedevice_edited", inherited["package"], "edited.py").read_edited()
    if "torch" in sys.modules:
        _enter(inherited)
    else:
        imports = _by_file("_samedevice_imports", inherited["package"], "imports.py")
        imports.Watch({"torch": lambda module: _enter(inherited)}).start()


class Reporter:
    """Tells the parent what this process saw.

    That is on the machine that it entered itself, or that it was forked with.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._machine: Any = None
        self._owner = os.getpid()
        self._began = time.time()

    def attach(self, machine: Any) -> None:
        """Report on `machine` from now on, also in processes that are forked from this one."""
        self._machine = machine
        from multiprocessing import util

        util.register_after_fork(self, Reporter._forked)

    def _forked(self) -> None:
        """A forked process begins without what its parent saw.

        Multiprocessing ends it without exit handlers.
        """
        from multiprocessing import util

        self._machine.forget()
        self._began = time.time()
        util.Finalize(None, self.write, args=("completed",), exitpriority=0)

    def note_in_forks(self, event: Any) -> None:
        """Something new was seen: only a forked process has to write it down."""
        if os.getpid() != self._owner:
            self.write("running")

    def note(self, event: Any) -> None:
        """Something new was seen."""
        self.write("running")

    def write(self, status: str, trace: str | None = None) -> None:
        """Write what was seen so far; a reader never sees half of it."""
        machine = self._machine
        record = {
            "rank": _number("RANK") if machine.rank is None else machine.rank,
            "pid": os.getpid(),
            "status": status,
            "events": list(machine.events),
            "counts": list(machine.event_counts),
            "memory": machine.memory(),
            "gpus": machine.physical(),
            "operators": machine.operators,
            "asked": machine.asked_values,
            "began": self._began,
            "ended": time.time(),
            "trace": trace,
        }
        path = os.path.join(self._folder, f"{os.getpid()}.pickle")  # noqa: PTH118  # pathlib costs a start-up 10 ms
        try:
            with open(path + ".part", "wb") as file:  # noqa: PTH123  # the same
                pickle.dump(record, file)
            os.replace(path + ".part", path)  # noqa: PTH105  # the same
        except OSError:  # the parent is gone, and its folder with it
            return


def _enter(inherited: dict[str, Any]) -> None:
    _import_ours(inherited["package"])
    from samedevice.machines import parse_machine
    from samedevice.runtime import VirtualMachine

    reporter = Reporter(inherited["folder"])
    machine = VirtualMachine(
        parse_machine(inherited["machine"]),
        on_mismatch=inherited["on_mismatch"],
        script=inherited["script"],
        observer=reporter.note,
        assumed_ranks=inherited["assumed_ranks"],
    )
    machine.__enter__()
    reporter.attach(machine)
    note_exits(inherited["folder"])

    def leave() -> None:  # exit handlers of the script have run
        status = _status()
        reporter.write(status, _trace() if status == "script-error" else None)
        machine.__exit__(None, None, None)

    atexit.register(leave)


_CRASHES = (signal.SIGILL, signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV)
"""Signals by which a process ends that nobody sent it; a launcher ends ranks that are done by others."""


def note_exits(folder: str) -> Callable[[], None]:
    """Note each child that this process sees end with a status above 0 or crash.

    A child cannot tell its own status. What is returned stops it.
    """
    import subprocess
    from multiprocessing import popen_fork  # popen_spawn_posix builds on it

    methods = [(subprocess.Popen, "poll"), (subprocess.Popen, "wait"), (popen_fork.Popen, "poll")]
    originals = [(owner, name, vars(owner)[name]) for owner, name in methods]
    for owner, name, original in originals:
        setattr(owner, name, _noting(original, folder))

    def stop() -> None:
        for owner, name, original in originals:
            setattr(owner, name, original)

    return stop


def _noting(original: Callable[..., Any], folder: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(child: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(child, *args, **kwargs)
        ended = child.returncode or 0
        if ended > 0 or -ended in _CRASHES:
            with contextlib.suppress(OSError):  # the parent is gone, and its folder with it
                open(os.path.join(folder, f"{child.pid}.failed"), "w").close()  # noqa: PTH118, PTH123  # pathlib costs a start-up 10 ms
        return result

    return method


def _import_ours(package: str) -> None:
    """Import samedevice from where the parent has it, also where it is not installed."""
    if "samedevice" in sys.modules or importlib.util.find_spec("samedevice") is not None:
        return
    _by_file("samedevice", package, "__init__.py", submodule_search_locations=[package])


def _by_file(name: str, package: str, file: str, **options: Any) -> ModuleType:
    """Import a file of samedevice's folder under a name."""
    path = os.path.join(package, file)  # noqa: PTH118  # pathlib costs a start-up 10 ms
    spec = importlib.util.spec_from_file_location(name, path, **options)
    assert spec is not None and spec.loader is not None, "the parent has it"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _trace() -> str | None:
    """The traceback of the script's error, where the machine has no event of it."""
    from samedevice.provenance import trim, unrecorded_trace

    error = _last_error()
    assert error is not None, "it ended the script"
    with contextlib.suppress(Exception):  # an error of the script's own, whose text fails
        trim(error)
        text = unrecorded_trace(error)
        return None if text is None else text[-_LONGEST_TRACE:]
    return None


_LONGEST_TRACE = 60_000
"""Characters; the error stands at the end."""


def _last_error() -> BaseException | None:
    error: BaseException | None = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error


def _status() -> str:
    """How the script ended, as far as a process can tell of itself; see `note_exits`."""
    error = _last_error()
    if error is None:
        return "completed"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "out-of-memory" if type(error).__name__ == "OutOfMemoryError" else "script-error"


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 7 else None
