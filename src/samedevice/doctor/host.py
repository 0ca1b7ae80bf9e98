"""The seam between the doctor and the machine: everything that is read passes through a `Host`.

A recorded machine is another `Host` (`evidence.environments.recorded`). Must guarantee of `ThisHost`: each
command runs in a process of its own with a time limit and is ended with what it started; nothing is written;
torch is never imported into this process.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from samedevice.messages import Phrase

_LONGEST = 4_000_000
"""Characters of a file; what is longer is no setting and no list."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said; `failure` tells why there is no status."""

    status: int | None
    output: str = ""
    errors: str = ""
    failure: Phrase | None = None
    late: bool = False
    """Whether it was ended because it did not answer in its time."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of an installed distribution, as its files have it."""

    folder: str
    text: str
    origin: str = ""
    """`direct_url.json`; empty where there is none."""


class Host(Protocol):
    """A machine as the doctor reads it."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables."""

    @property
    def python(self) -> str:
        """The Python that child processes run."""

    def run(self, words: Sequence[str], seconds: float) -> Answer:
        """Run a command and wait at most so long."""

    def text(self, path: str) -> str | None:
        """The text of a file; None where it cannot be read."""

    def names(self, folder: str) -> tuple[str, ...]:
        """What a folder holds; nothing where it cannot be read."""

    def target(self, path: str) -> str:
        """Where a path leads when links are followed."""

    def capacity(self, folder: str) -> int | None:
        """Bytes of the file system that a folder is on; None where that cannot be told."""

    def own(self, pid: int) -> bool:
        """Whether a process is this one or one that it was started from."""

    def installed(self) -> Sequence[Metadata]:
        """The installed distributions, in the order in which Python finds them."""


class ThisHost:
    """The machine that this process runs on."""

    @property
    def variables(self) -> Mapping[str, str]:
        """As this process has them."""
        return os.environ

    @property
    def python(self) -> str:
        """The Python that runs this."""
        return sys.executable

    def run(self, words: Sequence[str], seconds: float) -> Answer:
        """In a session of its own, so that what it started ends with it."""
        program = shutil.which(words[0])
        if program is None:
            return Answer(None, failure=Phrase("doctor.no-command", command=words[0]))
        try:
            process = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            return Answer(None, failure=Phrase("doctor.not-started", command=words[0], reason=reason))
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            late = Phrase("doctor.too-slow", command=words[0], seconds=f"{seconds:g}")
            return Answer(None, _decoded(output), _decoded(errors), failure=late, late=True)
        return Answer(process.returncode, _decoded(output), _decoded(errors))

    def text(self, path: str) -> str | None:
        """Its first part, where it is long."""
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                return file.read(_LONGEST)
        except (OSError, ValueError):
            return None

    def names(self, folder: str) -> tuple[str, ...]:
        """Sorted, so that two calls agree."""
        try:
            return tuple(sorted(each.name for each in Path(folder).iterdir()))
        except OSError:
            return ()

    def target(self, path: str) -> str:
        """The path itself where it leads nowhere."""
        try:
            return str(Path(path).resolve())
        except (OSError, RuntimeError):
            return path

    def capacity(self, folder: str) -> int | None:
        """The whole of it, used or not."""
        try:
            return shutil.disk_usage(folder).total
        except OSError:
            return None

    def own(self, pid: int) -> bool:
        """This process and those above it."""
        import psutil

        try:
            return pid in {os.getpid(), *(each.pid for each in psutil.Process().parents())}
        except psutil.Error:
            return pid == os.getpid()

    def installed(self) -> Sequence[Metadata]:
        """From the folders of `sys.path`."""
        found = []
        for each in importlib.metadata.distributions():
            text = each.read_text("METADATA") or each.read_text("PKG-INFO")
            if text is not None:
                folder = str(each.locate_file(""))
                found.append(Metadata(folder, text, each.read_text("direct_url.json") or ""))
        return found


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")
