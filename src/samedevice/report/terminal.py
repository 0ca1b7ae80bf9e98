"""Findings as text for a terminal: one block for each finding, then a summary.

Text of the script never reaches rich as markup, only as plain characters. Lines wrap under their own text at
the width of the terminal; without a terminal nothing wraps, so that a log can be searched.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any, TextIO, cast

from rich.console import Console
from rich.style import Style
from rich.text import Text

from samedevice import diagnosis, rulebook
from samedevice.device_rules import of_another_library, on_host
from samedevice.events import Decision, DeviceMemory, EventKind, Operand, Place
from samedevice.findings import Confidence, Detail, Finding, Fix, Safety, Status
from samedevice.messages import SOURCE, Bytes, Language, Phrase, Several, Value, catalogue, short_operator
from samedevice.report._links import link_of, takes_links
from samedevice.report._render import render, render_finding
from samedevice.report._words import harmless, short_path, typed_shape
from samedevice.report.lines import finding_line

_UNLIMITED = 100_000
_SPACES_AT_THE_END = re.compile(r" +(?=\n)")
_LABEL = 9
"""Width of the label column, the space behind it included."""
_LEAST_ORIGIN = 30
"""With fewer columns left beside it, an operand's origin goes on lines of its own."""
_BELOW = 4
"""Where the origin of an operand begins when it stands below its row."""
_NAME = 32
"""Columns that an operand's words may take."""

_READS_SHOWN = 3
"""Places that are named where a program read values that nobody computed."""

_LEAST_TEXT = 10
"""Text is never squeezed into fewer columns than these."""


CONFIDENCES: Mapping[Confidence, str] = {
    "certain": "confidence.certain",
    "likely": "confidence.likely",
    "guess": "confidence.guess",
}
SAFETIES: Mapping[Safety, str] = {"safe": "safety.safe", "check": "safety.check", "unsafe": "safety.unsafe"}
STATUSES: Mapping[Status, str] = {
    "completed": "status.completed",
    "script-error": "status.script-error",
    "out-of-memory": "status.out-of-memory",
    "interrupted": "status.interrupted",
}
_MEMORY = ("memory.device", "memory.allocated", "memory.reserved", "memory.total")


def open_console(stream: TextIO) -> Console:
    """A console on `stream`.

    It has colour only on a terminal and without NO_COLOR, and the width of the terminal, no limit without
    one, where lines also end without the spaces that fill the last column of a table.
    """
    on_terminal = stream.isatty()
    width = None if on_terminal or os.environ.get("COLUMNS") else _UNLIMITED
    return Console(
        file=stream if on_terminal else cast(TextIO, _Trimmed(stream)),
        width=width,
        force_jupyter=False,  # text goes to `stream`, also in a notebook
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


class _Trimmed:
    """A stream whose lines end without spaces."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_SPACES_AT_THE_END.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def readable_language(stream: TextIO, language: Language) -> Language:
    """`language`, or English where `stream` cannot carry its characters."""
    try:
        encoding = codecs.lookup(stream.encoding or "ascii").name
        if not encoding.startswith("utf"):
            "".join(catalogue(language).values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return SOURCE
    return language


def finding_text(finding: Finding[str | Phrase], language: Language = SOURCE) -> str:
    """One finding as plain text without colour or wrapping."""
    stream = StringIO()
    print_finding(
        Console(
            file=stream,
            width=_UNLIMITED,
            force_jupyter=False,
            highlight=False,
            markup=False,
            color_system=None,
        ),
        finding,
        language,
    )
    return stream.getvalue()


def assumed_text(reads: Sequence[Place], language: Language = SOURCE) -> str:
    """What to tell when a program failed that had read values which nobody computed.

    The last reads are named.
    """
    named: list[Value] = [
        harmless(f"{short_path(place.file)}:{place.line}") for place in reads[: -_READS_SHOWN - 1 : -1]
    ]
    if len(reads) > _READS_SHOWN:
        named.append(Phrase("note.more", count=len(reads) - _READS_SHOWN))
    return render(Phrase("assumed-read", places=Several(tuple(named))), language)


def asked_text(places: Sequence[Place], language: Language) -> str:
    """The places that asked for values which nobody computed, in one line."""
    rest = len(places) - 1
    where = _where(places[0])
    named = Several((where, Phrase("note.more", count=rest)) if rest else (where,))
    return render(Phrase("asked-values", places=named), language)


def _where(place: Place) -> str:
    return harmless(f"{place_text(place)} ({place.code})" if place.code else place_text(place))


def print_finding(
    console: Console,
    finding: Finding[str | Phrase],
    language: Language = SOURCE,
    detail: Detail = "normal",
    mended: bool = False,
) -> None:
    """The block of one finding; one line when quiet, with versions and frames when verbose.

    `mended` says that its first change was shown with another finding, where the cause stands, too.
    """
    if detail == "quiet":
        return put_line(console, 0, Text(finding_line(finding, language)))
    name, title = rulebook.code_of(finding.code).name, harmless(render(finding.title, language))
    put_line(console, 0, Text.assemble((finding.code, "bold red"), (f" {name}", "bold"), f": {title}"))
    if finding.at is not None and (finding.at.file or finding.at.code):
        put_line(console, 2, _place(console, finding.at, language))
    if finding.user_at is not None and not same_line(finding.user_at, finding.at):
        put_labelled(console, "label.called", _place(console, finding.user_at, language), language)
    _module(console, finding, language)
    if finding.ranks:
        put_labelled(console, "label.ranks", Text(", ".join(map(str, finding.ranks))), language)
    if finding.message and finding.kind is not None:
        put_labelled(console, "label.message", Text(harmless(finding.message)), language)
    if any(operand.name != "?" for operand in finding.operands):
        _operands(console, finding, language)
    for device, held in finding.memory.items():
        amounts = {"allocated": Bytes(held.allocated), "total": Bytes(held.total)}
        put_labelled(
            console, "label.held", Text(render(Phrase("held", device=device, **amounts), language)), language
        )
    told = not (mended and detail == "normal")  # where it was mended stands why
    if told:
        _why(console, finding, language, detail)
    if finding.cure and not any(fix.diff for fix in finding.fixes):
        put_labelled(console, "label.do", Text(harmless(render(finding.cure, language))), language)
    _fixes(console, finding, language, detail, mended)
    if finding.ask is not None:
        put_labelled(console, "label.ask", Text(harmless(render(finding.ask, language))), language)
    if told:
        known = finding.cause if finding.cause != diagnosis.UNDETERMINED else None
        page = rulebook.page_code(finding.code, known)
        put_labelled(console, "label.more", Text(f"samedevice explain {page}"), language)


def _module(console: Console, finding: Finding[str | Phrase], language: Language) -> None:
    """The module that ran, and how often it happened."""
    facts: list[Value] = [harmless(finding.module)] if finding.module else []
    if finding.count > 1:
        facts.append(Phrase("times", count=finding.count))
    if facts:
        label = "label.module" if finding.module else "label.count"
        put_labelled(console, label, Text(render(Several(tuple(facts), "clause"), language)), language)


def _why(console: Console, finding: Finding[str | Phrase], language: Language, detail: Detail) -> None:
    """Why it fails, its cause and what speaks for it.

    That operands have to be on one device is said once in the title, where a cause tells more.
    """
    known = finding.cause != diagnosis.UNDETERMINED
    if detail == "verbose" or not (known and _says_no_more(finding)):
        put_labelled(console, "label.why", Text(why_text(finding, language)), language)
    reasons = [harmless(render(reason, language)) for reason in finding.reasons]
    if known:
        said = render(Phrase(CONFIDENCES[finding.confidence]), language)
        text = Text.assemble((finding.cause, "bold"), f" ({said})")
        if reasons:
            text.append(render(Phrase("cause-because", reason=reasons.pop(0)), language))
        put_labelled(console, "label.cause", text, language)
    for reason in reasons:
        put_labelled(console, "label.because", Text(reason), language)
    if finding.candidates:
        put_labelled(console, "label.maybe", Text(", ".join(finding.candidates)), language)
    for note in finding.notes:
        put_labelled(console, "label.note", Text(harmless(render(note, language))), language)
    if detail == "verbose":
        _evidence(console, finding, language)


def _fixes(
    console: Console, finding: Finding[str | Phrase], language: Language, detail: Detail, mended: bool
) -> None:
    """All fixes, with the lines of the first; a part of it is shown to those who want all.

    Another one is told after the word `or`, and how safe it is where that differs from the first.
    """
    if mended and detail == "normal":
        text = Text(render(Phrase("fix.shown"), language), "green")
        return put_labelled(console, "label.fix", text, language)
    first = _first_change(finding)
    patched = False
    before: Fix[str | Phrase] | None = None
    for fix in finding.fixes:
        if detail != "verbose" and first is not None and fix is not first and _is_part(fix, first):
            continue
        if detail != "verbose" and _of_library(fix) and patched:
            continue  # another way to patch the same library
        patched = patched or _of_library(fix)
        where = _changed_at(fix) if fix is first and detail != "verbose" else None
        long = where is not None and _is_long(console, fix)
        shown = where is not None and not long
        _fix(
            console,
            replace(fix, title=_without_lines(fix.title)) if shown else fix,
            language,
            where if long else None,
            before,
        )
        before = before or fix
        if detail == "verbose":
            _diff(console, fix)
        elif fix is first and not long:
            _changed_lines(console, fix, finding.at)


def _is_part(fix: Fix[str | Phrase], whole: Fix[str | Phrase]) -> bool:
    """Whether a fix that was not tried changes nothing but lines that a larger one changes."""
    if fix.file != whole.file or fix.tried is not None or not fix.diff:
        return False
    own, all_of_them = (
        {each.first for each in diagnosis.changes_of(each.diff or "")} for each in (fix, whole)
    )
    return own < all_of_them


def _without_lines(title: str | Phrase) -> str | Phrase:
    """A title that does not spell what the changed lines show below it."""
    if not isinstance(title, Phrase):
        return title
    values: dict[str, Any] = dict(title.values)
    if title.key == "fix.patch":
        return Phrase("fix.patch", what=_without_lines(values["what"]))
    if title.key == "fix.whole-class":
        return Phrase("fix.whole-class-shown", block=values["block"])
    if title.key == "fix.united":
        return Phrase("fix.united-shown", count=values["count"])
    return Phrase("fix.at-use-shown", operand=values["operand"]) if title.key == "fix.at-use" else title


def _of_library(fix: Fix[str | Phrase]) -> bool:
    return isinstance(fix.title, Phrase) and fix.title.key == "fix.patch"


def _first_change(finding: Finding[str | Phrase]) -> Fix[str | Phrase] | None:
    """The first fix that is a diff."""
    return next((fix for fix in finding.fixes if fix.diff), None)


def _evidence(console: Console, finding: Finding[str | Phrase], language: Language) -> None:
    """What only some want to see: the frames that led there, oldest first, and the versions of libraries."""
    for place in finding.stack:
        put_labelled(console, "label.frame", _place(console, place, language), language)
    if finding.versions:
        versions = ", ".join(f"{name} {version}" for name, version in finding.versions.items())
        put_labelled(console, "label.versions", Text(harmless(versions)), language)


def print_run(
    console: Console,
    *,
    findings: Sequence[Finding[str | Phrase]],
    machine: Mapping[str, Any],
    memory: Mapping[str, DeviceMemory],
    status: Status,
    language: Language = SOURCE,
    asked: Sequence[Place] = (),
    detail: Detail = "normal",
    notices: Sequence[str] = (),
    ignored: bool = False,
) -> None:
    """Every finding of a run, then the summary.

    Machine, count, how the script ended, what was left out (`notices`), values it asked for in vain, peaks of
    memory. Quiet are the findings alone, one line each.
    """
    shown: set[str | None] = set()
    for finding in findings:
        change = _first_change(finding)
        known = change is not None and change.tried is None and change.diff in shown
        print_finding(console, finding, language, detail, mended=known)
        shown.add(None if change is None else change.diff)
        if detail != "quiet":
            console.print()
    if detail == "quiet":
        return
    none = "summary.none-new" if ignored else "summary.none"
    key = {0: none, 1: "summary.one"}.get(len(findings), "summary.many")
    line = Phrase(
        key, count=len(findings), machine=harmless(machine_text(machine)), status=Phrase(STATUSES[status])
    )
    put_line(console, 0, Text.assemble(("samedevice", "bold"), f": {render(line, language)}"))
    print_notices(console, notices)
    if asked and status in ("completed", "interrupted"):  # of one that failed, all was told before
        told = asked_text(asked, language)
        print_notices(console, [told, *map(_where, asked)] if detail == "verbose" else [told])
    _memory(console, memory, language)


def print_notices(console: Console, lines: Sequence[str]) -> None:
    """Lines of our own, each behind our name."""
    for line in lines:
        put_line(console, 0, Text.assemble(("samedevice", "bold"), f": {line}"))


@dataclass(frozen=True, slots=True)
class TextRenderer:
    """The `Renderer` of a language."""

    language: Language = SOURCE

    def text(self, phrase: Phrase) -> str:
        """A phrase as text."""
        return render(phrase, self.language)

    def finding(self, finding: Finding[str | Phrase]) -> Finding[str]:
        """A finding with its texts."""
        return render_finding(finding, self.language)

    def block(self, finding: Finding[str]) -> str:
        """A finding as a person reads it."""
        return finding_text(finding, self.language)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a launch needs of each GPU. The table's first row and first column are heads."""

    headline: Phrase | None
    table: Sequence[Sequence[Value]]
    notes: Sequence[Phrase]
    advice: Sequence[Phrase]
    fits: bool


def print_preflight(
    console: Console,
    *,
    mode: Phrase,
    findings: Sequence[Finding[str | Phrase]],
    notes: Sequence[Phrase],
    machine: str,
    needs: Needs | None = None,
    language: Language = SOURCE,
    detail: Detail = "normal",
) -> None:
    """The parallel mode of a launch, its memory where asked for, and what it is refused for.

    What could not be told is there, too. Quiet is what it is refused for alone, one line each.
    """
    if detail == "quiet":
        for finding in findings:
            print_finding(console, finding, language, detail)
        return
    put_labelled(console, "label.mode", Text(harmless(render(mode, language))), language)
    for note in notes:
        put_labelled(console, "label.note", Text(harmless(render(note, language))), language)
    if needs is not None:
        _needs(console, needs, language)
    for finding in findings:
        console.print()
        print_finding(console, finding, language, detail)
    if findings:
        console.print()
    passed = "preflight.passed" if needs is None or needs.fits else "preflight.unfit"
    key = {0: passed, 1: "preflight.refused-one"}.get(len(findings), "preflight.refused")
    put_line(
        console,
        0,
        Text.assemble(
            ("samedevice", "bold"),
            f": {render(Phrase(key, count=len(findings), machine=harmless(machine)), language)}",
        ),
    )


def _needs(console: Console, needs: Needs, language: Language) -> None:
    if needs.headline is not None:
        put_labelled(console, "label.memory", Text(harmless(render(needs.headline, language))), language)
    table = [[render(cell, language) for cell in row] for row in needs.table]
    widths = [max(Text(cell).cell_len for cell in column) for column in zip(*table, strict=True)]
    for number, row in enumerate(table):
        cells = [
            _padded(cell, width, right=column > 0)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        put_line(console, 2 + _LABEL, Text("  ".join(cells).rstrip(), "dim" if number == 0 else ""))
    for note in needs.notes:
        put_labelled(console, "label.note", Text(harmless(render(note, language))), language)
    for line in needs.advice:
        put_labelled(console, "label.next", Text(harmless(render(line, language))), language)


def print_written(console: Console, lines: Sequence[Phrase], language: Language = SOURCE) -> None:
    """Why a written launch is as it is, and where it is."""
    print_notices(console, [harmless(render(line, language)) for line in lines])


def machine_text(machine: Mapping[str, Any]) -> str:
    """A described machine by its name and its description."""
    spec, name = str(machine.get("spec", "?")), machine.get("name")
    return f"{name} ({spec})" if name and name != spec else spec


def why_text(finding: Finding[str | Phrase], language: Language) -> str:
    """Why hardware refuses what was found."""
    return render(_why_refused(finding) or _why_by_rule(finding), language)


def _why_refused(finding: Finding[str | Phrase]) -> Phrase | None:
    """What this operator or message wants; None where the rule of the finding says all."""
    rule = rulebook.code_of(finding.code)
    if rule.kind is None:
        return rule.phrase("meaning")
    if rule.kind is EventKind.MISMATCH and (finding.message or "").startswith("indices should be"):
        return Phrase("why.cross-device-index")
    if rule.kind is EventKind.MISMATCH and (read := on_host(finding.op or "")):
        named = Several(tuple(each.name for each in finding.operands if each.name in read))
        return Phrase("why.read-on-host", op=short_operator(finding.op or ""), names=named)
    if finding.silent_result is not None:
        return Phrase("why.meta-result" if finding.silent_result == "meta" else "why.meta-unfilled")
    if rule.kind is EventKind.UNCHECKED and of_another_library(finding.op or ""):
        return Phrase("why.library-operator")
    if rule.kind is EventKind.COLLECTIVE and finding.message is None:
        return Phrase("why.collective-waits")
    return None


def _why_by_rule(finding: Finding[str | Phrase]) -> Phrase:
    known = finding.op is not None and finding.op != "?"
    op = short_operator(finding.op) if known and finding.op is not None else Phrase("operator-untold")
    return rulebook.code_of(finding.code).phrase("why", op=op)


def _says_no_more(finding: Finding[str | Phrase]) -> bool:
    """Whether why it fails is only that operands are on several devices, as the title says."""
    return rulebook.code_of(finding.code).kind is EventKind.MISMATCH and _why_refused(finding) is None


def _operands(console: Console, finding: Finding[str | Phrase], language: Language) -> None:
    """A row for each, with its words in the statement; an arrow stands before the one in the wrong place."""
    file = finding.at.file if finding.at is not None else None
    rows = [(spelled(operand), typed_shape(operand), operand.device) for operand in finding.operands]
    names, shapes, devices = ([row[column] for row in rows] for column in range(3))
    widths = [
        max(map(len, names), default=0),
        max(map(len, shapes), default=0),
        max(map(len, devices), default=0),
    ]
    widths[0] = max(widths[0], _LABEL - 2)
    origin_column = 2 + sum(widths) + 2 * len(widths)
    running = finding.module if finding.at is not None and finding.at.function == "forward" else None
    origins = [Text(origin_text(operand, language, file, running)) for operand in finding.operands]
    beside = _fits_beside(console, origins, origin_column)
    for operand, origin, (name, shape, device) in zip(finding.operands, origins, rows, strict=True):
        blamed = operand.name == finding.guilty
        head = Text.assemble(
            ("> " if blamed else "  ", "bold red"),
            (name.ljust(widths[0]), "bold cyan" if blamed else "cyan"),
            "  ",
            shape.ljust(widths[1]),
            "  ",
            (device.ljust(widths[2]), "bold yellow" if blamed else "yellow"),
            "  ",
        )
        if beside:
            put_line(console, 0, head + origin, head=len(head))
        else:
            head.rstrip()
            put_line(console, 0, head)
            put_line(console, _BELOW, origin)


def _fits_beside(console: Console, origins: Sequence[Text], column: int) -> bool:
    """Whether origins take no more lines in the column than below their rows."""
    beside, below = console.width - column, max(console.width - _BELOW, _LEAST_TEXT)
    if beside < _LEAST_ORIGIN:
        return False
    return sum(max(len(origin.wrap(console, beside)), 1) for origin in origins) <= sum(
        1 + len(origin.wrap(console, below)) for origin in origins
    )


def spelled(operand: Operand) -> str:
    """The operand as the failing statement writes it, or else its name in CUDA's text."""
    text = harmless(operand.local or operand.name)
    return text if len(text) <= _NAME else f"{text[: _NAME - 3]}..."


def origin_text(
    operand: Operand, language: Language, file: str | None = None, running: str | None = None
) -> str:
    """Where an operand comes from, and why it is on its device; a place in `file` is a line alone, and a
    weight of the module that is `running` has the name that its own code gives it.
    """
    facts: list[Value] = [_by_self(operand.parameter, running)] if operand.parameter else []
    if operand.tied:
        facts.append(Phrase("tied", names=Several(operand.tied)))
    if operand.lineage:
        facts += _lineage(operand, file, running)
    elif operand.moved is not None:
        call = _move_in(operand.moved)
        where = _shown(operand.moved, file)
        facts.append(Phrase("moved-by", call=call, place=where) if call else Phrase("moved", place=where))
        if operand.made is not None and not same_line(operand.made, operand.moved):
            facts.append(Phrase("made", place=_shown(operand.made, file)))
    elif operand.made is not None:
        facts.append(Phrase("made-never-moved", place=_shown(operand.made, file)))
    if operand.assumed and not operand.lineage:
        facts.append(Phrase("assumed"))
    if not facts and operand.dtype:
        facts.append(Phrase("origin-unknown"))
    return harmless(render(Several(tuple(facts), "clause"), language))


def _shown(place: Place, file: str | None) -> Value:
    return Phrase("line", line=place.line) if place.line and place.file == file else place_text(place)


def _by_self(name: str, running: str | None) -> str:
    return f"self{name[len(running) :]}" if running and name.startswith(f"{running}.") else name


def _lineage(operand: Operand, file: str | None, running: str | None) -> list[Value]:
    """Why the operand is on its device: the newest decision, and where a moved one was made."""
    newest, *before = operand.lineage
    at_once = newest.kind == "moved" and bool(before) and before[0].kind == "created"
    if at_once and newest.at is not None and same_line(newest.at, before[0].at) and not _move_in(newest.at):
        newest = replace(newest, kind="created")  # `torch.tensor(..., device=...)`
    if newest.inherited and operand.made is not None and not same_line(operand.made, newest.at):
        place, told = _shown(operand.made, file), operand.made.file  # a line there is a line of that file
        origin = decision_phrase(newest, told, running)
        if newest.kind == "placed" and newest.name is not None:
            name = _by_self(newest.name, running)
            return [Phrase("follows", place=place, name=name, origin=origin)]
        return [Phrase("follows-unnamed", place=place, origin=origin), *_device_from(newest, told, running)]
    facts: list[Value] = [decision_phrase(newest, file, running)]
    if (
        newest.kind in ("moved", "hook")
        and operand.made is not None
        and not same_line(operand.made, newest.at)
    ):
        facts.append(Phrase("made", place=_shown(operand.made, file)))
    return [facts[0], *_device_from(newest, file, running), *facts[1:]]


def _device_from(step: Decision, file: str | None, running: str | None) -> list[Value]:
    """Where the device comes from that a line was given, where it does not name a tensor itself."""
    if step.source not in ("argument", "computed") and step.said not in ("self", "cls"):
        return []
    first = step.first_taken
    if first is not None and first.device == step.device and first.kind != "outside":
        origin = decision_phrase(first, file, running)
        if first.inherited:
            return [Phrase("taken-computed", origin=origin)]
        if first.kind == "placed" and first.name is not None:
            return [Phrase("taken-named", name=_by_self(first.name, running), origin=origin)]
        return [Phrase("taken", origin=origin)]
    if first is None and step.device_at is not None and not same_line(step.device_at, step.at):
        return [Phrase("device-made", place=_shown(step.device_at, file))]
    return []


def decision_phrase(step: Decision, file: str | None = None, running: str | None = None) -> Phrase:
    """One decision as a clause; a place in `file` is a line alone, `running` as for `origin_text`."""
    if step.kind == "placed" and step.entry is not None:
        told = step.name is not None and step.entry in (step.name, step.name.rpartition(".")[0])
        if step.entry and told:
            return Phrase("placed-by-own-entry")
        return Phrase("placed-by-map", entry=step.entry) if step.entry else Phrase("placed-whole")
    if step.kind == "hook" and step.name is not None:
        return Phrase("sent-by-hook", module=_by_self(step.name, running))
    place = _shown(step.at, file) if step.at is not None else "?"
    if step.kind in ("moved", "hook"):
        if step.user_at is not None and (call := _move_in(step.user_at)) is not None:
            return Phrase("moved-by", call=call, place=_shown(step.user_at, file))
        if step.source == "tensor" and step.said is not None:
            return Phrase("moved-like", place=place, said=step.said)
        call = None if step.at is None else _move_in(step.at)
        return Phrase("moved-by", call=call, place=place) if call else Phrase("moved", place=place)
    if step.kind == "created":
        key = _MADE.get(step.source or "", "made" if step.taken is not None else "made-never-moved")
        return Phrase(key, place=place, **({"said": step.said} if step.said and key in _MADE_SAYS else {}))
    return Phrase(_DECIDED[step.kind], place=place)


def _move_in(place: Place) -> str | None:
    """The move that a statement spells."""
    return next((f".{name}()" for name in ("to", "cuda", "cpu") if f".{name}(" in place.code), None)


_MADE = {
    "default": "made-no-device",
    "context": "made-context",
    "tensor": "made-like",
    "launcher": "made-rank",
    "literal": "made-literal",
    "argument": "made-argument",
}
_MADE_SAYS = frozenset(("made-like", "made-rank", "made-literal", "made-argument"))
_DECIDED = {"placed": "placed", "loaded": "loaded", "received": "received", "outside": "met-first"}


def _fix(
    console: Console,
    fix: Fix[str | Phrase],
    language: Language,
    where: str | None = None,
    before: Fix[str | Phrase] | None = None,
) -> None:
    """A fix in a line; `where` is the place of lines that are too long to show, `before` the first fix."""
    label = "label.fix" if before is None else "label.or"
    title = harmless(render(fix.title, language))
    if before is not None and before.safety == fix.safety and fix.tried is None and where is None:
        return put_labelled(console, label, Text(title, "green"), language)
    said = render(Phrase(SAFETIES[fix.safety]), language)
    if fix.tried is not None:
        outcome = render(fix.tried, language)
        said = render(Phrase("tried.said", safety=said, outcome=outcome), language)
    if where is not None:
        said = render(Several((said, where), "clause"), language)
    put_labelled(console, label, Text(f"{title} ({said})", "green"), language)


def _diff(console: Console, fix: Fix[str | Phrase]) -> None:
    """The unified diff, as it may be applied."""
    for line in (fix.diff or "").splitlines():
        style = {"+": "green", "-": "red"}.get(line[:1], "")
        put_line(console, 2 + _LABEL, Text(harmless(line), style))


def _changed_at(fix: Fix[str | Phrase]) -> str | None:
    """File and line of the first line that a fix changes."""
    rows = _changed(fix.diff or "")
    return harmless(f"{_file_of(fix)}:{rows[0][0]}") if rows else None


def _file_of(fix: Fix[str | Phrase]) -> str:
    lines = (fix.diff or "").splitlines()
    return next((line[len(_NEW) :] for line in lines if line.startswith(_NEW)), "")


def _is_long(console: Console, fix: Fix[str | Phrase]) -> bool:
    """Whether a changed line takes more of the terminal than is shown of it."""
    most = _ROWS * max(console.width - 2 - _LABEL, _LEAST_TEXT)
    return any(len(line) > most for *_, line in _changed(fix.diff or ""))


def _changed_lines(console: Console, fix: Fix[str | Phrase], at: Place | None) -> None:
    """The lines that a fix takes away and writes, with their numbers.

    Their place stands above them where the file is not that of the finding.
    """
    rows = _changed(fix.diff or "")
    if not rows:
        return _diff(console, fix)
    if at is None or not f"/{at.file}".endswith(f"/{_file_of(fix)}"):
        put_line(console, 2 + _LABEL, Text(_changed_at(fix) or ""))
    spaces = min((len(line) - len(line.lstrip()) for *_, line in rows if line.strip()), default=0)
    width = max(len(str(number)) for number, *_ in rows)
    for number, sign, line in rows:
        told = harmless(line.rstrip()[spaces:])
        head = f"{number:>{width}} {sign} "
        put_line(console, 2 + _LABEL, Text(head + told, _SIGNS[sign]), head=len(head))
    return None


def _changed(diff: str) -> list[tuple[int, str, str]]:
    """Number, sign and text of the lines of a diff of one file that are other than before."""
    rows: list[tuple[int, str, str]] = []
    written = 0
    for change in diagnosis.changes_of(diff):
        rows += [(change.first + at, "-", line) for at, line in enumerate(change.old, 1)]
        rows += [(change.first + written + at, "+", line) for at, line in enumerate(change.new, 1)]
        written += len(change.new) - len(change.old)
    return rows


_NEW = "+++ b/"
_ROWS = 2
"""Of a terminal; a changed line that takes more is not shown."""
_SIGNS = {"-": "red", "+": "green"}


def _memory(console: Console, memory: Mapping[str, DeviceMemory], language: Language) -> None:
    if not memory:
        return
    heads = [render(Phrase(head), language) for head in _MEMORY]
    rows = [
        [
            device,
            str(Bytes(ledger.peak_allocated)),
            str(Bytes(ledger.peak_reserved)),
            str(Bytes(ledger.total)),
        ]
        for device, ledger in memory.items()
    ]
    widths = [max(Text(cell).cell_len for cell in column) for column in zip(heads, *rows, strict=True)]
    if 2 * (1 + len(widths)) + sum(widths) > console.width:  # narrow: what was held, and what there is
        for device, allocated, _, total in rows:
            put_line(console, 2, Text(f"{device}  {allocated} / {total}"))
        return
    for row, style in [(heads, "dim"), *((row, "") for row in rows)]:
        cells = [
            _padded(cell, width, right=index > 0)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        put_line(console, 2, Text("  ".join(cells).rstrip(), style))


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - Text(cell).cell_len)
    return space + cell if right else cell + space


def _place(console: Console, place: Place, language: Language) -> Text:
    if not place.file:
        return Text(harmless(place.code), "italic")
    where = (
        render(Phrase("at", place=place_text(place), function=place.function), language)
        if place.function
        else place_text(place)
    )
    text = Text(harmless(where))
    if console.is_terminal and takes_links(os.environ) and (link := link_of(place)) is not None:
        start = max(text.plain.find(named := harmless(place_text(place))), 0)
        text.stylize(Style(link=link), start, start + len(named))
    if place.code:
        text.append("      ").append(harmless(place.code), "italic")
    return text


def place_text(place: Place) -> str:
    """File and line, as the reader knows the file."""
    return f"{short_path(place.file)}:{place.line}" if place.line else short_path(place.file)


def same_line(one: Place, other: Place | None) -> bool:
    """Whether both are the same line of source."""
    return other is not None and (one.file, one.line) == (other.file, other.line)


def put_labelled(console: Console, label: str, text: Text, language: Language) -> None:
    """A line with a word in front of it that says what it tells."""
    word = render(Phrase(label), language)
    label_text = Text.assemble((_padded(word, _LABEL, right=False), "dim"))
    put_line(console, 2, label_text + text, head=len(label_text))


def put_line(console: Console, indent: int, text: Text, head: int = 2) -> None:
    """One logical line at `indent`.

    Its first `head` characters stay together; what does not fit goes on below, beside them.
    """
    if indent + text[:head].cell_len > console.width - _LEAST_TEXT:
        head = 2
    hang = indent + text[:head].cell_len
    if indent + text.cell_len <= console.width:
        head = len(text)
    margins = [Text(" " * indent) + text[:head]]
    for line in text[head:].wrap(console, max(console.width - hang, _LEAST_TEXT), overflow="fold"):
        whole = (margins.pop() if margins else Text(" " * hang)) + line
        whole.rstrip()
        console.print(whole, no_wrap=True, overflow="ignore", crop=False)
