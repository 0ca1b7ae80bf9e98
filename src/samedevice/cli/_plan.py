"""`samedevice plan`: where the blocks of a model go on a machine, with the proof."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from samedevice.errors import UsageError
from samedevice.machines import parse_machine, size_in_mib
from samedevice.messages import Language, Phrase, language_of
from samedevice.planner.inference import OBJECTIVES, RESERVE, Objective, Workload, place_model
from samedevice.report import error_text, open_console, readable_language, render
from samedevice.report.plan import Plan

FITS, UNFIT, WRONG_USAGE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    model: str
    machine: str
    workload: Workload
    objective: str
    reserve: str | None
    dtype: str | None
    json: Path | None
    device_map: Path | None
    script: Path | None
    language: Language | None


def plan_model(options: Options) -> int:
    """Make the plan, print it, write what was asked for, and return the exit status."""
    language = readable_language(sys.stdout, options.language or language_of(os.environ))
    try:
        plan = _planned(options, language)
        _write_files(options, plan)
    except UsageError as error:
        print(f"samedevice: {error_text(error, language)}", file=sys.stderr)
        return WRONG_USAGE
    with suppress(BrokenPipeError):
        map_file = None if options.device_map is None else str(options.device_map)
        console = open_console(sys.stdout)
        console.print(plan.shown(language, ascii_only=not _draws(sys.stdout.encoding), map_file=map_file))
        sys.stdout.flush()
    return FITS if plan.proved else UNFIT


def _planned(options: Options, language: Language) -> Plan:
    objective: Objective | None = next((each for each in OBJECTIVES if each == options.objective), None)
    if objective is None:
        raise UsageError(Phrase("place.objective", given=options.objective, known=", ".join(OBJECTIVES)))
    machine = parse_machine(options.machine)
    with _progress(language) as tell:
        placed = place_model(
            options.model,
            machine,
            options.workload,
            objective=objective,
            reserve=_reserve(options.reserve),
            dtype=options.dtype,
            tell=tell,
        )
    return Plan(placed, language)


def _reserve(text: str | None) -> int:
    if text is None:
        return RESERVE
    mib = 0 if text == "0" else size_in_mib(text)
    if mib is None:
        raise UsageError(Phrase("place.no-size", given=text))
    return mib << 20


def _progress(language: Language) -> AbstractContextManager[Callable[[Phrase], Any]]:
    """What tells each step on a terminal, in one line that goes away; elsewhere nothing is told."""
    if not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    return _Status(language)


class _Status:
    """A line with a moving sign."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._status = Console(stderr=True, highlight=False, markup=False, emoji=False).status("")

    def __enter__(self) -> Callable[[Phrase], Any]:
        self._status.start()
        return lambda step: self._status.update(render(step, self._language))

    def __exit__(self, *_: object) -> None:
        self._status.stop()


def _draws(encoding: str | None) -> bool:
    """Whether a stream can carry the drawing's characters."""
    try:
        "\u2588\u2593\u2592\u2591".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _write_files(options: Options, plan: Plan) -> None:
    if options.json is not None:
        _write(options.json, json.dumps(plan.as_json(), indent=1) + "\n")
    if not plan.fits:
        return
    if options.device_map is not None:
        _write(options.device_map, json.dumps(plan.device_map, indent=1) + "\n")
    if options.script is not None:
        _write(options.script, plan.script())


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(Phrase("preflight.unwritable", path=str(path), reason=reason)) from None
