"""`%%samedevice 2x24GB`: a cell of a notebook, or all cells from here on, on a virtual machine.

Must guarantee: what a cell prints and shows is its own; its exception is shown once, with the frames of its
author; no machine is left on when the extension is unloaded.
"""

from __future__ import annotations

import argparse
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from samedevice.diagnosis import judge, united, with_results
from samedevice.errors import UsageError
from samedevice.events import DeviceMemory, Place
from samedevice.findings import Status
from samedevice.machines import Machine, parse_machine
from samedevice.messages import Language, Phrase, language_of, languages
from samedevice.report import Findings, error_text, html_of, open_console, print_run, render, shown_findings
from samedevice.runtime import VirtualMachine

NAME = "samedevice"
DEFAULT_MACHINE = "2x24GB"


@dataclass(frozen=True, slots=True)
class Run:
    """What a cell showed on its machine."""

    findings: Findings
    machine: dict[str, Any]
    memory: dict[str, DeviceMemory]
    status: Status
    asked: list[Place]
    language: Language

    def print(self, console: Any) -> None:
        """As `samedevice run` prints it."""
        print_run(
            console,
            findings=self.findings,
            machine=self.machine,
            memory=self.memory,
            status=self.status,
            language=self.language,
            asked=self.asked,
        )

    def __repr__(self) -> str:
        return f"<run on {self.machine['spec']}, findings: {len(self.findings)}>"

    def _repr_html_(self) -> str:
        return html_of(self.print)


@dataclass(slots=True)
class _On:
    """A machine that cells are on."""

    described: Machine
    engine: VirtualMachine
    language: Language
    told: int = 0
    """Findings that were shown."""


class Magic:
    """The magic of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._on: _On | None = None

    def install(self) -> Callable[[], None]:
        """Give the shell its magic; what is returned takes it out, and ends the machine that is on."""
        shell = self._shell
        shell.register_magic_function(self, magic_kind="line_cell", magic_name=NAME)
        shell.events.register("post_run_cell", self._show_new)

        def remove() -> None:
            with suppress(ValueError):  # taken out by somebody else
                shell.events.unregister("post_run_cell", self._show_new)
            for kind in ("line", "cell"):
                if shell.magics_manager.magics[kind].get(NAME) is self:
                    del shell.magics_manager.magics[kind][NAME]
            self._leave()

        return remove

    def __call__(self, line: str, cell: str | None = None) -> None:
        """Run the cell on a virtual machine and show its device bugs; as `%samedevice SPEC`, switch one on.

        %%samedevice [SPEC] [--fail-fast] [--lang en|zh]
        %samedevice [SPEC|off]
        """
        language = language_of(os.environ)
        try:
            asked = _read(line)
            language = asked.lang or language
            if cell is None:
                self._switch(asked, language)
                return
            if self._on is not None:
                raise UsageError(Phrase("notebook.on", spec=self._on.described.spec))
            if _awaits(self._shell, cell):
                raise UsageError(Phrase("notebook.await"))
            machine = parse_machine(asked.spec or DEFAULT_MACHINE)
        except UsageError as error:
            _refuse(error_text(error, language))
        if not cell.lstrip().startswith("%%"):  # another magic has to stand first
            cell = f"# %%{NAME}\n{cell}"  # lines have the numbers that the notebook shows
        run_cell(self, cell, _On(machine, _engine(machine, asked.fail_fast), language))

    def execute(self, cell: str, on: _On) -> BaseException | None:
        """Run a cell on a machine, show what was found, and return the exception that ended it."""
        shell = self._shell
        named: dict[str, int] = getattr(shell.compile, "_filename_map", {})
        before, number = dict(named), _number_of_cell(named)
        with on.engine:
            shell.showtraceback = _show_nothing  # whoever runs the magic shows it
            try:
                result = shell.run_cell(cell)
            finally:
                del shell.showtraceback
        if number is not None:  # the shell counted the cell as the next one
            named.update({file: number for file in named if named[file] != before.get(file)})
        never_ran: BaseException | None = result.error_before_exec
        if never_ran is not None:
            return never_ran
        self._show(_run(on, _status(result.error_in_exec)))
        error: BaseException | None = result.error_in_exec
        return error

    def _switch(self, asked: argparse.Namespace, language: Language) -> None:
        if asked.spec == "off":
            self._leave()
        elif asked.spec is not None:
            machine = parse_machine(asked.spec)
            self._leave()
            on = _On(machine, _engine(machine, asked.fail_fast), language)
            on.engine.__enter__()
            self._on = on
        elif self._on is None:
            print(render(Phrase("notebook.off"), language))
        else:
            self._show(_run(self._on, "completed"))

    def _leave(self) -> None:
        if self._on is not None:
            on, self._on = self._on, None
            on.engine.__exit__(None, None, None)

    def _show_new(self, result: Any) -> None:
        """After each cell: what it found on the machine that is on."""
        if self._on is None or len(self._on.engine.events) == self._on.told:
            return
        run = _run(self._on, _status(result.error_in_exec), since=self._on.told)
        self._on.told = len(self._on.engine.events)
        self._show(run)

    def _show(self, run: Run) -> None:
        if getattr(self._shell, "kernel", None) is None:  # a terminal
            run.print(open_console(sys.stdout))
            return
        from IPython.display import display

        display(run)  # type: ignore[no-untyped-call] # IPython's own


def run_cell(magic: Magic, cell: str, on: _On) -> None:
    """Run a cell; its exception comes out of here, so that the notebook stops."""
    if (error := magic.execute(cell, on)) is not None:
        raise error


def author_frames(trace: TracebackType | None) -> TracebackType | None:
    """Of a traceback that went through a magic, the frames of the cell; None for any other."""
    while trace is not None:
        if trace.tb_frame.f_code is run_cell.__code__:
            return _without_shell(trace.tb_next)
        trace = trace.tb_next
    return None


def _without_shell(trace: TracebackType | None) -> TracebackType | None:
    """Frames behind those of IPython, which ran the cell."""
    while trace is not None and f"{os.sep}IPython{os.sep}core{os.sep}" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return trace


def _number_of_cell(named: Mapping[str, int]) -> int | None:
    """The number of the cell that called us, by the names of files that the shell gave."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename in named:
            return named[frame.f_code.co_filename]
        frame = frame.f_back
    return None


def _awaits(shell: Any, cell: str) -> bool:
    """Whether a cell needs an event loop, which is busy with the magic."""
    try:
        transformed = shell.transform_cell(cell)
    except SyntaxError:  # told when it is run
        return False
    return bool(shell.should_run_async(cell, transformed_cell=transformed))


def _engine(machine: Machine, fail_fast: bool) -> VirtualMachine:
    return VirtualMachine(machine, on_mismatch="raise" if fail_fast else "record", script=None)


def _run(on: _On, status: Status, since: int = 0) -> Run:
    engine = on.engine
    found = zip(with_results(engine.events[since:]), engine.event_counts[since:], strict=True)
    return Run(
        shown_findings(united([judge(event, count) for event, count in found]), on.language),
        on.described.describe(),
        engine.memory(),
        status,
        engine.asked_values,
        on.language,
    )


def _status(error: BaseException | None) -> Status:
    if error is None:
        return "completed"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "out-of-memory" if type(error).__name__ == "OutOfMemoryError" else "script-error"


def _show_nothing(*args: Any, **kwargs: Any) -> None:
    return None


class _Parser(argparse.ArgumentParser):
    """One that raises where argparse ends the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%{NAME}: {message}")


def _read(line: str) -> argparse.Namespace:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("spec", nargs="?")
    parser.add_argument("--fail-fast", action="store_true")
    parser.add_argument("--lang", choices=languages())
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:  # a quote that is not closed
        raise UsageError(f"%{NAME}: {error}") from None


def _refuse(text: str) -> NoReturn:
    from IPython.core.error import UsageError as Refused  # the shell shows it without a traceback

    raise Refused(text)
