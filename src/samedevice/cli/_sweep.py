"""`samedevice sweep`: every model of a package on several GPUs. Its own process needs no torch."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from samedevice.cli._answering import answered, cache_folder, write_file
from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.messages import Language, Phrase, language_of
from samedevice.report import open_console, render
from samedevice.sweep import (
    ACTIONS,
    KNOWN,
    Changes,
    Compared,
    LocalPool,
    Order,
    Pool,
    Progress,
    RayPool,
    Root,
    Store,
    Swept,
    changes_between,
    first_with,
    has_root,
    python_with,
    releases_between,
    sweep,
    write_scripts,
)

CLEAN, FOUND, INTERRUPTED = 0, 1, 130
_EVERY = 10.0
"""Seconds between two lines of progress where no terminal can rewrite one."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    package: str
    models: str
    machines: tuple[str, ...]
    actions: tuple[str, ...]
    jobs: int
    on: str
    cuts: int
    seconds: float
    memory: int
    store: Path | None
    json: Path | None
    html: Path | None
    scripts: Path | None
    versions: tuple[str, ...]
    bisect: bool
    full_size: bool
    language: Language | None


def sweep_package(options: Options) -> int:
    """Sweep, print the table, write what was asked for, and return the exit status."""
    try:
        with suppress(BrokenPipeError):
            return answered(options.language, partial(_answer, options))
    except KeyboardInterrupt:  # what is done is kept, and the next sweep goes on behind it
        return INTERRUPTED
    return CLEAN


def _answer(options: Options, language: Language) -> int:
    from samedevice.report.sweep import print_changes, print_scripts, print_sweep

    order = _order(options)
    if options.versions and len(options.versions) != 2:
        raise UsageError(Phrase("sweep.two-versions"))
    if options.bisect and not options.versions:
        raise UsageError(Phrase("sweep.bisect-what"))
    store = Store(options.store or _cache() / f"{Path(options.package).resolve().name}.db")
    try:
        orders = [_with_release(order, version) for version in options.versions] or [order]
        every = [_swept(options, each, store, language) for each in orders]
        swept = every[-1]
        if not swept.targets:
            raise UsageError(Phrase("sweep.no-models", package=options.package, pattern=options.models))
        compared = _compared(options, order, store, every, language) if options.versions else None
        _write_files(options, swept, compared)
        console = open_console(sys.stdout)
        print_sweep(console, swept, language)
        if compared is not None:
            print_changes(console, compared, language)
        if options.scripts is not None:
            written = write_scripts(swept.roots, swept.scripts, options.scripts, orders[-1])
            print_scripts(console, written, language)
    finally:
        store.close()
    sys.stdout.flush()
    return FOUND if swept.roots else CLEAN


def _with_release(order: Order, version: str) -> Order:
    return replace(order, python=python_with(order.package, version, _cache()))


def _compared(
    options: Options, order: Order, store: Store, every: Sequence[Swept], language: Language
) -> Compared:
    changes = changes_between(every[0], every[-1])
    since = _bisected(options, order, store, changes, language) if options.bisect else {}
    first, last = options.versions
    return Compared(first, last, changes, since)


def _bisected(
    options: Options, order: Order, store: Store, changes: Changes, language: Language
) -> dict[str, str]:
    """The release that brought each new root cause, and the one that repaired each that is gone.

    All classes that met it are asked: they may have got or lost it in different releases.
    """
    versions = releases_between(order.package, *options.versions)
    came: dict[str, str] = {}
    for root, is_new in [*((each, True) for each in changes.new), *((each, False) for each in changes.fixed)]:

        def differs(version: str, root: Root = root, is_new: bool = is_new) -> bool | None:
            swept = _swept(options, _with_release(order, version), store, language, root.targets)
            there = has_root(swept, root)
            return None if there is None else is_new == there

        found = first_with(versions, differs)
        if found is not None:
            came[root.key] = found
    return came


def _swept(
    options: Options, order: Order, store: Store, language: Language, models: Collection[str] | None = None
) -> Swept:
    line = _Line(language)
    try:
        return sweep(order, _pool(options), store, models or options.models, line.tell)
    except RuntimeError as error:
        raise UsageError(Phrase("sweep.worker", reason=str(error))) from None
    finally:
        line.close()


def _pool(options: Options) -> Pool:
    """Raises `UsageError` for a place that is none."""
    if options.on == "local":
        return LocalPool(options.jobs)
    if options.on == "ray" or options.on.startswith("ray://"):
        return RayPool(options.on, options.jobs)
    raise UsageError(Phrase("sweep.no-place", given=options.on))


def _order(options: Options) -> Order:
    for action in options.actions:
        if action not in ACTIONS:
            raise UsageError(Phrase("sweep.no-action", given=action, known=", ".join(ACTIONS)))
    if options.package not in KNOWN and (options.versions or not Path(options.package).is_dir()):
        raise UsageError(Phrase("sweep.unknown", package=options.package, known=", ".join(KNOWN)))
    for spec in options.machines:
        parse_machine(spec)
    asked: dict[str, Any] = {
        "machines": list(options.machines),
        "actions": list(options.actions),
        "cuts": options.cuts,
    }
    if options.full_size:
        asked["full_size"] = True
    return Order(options.package, asked, options.seconds, options.memory, "en", environment=_environment())


def _environment() -> dict[str, str]:
    """One thread for each worker: the values are small."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def _cache() -> Path:
    return cache_folder("sweep")


def _write_files(options: Options, swept: Swept, compared: Compared | None) -> None:
    from samedevice.report.sweep import changes_document, sweep_document

    if options.json is not None:
        document = sweep_document(swept)
        if compared is not None:
            document["changes"] = changes_document(compared)
        write_file(options.json, json.dumps(document, indent=1) + "\n")
    if options.html is not None:
        import samedevice
        from samedevice.report.web import sweep_page  # jinja2: only who asks for a page imports it

        chosen = options.language or language_of(os.environ)
        write_file(options.html, sweep_page(swept, chosen, version=samedevice.__version__, compared=compared))


class _Line:
    """One line of progress on standard error; where that is no terminal, a line now and then."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._last = time.monotonic()
        self.tell: Callable[[Progress], None] = self._tell

    def _tell(self, progress: Progress) -> None:
        now = time.monotonic()
        if not self._terminal and progress.left and now - self._last < _EVERY:
            return
        self._last = now
        text = render(
            Phrase(
                "sweep.progress",
                done=progress.done,
                left=progress.left,
                statements=progress.statements,
                rate=round(60 * progress.runs / max(progress.seconds, 1.0)),
                slowest=progress.slowest,
                seconds=round(progress.slowest_seconds, 1),
            ),
            self._language,
        )
        with suppress(OSError):
            if self._terminal:
                width = max(os.get_terminal_size(sys.stderr.fileno()).columns - 1, 20)
                print(f"\r\x1b[2K{text[:width]}", end="", file=sys.stderr, flush=True)
            else:
                print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave nothing on the terminal's line."""
        if self._terminal:
            with suppress(OSError):
                print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
