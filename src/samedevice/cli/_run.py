"""`samedevice run`: the order of things around a script, and what its end means.

Before the script: everything that can be wrong with the command line is found. After it: its threads and exit
handlers run while the virtual GPUs still exist, as they would on hardware; then the JSON is written, and last
the report.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Protocol, TextIO

from samedevice import diagnosis
from samedevice.cli._collector import uncollected
from samedevice.cli._command import launch_typed, notes_of, program_of, read_command, started_by_us
from samedevice.cli._mending import Mended, Wanted, mended
from samedevice.cli._program import Program, enter_path
from samedevice.cli._progress import Progress
from samedevice.cli._reporting import (
    Reporting,
    Told,
    decided,
    decisions_of,
    in_form,
    notices,
    program_name,
)
from samedevice.cli._restart import start_with
from samedevice.cli._traceback import show_exception
from samedevice.cli._trial import here
from samedevice.edited import edited, is_trial, read_edited
from samedevice.errors import UnsupportedFeatureError, UsageError
from samedevice.events import DeviceMemory, Event, InVain, Place
from samedevice.findings import Finding, Status, run_document
from samedevice.launchers import Typed
from samedevice.messages import Language, Phrase, language_of
from samedevice.provenance import installed_path, raised_by_us, unrecorded_trace
from samedevice.ranks import (
    Family,
    Member,
    Reporter,
    crowded,
    end_left_over,
    first_trace,
    launch,
    launch_command,
    memory_by_gpu,
    memory_by_rank,
    together,
)
from samedevice.report import (
    asked_text,
    assumed_text,
    error_text,
    open_console,
    place_text,
    print_run,
    problem_lines,
    readable_language,
    render,
    render_finding,
)
from samedevice.suppression import Decisions, Found, Sifted, found_in, sift
from samedevice.timeline import Copies, Layer, Timeline
from samedevice.torch_versions.installed import newer_than_tested, newer_torch, require_torch

NOTHING_FOUND, FOUND, WRONG_USAGE, SCRIPT_FAILED, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 70, 130
_MOST_WORK = 200_000
"""Operators that a trace has; viewers grow slow beyond."""
_PATIENCE = 2.0
"""Seconds that an interrupted script's threads get to end."""


@dataclass(frozen=True, slots=True)
class Fixing:
    """What the command line asks to be done with fixes."""

    apply: bool = False
    show: bool = False
    tries: bool = True
    machines: tuple[str, ...] = ()
    """Further machines to try them on."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    program: tuple[str, ...]
    module: str | None
    machine: str
    json: Path | None
    fail_fast: bool
    language: Language | None
    launcher: str | None = None
    processes: int | None = None
    launcher_options: tuple[str, ...] = ()
    one_rank: bool = False
    settled_launcher: str | None = None
    """That of the settings: for a program whose command names none."""
    html: Path | None = None
    trace: Path | None = None
    reporting: Reporting = field(default_factory=Reporting)
    fixing: Fixing | None = None


class Described(Protocol):
    """A machine, as far as the report needs it."""

    def describe(self) -> dict[str, Any]: ...


class Watcher(AbstractContextManager[Any], Protocol):
    """The virtual machine, as far as `run` needs it."""

    @property
    def events(self) -> list[Event]: ...
    @property
    def event_counts(self) -> list[int]: ...
    @property
    def operators(self) -> int: ...
    @property
    def assumed_reads(self) -> list[Place]: ...
    @property
    def asked_values(self) -> list[Place]: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def off(self) -> tuple[str, ...]: ...

    newer_torch: str

    def memory(self) -> dict[str, DeviceMemory]: ...
    def physical(self) -> dict[str, int]: ...
    def watched_optimizers(
        self,
    ) -> AbstractContextManager[Callable[[], tuple[InVain, ...]]]: ...
    def counted_copies(self) -> AbstractContextManager[Callable[[], Copies]]: ...
    def recorded(
        self, describe: Callable[[Any], tuple[Layer, ...]], most_work: int
    ) -> AbstractContextManager[Callable[[], Timeline]]: ...


@dataclass(frozen=True, slots=True)
class _Launched:
    """A launcher's command line."""

    launcher: str
    command: tuple[str, ...]
    processes: int


@dataclass(slots=True)
class _Ending:
    """How the script ended, and the status of `run` if nothing was found."""

    status: Status
    code: int
    python_code: int
    """What Python itself would have exited with."""
    trace: str | None = None
    """The traceback of the script's error, if no operator was recorded for it."""
    held: diagnosis.Held | None = None
    """What the frames of that error held."""
    timeline: Timeline | None = None
    """What it did over time, where a page or a trace was asked for."""
    copies: Copies | None = None
    """What it copied between devices, where fixes are tried."""
    in_vain: tuple[InVain, ...] = ()
    """What optimizers did in vain."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The page of `--html`."""

    file: TextIO
    language: Language
    """The reader's own, also where the terminal cannot carry it."""
    program: str


@dataclass(frozen=True, slots=True)
class _Report:
    """Where the report of a run goes, and what is left out of it."""

    stream: TextIO
    language: Language
    reporting: Reporting
    decisions: Decisions
    program: str
    """The name by which a baseline knows it."""
    script: str | None
    json: TextIO | None
    formed: TextIO | None
    """The file of `--output-file`."""
    page: _Page | None = None
    trace: TextIO | None = None
    wanted: Wanted | None = None
    """What is done with fixes."""


def run_program(request: Request) -> int:
    """Run what `request` names and return the exit status."""
    stream = sys.stderr or open(os.devnull, "w")  # noqa: PTH123 # None: the caller closed descriptor 2
    language = readable_language(stream, request.language or language_of(os.environ))
    try:
        return _run(request, stream, language)
    except UsageError as error:
        _tell(stream, error_text(error, language))
        return WRONG_USAGE
    except KeyboardInterrupt:  # before the script, or a second one while the report was made
        return INTERRUPTED
    except Exception as error:
        _internal_error(stream, error, language)
        return INTERNAL_ERROR


def _run(request: Request, stream: TextIO, language: Language) -> int:
    typed = _read(request)
    start_with(typed.environment, typed.python_options, fixed_seed=True)
    program = program_of(typed)
    machine = _machine(request.machine)
    launched = _launch(request, typed, machine)
    for spec in request.fixing.machines if request.fixing is not None else ():
        _machine(spec)
    read_edited()
    report = replace(_report(request, typed, program, stream, language), wanted=_wanted(request, program))
    for note in notes_of(typed):
        _tell(stream, render(note, language))
    owner = os.getpid()
    family = Family(
        request.machine,
        "raise" if request.fail_fast else "record",
        None if program is None else program.file,
        launched.processes if launched is not None and request.one_rank else None,
    )
    try:
        if launched is not None:
            return _run_launch(launched, machine, family, report)
        assert program is not None, "only a launcher starts what is no Python program"
        return _run_here(request, program, machine, family, report)
    finally:
        if os.getpid() == owner:  # a child that the script forked comes back through here, too
            family.close()
            _discard_unwritten(report.json)
            _discard_unwritten(report.formed)
            _discard_unwritten(None if report.page is None else report.page.file)
            _discard_unwritten(report.trace)


def _run_here(
    request: Request,
    program: Program,
    machine: Any,
    family: Family,
    report: _Report,
) -> int:
    """The script runs in this process; what it starts inherits the machine."""
    owner = os.getpid()
    stream, language = report.stream, report.language
    quiet = report.reporting.detail == "quiet"
    watcher: Watcher | None = None
    reporter = Reporter(str(family.folder))
    ending = _Ending("interrupted", INTERRUPTED, INTERRUPTED)
    with suppress(
        KeyboardInterrupt
    ):  # while torch is imported or the engine comes and goes; the script's own is in _execute
        _take_sigterm()
        watcher = _virtual_machine(machine, request.fail_fast, program.file, reporter)
        if watcher.newer_torch and not quiet:
            _tell(stream, render(newer_torch(watcher.newer_torch, watcher.off), language))
        enter_path(program.path_entry)
        with (
            family.adopted(),
            watcher,
            _recording(watcher, report) as recorded,
            _counting(watcher, report) as copies,
            watcher.watched_optimizers() as in_vain,
        ):
            with nullcontext() if quiet else Progress(stream, watcher, language):
                ending = _wind_down(_execute(program, stream, language))
            _flush_stdout()
            ending.timeline = None if recorded is None else recorded()
            ending.copies = None if copies is None else copies()
            ending.in_vain = in_vain()
    if os.getpid() != owner:  # a child that the script forked came back through here: it ends as under Python
        return ending.python_code
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if left := sorted(
        set(end_left_over(family, among_ranks=watcher is not None and watcher.rank is not None))
    ):
        _tell(stream, render(Phrase("left-over", processes=", ".join(map(str, left))), language))
    if watcher is not None and ending.status == "script-error" and watcher.assumed_reads:
        _tell(stream, assumed_text(watcher.assumed_reads, language))
    own = [_member(watcher, ending.status)] if watcher else []
    return _conclude(own, family, machine, ending, report)


def _recording(watcher: Watcher, report: _Report) -> AbstractContextManager[Callable[[], Timeline] | None]:
    """Memory over time is recorded for those who asked for a page or a trace."""
    if report.page is None and report.trace is None:
        return nullcontext()
    return watcher.recorded(_layers_of, 0 if report.trace is None else _MOST_WORK)


def _counting(watcher: Watcher, report: _Report) -> AbstractContextManager[Callable[[], Copies] | None]:
    """Copies are counted where fixes are tried: in the first run, and in each trial."""
    tries = report.wanted is not None and report.wanted.tries
    return watcher.counted_copies() if tries or is_trial() else nullcontext()


def _layers_of(model: Any) -> tuple[Layer, ...]:
    """Where the parts of a model are."""
    from samedevice.guards import placement

    return tuple(Layer(part.module, part.kind, part.device, part.nbytes) for part in placement(model).parts)


def _run_launch(launched: _Launched, machine: Any, family: Family, report: _Report) -> int:
    """A launcher runs the script, in one process for each rank; this process only waits."""
    ending = _Ending("interrupted", INTERRUPTED, INTERRUPTED)
    with suppress(KeyboardInterrupt):
        _take_sigterm()
        if (version := newer_than_tested()) and report.reporting.detail != "quiet":
            _tell(report.stream, render(newer_torch(version), report.language))
        code = launch(launched.command, family)
        ending = (
            _Ending("completed", NOTHING_FOUND, 0)
            if code == 0
            else _Ending("script-error", SCRIPT_FAILED, code)
        )
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if ending.python_code == WRONG_USAGE and not any(member.concerned for member in family.members()):
        raise UsageError(Phrase("command.refused", command=launched.launcher))
    if ending.status == "script-error" and any(
        member.status == "out-of-memory" for member in family.members()
    ):
        ending = _Ending("out-of-memory", FOUND, 1)
    if ending.status == "script-error":
        ending = replace(ending, trace=first_trace(family.members()))
    return _conclude([], family, machine, ending, report)


def _conclude(own: list[Member], family: Family, machine: Described, ending: _Ending, report: _Report) -> int:
    """Tell what all processes saw, and return the exit status."""
    reporting, language = report.reporting, report.language
    members = [*own, *(member for member in family.members() if member.concerned)]
    explained = _explained(ending)
    found = _with_the_last_error(_judged(members), explained, launched=not own)
    whole = ending.status == "completed"
    sifted, said = decided(
        found, report.decisions, report.program, _sources(report.script), write=reporting.write, whole=whole
    )
    sifted = _united(sifted)
    elsewhere = (line for each in explained for line in _not_about_devices(each))
    said = (*said, *_thrown_away(report), *_in_vain(ending), *elsewhere)
    code = _exit_code(ending, sifted)
    done = None if code in (INTERRUPTED, INTERNAL_ERROR) else _mended(report, sifted, ending)
    if done is not None:
        sifted, said = replace(sifted, findings=done.findings), (*said, *done.lines)
        code = code if done.code is None else done.code
    told = Told("run", sifted, report.script, language, whole)
    alone = len(members) == len(own)
    memory = own[0].memory if own and alone else memory_by_gpu(members)
    description = machine.describe()
    ranks = [] if alone else [(member.rank, member.status, member.memory) for member in members]
    asked = list({(place.file, place.line): place for member in members for place in member.asked}.values())
    content = run_document(
        description,
        ending.status,
        [render_finding(finding) for finding in told.findings],
        memory,
        ranks,
        asked,
        told.ignored(),
        None if done is None else done.document,
        None if ending.copies is None else asdict(ending.copies),
    )

    def text(into: TextIO) -> None:
        print_run(
            open_console(into),
            findings=told.findings,
            machine=description,
            memory=memory if alone else memory_by_rank(members),
            status=ending.status,
            language=language,
            asked=asked,
            detail=reporting.detail,
            notices=notices(told, reporting, said),
            ignored=bool(sifted.ignored),
        )

    written = _tell_all(report, told, content, text, code)
    by_rank = {} if alone else memory_by_rank(members)
    written &= _write_page(report, told, said, description, memory, by_rank, ending, asked)
    written &= _write_trace(report, ending.timeline)
    if ending.status == "interrupted" and _workers():
        _leave(code)  # Python would wait for threads that may never end
    return code if written else INTERNAL_ERROR


def _with_the_last_error(
    found: list[Found], explained: Sequence[Finding[Phrase]], *, launched: bool
) -> list[Found]:
    """What was found, with the error that ended the script; in a launch only where its cause is a new one."""
    told = {each.finding.cause for each in found} if launched else set()
    last = [each for each in explained if each.verdict == "device-error" and each.cause not in told]
    return [*found, *(Found(each) for each in last)]


def _mended(report: _Report, sifted: Sifted, ending: _Ending) -> Mended | None:
    """What became of the fixes, where somebody asked for them; told at once where nothing else is."""
    if report.wanted is None:
        return None
    done = _mend(report, sifted, ending)
    if report.reporting.detail == "quiet":
        for line in done.lines:
            _tell(report.stream, render(line, report.language))
    return done


def _united(sifted: Sifted) -> Sifted:
    if len(sifted.findings) < 2:
        return sifted  # and the rules stay where they are
    return replace(sifted, findings=tuple(diagnosis.united(sifted.findings)))


def _in_vain(ending: _Ending) -> tuple[Phrase, ...]:
    """What optimizers did in vain in a whole run, each line once."""
    found = dict.fromkeys(ending.in_vain if ending.status == "completed" else ())
    return tuple(
        Phrase("idle-optimizer", optimizer=each.optimizer, where=place_text(each.at))
        if each.copy is None
        else Phrase(
            "outgrown-copy",
            optimizer=each.optimizer,
            where=place_text(each.at),
            name=each.copy,
            device=each.device or "",
        )
        for each in found
    )


def _thrown_away(report: _Report) -> tuple[Phrase, ...]:
    """Moved copies that the script makes and does not keep: nothing fails where all stays on the host."""
    script = report.script if report.wanted is None else None
    if script is None or not _STATEMENT_MOVES.search(text := _text_of(script)):
        return ()
    from samedevice import lint

    checked = lint.check_text(Path(script), text, lint.Options(("SD210",), fixes=False))
    places = [(each.title, each.at) for each in checked.findings if each.at is not None]
    shown = [each for each in places if "samedevice: ignore" not in text.splitlines()[each[1].line - 1]]
    return tuple(
        Phrase("source-shows", title=title, where=f"{Path(script).name}:{at.line}")
        for title, at in shown[:_MOST_SHOWN]
    )


_STATEMENT_MOVES = re.compile(r"^[ \t]*[\w.\[\]]+\.(?:to|cuda|cpu)\(", re.MULTILINE)
_MOST_SHOWN = 3
"""Statements of the source that the report names."""


def _text_of(script: str) -> str:
    try:
        return Path(script).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _explained(ending: _Ending) -> list[Finding[Phrase]]:
    """What the text of the error says that ended the script, one finding or none."""
    found = [] if ending.trace is None else diagnosis.explain_text(ending.trace)[:1]
    found = [diagnosis.unwrapped(diagnosis.with_map_entry(each)) for each in found]
    if ending.held is None:
        return found
    return [diagnosis.brought_to_host(each, ending.held) for each in found]


def _not_about_devices(told: Finding[Phrase]) -> tuple[Phrase, ...]:
    """What is known of an error that ended the script and is about something else; nothing where only the
    program itself could tell.
    """
    topic = dict(told.title.values).get("topic")
    known = told.verdict == "not-a-device-error" and isinstance(topic, Phrase)
    if not known or told.cure is None or topic == _OF_THE_PROGRAM:
        return ()
    return (Phrase("error-elsewhere", title=told.title, cure=told.cure),)


_OF_THE_PROGRAM = Phrase("rules.not-a-device-error.topic-python")


def _judged(members: Sequence[Member]) -> list[Found]:
    """What all processes saw, each statement once."""
    seen_by_all = together(members)
    events = [seen.event for seen in seen_by_all]
    if len(events) > 1:
        events = diagnosis.with_results(events)
    found = [
        found_in(diagnosis.judge(event, seen.count, seen.ranks), event)
        for event, seen in zip(events, seen_by_all, strict=True)
    ]
    return [*found, *(Found(diagnosis.judge(event)) for event in crowded(members))]


def _wanted(request: Request, program: Program | None) -> Wanted | None:
    """What is done with fixes, with the command as it stands before the program runs.

    A diff goes to standard output, where what the program prints is not to be mixed with it: that goes to
    standard error.
    """
    fixing = request.fixing
    if fixing is None:
        return None
    options: list[str] = ["--fail-fast"] if request.fail_fast else []
    options += ["--launcher", request.launcher] if request.launcher is not None else []
    options += ["--nproc", str(request.processes)] if request.processes is not None else []
    options += ["--launcher-args", shlex.join(request.launcher_options)] if request.launcher_options else []
    options += ["--ranks", "one"] if request.one_rank else []
    if request.reporting.baseline is not None and not request.reporting.write:
        options += ["--baseline", str(request.reporting.baseline)]
    words = request.program if request.module is None else ("-m", request.module, *request.program)
    output = None
    if fixing.show:
        output = os.dup(1)
        os.dup2(2, 1)
    return Wanted(
        fixing.apply,
        fixing.show,
        fixing.tries,
        (request.machine, *fixing.machines),
        here(request.machine, tuple(options), words),
        None if program is None else program.file,
        time.monotonic(),
        output,
    )


def _mend(report: _Report, sifted: Sifted, ending: _Ending) -> Mended:
    """Try fixes, and apply or show them."""
    assert report.wanted is not None, "somebody asked"
    with suppress(OSError):  # the program may have gone elsewhere
        os.chdir(report.wanted.again.folder)
    if report.wanted.tries and any(fix.diff for each in sifted.findings for fix in each.fixes):
        _tell(report.stream, render(Phrase("fixing.tries"), report.language))
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
    again = None if ending.copies is None else ending.copies.again_nbytes
    return mended(report.wanted, sifted.findings, ending.status, again)


def _tell_all(
    report: _Report, told: Told, content: dict[str, Any], text: Callable[[TextIO], None], code: int
) -> bool:
    """Write the files that were asked for, and the report; whether all files are whole."""
    reporting, stream, language = report.reporting, report.stream, report.language
    written = report.json is None or _write_json(report.json, content, stream, language)
    if report.formed is not None:
        written &= _write(
            report.formed,
            lambda into: in_form(reporting.form, told, lambda: content, text, into, code),
            stream,
            language,
        )
    with suppress(OSError, ValueError):  # standard error is closed, or its reader went away
        form = reporting.form if report.formed is None else "text"
        in_form(form, told, lambda: content, text, stream, code)
        if reporting.detail == "quiet" or form != "text":
            for line in problem_lines(told.sifted, language):
                _tell(stream, line)
        stream.flush()
    return written


def _sources(script: str | None) -> list[str]:
    """The script and its own modules, as far as this process has imported them: files in which a comment may
    stand.
    """
    if script is None:
        return []
    folders = tuple(
        f"{str(each).rstrip(os.sep)}{os.sep}" for each in (Path(script).resolve().parent, Path.cwd())
    )
    found = [script]
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        if os.path.normpath(file).startswith(folders) and installed_path(file) is None:
            found.append(file)
    return found


def _member(watcher: Watcher, status: str) -> Member:
    """This process, beside those that it started."""
    return Member(
        rank=watcher.rank,
        pid=os.getpid(),
        status=status,
        events=tuple(watcher.events),
        counts=tuple(watcher.event_counts),
        memory=watcher.memory(),
        gpus=watcher.physical(),
        operators=watcher.operators,
        asked=watcher.asked_values,
    )


def _read(request: Request) -> Typed:
    if request.module is None and not request.program:
        raise UsageError(Phrase("usage.no-script"))
    typed = read_command(request.program, request.module)
    if request.trace is not None and (typed.call is not None or _launcher(request, typed) is not None):
        raise UsageError(Phrase("command.one-process", option="--trace"))
    if typed.call is None and _launcher(request, typed) is None:
        if request.one_rank:
            raise UsageError(Phrase("command.needs-launcher", option="--ranks"))
        return typed
    if typed.call is None:
        if typed.kind not in ("script", "module"):
            raise UsageError(Phrase("command.launches-files", launcher=request.launcher or ""))
        return typed
    if request.launcher is not None:
        raise UsageError(
            Phrase("command.two-launchers", option="--launcher", command=typed.call.launcher.name)
        )
    return typed


def _launcher(request: Request, typed: Typed) -> str | None:
    """The launcher that starts a program which was typed without one."""
    settled = request.settled_launcher if typed.kind in ("script", "module") else None
    return request.launcher or settled


def _launch(request: Request, typed: Typed, machine: Any) -> _Launched | None:
    """The launch that a command comes to; None for a program that runs in this process."""
    tried = typed.kind == "script" and edited(str(Path(typed.program).absolute())) is not None
    if typed.call is not None:
        require_torch()
        command, processes = launch_typed(typed, machine)
        name = typed.call.launcher.name
        return _Launched(name, started_by_us(typed, "edited_rank") if tried else command, processes)
    if (launcher := _launcher(request, typed)) is None:
        return None
    require_torch()
    processes = request.processes or len(machine.gpus)
    started = launch_command(
        launcher,
        processes,
        request.launcher_options,
        (*(("samedevice.cli.edited_rank",) if tried else ()), typed.program, *typed.arguments),
        module=tried or typed.kind == "module",
    )
    return _Launched(launcher, tuple(started), processes)


def _machine(spec: str) -> Described:
    from samedevice.machines import parse_machine, value_limit

    machine: Described = parse_machine(spec)
    value_limit()  # what cannot be read is told here, and not by each rank
    return machine


def _virtual_machine(machine: Any, fail_fast: bool, script: str | None, reporter: Reporter) -> Watcher:
    with uncollected():
        from samedevice.runtime import VirtualMachine

    watcher: Watcher = VirtualMachine(
        machine,
        on_mismatch="raise" if fail_fast else "record",
        script=script,
        observer=reporter.note_in_forks,
    )
    reporter.attach(watcher)
    return watcher


def _report(
    request: Request, typed: Typed, program: Program | None, stream: TextIO, language: Language
) -> _Report:
    """Everything about the report that can be wrong is found here, before the script runs."""
    reporting = request.reporting
    decisions = decisions_of(reporting)
    script = None if program is None else program.file
    if script is not None and (problems := sift((), decisions, "", [script]).problems):
        place = f"{problems[0].file}:{problems[0].line}"
        raise UsageError(Phrase("ignore.problem", place=place, what=problems[0].what))
    asked = {
        "--json": request.json,
        "--output-file": reporting.file,
        "--html": request.html,
        "--trace": request.trace,
    }
    opened: dict[str, TextIO | None] = {}
    try:
        for option, path in asked.items():
            opened[option] = _open_file(option, path)
    except UsageError:
        for document in opened.values():
            _discard_unwritten(document)
        raise
    name = program_name("run", typed.kind, typed.program, decisions)
    page = None
    if (file := opened["--html"]) is not None:
        page = _Page(file, request.language or language_of(os.environ), _title_of(typed))
    return _Report(
        stream,
        language,
        reporting,
        decisions,
        name,
        script,
        opened["--json"],
        opened["--output-file"],
        page,
        opened["--trace"],
    )


def _title_of(typed: Typed) -> str:
    """The program as the page names it."""
    option = {"module": "-m ", "code": "-c"}.get(typed.kind, "")
    return option if typed.kind == "code" else f"{option}{typed.program}"


def _open_file(option: str, path: Path | None) -> TextIO | None:
    """Open the file of an option before the run.

    A bad path is told at once, and no older result survives a run that never ends.
    """
    if path is None:
        return None
    if str(path) == "-":
        raise UsageError(Phrase("usage.stdout", option=option))
    try:
        return _open(path)
    except OSError as error:
        reason = str(error.strerror or error)
        raise UsageError(Phrase("usage.unwritable", option=option, path=str(path), reason=reason)) from None


def _open(path: Path) -> TextIO:
    # A file name that is no Unicode holds lone surrogates; backslashreplace writes them as JSON's own
    # escapes.
    return path.open("w", encoding="utf-8", errors="backslashreplace")


def _execute(program: Program, stream: TextIO, language: Language) -> _Ending:
    try:
        program.run()
    except SystemExit as request:
        return _ending_of_exit(request)
    except KeyboardInterrupt:
        return _Ending("interrupted", INTERRUPTED, INTERRUPTED)
    except BaseException as error:
        failure = error
    else:
        return _Ending("completed", NOTHING_FOUND, 0)
    return _failed(failure, stream, language)


def _failed(error: BaseException, stream: TextIO, language: Language) -> _Ending:
    """Show the script's error.

    Outside its handler, so that a hook of the script that fails does not get it as its context.
    """
    internal = isinstance(error, AssertionError) and raised_by_us(error)
    held = None if internal else _held(error)  # before what is shown leaves our own frames out
    show_exception(error)
    if isinstance(error, UnsupportedFeatureError):
        _tell(stream, render(Phrase("unsupported", reason=str(error)), language))
    if internal:
        _tell(stream, render(Phrase("internal-error", reason=_named(error)), language))
        return _Ending("script-error", INTERNAL_ERROR, 1)
    if _is_out_of_memory(error):
        return _Ending("out-of-memory", FOUND, 1)
    return _Ending("script-error", SCRIPT_FAILED, 1, unrecorded_trace(error), held)


def _held(error: BaseException) -> diagnosis.Held | None:
    """What the frames of a wrong type held; no other error has a repair that asks for it."""
    if not isinstance(error, TypeError):
        return None
    from samedevice.cli._held import held_at  # reads the rules

    return held_at(error)


def _ending_of_exit(request: SystemExit) -> _Ending:
    """`sys.exit(...)`: None and 0 are a good end.

    Anything but a number is printed, as Python does, and means 1.
    """
    if request.code is None or request.code == 0:
        return _Ending("completed", NOTHING_FOUND, 0)
    if isinstance(request.code, int):
        return _Ending("script-error", SCRIPT_FAILED, request.code)
    if sys.stderr is not None:
        print(request.code, file=sys.stderr)
    return _Ending("script-error", SCRIPT_FAILED, 1)


def _is_out_of_memory(error: BaseException) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _wind_down(ending: _Ending) -> _Ending:
    """What the interpreter does when the main script is over, done while the virtual GPUs still exist."""
    interrupted = False
    hook = sys.unraisablehook

    def notice(
        unraisable: Any,
    ) -> None:  # where the interpreter's steps swallow Ctrl-C: exit handlers, from 3.13 on threads too
        nonlocal interrupted
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            interrupted = True
        else:
            hook(unraisable)

    sys.unraisablehook = notice
    try:
        if ending.status == "interrupted":
            deadline = time.monotonic() + _PATIENCE
            for thread in _workers():
                thread.join(max(0.0, deadline - time.monotonic()))
        else:
            _interpreter_step(threading, "_shutdown")
        _interpreter_step(atexit, "_run_exitfuncs")
    except KeyboardInterrupt:
        interrupted = True
    finally:
        sys.unraisablehook = hook
    return _Ending("interrupted", INTERRUPTED, INTERRUPTED) if interrupted else ending


def _interpreter_step(module: Any, name: str) -> None:
    """A private function that the interpreter itself calls at its end.

    Without it the step happens later, as usual.
    """
    step: Callable[[], object] | None = getattr(module, name, None)
    if step is not None:
        step()


def _workers() -> list[threading.Thread]:
    """Threads that Python would wait for."""
    return [
        thread
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread()
    ]


def _take_sigterm() -> None:
    """SIGTERM ends the script as Ctrl-C does, so that a time limit still gets its report.

    A script's own handler wins later.
    """

    def interrupt(number: int, _: FrameType | None) -> None:
        if (
            os.getpid() != owner
        ):  # a forked worker, which multiprocessing ends by SIGTERM: it dies of it, as always
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise KeyboardInterrupt

    owner = os.getpid()
    with suppress(ValueError):  # not the main thread
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, interrupt)


def _flush_stdout() -> None:
    """What the script printed comes before the report. A reader that went away is no error of ours."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # or the interpreter complains about the same when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_json(document: TextIO, content: dict[str, Any], stream: TextIO, language: Language) -> bool:
    text = json.dumps(content, ensure_ascii=False, indent=2)
    return _write(document, lambda into: print(text, file=into), stream, language)


def _write_page(
    report: _Report,
    told: Told,
    said: Sequence[Phrase],
    machine: Mapping[str, Any],
    memory: Mapping[str, DeviceMemory],
    ranks: Mapping[str, DeviceMemory],
    ending: _Ending,
    asked: Sequence[Place],
) -> bool:
    """Write the page where one was asked for; whether it is whole."""
    page = report.page
    if page is None:
        return True
    import samedevice
    from samedevice.report.web import run_page  # jinja2: only who asks for a page imports it

    lines = notices(replace(told, language=page.language), report.reporting, said)
    text = run_page(
        told.findings,
        program=page.program,
        machine=machine,
        memory=memory,
        ranks=ranks,
        status=ending.status,
        notices=[*lines, *([asked_text(asked, page.language)] if asked else [])],
        timeline=ending.timeline,
        language=page.language,
        version=samedevice.__version__,
    )
    return _write(page.file, lambda into: into.write(text), report.stream, report.language)


def _write_trace(report: _Report, timeline: Timeline | None) -> bool:
    """Write the trace where one was asked for; whether it is whole."""
    if report.trace is None or timeline is None:
        return True
    import samedevice
    from samedevice.report.trace import trace_document

    document = trace_document(timeline, program=report.program, version=samedevice.__version__)
    return _write(
        report.trace,
        lambda into: json.dump(document, into, ensure_ascii=True),
        report.stream,
        report.language,
    )


def _write(document: TextIO, fill: Callable[[TextIO], object], stream: TextIO, language: Language) -> bool:
    """Fill and close a document; where that fails it is told, and no half of it stays."""
    try:
        fill(document)
        document.close()
    except OSError as error:
        _remove(document)
        failed = Phrase("json-failed", path=document.name, reason=str(error.strerror or error))
        _tell(stream, render(failed, language))
        return False
    return True


def _discard_unwritten(document: TextIO | None) -> None:
    """Where the run failed before there was anything to write: no file is better than one that is no JSON."""
    if document is not None and not document.closed:
        _remove(document)


def _remove(document: TextIO) -> None:
    """Remove an open document that holds no whole JSON; what is no file (a pipe, a device) stays."""
    with suppress(OSError, ValueError):
        regular = stat.S_ISREG(os.fstat(document.fileno()).st_mode)
        with suppress(OSError):
            document.close()
        if regular:
            Path(document.name).unlink(missing_ok=True)


def _exit_code(ending: _Ending, sifted: Sifted) -> int:
    if ending.code in (INTERRUPTED, INTERNAL_ERROR):
        return ending.code
    if sifted.findings:
        return FOUND
    if ending.status == "out-of-memory" and sifted.ignored:  # the finding is known, and it ended the script
        return SCRIPT_FAILED
    return WRONG_USAGE if sifted.problems and ending.code == NOTHING_FOUND else ending.code


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _internal_error(stream: TextIO, error: Exception, language: Language) -> None:
    if os.environ.get("SAMEDEVICE_DEBUG"):
        sys.__excepthook__(type(error), error, error.__traceback__)
    _tell(stream, render(Phrase("internal-error", reason=_named(error)), language))


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _tell(stream: TextIO, text: str) -> None:
    with suppress(OSError, ValueError):
        print(f"samedevice: {text}", file=stream, flush=True)
