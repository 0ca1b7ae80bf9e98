"""Frames in the layouts of Python, IPython old and new, rich and pytest."""

# ruff: noqa: E501 # patterns of whole lines

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from samedevice.diagnosis.paste._clean import LONGEST_LINE
from samedevice.diagnosis.paste._pattern import Pattern
from samedevice.diagnosis.paste._report import Frame

_PYTHON = Pattern(
    r'\s{0,40}(?:File "|(?=[~/]|[A-Za-z]:\\|[\w.-]{1,80}[/\\][^"\n]{1,400}\.py", line \d))(?P<file>[^"\n]{1,500})", line (?P<line>\d{1,7})(?:, in (?P<function>[^\n]{1,200}))?'
)
_NOTEBOOK = Pattern(
    r"\s{0,4}(?:File (?P<file>\S[^\n]{0,480}?):(?P<line>\d{1,7})|(?:Cell |Input )?In ?\[(?P<cell>[\d ]{1,6})\],? (?:line |in )(?P<cell_line>[^\s(]{1,40}))"
    r"(?:, in (?P<function>[\w.<>]{1,160}))?"
)
_OLD_NOTEBOOK = Pattern(
    r"\s{0,4}(?P<file>[~/.\w][^\s:]{0,480}?\.py|<ipython-input[^>\s]{1,80}>) in (?P<function>[\w.<>]{1,160})(?:\(|$)"
)
_RICH = Pattern(
    r"\s{0,8}(?P<file>[~/.\w][^\s:]{0,480}?\.py|<[^>\s]{1,80}>):(?P<line>\d{1,7}) in (?P<function>[\w.<>]{1,160})\s{0,400}$"
)
_PYTEST = Pattern(
    r"(?P<file>[~/.\w][^\s:]{0,480}?\.py):(?P<line>\d{1,7}): (?:in (?P<function>[\w.<>]{1,160})|(?P<error>\w{1,60}Error)?\s{0,20}$)"
)
_TEST = Pattern(
    r"(?:FAILED|ERROR|FAIL:)\s{1,4}(?P<file>[~/.\w][^\s:]{0,300}?\.py)::(?P<function>[\w.:]{1,240})"
)
_POINTED = Pattern(
    r"\s{0,8}(?:-{1,6}>|\u2771|>)\s{0,4}(?P<line>\d{1,7}|)[ \t]{1,400}(?P<code>\S[^\n]{0,400})"
)
_SHOWN = Pattern(r"\s{0,8}\d{1,7}[ \t]{1,400}(?P<code>\S[^\n]{0,400})")
_NUMBERED = Pattern(r"\s{0,8}\d{1,7}(?:\s|$)")
_ERROR = Pattern(
    r"(?:[\w.]{0,120}\.)?(?P<name>[A-Z]\w{0,60}(?:Error|Exception|Warning|Interrupt|Exit))(?::|\s|$)"
)
_MARKS = Pattern(r"\s{0,60}[~^]{1,400}\s{0,20}$")
_HERE = Pattern(r"\s{0,200}~{1,400}\s{1,4}<--- HERE")
_SCRIPT_LINES = 60
REMOTE_CODE = "transformers_modules/"
"""The folder of code that comes with a checkpoint."""
_FLAT = Pattern(
    r'File "(?P<file>[^"\n]{1,500})", line (?P<line>\d{1,7}),? in (?P<function><?[A-Za-z_][\w.]{0,160}>?)'
)
_FLAT_END = Pattern(r"\s[~^]{2,}|\b(?:[A-Za-z_.]{0,80}\.)?[A-Z]\w{1,60}(?:Error|Exception): ")
_NARROWEST, _WIDEST = 60, 200
"""Columns at which terminals cut."""
_CUT_LINES = 2
_INSTALLED = Pattern(r"^.*?(?:site-packages|dist-packages|transformers_modules)[/\\]")
_STANDARD = Pattern(r"^.*/lib/python3\.\d{1,2}/")


def frames_of(lines: list[str]) -> tuple[Frame, ...]:
    """The frames that `lines` show, oldest first.

    Where a paste was wrapped, at a width or between words, more frames stand in it than begin a line: then it is
    read as one line.
    """
    found = _frames_of(lines)
    if sum('File "' in line for line in lines) == 0:
        return _in_order(found, lines)
    unwrapped = _unwrapped(lines)
    if unwrapped is not lines and len(_code_of(again := _frames_of(unwrapped))) > len(_code_of(found)):
        found = again
    if len(list(_FLAT.finditer(flat := " ".join(line.strip() for line in lines)))) > _whole(found):
        found = tuple(_flat_frames(flat))
    return _in_order(found, lines)


def _whole(frames: tuple[Frame, ...]) -> int:
    """How many frames have a file and a function."""
    return sum(frame.file is not None and frame.function is not None for frame in frames)


def _code_of(frames: tuple[Frame, ...]) -> str:
    """Everything that frames with a file and a function show of their code."""
    return "".join(frame.code for frame in frames if frame.file is not None and frame.function is not None)


def _in_order(frames: tuple[Frame, ...], lines: list[str]) -> tuple[Frame, ...]:
    newest_first = any("most recent call first" in line[:LONGEST_LINE] for line in lines)
    return frames[::-1] if newest_first else frames


def _unwrapped(lines: list[str]) -> list[str]:
    """The lines with those joined that were cut at one width."""
    width = max(map(len, lines), default=0)
    if not _NARROWEST <= width <= _WIDEST or sum(len(line) == width for line in lines) < _CUT_LINES:
        return lines
    joined: list[str] = []
    open_line = False
    for line in lines:
        if open_line:
            joined[-1] += line
        else:
            joined.append(line)
        open_line = len(line) == width
    return joined


def _flat_frames(text: str) -> Iterator[Frame]:
    """The frames of a text without lines."""
    found = list(_FLAT.finditer(text))
    for number, each in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(text)
        code = _FLAT_END.split(text[each.end() : min(end, each.end() + LONGEST_LINE)], maxsplit=1)[0]
        yield replace(
            _frame(each["file"].replace(" ", ""), int(each["line"]), each["function"]), code=code.strip()
        )


def _frames_of(lines: list[str]) -> tuple[Frame, ...]:
    """The frames that begin a line."""
    found: list[Frame] = []
    index = 0
    while index < len(lines):
        line = lines[index][:LONGEST_LINE]
        index += 1
        frame = _head(line)
        if frame is None:
            continue
        head = index
        code, index = _code_below(lines, head, frame)
        pointed = _POINTED.match(lines[index - 1][:LONGEST_LINE]) if frame.line is None else None
        line_number = int(pointed["line"]) if pointed and pointed["line"] else frame.line
        marked = _marked(lines[head : index + 1], code)
        above = _above(lines[head : index - 1]) if index > head and _POINTED.match(lines[index - 1]) else ()
        found.append(replace(frame, line=line_number, code=code, marked=marked, above=above))
    if (loose := _loose_code(lines)) is not None:
        found.insert(0, loose)
    return tuple(found)


def short_file(file: str) -> str:
    """A path from the installed package, the standard library, or as pasted."""
    path = file.replace("\\", "/")
    if REMOTE_CODE in path:
        return REMOTE_CODE + path.partition(REMOTE_CODE)[2]
    for cut in (_INSTALLED, _STANDARD):
        if found := cut.match(path):
            return path[found.end() :]
    return path


def _head(line: str) -> Frame | None:
    if ".py" not in line and "File" not in line and "In" not in line and ">" not in line:
        return None
    if found := _PYTHON.match(line):
        return _frame(found["file"], int(found["line"]), found["function"])
    if found := _TEST.search(line):
        return _frame(found["file"], None, found["function"].replace("::", "."))
    if found := _OLD_NOTEBOOK.match(line):
        return _frame(found["file"], None, found["function"])
    if found := _RICH.match(line):
        return _frame(found["file"], int(found["line"]), found["function"])
    if found := _PYTEST.match(line):
        return _frame(found["file"], int(found["line"]), found["function"])
    if found := _NOTEBOOK.match(line):
        if found["file"] is not None:
            return _frame(found["file"], int(found["line"]), found["function"])
        number = found["cell_line"]
        return Frame(
            "<notebook>", int(number) if number.isdecimal() and len(number) < 8 else None, "<module>", ""
        )
    return None


def _frame(path: str, line: int | None, function: str | None) -> Frame:
    file = short_file(path)
    return Frame(file, line, _function(function), "", installed=file != path.replace("\\", "/"))


def _function(name: str | None) -> str | None:
    return name.strip().removesuffix("(...)") or None if name else None


def _code_below(lines: list[str], index: int, frame: Frame) -> tuple[str, int]:
    """The source that belongs to the head of a frame just above `index`; the marked line where several are shown."""
    if (shown := _marked_below(lines, index)) is not None:
        return shown
    plain: list[str] = []
    flush = index > 0 and lines[index - 1].startswith("File ")  # all indentation was lost
    for position in range(index, min(index + 24, len(lines))):
        line = lines[position][:LONGEST_LINE]
        if pointed := _POINTED.match(line):
            return pointed["code"].strip(), position + 1
        if _head(line) is not None:
            return (plain[0] if plain else ""), position
        if not line.strip():
            if plain:
                return plain[0], position
            continue
        if _is_error(line):
            return (plain[0] if plain else ""), position
        if _MARKS.match(line):
            continue
        if _NUMBERED.match(line):
            continue
        if line.startswith(("  ", "\t")) or (flush and position == index):
            plain.append(line.strip())
        else:
            return (plain[0] if plain else ""), position
    return (plain[0] if plain else ""), min(index + 24, len(lines))


def _marked_below(lines: list[str], index: int) -> tuple[str, int] | None:
    """The line above TorchScript's mark, which shows the whole function with it."""
    for position in range(index, min(index + _SCRIPT_LINES, len(lines))):
        line = lines[position][:LONGEST_LINE]
        if _HERE.match(line) and position > index:
            return lines[position - 1][:LONGEST_LINE].strip(), position + 1
        if _head(line) is not None or _is_error(line):
            return None
    return None


def _marked(lines: list[str], code: str) -> str:
    """The part of a source line that the marks in the next line point to."""
    for line, below in pairwise(lines):
        if code and line.strip() == code and _MARKS.match(below[:LONGEST_LINE]):
            marks = below.rstrip()
            return line[len(marks) - len(marks.lstrip()) : len(marks)].strip()
    return ""


def _above(lines: list[str]) -> tuple[str, ...]:
    """The numbered lines that stand above a marked one."""
    found = (_SHOWN.match(line[:LONGEST_LINE]) for line in lines)
    return tuple(each["code"] for each in found if each is not None)


def _is_error(line: str) -> bool:
    return _ERROR.match(line) is not None


def _loose_code(lines: list[str]) -> Frame | None:
    """The indented source line that a paste cut at the top begins with."""
    for line in lines[:40]:
        short = line[:LONGEST_LINE]
        if not short.strip() or _MARKS.match(short):
            continue
        indented = short.startswith(("    ", "\t")) and _head(short) is None and not _is_error(short.strip())
        return Frame(None, None, None, short.strip()) if indented else None
    return None


def exception_name(lines: list[str], message_at: int) -> str | None:
    """The class that the line of the message names."""
    found = None
    for line in lines[max(0, message_at - 3) : message_at + 1]:
        for each in re.finditer(
            r"\b([A-Z]\w{0,60}(?:Error|Exception|Warning))\b(?=\s{0,4}:|\s{4,}Traceback)", line[:LONGEST_LINE]
        ):
            found = each[1]
    return found
