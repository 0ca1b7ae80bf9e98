"""From a text to its reports: one for each kind of error that the paste shows, the last one first to be
judged.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from samedevice.diagnosis.paste._clean import lines_of
from samedevice.diagnosis.paste._frames import exception_name, frames_of
from samedevice.diagnosis.paste._kinds import KINDS
from samedevice.diagnosis.paste._notebook import notebook_text
from samedevice.diagnosis.paste._report import Report

_AROUND = (15_000, 3_000)
"""Characters before and behind a message in which words may speak of it."""
_HITS = 50
"""Matches of one pattern that are kept."""
_SPACES = re.compile(r"\s+")
_VERSION = re.compile(
    r"\b(torch|pytorch|transformers|accelerate|peft|deepspeed|diffusers|trl|bitsandbytes|vllm|petals|timm|auto[-_]gptq|optimum|lightning|"
    r"sentence[-_]transformers)\W{0,3}(?:version)?(?: "
    r"\(GPU\?\))?\W{0,4}v?(\d{1,4}\.\d{1,4}(?:\.\d{1,5})?(?:[.\w+]{0,20}))",
    re.IGNORECASE,
)
_START = re.compile(r"Traceback \(most recent call last\)|^-{20,}$")
_CHAIN = re.compile(r"(?:During handling of the above exception|The above exception was the direct cause)")
_TYPE_DEVICE = re.compile(r"torch\.cuda\.")


def read_paste(text: str) -> list[Report]:
    """The errors of a paste, the last one first; one report without a kind when nothing is recognised."""
    tagged = lines_of(notebook_text(text) or text)
    lines = [line for line, _ in tagged]
    whole, starts = _joined(lines)
    hits = _hits(whole)
    versions = {
        found[1].lower().replace("_", "-").replace("pytorch", "torch"): found[2]
        for found in _limited(_VERSION, whole[-sum(_AROUND) :])
    }
    if not hits:
        return [_unrecognised(lines, versions, whole)]
    reports: list[Report] = []
    for position, kind, found in reversed(hits):
        row = bisect_right(starts, position) - 1
        rank = tagged[row][1]
        groups = found.groupdict()
        devices = tuple(value.lower() for name in ("d1", "d2") if (value := groups.get(name)))
        known = next((r for r in reports if _same(r, kind, groups.get("op"), groups.get("argument"))), None)
        if known is not None:
            if rank is not None and rank not in known.ranks:
                reports[reports.index(known)] = _with_rank(known, rank)
            continue
        first = _beginning(lines, row)
        picked = [line for line, own in tagged[first : row + 1] if own is None or rank is None or own == rank]
        frames = frames_of(picked[-4000:])
        if not any(
            frame.file for frame in frames
        ):  # some reports name the error first and show the frames below
            below = frames_of([line for line, _ in tagged[row + 1 : row + 400]])
            frames = below if any(frame.file for frame in below) else frames
        if kind == "input-weight-type" and not devices:
            devices = tuple(
                "cuda" if _TYPE_DEVICE.match(groups.get(name) or "") else "cpu" for name in ("t1", "t2")
            )
        reports.append(
            Report(
                kind=kind,
                message=_message(whole, found),
                exception=exception_name(lines, row),
                devices=devices,
                op=groups.get("op"),
                argument=groups.get("argument"),
                frames=frames,
                versions=versions,
                ranks=(rank,) if rank is not None else (),
                earlier=tuple(
                    dict.fromkeys(other for place, other, _ in hits if place < position and other != kind)
                ),
                words=whole[max(0, position - _AROUND[0]) : found.end() + _AROUND[1]],
            )
        )
    return [report for report in reports if not _repeats(report, reports)]


def _unrecognised(lines: list[str], versions: dict[str, str], whole: str) -> Report:
    """A report without a kind: the last line, whatever it says."""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    name = exception_name(lines, len(lines) - 1)
    message = last.partition(": ")[2] if name and last.startswith(name) else last
    frames, words = frames_of(lines[-4000:]), whole[-sum(_AROUND) :]
    return Report(
        "unknown-message", message[:500] or None, name, (), None, None, frames, versions, words=words
    )


def _joined(lines: list[str]) -> tuple[str, list[int]]:
    """The lines as one text in which a wrapped message is whole again, and where each line begins in it."""
    parts, starts, position = [], [], 0
    for line in lines:
        starts.append(position)
        part = _SPACES.sub(" ", line).strip() if len(line) < 20_000 else line
        parts.append(part)
        position += len(part) + 1
    return " ".join(parts), starts


def _hits(whole: str) -> list[tuple[int, str, re.Match[str]]]:
    """Every match of every kind by position; where two overlap, the earlier row of the table stays."""
    taken: list[tuple[int, int, str, re.Match[str], bool]] = []
    small = whole.lower()
    for kind in KINDS:
        if not any(word in small for word in kind.words):
            continue
        for found in _limited(kind.pattern, whole):
            if not any(start < found.end() and found.start() < end for start, end, *_ in taken):
                taken.append((found.start(), found.end(), kind.name, found, kind.weak))
    strong = [each for each in taken if not each[4]]
    kept = strong or taken
    weak_beside = [
        each for each in taken if each[4] and strong and each[2] in ("data-parallel-replica", "out-of-memory")
    ]
    # A weak message before a strong one is part of the story ("earlier"); behind it, it is an echo.
    kept = sorted(
        [*kept, *(each for each in weak_beside if each[0] < strong[-1][0])], key=lambda each: each[0]
    )
    return [(start, name, found) for start, _, name, found, _ in kept]


def _limited(pattern: re.Pattern[str], whole: str) -> list[re.Match[str]]:
    """The last matches of a pattern, so that a log that repeats one line forever stays cheap."""
    found: list[re.Match[str]] = []
    for each in pattern.finditer(whole):
        found.append(each)
        if len(found) > 2 * _HITS:
            del found[1:_HITS]
    return found


def _same(report: Report, kind: str, op: str | None, argument: str | None) -> bool:
    return report.kind == kind and report.op == op and report.argument == argument


def _repeats(report: Report, reports: list[Report]) -> bool:
    """A report without an operator beside one of the same kind that has it, as cut-off repetitions are."""
    if report is reports[0] or report.op is not None:
        return False
    return any(
        other.kind == report.kind and other.devices == report.devices
        for other in reports
        if other is not report
    )


def _with_rank(report: Report, rank: int) -> Report:
    from dataclasses import replace

    return replace(report, ranks=tuple(sorted({*report.ranks, rank})))


def _beginning(lines: list[str], row: int) -> int:
    """The line where the traceback of the message in line `row` begins."""
    first = max(0, row - 4000)
    for index in range(row - 1, first - 1, -1):
        line = lines[index]
        if len(line) < 2000 and (_CHAIN.search(line)):
            return index + 1
        if len(line) < 2000 and _START.search(line.strip()) and index < row - 1:
            return index
    return first


def _message(whole: str, found: re.Match[str]) -> str:
    end = found.end()
    tail = whole[end : end + 2]
    if found.re.groupindex.get("op") and found["op"] and tail.startswith(")"):
        return whole[found.start() : end + 1]
    if tail.startswith(("!", ".")):
        return whole[found.start() : end + 1]
    return found[0].strip()
