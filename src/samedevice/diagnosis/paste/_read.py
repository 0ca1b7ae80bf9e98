"""From a text to its reports: one for each kind of error that the paste shows.

The last error is the first to be judged.
"""

# ruff: noqa: E501 # patterns of whole lines

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

from samedevice.diagnosis.paste._clean import lines_of
from samedevice.diagnosis.paste._completed import completed
from samedevice.diagnosis.paste._elsewhere import ROWS as ELSEWHERE
from samedevice.diagnosis.paste._elsewhere import memory_in
from samedevice.diagnosis.paste._frames import exception_name, frames_of
from samedevice.diagnosis.paste._kinds import KINDS
from samedevice.diagnosis.paste._notebook import notebook_text
from samedevice.diagnosis.paste._operands import DEVICE_NAME, operands_in, tensor_type
from samedevice.diagnosis.paste._pattern import Pattern
from samedevice.diagnosis.paste._report import Frame, Report
from samedevice.diagnosis.paste._sentence import Sentence, read_sentence
from samedevice.diagnosis.paste._subject import subject_of
from samedevice.diagnosis.paste._told import Told, told_in

_AROUND = (15_000, 3_000)
"""Characters before and behind a message in which words may speak of it."""
_HITS = 50
"""Matches of one pattern that are kept."""
_MOST_PIECES = 20
_LONGEST_STORY = 600
"""Lines of a text that may be prose."""
_SPACES = Pattern(r"\s+")
_VERSION = Pattern(
    r"\b(torch|pytorch|transformers|accelerate|peft|deepspeed|diffusers|trl|bitsandbytes|vllm|petals|timm|auto[-_]gptq|optimum|lightning|"
    r"sentence[-_]transformers)\W{0,3}(?:version)?(?: "
    r"\(GPU\?\))?\W{0,4}v?(\d{1,4}\.\d{1,4}(?:\.\d{1,5})?(?:[.\w+]{0,20}))",
    re.IGNORECASE,
)
_START = Pattern(r"Traceback \(most recent call last\)|^-{20,}$")
_CHAIN = Pattern(r"(?:During handling of the above exception|The above exception was the direct cause)")
_TAIL = 160
"""Characters behind a message in which it names its operands."""
_PLACING = frozenset("same-device mask-device input-weight-type".split())
"""Kinds whose sentences may place operands by name."""
_ECHOES = frozenset("out-of-memory data-parallel-replica move-dispatched-warning no-exception".split())
"""Weak kinds that are no error by themselves where an error about something else stands beside them."""
_TELLING = frozenset("data-parallel-replica out-of-memory".split())
"""Weak kinds that tell what came before a strong one."""
_LOOKUPS = {("3", "index"): "index_select"}
"""Operators by the number and the name of an argument, which the messages of torch before 1.3 have alone."""
_AFTERWARDS = frozenset("launcher-exit collective-failure".split())
"""What follows when something else went wrong first."""
_LONGEST_MESSAGE = 500
_MESSAGE_LINES = 4
"""Lines of an error that no row knows."""
_OF_TRACEBACK = Pattern(
    r"\s|File \"|Traceback|-{3,}|During handling|The above exception|Cell In|<ipython"
    r"|[^\n]{0,200}\.py(?::\d|\(\d|\W{1,3}line \d|\s+in\s)|[^\n]{0,40}\bpython\d? "
)
_LEAST_BESIDE = 8
"""Words from which lines beside a traceback are prose."""
_FORM = Pattern(
    r"\s{0,4}- \[[ xX]\]|\W{0,6}(?:Using|Is|Are) (?:\w+[ -]?){1,12}\??\)?\s?\?: |\W{0,6}(?:GPU models and configuration|GPU \d|Nvidia driver version"
    r"|(?:[\w`-]+ ){0,4}(?:version|used to build PyTorch|platform|available)(?: \(\w+\?\))?|OS|Platform|Libc|System|CPU)s?: "
    r"|\W{0,6}(?:It|this|the code) should (?:run|work)(?: well| fine)?(?: without (?:any )?(?:errors?|problems?|issues?))?\W{0,3}$",
    re.IGNORECASE,
)
"""What the form of a tracker or a report of an environment asks, which no one tells."""
_LEAST_BROKEN = 40
"""Characters of a line that somebody may have broken."""
_BROKEN = Pattern(r"[\w,)'`\"-]\s*$")
_GOES_ON = Pattern(r"[A-Za-z0-9`'\"(][^=\n]*$")
_CODE = Pattern(
    r"^\s|^\W{0,3}(?:from|import|def|class|return|for|if|with|at) [\w.]+|[\w\])] ?[-+*/]?= ?[\w\[('\"{]|^[\w.]+\(|[{};|]\s*$|^[-*#>|]"
)
_CALLED = Pattern(r"^\w{0,60}Error: (?=\S)")
_WARNED = Pattern(r"(?:\S{1,300}:\d{1,6}: )?(?P<name>[A-Z]\w{0,60}Warning): \S")
"""A warning, as Python prints it."""
_FEW_LINES = 4
"""Lines of a text that is a warning and nothing else."""
_RAISED = Pattern(r"(?:[\w.]{0,120}\.)?(?P<name>(?:[A-Z]\w{0,60})?(?:Error|Exception)): \S")

_QUOTED = Pattern(
    r"(?<!except )(?<![\w.])(?:[a-z_.]{1,60}\.)?(?P<name>[A-Z]\w{0,60}(?:Error|Exception)): [A-Z'\"`]"
)
"""An error in the middle of a line, with the beginning of its sentence."""
_BUT_GOT = Pattern(r"\b(?:should|must|expected|needs? to) be\b[^\n]{1,200}\bbut (?:got|found|is|was)\b")
"""What an error asked for and got, without the name of its exception."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was recognised."""

    start: int
    end: int
    kind: str
    found: re.Match[str]
    weak: bool = False
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class _Words:
    """What an error that no row knows says."""

    raised: str | None
    """The class of its exception; None where there is none."""
    message: str
    said: Sentence | None
    """What its message states of devices."""


@dataclass(frozen=True, slots=True)
class Text:
    """A paste as its lines, and as one line."""

    tagged: list[tuple[str, int | None]]
    """Each line, and the rank it was tagged with."""
    lines: list[str]
    whole: str
    starts: list[int]
    """Where each line begins in `whole`."""
    versions: dict[str, str]
    told: Told | None
    """What its prose states."""
    pieces: tuple[str, ...]
    """What stands between fences."""
    beside: Told | None = None
    """What prose beside a traceback states."""

    def row(self, position: int) -> int:
        """The line at a position of `whole`."""
        return bisect_right(self.starts, position) - 1


def read_paste(text: str) -> list[Report]:
    """The errors of a paste, the last one first, and of errors that follow each other the first.

    One report without a kind when nothing is recognised.
    """
    tagged = lines_of(notebook_text(text) or text)
    lines = [line for line, _ in tagged]
    whole, starts = _joined(lines)
    hits = _hits(whole)
    if not any(hit.topic is None for hit in hits) and any(map(_cut_within_a_word, pairwise(lines))):
        tight, begins = _joined(lines, whole_words=True)
        found = _hits(tight)
        if any(hit.topic is None and not hit.weak for hit in found):
            whole, starts, hits = tight, begins, found
    versions = {
        found[1].lower().replace("_", "-").replace("pytorch", "torch"): found[2]
        for found in _limited(_VERSION, whole[-sum(_AROUND) :])
    }
    prose = _prose(lines)
    beside = _beside(lines) if prose is None else None
    paste = Text(tagged, lines, whole, starts, versions, prose, _pieces(lines), beside)
    if not hits:
        return [_unrecognised(paste)]
    if all(hit.topic in _AFTERWARDS for hit in hits):
        before = _unrecognised(replace(paste, lines=lines[: paste.row(hits[0].start)]))
        if before.kind != "unknown-message":
            return [before]
    reports: list[Report] = []
    for hit in _first_causes(hits, paste):
        rank = tagged[paste.row(hit.start)][1]
        groups = hit.found.groupdict()
        known = next((r for r in reports if _same(r, hit.kind, groups.get("op"), _argument(groups))), None)
        if known is None:
            reports.append(_report(hit, hits, paste))
        else:
            reports[reports.index(known)] = _with_another(known, rank, _devices(groups))
    return [completed(report) for report in reports if not _repeats(report, reports)]


def _report(hit: Hit, hits: list[Hit], paste: Text) -> Report:
    """What one message says, with the frames that lead to it."""
    row, groups = paste.row(hit.start), hit.found.groupdict()
    rank = paste.tagged[row][1]
    first = _beginning(paste.lines, row)
    picked = [
        line for line, own in paste.tagged[first : row + 1] if own is None or rank is None or own == rank
    ]
    frames = frames_of(picked[-4000:])
    if not any(frame.file for frame in frames):  # some name the error first and show the frames below
        below = frames_of([line for line, _ in paste.tagged[row + 1 : row + 400]])
        frames = below if any(frame.file for frame in below) else frames
    sentence = paste.whole[hit.start : hit.end + _TAIL]
    operands = operands_in(sentence) if hit.kind in _PLACING else ()
    earlier = (each.kind for each in hits if each.start < hit.start and each.kind != hit.kind)
    return Report(
        kind=hit.kind,
        message=_message(paste.whole, hit.found) if hit.topic is None else _sentence(paste, hit),
        exception=exception_name(paste.lines, row),
        devices=_devices(groups) or _placed(operands, sentence if hit.kind in _PLACING else ""),
        op=groups.get("op") or _LOOKUPS.get((groups.get("nth") or "", groups.get("argument") or "")),
        argument=_argument(groups),
        frames=frames,
        versions=paste.versions,
        ranks=(rank,) if rank is not None else (),
        earlier=tuple(dict.fromkeys(earlier)),
        words=paste.whole[max(0, hit.start - _AROUND[0]) : hit.end + _AROUND[1]],
        topic=hit.topic,
        operands=operands,
        pieces=paste.pieces,
        told=paste.told,
        beside=paste.beside,
        memory=memory_in(paste.whole[hit.start : hit.end + 4 * _TAIL])
        if hit.topic == "out-of-memory"
        else None,
    )


def _argument(groups: dict[str, str | None]) -> str | None:
    """The argument that a message names, or the number of an element of a list, such as `#1`."""
    number = groups.get("element")
    return groups.get("argument") or (f"#{number}" if number is not None else None)


def _devices(groups: dict[str, str | None]) -> tuple[str, ...]:
    """The devices that a message names, or those of the types that it names, in printed order."""
    named = [value.lower().replace("gpu", "cuda") for key in ("d1", "d2") if (value := groups.get(key))]
    named += [f"cuda:{value}" for key in ("g1", "g2") if (value := groups.get(key))]
    types = [tensor_type(groups.get(key)).device for key in ("t1", "t2")]
    return tuple(named) or (tuple(each for each in types if each) if all(types) else ())


def _placed(operands: tuple[tuple[str, str], ...], sentence: str) -> tuple[str, ...]:
    """The first two devices of the operands that a sentence places; else those that it names at all."""
    named = [device for _, device in operands]
    if len(set(named)) < 2:
        named = [found[0].lower() for found in DEVICE_NAME.finditer(sentence)]
    return tuple(dict.fromkeys(named))[:2]


def _unrecognised(paste: Text) -> Report:
    """A report of an error that no row knows: what its own words state of devices, or are about."""
    shown = [line.strip() for line in paste.lines[-400:] if line.strip()]
    words = _last_words(shown, paste.told is not None)
    raised, message, said = words.raised, words.message, words.said
    name = exception_name(paste.lines, len(paste.lines) - 1) or raised
    frames = frames_of(paste.lines[-4000:])
    cut = _cut_kind(message if raised else "", frames)
    unread = raised is not None and said is None and cut is None
    return Report(
        said.kind if said else cut or "unknown-message",
        (message[:_LONGEST_MESSAGE] or None) if raised or paste.told is None else None,
        name,
        said.devices if said else (),
        None,
        said.argument if said else None,
        frames,
        paste.versions,
        words=paste.whole[-sum(_AROUND) :],
        topic=subject_of(message, name) if unread else None,
        whole=False,
        operands=said.operands if said else (),
        ranks=said.ranks if said else (),
        told=paste.told,
        beside=paste.beside,
    )


def _last_words(shown: list[str], prose: bool) -> _Words:
    """Of the last error, or of the one that it came from."""
    rows = [row for row, line in enumerate(shown) if _RAISED.match(line)]
    if not rows:
        few = _few_words(shown)
        return _quoted_words(shown) or few if prose and few.raised is None else few
    last = _Words(None, "", None)
    for row, before in zip(reversed(rows), [*reversed(rows[:-1]), 0], strict=True):
        words = _words(shown, row, _RAISED.match(shown[row]))
        last = words if words.said or row == rows[-1] else last
        if words.said or not any(_CHAIN.match(line) for line in shown[before:row]):
            break
    return last


def _few_words(shown: list[str]) -> _Words:
    """Of a short text: a warning alone, or an error that stands within a line and states something."""
    if len(shown) <= _FEW_LINES:
        for row in reversed(range(len(shown))):
            warned = _WARNED.match(shown[row])
            words = _words(shown, row, warned or _RAISED.search(shown[row], 0, _LONGEST_MESSAGE))
            if words.said or warned:
                return words
    return _Words(None, shown[-1] if shown else "", None)


def _quoted_words(shown: list[str]) -> _Words | None:
    """Of an error that prose quotes within a line: the last one that states something, else the last one."""
    found: _Words | None = None
    for row in reversed(range(len(shown))):
        quoted = _QUOTED.search(shown[row], 0, _LONGEST_MESSAGE)
        words = _words([_within_quotes(shown[row], quoted)], 0, quoted) if quoted is not None else None
        if words is not None and words.said is not None:
            return words
        found = found or words
        if _BUT_GOT.search(shown[row]) and (said := read_sentence(shown[row])) is not None:
            return _Words(None, shown[row], said)
    return found


def _within_quotes(line: str, found: re.Match[str]) -> str:
    """A line up to the end of the code that an error in it is written as."""
    opened = line[found.start() - 1 : found.start()] == "`"
    return line[: line.find("`", found.end())] if opened and "`" in line[found.end() :] else line


def _words(shown: list[str], row: int, found: re.Match[str] | None) -> _Words:
    """What a line says behind the class of its exception."""
    if found is None:
        return _Words(None, "", None)
    message = shown[row][found.end() - 1 :][:_LONGEST_MESSAGE]
    following = shown[row + 1 : row + _MESSAGE_LINES]
    return _Words(found["name"], message, read_sentence(" ".join([message, *following])[:_LONGEST_MESSAGE]))


def _cut_kind(message: str, frames: tuple[Frame, ...]) -> str | None:
    """The kind of an error whose paste ends within its message, or before it in a function that only raises it."""
    if len(message) >= _LEAST_CUT and _ALL_TENSORS.startswith(message):
        return "same-device"
    last = frames[-1].function if frames else None
    return "deserialize" if last in _CHECKS_OF_LOADING else None


_ALL_TENSORS = "Expected all tensors to be on the same device"
_LEAST_CUT = len("Expected all")
_CHECKS_OF_LOADING = ("validate_cuda_device", "_cuda_deserialize")
"""Functions of torch that look whether the GPU of a stored tensor is there."""


def _first_causes(hits: list[Hit], paste: Text) -> list[Hit]:
    """The last error first.

    Of errors that were raised while another was handled, and of those of several ranks, the first one.
    """
    groups: list[list[Hit]] = []
    for hit in hits:
        before = groups[-1][-1] if groups else None
        if before is not None and _follows(before, hit, paste):
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return [hit for group in reversed(groups) for hit in group]


def _follows(before: Hit, hit: Hit, paste: Text) -> bool:
    ranks = [paste.tagged[paste.row(each.start)][1] for each in (before, hit)]
    if None not in ranks and ranks[0] != ranks[1]:
        return True
    return _CHAIN.search(paste.whole, before.end, min(hit.start, before.end + 200_000)) is not None


def _pieces(lines: list[str]) -> tuple[str, ...]:
    """What stands between fences of three backquotes."""
    found: list[list[str]] = []
    inside = False
    for line in lines:
        if line.lstrip().startswith("```"):
            inside = not inside
            found += [[]] if inside else []
        elif inside:
            found[-1].append(line)
    return tuple("\n".join(piece) for piece in found[:_MOST_PIECES])


def _prose(lines: list[str]) -> Told | None:
    """What the lines of a text without a traceback state; None for a traceback."""
    if len(lines) > _LONGEST_STORY or sum(map(len, lines)) > _LONGEST_STORY * 40:
        return None
    if any(frame.file for frame in frames_of(lines)):
        return None
    return told_in("\n".join(_paragraphs([line for line in lines if not _FORM.match(line)])))


def _beside(lines: list[str]) -> Told | None:
    """What the lines around a traceback state; those of the traceback itself are left out."""
    if len(lines) > _LONGEST_STORY:
        return None
    shown = (line for line in lines if line.strip() and not _OF_TRACEBACK.match(line))
    kept = [line for line in shown if not _RAISED.match(line) and not _FORM.match(line)]
    told = told_in("\n".join(_paragraphs(kept))) if kept else None
    return told if told is not None and told.words >= _LEAST_BESIDE else None


def _paragraphs(lines: list[str]) -> list[str]:
    """The lines, and those that an editor or a mail program broke whole again.

    A sentence goes on in the next line where a long line of words ends without a stop.
    """
    whole: list[str] = []
    goes_on = False
    for line in lines:
        if goes_on and _GOES_ON.match(line):
            whole[-1] += " " + line
        else:
            whole.append(line)
        goes_on = len(line) >= _LEAST_BROKEN and _BROKEN.search(line) is not None and not _CODE.search(line)
    return whole


def _joined(lines: list[str], whole_words: bool = False) -> tuple[str, list[int]]:
    """The lines as one text in which a wrapped message is whole again, and where each line begins in it.

    With `whole_words` also words that a terminal cut at its width.
    """
    parts: list[str] = []
    starts, position = [], 0
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        starts.append(position)
        part = _SPACES.sub(" ", line).strip() if len(line) < 20_000 else line
        part += "" if whole_words and _cut_within_a_word((line, following)) else " "
        parts.append(part)
        position += len(part)
    return "".join(parts).rstrip(" "), starts


def _cut_within_a_word(lines: tuple[str, str]) -> bool:
    """Whether a terminal may have cut a word between two lines: a long one that ends in it, and what follows."""
    line, following = lines
    return len(line) >= _TERMINAL and line[-1].isalnum() and following[:1].isalnum()


_TERMINAL = 79
"""The least width at which terminals cut lines."""


def _hits(whole: str) -> list[Hit]:
    """Every message by position: those about devices, and where none is, those about something else."""
    small = whole.lower()
    taken: list[Hit] = []
    for kind in KINDS:
        if any(word in small for word in kind.words):
            for found in _limited(kind.pattern, whole):
                if not any(each.start < found.end() and found.start() < each.end for each in taken):
                    topic = _topic_of(kind.name, found)
                    taken.append(Hit(found.start(), found.end(), kind.name, found, kind.weak, topic))
    strong = [each for each in taken if not each.weak and each.topic is None]
    kept = strong or [each for each in taken if each.topic is None and each.kind not in _ECHOES]
    if kept:
        # A weak message before a strong one is part of the story ("earlier"); behind it, it is an echo.
        beside = [each for each in taken if each.weak and each.kind in _TELLING]
        last = max(each.start for each in kept)
        return sorted(
            [*kept, *(each for each in beside if each.start < last and each not in kept)], key=_start
        )
    about = sorted([*(each for each in taken if each.topic), *_elsewhere(whole, small)], key=_start)
    first = [each for each in about if each.topic not in _AFTERWARDS]
    echoes = sorted((each for each in taken if each.topic is None), key=_start)
    return _one_each(first) or echoes or _one_each(about)


def _start(hit: Hit) -> int:
    return hit.start


def _topic_of(kind: str, found: re.Match[str]) -> str | None:
    """What a message is about that reads like one about devices.

    Memory, or two types that differ in the kind of number alone.
    """
    if kind == "out-of-memory":
        return kind
    groups = found.groupdict()
    if kind == "same-device" and groups.get("t1") and groups.get("d1") == groups.get("d2"):
        return "dtype"
    if kind in ("input-weight-type", "type-combination") and groups.get("t1") and groups.get("t2"):
        first, second = tensor_type(groups["t1"]), tensor_type(groups["t2"])
        if first.number != second.number and (
            first.device == second.device or None in (first.device, second.device)
        ):
            return "dtype"
    return None


def _elsewhere(whole: str, small: str) -> list[Hit]:
    """Messages that are about something else."""
    found: list[Hit] = []
    for row in ELSEWHERE:
        if any(word in small for word in row.words):
            for each in _limited(row.pattern, whole)[:_HITS]:
                if not any(hit.start < each.end() and each.start() < hit.end for hit in found):
                    found.append(Hit(each.start(), each.end(), row.topic, each, topic=row.topic))
    return found


def _one_each(hits: list[Hit]) -> list[Hit]:
    """The first message of all: what comes behind it is its effect, or the same again."""
    return hits[:1]


def _sentence(paste: Text, hit: Hit) -> str:
    """The line of a message, from the message on, without what the exception is called."""
    row = paste.row(hit.start)
    end = paste.starts[row + 1] if row + 1 < len(paste.starts) else len(paste.whole)
    line = paste.whole[hit.start : max(hit.end, end)].strip()
    return _CALLED.sub("", line, count=1)[:_LONGEST_MESSAGE]


def _limited(pattern: Pattern | re.Pattern[str], whole: str) -> list[re.Match[str]]:
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


def _with_another(report: Report, rank: int | None, devices: tuple[str, ...]) -> Report:
    """The report with the rank and the devices of one more message like its own."""
    ranks = report.ranks if rank is None else tuple(sorted({*report.ranks, rank}))
    pairs = tuple(dict.fromkeys((*report.pairs, report.devices, devices)))[:_MOST_PIECES]
    return replace(report, ranks=ranks, pairs=pairs)


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
