"""`samedevice preflight`: a launch judged before it starts. Needs no torch."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.messages import Language, language_of, say
from samedevice.preflight import LAUNCHERS, SHARDINGS, Judgement, Request, Wanted, WrittenLaunch, preflight, without_option, write_launch
from samedevice.report import open_console, print_preflight, print_written, readable_language

PASSED, REFUSED, WRONG_USAGE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Writing:
    """What the command line asks to be written."""

    folder: Path
    model: Path | None
    batch: int
    context: int
    mode: str | None
    sharding: str


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
    writing: Writing | None = None


def judge_launch(options: Options) -> int:
    """Judge what `options` name, print it, and return the exit status."""
    language = readable_language(sys.stdout, options.language or language_of(os.environ))
    try:
        request = _request(options, language)
        judgements = preflight(request, language)
        if options.json is not None:
            _write(options.json, judgements, request, language)
        written = _write_launch(options.writing, judgements[0], request, language) if options.writing is not None else None
    except UsageError as error:
        print(f"samedevice: {error}", file=sys.stderr)
        return WRONG_USAGE
    with suppress(BrokenPipeError):
        console = open_console(sys.stdout)
        for number, judgement in enumerate(judgements):
            if number:
                console.print()
            print_preflight(
                console,
                mode=judgement.mode.text(language),
                findings=judgement.findings,
                notes=judgement.notes,
                machine=request.machine.spec,
                language=language,
            )
        if written is not None:
            console.print()
            print_written(console, [*written.why, say("preflight.written", language, files=", ".join(map(str, written.files)))])
        sys.stdout.flush()
    return REFUSED if any(judgement.findings for judgement in judgements) else PASSED


def _request(options: Options, language: Language) -> Request:
    if options.launcher is not None and options.launcher not in LAUNCHERS:
        raise UsageError(say("preflight.launcher", language, given=options.launcher, known=", ".join(LAUNCHERS)))
    if options.processes is not None and options.processes < 1:
        raise UsageError(say("preflight.count", language))
    return Request(
        target=Path(options.target),
        machine=parse_machine(options.machine),
        launcher=options.launcher,
        processes=options.processes,
        configuration=options.configuration,
        arguments=options.arguments,
    )


def _write_launch(writing: Writing, judgement: Judgement, request: Request, language: Language) -> WrittenLaunch:
    """The files of a launch that fits; the model is the one that was named, or the one that the script loads from a folder."""
    model = writing.model or judgement.model
    if model is None:
        raise UsageError(say("preflight.no-model", language))
    sharding = next((each for each in SHARDINGS if each == writing.sharding), None)
    if sharding is None:
        raise UsageError(say("preflight.mode", language, given=writing.sharding, known=", ".join(SHARDINGS)))
    if min(writing.batch, writing.context) < 1:
        raise UsageError(say("preflight.count", language))
    wanted = Wanted(model, writing.batch, writing.context, writing.mode, sharding)
    return write_launch(
        writing.folder, wanted, request.machine, judgement.launch.script, without_option(judgement.launch.arguments, "device_map"), language
    )


def _write(path: Path, judgements: tuple[Judgement, ...], request: Request, language: Language) -> None:
    """One launch as it is; of several the first whole, with the others under `launches`."""
    documents = [judgement.as_json(request.machine.describe(), language) for judgement in judgements]
    content = documents[0] if len(documents) == 1 else {**_joined(documents), "launches": documents}
    try:
        path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(say("preflight.unreadable", language, path=path, reason=error.strerror or error)) from None


def _joined(documents: list[dict[str, object]]) -> dict[str, object]:
    findings = [finding for document in documents for finding in document["findings"]]  # type: ignore[attr-defined]
    return {"schema": documents[0]["schema"], "machine": documents[0]["machine"], "findings": findings}
