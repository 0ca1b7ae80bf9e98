"""`samedevice machines`: the GPUs that a machine can be made of. Needs no torch."""

from __future__ import annotations

import json
from typing import TextIO

from samedevice.cli._answering import answered, print_answer
from samedevice.errors import MachineSpecError, UsageError
from samedevice.machines import Gpu, gpus_like, nearest_keys, parse_machine
from samedevice.messages import Language, Phrase, Several
from samedevice.report import open_console, print_gpus

LISTED = 0
_MOST_SOURCES = 10
"""So many GPUs are shown with the source of their figures."""


def list_machines(pattern: str | None, as_json: bool, chosen: Language | None) -> int:
    """List the GPUs that `pattern` names and return the exit status."""

    def answer(language: Language) -> int:
        gpus = _named(pattern or "")

        def show(into: TextIO) -> None:
            if as_json:
                print(
                    json.dumps({"schema": 1, "gpus": [gpu.describe() for gpu in gpus]}, indent=1), file=into
                )
            else:
                few = pattern is not None and len(gpus) <= _MOST_SOURCES
                print_gpus(open_console(into), gpus, sources=few, language=language)

        print_answer(show)
        return LISTED

    return answered(chosen, answer)


def _named(pattern: str) -> tuple[Gpu, ...]:
    """By a part of a name, a pattern with `*`, or as a machine specification has it."""
    if found := gpus_like(pattern):
        return found
    try:
        return tuple(dict.fromkeys(parse_machine(pattern).gpus))
    except MachineSpecError:
        near = nearest_keys(pattern)
    if not near:
        raise UsageError(Phrase("gpus.none", pattern=pattern))
    raise UsageError(Phrase("gpus.near", pattern=pattern, keys=Several(near, "comma")))
