"""What a command does with what it found: leaves out what is known, writes files, chooses the form.

Shared by the commands that print findings. Everything that can be wrong with their options is found before
anything runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from samedevice import report
from samedevice.errors import UsageError
from samedevice.findings import Detail, Finding, Ignored, OutputFormat
from samedevice.messages import Language, Phrase
from samedevice.report import (
    notice_lines,
    problem_lines,
    project_root,
    render,
    render_finding,
    short_path,
)
from samedevice.settings import Settings
from samedevice.suppression import (
    Decisions,
    Found,
    Sifted,
    baseline_to_use,
    sift,
    updated,
    write_baseline,
)


@dataclass(frozen=True, slots=True)
class Reporting:
    """How the command line and the settings want findings to be told."""

    form: OutputFormat = "text"
    file: Path | None = None
    """Where `form` goes; without it, where the command prints."""
    detail: Detail = "normal"
    baseline: Path | None = None
    write: bool = False
    """Whether the baseline is written instead of held against."""
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class Told:
    """What a command has to tell, and all that its forms need."""

    command: str
    sifted: Sifted
    target: str | None
    language: Language
    whole: bool = True
    """Whether it looked at everything that it was asked to look at."""

    @property
    def findings(self) -> Sequence[Finding[Phrase]]:
        """What is to be told."""
        return self.sifted.findings

    def ignored(self) -> list[Ignored[str]]:
        """What was left out, as programs get it."""
        return [
            Ignored(render_finding(each.finding), each.by, each.reason, each.file, each.line)
            for each in self.sifted.ignored
        ]


def decisions_of(reporting: Reporting) -> Decisions:
    """What is to be left out; raises `UsageError` for a baseline that cannot be read, or written later."""
    path = reporting.baseline
    if path is None:
        if reporting.write:
            raise UsageError(Phrase("usage.write-baseline"))
        return Decisions(reporting.settings.ignore)
    baseline = baseline_to_use(path, write=reporting.write, option="--write-baseline")
    return Decisions(reporting.settings.ignore, baseline)


def decided(
    found: Sequence[Found],
    decisions: Decisions,
    program: str,
    files: Iterable[str],
    *,
    write: bool,
    whole: bool,
) -> tuple[Sifted, tuple[Phrase, ...]]:
    """What is left to tell of what was found; with `write` the rest goes into the baseline, and what was done
    is said.
    """
    sifted = sift(found, decisions, program, files)
    baseline = decisions.baseline
    if not write or baseline is None:
        return sifted, ()
    own = sifted.identities(baseline)
    path = str(baseline.path)
    write_baseline(updated(baseline, program, own, whole=whole))
    said = [Phrase("baseline.written", path=path, program=program, count=len(own))]
    if not whole:
        said.append(Phrase("baseline.kept", path=path, program=program))
    now = [Ignored(finding, "baseline", None, path) for finding in sifted.findings]
    return replace(sifted, findings=(), ignored=(*sifted.ignored, *now), absent=()), tuple(said)


def program_name(command: str, kind: str, program: str, decisions: Decisions) -> str:
    """A program as the baseline knows it, wherever the command is given: a file from its folder."""
    if kind == "module":
        return f"{command} -m {program}"
    if kind in ("code", "stdin"):
        return f"{command} {'-c' if kind == 'code' else '-'}"
    if kind != "script" or decisions.baseline is None:
        return f"{command} {program}"
    return f"{command} {Path(os.path.relpath(program, decisions.baseline.root)).as_posix()}"


def notices(told: Told, reporting: Reporting, said: Sequence[Phrase]) -> list[str]:
    """Lines below the findings: comments that ignore nothing, what was left out, what was written."""
    verbose, language = reporting.detail == "verbose", told.language
    lines = [
        *problem_lines(told.sifted, language),
        *notice_lines(told.sifted, whole=told.whole, verbose=verbose, language=language),
        *(render(phrase, language) for phrase in said),
    ]
    settings = reporting.settings
    if verbose and settings.file is not None:
        used = Phrase("settings.used", file=short_path(str(settings.file)), keys=", ".join(settings.given))
        lines.append(render(used, language))
    return lines


def in_form(
    form: OutputFormat,
    told: Told,
    document: Callable[[], dict[str, Any]],
    text: Callable[[TextIO], None],
    stream: TextIO,
    code: int,
) -> None:
    """Write what was found to a stream in one of the forms."""
    root = project_root(os.environ)
    match form:
        case "text":
            text(stream)
        case "json":
            stream.write(f"{json.dumps(document(), ensure_ascii=True, indent=1)}\n")
        case "github":
            commands = [
                *report.finding_commands(told.findings, root, told.language),
                *report.problem_commands(told.sifted, root, told.language),
            ]
            stream.writelines(f"{command}\n" for command in commands)
        case "sarif":
            import samedevice

            log = report.sarif_document(
                told.findings,
                version=samedevice.__version__,
                command=told.command,
                root=root,
                target=told.target,
                language=told.language,
                exit_code=code,
                successful=told.whole,
            )
            stream.write(f"{json.dumps(log, ensure_ascii=True, indent=1)}\n")


def into_file(path: Path, fill: Callable[[TextIO], None]) -> None:
    """Write a file of `--output-file`; raises `UsageError` where that cannot be."""
    try:
        with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
            fill(file)
    except OSError as error:
        reason = str(error.strerror or error)
        raise UsageError(
            Phrase("usage.unwritable", option="--output-file", path=str(path), reason=reason)
        ) from None
