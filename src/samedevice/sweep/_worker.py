"""A warm process that forks one process for each target.

It reads a line for each target and writes lines of JSON: what the child tells, then how it ended. A child has
a limit of time and of memory; when it is passed, it alone is killed. Time is that of the processor, so that
what is tried does not depend on what else the computer does.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from functools import partial
from typing import Any

from samedevice.sweep._case import Library
from samedevice.sweep._libraries import library_of
from samedevice.sweep._trial import Asked, Document, try_target

_EVERY = 0.02
_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux."""


def serve(document: Document) -> None:
    """Answer the lines of standard input until it ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)  # what libraries print does not belong between the lines
    order = json.loads(sys.stdin.readline())
    _die_with_parent()
    _quiet()
    library = library_of(order["package"])
    try:
        library.prepare()
    except ModuleNotFoundError as error:
        print(
            json.dumps({"kind": "refused", "missing": (error.name or str(error)).partition(".")[0]}), file=out
        )
        return
    if order["job"] == "list":
        for listed in library.targets():
            print(json.dumps({"kind": "target", "name": listed.name, "print": listed.fingerprint}), file=out)
        print(json.dumps({"kind": "end", "versions": _versions()}), file=out)
        return
    asked = Asked.read(order["asked"])
    _warm_up()
    gc.collect()
    gc.freeze()
    print(json.dumps({"kind": "ready", "versions": _versions()}), file=out)
    known: set[str] = set()
    for line in sys.stdin:
        job = json.loads(line)
        name = job["name"]
        known.update(job["known"])
        with contextlib.suppress(Exception):  # its own process finds it again
            library.bring(name)
        gc.freeze()
        ended = _fork(library, name, asked, document, out, order["seconds"], order["bytes"], known)
        print(json.dumps({"kind": "end", "name": name, **ended}), file=out)


def _fork(
    library: Library,
    name: str,
    asked: Asked,
    document: Document,
    out: Any,
    seconds: float,
    most: int,
    known: set[str],
) -> dict[str, Any]:
    out.flush()
    folder = tempfile.mkdtemp(prefix="target-")
    child = os.fork()
    if child == 0:
        tempfile.tempdir = folder
        _child(library, name, asked, document, out, known)
    how, peak, limit = "died", 0, _Limit(seconds)
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            how = "ended" if status == 0 else f"died: {_said(status)}"
            break
        peak = max(peak, _resident(child))
        if limit.is_passed(_used(child), time.monotonic()) or peak > most:
            how = "out of time" if peak <= most else "out of memory"
            os.killpg(child, signal.SIGKILL)
            _, _, usage = os.wait4(child, 0)
            print(file=out)  # ends a line that the child had begun
            break
        time.sleep(_EVERY)
    shutil.rmtree(folder, ignore_errors=True)
    return {"how": how, "seconds": usage.ru_utime + usage.ru_stime, "peak": peak}


class _Limit:
    """So many seconds of the processor, or as many by the clock in which none was used."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._used, self._since = seconds, -1.0, time.monotonic()

    def is_passed(self, used: float, now: float) -> bool:
        """Whether a process that has used so much by now is over its limit."""
        if used > self._used:
            self._used, self._since = used, now
        return used > self._seconds or now - self._since > self._seconds


def _said(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _child(library: Library, name: str, asked: Asked, document: Document, out: Any, known: set[str]) -> None:
    os.setpgid(0, 0)
    _die_with_parent()
    code = 0
    try:
        try_target(library, name, asked, partial(_tell, out), document, known, ends=True)
    except BaseException as error:  # whatever it was, this process ends here
        print(json.dumps({"kind": "broken", "reason": f"{type(error).__name__}: {error}"[:500]}), file=out)
        code = 1
    out.flush()
    os._exit(code)


def _tell(out: Any, told: dict[str, Any]) -> None:
    print(json.dumps(told), file=out)


def _resident(process: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{process}/statm", encoding="ascii") as file:  # noqa: PTH123 # asked fifty times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _used(process: int) -> float:
    """Seconds of the processor that a process took, with its ended children; 0 where nothing says it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:  # noqa: PTH123 # asked fifty times a second
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _die_with_parent() -> None:
    """Where the parent is killed nothing of it stays; Linux alone can promise that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _quiet() -> None:
    warnings.simplefilter("ignore")
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
                      TQDM_DISABLE="1", TOKENIZERS_PARALLELISM="false",
                      HF_DEACTIVATE_ASYNC_LOAD="1")  # fmt: skip


def _warm_up() -> None:
    """Enter a machine once: the first time costs a second."""
    import torch

    from samedevice.machines import parse_machine
    from samedevice.runtime import VirtualMachine

    with VirtualMachine(parse_machine("2x24GB")):
        layer = torch.nn.Linear(2, 2).to("cuda:0")
        layer(torch.ones(1, 2, device="cuda:0")).sum().backward()


_TOLD = (
    *("torch", "transformers", "accelerate", "peft", "diffusers", "timm", "torchvision", "samedevice"),
    *("sentence-transformers", "torch_geometric", "torchmetrics"),
)
"""Packages whose releases are told with the results."""


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in _TOLD:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
