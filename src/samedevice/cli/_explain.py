"""`samedevice explain`: a pasted error or a code, explained. Needs no torch, and no network unless asked."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from samedevice import doctor, static
from samedevice.cli._answering import answered, print_answer
from samedevice.cli._reporting import Reporting, Told, in_form, into_file
from samedevice.diagnosis import explain_text
from samedevice.errors import UsageError
from samedevice.events import Written
from samedevice.findings import Finding, explain_document
from samedevice.messages import Language, Phrase
from samedevice.report import (
    check_text,
    error_text,
    open_console,
    page_text,
    print_finding,
    render,
    render_finding,
)
from samedevice.rulebook import find_rule
from samedevice.suppression import Sifted

if TYPE_CHECKING:
    from samedevice.cli._fetching import Release

EXPLAINED = 0
_MOST_MARKS = 10
"""Of so many characters one may be a mark for bytes that are no text."""
_LARGEST = 16_000_000
"""Bytes; of a larger file the end is read, since errors stand there."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where the source of the failing functions is looked for, beside this environment."""

    sources: tuple[str, ...] = ()
    """Folders, archives, or releases as in `mace-torch==0.3.14`."""
    download: bool = False
    """Get the releases that the frames are of."""


def explain(source: str | None, evidence: Evidence, reporting: Reporting, chosen: Language | None) -> int:
    """Explain a code, a file, or standard input, and return the exit status."""
    return answered(chosen, partial(_explain, source, evidence, reporting))


def _explain(source: str | None, evidence: Evidence, reporting: Reporting, language: Language) -> int:
    rule = find_rule(source) if source is not None and not Path(source).is_file() else None
    if rule is not None:
        print(page_text(rule, language), end="")
        return EXPLAINED
    check = doctor.find_check(source) if source is not None and not Path(source).is_file() else None
    if check is not None:
        print(check_text(check, language), end="")
        return EXPLAINED
    findings = _findings(_read(source), evidence, language, quiet=reporting.detail == "quiet")
    told = Told("explain", Sifted(tuple(findings)), source, language)

    def blocks(into: TextIO) -> None:
        console = open_console(into)
        for number, finding in enumerate(findings):
            if number and reporting.detail != "quiet":
                console.print()
            print_finding(console, finding, language, reporting.detail)

    def form(into: TextIO) -> None:
        in_form(
            reporting.form,
            told,
            lambda: explain_document([render_finding(finding) for finding in findings]),
            blocks,
            into,
            EXPLAINED,
        )

    if reporting.file is not None:
        into_file(reporting.file, form)
    print_answer(form if reporting.file is None else blocks)
    return EXPLAINED


def _findings(text: str, evidence: Evidence, language: Language, *, quiet: bool) -> list[Finding[Phrase]]:
    """What the text amounts to, with the sources that were asked for.

    A release that the text names and that cannot be had is told; one that the command line names is an error.
    """
    downloads = _Downloads(language, quiet)
    places = [_place(each, text, downloads) for each in evidence.sources]
    sources = static.Sources(places) if places else None
    findings = explain_text(text, partial(_origins, sources))
    if sources is not None and not sources.used and not quiet:
        said = render(Phrase("explain.not-there", places=", ".join(evidence.sources)), language)
        print(f"samedevice: {said}", file=sys.stderr)
    if not evidence.download:
        return findings
    from samedevice.cli._fetching import told_releases

    found = []
    for release in told_releases(text, findings):
        try:
            found.append(downloads.get(release, text))
        except UsageError as error:
            print(f"samedevice: {error_text(error, language)}", file=sys.stderr)
    return explain_text(text, partial(_origins, static.Sources([*places, *found]))) if found else findings


@dataclass(frozen=True, slots=True)
class _Downloads:
    """Gets wheels, and says so on standard error."""

    language: Language
    quiet: bool

    def get(self, release: Release, text: str) -> Path:
        """The wheel of a release; raises `UsageError` where it cannot be had."""
        from samedevice.cli._fetching import fetch

        if not self.quiet:
            said = render(Phrase("explain.gets", release=release.requirement), self.language)
            print(f"samedevice: {said}", file=sys.stderr, flush=True)
        return fetch(release, text)


def _place(written: str, text: str, downloads: _Downloads) -> Path:
    """A folder, an archive, a file, or the wheel of a release."""
    path = static.expanded(written)
    if not path.exists():
        from samedevice.cli._fetching import asked_release

        if (release := asked_release(written)) is not None:
            return downloads.get(release, text)
        raise UsageError(Phrase("usage.no-sources", path=written))
    return path


def _origins(
    sources: static.Sources | None, frames: Sequence[static.Printed], shown: Sequence[str]
) -> tuple[Written, ...]:
    return static.written_origins(frames, shown, sources)  # the readers of source come in when asked


def _read(source: str | None) -> str:
    if source is None or source == "-":
        if source is None and sys.stdin is not None and sys.stdin.isatty():
            raise UsageError(Phrase("usage.nothing-to-explain"))
        content, source = _end_of(sys.stdin.buffer) if sys.stdin is not None else b"", "-"
    else:
        content = _content(source)
    text = _decoded(content)
    if (text.count("\ufffd") + text.count("\0")) * _MOST_MARKS > len(text):
        raise UsageError(Phrase("usage.explain-binary", path=source))
    return text


def _content(source: str) -> bytes:
    try:
        with Path(source).open("rb") as file:
            return _end_of(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(Phrase("usage.explain-unreadable", path=source, reason=reason)) from None


def _end_of(stream: BinaryIO) -> bytes:
    """The last bytes of a stream, however long it is."""
    kept = b""
    while chunk := stream.read(1 << 20):
        kept = (kept + chunk)[-_LARGEST:]
    return kept


def _decoded(content: bytes) -> str:
    """Text in UTF-8, or in UTF-16 as PowerShell writes it; bytes that are neither become marks."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")
