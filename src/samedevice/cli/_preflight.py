"""`samedevice preflight`: a launch judged before it starts. Needs no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from samedevice.cli._answering import WRONG_USAGE, answered, print_answer, write_file
from samedevice.cli._reporting import (
    Reporting,
    Told,
    decided,
    decisions_of,
    in_form,
    into_file,
    notices,
    program_name,
)
from samedevice.errors import UsageError
from samedevice.launchers import PYTHON, STARTED, begins_command
from samedevice.machines import parse_machine
from samedevice.messages import Language, Phrase
from samedevice.preflight import (
    Judgement,
    LaunchMemory,
    Request,
    Wanted,
    WrittenLaunch,
    begins_tool,
    launch_memory,
    preflight,
    wanted,
    without_option,
    write_launch,
)
from samedevice.report import (
    Needs,
    TextRenderer,
    open_console,
    print_notices,
    print_preflight,
    print_written,
    problem_lines,
)
from samedevice.suppression import Found, Sifted

PASSED, REFUSED = 0, 1


@dataclass(frozen=True, slots=True)
class Asked:
    """How the command line wants a model to be trained."""

    model: Path | None
    batch: int
    context: int
    mode: str | None
    sharding: str
    method: str


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    target: str
    arguments: tuple[str, ...]
    machine: str
    launcher: str | None
    processes: int | None
    configuration: Path | None
    json: Path | None
    language: Language | None
    asked: Asked
    write: Path | None = None
    memory: bool = False
    reporting: Reporting = field(default_factory=Reporting)


def judge_launch(options: Options) -> int:
    """Judge what `options` name, print it, and return the exit status."""
    return answered(options.language, partial(_answer, options))


def _answer(options: Options, language: Language) -> int:
    outcome = _judged(options, language)
    reporting, told, code = options.reporting, outcome.told, outcome.code
    form = reporting.form if reporting.file is None else "text"

    def show(into: TextIO) -> None:
        in_form(form, told, lambda: outcome.document, outcome.text, into, code)
        if form != "text" or reporting.detail == "quiet":
            for line in problem_lines(told.sifted, language):
                print(f"samedevice: {line}", file=sys.stderr)

    print_answer(show)
    return code


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a launch was judged to be, in every form."""

    told: Told
    document: dict[str, Any]
    text: Callable[[TextIO], None]
    code: int


def _judged(options: Options, language: Language) -> _Outcome:
    """Judge, leave out what is known, and write the files that were asked for."""
    reporting = options.reporting
    request = _request(options)
    decisions = decisions_of(reporting)
    judgements = preflight(request)
    memories = (
        [_memory(options.asked, judgement, request) for judgement in judgements] if options.memory else []
    )
    file = _file(options.target, judgements)
    name = program_name("preflight", "script" if Path(file).is_file() else "command", file, decisions)
    found = [Found(finding) for judgement in judgements for finding in judgement.findings]
    sifted, said = decided(found, decisions, name, [file], write=reporting.write, whole=True)
    told = Told("preflight", sifted, file, language)
    left = [_left(judgement, sifted) for judgement in judgements]
    document = {
        **_document(left, memories, request),
        "ignored": [each.as_json() for each in told.ignored()],
    }
    if options.json is not None:
        write_file(options.json, json.dumps(document, indent=1, ensure_ascii=True) + "\n")
    written = (
        _write_launch(options.write, options.asked, judgements[0], request, language)
        if options.write is not None
        else None
    )
    code = REFUSED if sifted.findings else WRONG_USAGE if sifted.problems else PASSED

    def text(into: TextIO) -> None:
        console = open_console(into)
        for number, judgement in enumerate(left):
            if number and reporting.detail != "quiet":
                console.print()
            print_preflight(
                console,
                mode=judgement.mode.phrase,
                findings=judgement.findings,
                notes=judgement.notes,
                machine=request.machine.spec,
                needs=_needs(memories[number]) if memories else None,
                language=language,
                detail=reporting.detail,
            )
        if reporting.detail == "quiet":
            return
        print_notices(console, notices(told, reporting, said))
        if written is not None:
            console.print()
            print_written(console, written.told, language)

    if reporting.file is not None:
        into_file(
            reporting.file, lambda into: in_form(reporting.form, told, lambda: document, text, into, code)
        )
    return _Outcome(told, document, text, code)


def _file(target: str, judgements: Sequence[Judgement]) -> str:
    """The file that is judged: the target, or the script of a command."""
    script = judgements[0].launch.script
    return target if script is None or Path(target).is_file() else str(script)


def _left(judgement: Judgement, sifted: Sifted) -> Judgement:
    """The judgement without what was left out."""
    kept = [id(finding) for finding in sifted.findings]
    return replace(
        judgement, findings=tuple(finding for finding in judgement.findings if id(finding) in kept)
    )


def _request(options: Options) -> Request:
    known = (PYTHON.name, *STARTED)
    if options.launcher is not None and options.launcher not in known:
        raise UsageError(Phrase("preflight.launcher", given=options.launcher, known=", ".join(known)))
    if options.processes is not None and options.processes < 1:
        raise UsageError(Phrase("preflight.count"))
    words = (options.target, *options.arguments)
    command = words if begins_command(words) or begins_tool(words) else ()
    if command and options.launcher is not None:
        raise UsageError(Phrase("command.two-launchers", option="--launcher", command=options.target))
    return Request(
        target=Path(options.target),
        command=command,
        machine=parse_machine(options.machine),
        launcher=options.launcher,
        processes=options.processes,
        configuration=options.configuration,
        arguments=options.arguments,
    )


def _wanted(asked: Asked, judgement: Judgement) -> Wanted | None:
    """What is to be trained.

    None without a model: it is the one that was named, or the one that the script loads from a folder.
    """
    model = asked.model or judgement.model
    told = wanted(model or Path(), asked.batch, asked.context, asked.mode, asked.sharding, asked.method)
    return None if model is None else told


def _memory(asked: Asked, judgement: Judgement, request: Request) -> LaunchMemory:
    return launch_memory(judgement, request.machine, _wanted(asked, judgement))


def _needs(memory: LaunchMemory) -> Needs:
    return Needs(memory.headline, memory.table, memory.notes, memory.why, memory.fits)


def _write_launch(
    folder: Path, asked: Asked, judgement: Judgement, request: Request, language: Language
) -> WrittenLaunch:
    """The files of a launch that fits."""
    told = _wanted(asked, judgement)
    if told is None:
        raise UsageError(Phrase("preflight.no-model"))
    return write_launch(
        folder,
        told,
        request.machine,
        judgement.launch.script,
        without_option(judgement.launch.arguments, "device_map"),
        TextRenderer(language),
    )


def _document(
    judgements: Sequence[Judgement], memories: Sequence[LaunchMemory], request: Request
) -> dict[str, Any]:
    """One launch as it is; of several the first whole, with the others under `launches`."""
    english = TextRenderer()
    documents = [judgement.as_json(request.machine.describe(), english) for judgement in judgements]
    for document, memory in zip(documents, memories, strict=False):  # none where they were not asked for
        document["memory"] = memory.as_json(english)
    return documents[0] if len(documents) == 1 else {**_joined(documents), "launches": documents}


def _joined(documents: list[dict[str, Any]]) -> dict[str, Any]:
    findings = [finding for document in documents for finding in document["findings"]]
    return {"schema": documents[0]["schema"], "machine": documents[0]["machine"], "findings": findings}
