"""One line of status while a long script runs on a terminal.

It must never mix with the script's own lines. So it is drawn only while both streams of the script stand at
the start of a line, and it is wiped before the script writes. The streams stay the very objects that they
were: only their `write` is shadowed on the instance, and only while the line may show. What a subprocess or C
code writes is not seen here.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from rich.text import Text

from samedevice.events import DeviceMemory
from samedevice.messages import Bytes, Language, Phrase
from samedevice.report import render

_FIRST_AFTER = 2.0
_EVERY = 1.0
_WIPE = "\r\x1b[2K"


class Watched(Protocol):
    """What the line tells about."""

    @property
    def operators(self) -> int: ...
    @property
    def events(self) -> list[Any]: ...
    def memory(self) -> dict[str, DeviceMemory]: ...


class Progress:
    """Context manager; does nothing unless `stream` is a terminal that can wipe a line."""

    def __init__(self, stream: TextIO, watched: Watched, language: Language) -> None:
        self._stream = stream
        self._watched = watched
        self._language = language
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._shown = False
        self._fresh_line = True
        self._streams: list[TextIO] = []
        self._input: Callable[..., str] | None = None
        self._owner = os.getpid()
        self._write: Callable[[str], Any] = stream.write

    def __enter__(self) -> Progress:
        if self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            self._streams = [
                stream for stream in {sys.stdout, sys.stderr} if stream is not None and stream.isatty()
            ]
            for stream in self._streams:
                stream.write = self._before(stream.write)  # type: ignore[method-assign] # on the instance, undone in __exit__
            self._input, builtins.input = builtins.input, self._ask
            threading.Thread(target=self._loop, name="samedevice-progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._lock:
            self._wipe()
            for stream in self._streams:
                vars(stream).pop("write", None)
            if self._input is not None:
                builtins.input = self._input

    def _loop(self) -> None:
        started = time.monotonic()
        wait = _FIRST_AFTER
        while not self._stop.wait(wait):
            wait = _EVERY
            text = Text(self._text(time.monotonic() - started))
            with self._lock:
                if self._fresh_line and not self._stop.is_set():
                    try:
                        text.truncate(max(os.get_terminal_size(self._stream.fileno()).columns - 1, 0))
                        self._write(_WIPE + text.plain)
                        self._stream.flush()
                    except (OSError, ValueError):  # the terminal is gone
                        return
                    self._shown = True

    def _text(self, elapsed: float) -> str:
        minutes, seconds = divmod(int(elapsed), 60)
        try:
            peaks = {device: ledger.peak_allocated for device, ledger in self._watched.memory().items()}
        except RuntimeError:  # the ledger grew while it was read; the next second will tell
            peaks = {}
        line = Phrase(
            "progress",
            elapsed=f"{minutes}:{seconds:02}",
            operators=f"{self._watched.operators:,}",
            findings=len(self._watched.events),
            memory=", ".join(f"{device} {Bytes(peak)}" for device, peak in peaks.items() if peak),
        )
        return render(line, self._language)

    def _before(self, write: Callable[[str], int]) -> Callable[[str], int]:
        """`write`, with the status line wiped first."""

        def wiped(text: str) -> int:
            if (
                os.getpid() != self._owner
            ):  # a forked child owns no status line, and the lock may be held in its copy
                return write(text)
            with self._lock:
                self._wipe()
                if text:
                    self._fresh_line = text.endswith("\n")
                return write(text)

        return wiped

    def _ask(self, *prompt: object) -> str:
        """`input`, which writes its prompt and echoes its answer without `write`."""
        assert self._input is not None
        with self._lock:
            self._wipe()
            self._fresh_line = False
        try:
            return self._input(*prompt)
        finally:
            self._fresh_line = True

    def _wipe(self) -> None:
        if self._shown:
            self._shown = False
            try:
                self._write(_WIPE)
                self._stream.flush()
            except (OSError, ValueError):
                pass
