"""`samedevice lint`: device bugs that sources already show. Needs no torch, imports nothing of theirs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from samedevice.cli._answering import WRONG_USAGE, answered
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
from samedevice.diagnosis.fixes import combined, file_diff
from samedevice.errors import UsageError
from samedevice.findings import SCHEMA, Finding
from samedevice.lint import Checked, Options, Unreadable, check_file, check_files, chosen_rules, files_below
from samedevice.messages import Language, Phrase
from samedevice.report import (
    open_console,
    print_finding,
    print_notices,
    problem_lines,
    render,
    render_finding,
)
from samedevice.suppression import Found, Sifted

CLEAN, FOUND = 0, 1
_FIRST_AFTER = 2.0
"""Seconds before a line of progress is shown on a terminal."""
_MOST_PASSES = 5
"""Times that a file is linted again after its fixes: one may make room for another."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    paths: tuple[Path, ...]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    fix: bool = False
    diff: bool = False
    jobs: int | None = None
    language: Language | None = None
    reporting: Reporting = field(default_factory=Reporting)


def lint_paths(asked: Asked) -> int:
    """Lint, print what was found, and return the exit status."""
    return answered(asked.language, partial(_linted, asked))


def serve_lint(asked: Asked) -> int:
    """Answer an editor until it ends, and return the exit status."""
    return answered(asked.language, partial(_served, asked))


def _served(asked: Asked, language: Language) -> int:
    if asked.paths:
        raise UsageError(Phrase("lint.server-path"))
    chosen_rules(Options(asked.select, asked.ignore))
    try:
        from samedevice.cli import _editor
    except ImportError as error:  # pygls is an extra
        raise UsageError(Phrase("lint.no-server", reason=str(error))) from None
    _editor.serve_editor(_editor.Asked(asked.select, asked.ignore, asked.exclude, asked.language))
    return CLEAN


def _linted(asked: Asked, language: Language) -> int:
    if not asked.paths:
        raise UsageError(Phrase("lint.what"))
    reporting = asked.reporting
    settled = reporting.settings.lint
    options = Options(
        asked.select or settled.select,
        (*settled.ignore, *asked.ignore),
        asked.fix or asked.diff or _shown(reporting),
    )
    chosen_rules(options)
    decisions = decisions_of(reporting)
    files = files_below(asked.paths, (*settled.exclude, *asked.exclude))
    progress = _Progress(len(files), language)
    checked = list(check_files(files, options, asked.jobs, progress.seen))
    progress.end()
    name = program_name("lint", "command", " ".join(map(str, asked.paths)), decisions)

    def parted(checked: Sequence[Checked]) -> tuple[Sifted, tuple[Phrase, ...]]:
        found = [Found(finding) for each in checked for finding in each.findings]
        sifted, said = decided(found, decisions, name, (), write=reporting.write, whole=True)
        return replace(sifted, unused=tuple(each for each in sifted.unused if _ours(each.codes))), said

    sifted, said = parted(checked)
    if asked.fix or asked.diff:
        changes = _changes(sifted.findings)
        if asked.diff:
            for change in changes:
                sys.stdout.write(change.diff)
        else:
            checked = [_written(each, changes, options) for each in checked]
            sifted, said = parted(checked)
            said = (
                *said,
                Phrase("lint.fixed", count=sum(each.count for each in changes), files=len(changes)),
            )
    unread = [each.unreadable for each in checked if each.unreadable is not None]
    code = FOUND if sifted.findings else WRONG_USAGE if sifted.problems else CLEAN
    told = Told("lint", sifted, None, language)
    _tell(told, reporting, _Shown(len(files), unread, said, asked.diff), code)
    return code


def _shown(reporting: Reporting) -> bool:
    """Whether changes are shown anyway."""
    return reporting.detail != "quiet" or reporting.form in ("json", "sarif")


def _ours(codes: Sequence[str]) -> bool:
    return all(code.startswith("SD2") for code in codes)


@dataclass(frozen=True, slots=True)
class _Change:
    """What the safe fixes make of a file."""

    path: Path
    text: str
    diff: str
    count: int


def _changes(findings: Sequence[Finding[Phrase]]) -> list[_Change]:
    """The safe fixes, by file."""
    by_file: dict[str, list[str]] = {}
    for finding in findings:
        for fix in finding.fixes[:1]:
            if fix.safety == "safe" and fix.diff and fix.file:
                by_file.setdefault(fix.file, []).append(fix.diff)
    found = []
    for name, diffs in by_file.items():
        path = Path(name)
        try:
            old = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        text, refused = combined(old, diffs)
        diff = file_diff(path, old, text)
        if diff is not None:
            found.append(_Change(path, text, diff, len(diffs) - len(refused)))
    return found


def _written(checked: Checked, changes: Sequence[_Change], options: Options) -> Checked:
    """A file's findings once its fixes are in it."""
    change = next((each for each in changes if each.path == checked.path), None)
    passes = 0
    while change is not None and passes < _MOST_PASSES:
        passes += 1
        _write(change)
        checked = check_file(checked.path, options)
        change = next(iter(_changes(checked.findings)), None)
    return checked


def _write(change: _Change) -> None:
    part = change.path.with_name(f"{change.path.name}.part")
    try:
        part.write_bytes(change.text.encode("utf-8"))
        part.chmod(change.path.stat().st_mode)
        part.replace(change.path)
    except OSError as error:
        part.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise UsageError(
            Phrase("usage.unwritable", option="--fix", path=str(change.path), reason=reason)
        ) from None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is told beside the findings."""

    files: int
    unread: Sequence[Unreadable]
    said: Sequence[Phrase]
    quietly: bool
    """Whether standard output has a diff, so that nothing else may be in it."""


def _tell(told: Told, reporting: Reporting, shown: _Shown, code: int) -> None:
    def document() -> dict[str, Any]:
        return _document(told, shown)

    def text(into: TextIO) -> None:
        _print(into, told, reporting, shown)

    def form(into: TextIO) -> None:
        in_form(reporting.form, told, document, text, into, code)

    if reporting.file is not None:
        into_file(reporting.file, form)
    stream = sys.stderr if shown.quietly else sys.stdout
    with suppress(BrokenPipeError):
        if reporting.file is None:
            form(stream)
        else:
            text(stream)
        if reporting.form != "text" or reporting.detail == "quiet":
            for line in problem_lines(told.sifted, told.language):
                print(f"samedevice: {line}", file=sys.stderr)
            for each in shown.unread:
                print(f"samedevice: {render(each.why, told.language)}", file=sys.stderr)
        stream.flush()


def _print(into: TextIO, told: Told, reporting: Reporting, shown: _Shown) -> None:
    console = open_console(into)
    for finding in told.findings:
        print_finding(console, finding, told.language, reporting.detail)
        if reporting.detail != "quiet":
            console.print()
    if reporting.detail == "quiet":
        return
    key = {0: "lint.none", 1: "lint.one"}.get(len(told.findings), "lint.many")
    summary = Phrase(key, count=len(told.findings), files=shown.files)
    unread = [render(each.why, told.language) for each in shown.unread]
    print_notices(console, [render(summary, told.language), *unread, *notices(told, reporting, shown.said)])


def _document(told: Told, shown: _Shown) -> dict[str, Any]:
    """The document of `--output-format json`."""
    return {
        "schema": SCHEMA,
        "findings": [render_finding(finding).as_json() for finding in told.findings],
        "ignored": [each.as_json() for each in told.ignored()],
        "files": shown.files,
        "unreadable": [{"file": str(each.path), "reason": render(each.why)} for each in shown.unread],
    }


class _Progress:
    """A line on the terminal's standard error while many files are read."""

    def __init__(self, files: int, language: Language) -> None:
        self.files, self.language = files, language
        self.shown = False
        self._next = time.monotonic() + _FIRST_AFTER
        self._on = sys.stderr is not None and sys.stderr.isatty()

    def seen(self, done: int) -> None:
        """So many files are done."""
        if not self._on or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.2
        self.shown = True
        text = render(Phrase("lint.progress", done=done, files=self.files), self.language)
        sys.stderr.write(f"\r\x1b[2Ksamedevice: {text}")
        sys.stderr.flush()

    def end(self) -> None:
        """Wipe the line."""
        if self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
