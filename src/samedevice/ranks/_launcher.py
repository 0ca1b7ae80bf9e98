"""The real launchers, as commands, and one launch from its start to its last process.

Must guarantee: the launcher that runs is the installed one, with this process's own terminal; when it has
ended, no process of the launch is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec

import psutil

from samedevice.errors import UsageError
from samedevice.launchers import STARTED, Launcher, flag_of, launcher_named
from samedevice.ranks._family import VARIABLE, Family

_PATIENCE = 10.0
"""Seconds that a launch gets to end by itself once it was asked to."""
_GRACE = 0.5
"""Seconds in which what is ending already may end."""
_GRACE_OF_RANKS = 10.0
"""The same for ranks whose rank 0 has ended: they still leave their process group, and Python with torch."""


def launch_command(
    launcher: str, processes: int, options: Sequence[str], program: Sequence[str], *, module: bool
) -> list[str]:
    """The command line of a launch. Raises UsageError for a launcher that is not known or not installed."""
    if launcher not in STARTED:
        raise UsageError(f"a launcher is one of {', '.join(STARTED)}, not {launcher!r}")
    known = launcher_named(launcher)
    assert known.start is not None, "a run can start it"
    needs_package(known)
    says_module = [flag_of(known.options.module)] if module and known.options.module else []
    if module and not says_module:
        raise UsageError(f"the launcher {launcher} starts scripts and no modules")
    return [sys.executable, "-m", *known.start(processes, options), *options, *says_module, *program]


def needs_package(launcher: Launcher) -> None:
    """Raise UsageError unless the package of a launcher is installed."""
    if find_spec(launcher.package) is None:
        raise UsageError(
            f"the launcher {launcher.name} needs the package {launcher.package}, which is not installed here"
        )


def launch(command: Sequence[str], family: Family) -> int:
    """Run a launch and wait for its end.

    Returns its exit status; negative for a signal. Ctrl-C comes out as KeyboardInterrupt.
    """
    environment = {
        "OMP_NUM_THREADS": "1",
        **os.environ,
        **family.environment(),
    }  # values are small: threads would only wait
    process = subprocess.Popen(list(command), env=environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        with suppress(OSError):
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(_PATIENCE)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        end_left_over(family)


def end_left_over(family: Family, *, among_ranks: bool = False) -> list[int]:
    """End what still runs of a family, by its own mark in the environment of each process.

    Returns the process ids.

    Where the script is a rank itself and started the others, these end about when it does (`among_ranks`),
    and get time for it.

    Python's own helpers stay: they end by themselves with the process that they help, and a script does not
    leave them.
    """
    ended: list[int] = []
    left = _left_after(family, _GRACE_OF_RANKS if among_ranks else _GRACE)
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for process in left:
            with suppress(psutil.Error):
                end(process)
        ended += [process.pid for process in left]
        if left:
            left = _left_after(family, 2.0)
    return ended


def _left_after(family: Family, seconds: float) -> list[psutil.Process]:
    """What is left when all have ended or the time is over.

    A look at all processes costs, so it is one where nothing is left.
    """
    deadline = time.monotonic() + seconds
    while (left := _left_over(family)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _left_over(family: Family) -> list[psutil.Process]:
    """Living processes that inherited from this family, but not this one."""
    mark = str(family.folder)
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # of another user, or just ended
            if (
                process.pid != os.getpid()
                and mark in process.environ().get(VARIABLE, "")
                and process.status() != psutil.STATUS_ZOMBIE
                and not _helps_python(process)
            ):
                found.append(process)
    return found


def _helps_python(process: psutil.Process) -> bool:
    """Whether a process is a helper of multiprocessing's.

    It lives on a pipe, and ends when the last process that holds it has.

    Children of the fork server have its command line, and are the script's; so that one is known by its
    number.
    """
    server = sys.modules.get("multiprocessing.forkserver")
    if server is not None and process.pid == server._forkserver._forkserver_pid:
        return True
    return any(".resource_tracker import main" in word for word in process.cmdline())
