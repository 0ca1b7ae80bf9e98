"""From what a terminal, a log or a browser made of a text back to its lines."""

# ruff: noqa: E501 # patterns of whole line beginnings

from __future__ import annotations

import re
from collections import Counter
from html import unescape

from samedevice.diagnosis.paste._pattern import Pattern

WHOLE = 120_000
"""Characters up to which a text is read whole; of a longer one, the surroundings of what may be errors."""
_BEFORE, _AFTER = 12_000, 1_500
"""Characters around a mark that are kept."""
_MARKS = Pattern(
    r"same device|least two devices|meta tensor|meta device|device[_ ]map|device-side|device type|device ordinal|device_ids|device metric"
    r"|deserialize|offloaded|move a model|from triton|in replica|illegal memory|tensor to numpy|with cuda enabled|mps device|cublaslt"
    r"|out of memory|should be the same|indices should|current device|current call last",
    re.IGNORECASE,
)
LONGEST_LINE = 2_000
"""Characters of a line that are looked at for a frame."""

_ESCAPES = Pattern(
    r"(?:\x1b|\u241b|\\x1b|\\033|\\u001b)(?:\[[0-9;?]{0,30}[A-Za-z]|\][^\x07\x1b]{0,200}\x07|[()][A-Z0-9])"
)
_BARE_COLOURS = Pattern(r"\[(?:\d{1,3};){0,4}\d{1,3}m")
_BOX = Pattern(r"[\u2500-\u257f]")
_CONTROL = Pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\ufeff]")
_BREAKS = Pattern(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_RANK = Pattern(
    r"\s{0,8}(?:\[(?:rank|default|worker-|gpu)?\s?(\d{1,5})\](?:<std(?:err|out)>)?:?|\[\d+,(\d{1,5})\]<std(?:err|out)>:"
    r"|(?:rank|worker|local_rank)[ :=-]?(\d{1,5})[:|\]]|\((?:[A-Za-z_.]{1,60} )?(?:pid=\d{1,9}[^)\n]{0,80}|rank(\d{1,5}))\)|(\d{1,5}):(?=\s{1,3}(?:File|Trace|\w{1,60}Error)|\s{4}))[ \t]?",
    re.IGNORECASE,
)
_DATE = Pattern(
    r"\s{0,4}[\[(]?(?:\d{4}[-/]\d{2}[-/]\d{2}[T ]|\d{2}[-/]\d{2}[-/]?\d{0,4} )\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?[\])]?[ \t]?"
    r"|\s{0,4}\[?\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?\]?[ \t]"
)
_LEVEL = Pattern(
    r"(?:\s{0,3}[-|:]\s{0,3})?\[?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|stderr|stdout|(?-i:EXCEPTION))\]?(?=[\s:|\-\[])"
    r"(?:\s{0,3}[-|:](?!-)|\s{1,3}\[[\w.:<> -]{1,80}\])?[ \t]?",
    re.IGNORECASE,
)
_BAR = Pattern(
    r"\s?(?:\||-(?!-))[ \t]?(?:std(?:err|out)\s?[|-]|[\w.]{1,60}:[\w<>]{1,60}:\d{1,6}\s?[|-])?[ \t]?"
)
_QUOTE = Pattern(r"(?:> ?)+")
_TAG = Pattern(r"</?(?:pre|code|span|div|p|b|font)\b[^>\n]{0,200}>", re.IGNORECASE)
_LINK = Pattern(r"\[([^\[\]\n]{1,400})\]\((?:https?|vscode|file|command)[^()\n]{0,300}\)")
_QUOTES = {
    ord("\u201c"): '"',
    ord("\u201d"): '"',
    ord("\u2018"): "'",
    ord("\u2019"): "'",
    ord("\u02bc"): "'",
    ord("\u00b4"): "'",
}
_SHORT = Pattern(
    r"\b(?:(?P<cannot>ca ?n't|cant|can not)|(?P<will>wo ?n't|wont)|(?P<verb>\w{2,8}?) ?n't"
    r"|(?P<bare>do|does|did|is|are|was|were|have|has|had|would|should|could)nt)\b"
    r"|(?<=\w)'(?P<end>m|ve|re|ll)\b",
    re.IGNORECASE,
)
_WORDS = {"m": " am", "ve": " have", "re": " are", "ll": " will"}
_DIGITS = Pattern(r"\d{1,30}")
_WIDEST = 160
"""Characters in which a margin may stand."""
_FRAMES_WITH_MARGIN = 2
_EMPHASIS = Pattern(r"\*\*(\S[^*\n]{0,2000})\*\*\s{0,4}$")
"""A whole line in bold letters."""
_PYTEST = Pattern(r"E   ")


def lines_of(text: str) -> list[tuple[str, int | None]]:
    """Each line without colours, dates, levels and rank tags, and the rank that it was tagged with."""
    text = _interesting(text)
    if text.count("\\n") > 2 * text.count("\n"):  # a traceback inside a JSON or Python string
        text = text.replace("\\n", "\n").replace('\\"', '"')
    text = _ESCAPES.sub("", text)
    text = _BARE_COLOURS.sub("", text)
    text = _BREAKS.sub("\n", text)
    text = _CONTROL.sub("", text)
    if "&quot;" in text or "&lt;" in text:
        text = unescape(_TAG.sub("", text))
    text = _SHORT.sub(_in_full, _LINK.sub(r"\1", text.translate(_QUOTES)))
    return _outdented(_without_margin([_stripped(line) for line in text.split("\n")]))


def _outdented(lines: list[tuple[str, int | None]]) -> list[tuple[str, int | None]]:
    """The lines without the blanks that all of them begin with."""
    depth = min((len(line) - len(line.lstrip()) for line, _ in lines if line.strip()), default=0)
    return [(line[depth:], rank) for line, rank in lines] if depth else lines


def _in_full(found: re.Match[str]) -> str:
    """A short form in whole words, so that one spelling of a negation is enough to look for."""
    if found["end"]:
        return _WORDS[found["end"].lower()]
    if found["cannot"]:
        return found[0][0] + "annot"
    if found["will"]:
        return found[0][0] + "ill not"
    return (found["verb"] or found["bare"]) + " not"


def _without_margin(lines: list[tuple[str, int | None]]) -> list[tuple[str, int | None]]:
    """The lines without what stands before every frame, such as a bullet, a host's name or a line's number."""
    margins = Counter(
        _DIGITS.sub("0", margin)
        for line, _ in lines
        if (at := line.find('File "', 0, _WIDEST)) > 0 and (margin := line[:at].removesuffix("  ")).strip()
    )
    shape, count = margins.most_common(1)[0] if margins else ("", 0)
    if count < _FRAMES_WITH_MARGIN:
        return lines
    spaces = len(shape) - len(shape.rstrip())
    pattern = re.compile(re.escape(shape.rstrip()).replace("0", r"\d{1,30}") + rf"[ \t]{{0,{spaces}}}")
    return [(line[found.end() :] if (found := pattern.match(line)) else line, rank) for line, rank in lines]


def _interesting(text: str) -> str:
    """A long text cut down to the surroundings of its first and last marks."""
    if len(text) <= WHOLE:
        return text
    marks = [found.start() for found in _MARKS.finditer(text)]
    if not marks:
        return text[-WHOLE // 2 :]
    chosen = sorted({*marks[:3], *marks[-200:]}, reverse=True)
    spans: list[tuple[int, int]] = []
    budget = WHOLE
    for mark in chosen:
        start, end = max(0, mark - _BEFORE), min(len(text), mark + _AFTER)
        if spans and end >= spans[-1][0]:
            start, end = min(start, spans[-1][0]), spans[-1][1]
            spans.pop()
        spans.append((start, end))
        if sum(last - first for first, last in spans) > budget:
            first, last = spans[-1]
            spans[-1] = (max(first, last - budget), last)
            break
    return "\n".join(text[start:end] for start, end in reversed(spans))


def _stripped(line: str) -> tuple[str, int | None]:
    rank: int | None = None
    if not line or line.isspace():
        return "", None
    if _BOX.search(line[:LONGEST_LINE]):
        line = _BOX.sub(" ", line).rstrip()
        line = line[1:] if line.startswith("  ") else line
    for _ in range(6):
        before = line
        if found := _DATE.match(line):
            line = line[found.end() :]
            dated = True
        else:
            dated = False
        if found := _RANK.match(line):
            number = next((group for group in found.groups() if group), None)
            if number is not None:
                rank = int(number)
            line = line[found.end() :]
        if found := _LEVEL.match(line):
            line = line[found.end() :]
            dated = True
        if dated and (found := _BAR.match(line)):
            line = line[found.end() :]
        if line == before:
            break
    if found := _PYTEST.match(line):
        line = line[found.end() :]
    if line.startswith(">") and (found := _QUOTE.match(line)):
        line = line[found.end() :]
    if line.startswith("**") and (found := _EMPHASIS.match(line)):
        line = found[1]
    return line, rank
