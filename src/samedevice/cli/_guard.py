"""`samedevice guard`: a program on the real machine, with whatever it does not catch explained.

It runs as Python or its launcher runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext, suppress

from samedevice.cli._command import notes_of, program_of, read_command, started_by_us
from samedevice.cli._program import Program, enter_path
from samedevice.cli._restart import start_with
from samedevice.cli._traceback import show_exception
from samedevice.errors import UsageError
from samedevice.launchers import Typed
from samedevice.messages import Language, Phrase, language_of
from samedevice.ranks import needs_package
from samedevice.report import TextRenderer, error_text, readable_language, render

FAILED, WRONG_USAGE = 1, 2


def guard_program(
    words: tuple[str, ...],
    module: str | None,
    chosen: Language | None,
    heal: bool = False,
    replay: bool = False,
    record: bool = False,
) -> int:
    """Run a program and return its status; what it leaves to `sys.excepthook` gets its diagnosis first.

    With `heal` everything that the main thread asks of torch runs under `samedevice.heal()`. Behind a
    launcher, each of its processes is guarded. With `record` the decisions of tensors are kept.
    """
    language = readable_language(sys.stderr, chosen or language_of(os.environ))
    try:
        if not words and module is None:
            raise UsageError(Phrase("usage.no-script-to-guard"))
        typed = read_command(words, module)
        start_with(typed.environment, typed.python_options, fixed_seed=False)
        program = program_of(typed)
        if program is None:
            raise UsageError(Phrase("command.guards-python", program=typed.program))
        if typed.call is not None:
            needs_package(typed.call.launcher)
    except UsageError as error:
        print(f"samedevice: {error_text(error, language)}", file=sys.stderr)
        return WRONG_USAGE
    for note in notes_of(typed):
        print(f"samedevice: {render(note, language)}", file=sys.stderr)
    if typed.call is None:
        return _guard_here(program, TextRenderer(language), heal, replay, record)
    chosen_ones = {"--heal": heal, "--replay": replay, "--record": record}
    options = [*(name for name, asked in chosen_ones.items() if asked), "--lang", language]
    return _run_in_place(_guarded_ranks(typed, options))


def _guard_here(program: Program, renderer: TextRenderer, heal: bool, replay: bool, record: bool) -> int:
    from samedevice.guards import Guard
    from samedevice.guards import heal as healing

    enter_path(program.path_entry)
    Guard(None, renderer, replay, record).install()
    try:
        with healing(None, renderer) if heal else nullcontext():
            program.run()
    except Exception as error:
        failure = error
    else:
        return 0
    show_exception(failure)
    return FAILED


def _guarded_ranks(typed: Typed, options: list[str]) -> list[str]:
    """The launch with each process under `samedevice guard`."""
    ours = [*options, *(["-m"] if typed.kind == "module" else []), typed.program]
    return [*started_by_us(typed, "rank", ("guard", str(len(ours)), *ours))]


def _run_in_place(command: list[str]) -> int:
    """Run a command in place of this process, with its terminal, signals and status."""
    if os.name == "posix":
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed by the caller
                stream.flush()
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode
