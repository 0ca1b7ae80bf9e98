"""`# samedevice: ignore[SD101] reason`: comments that leave findings of one statement out.

In Python a comment counts for the whole logical line on which it stands, whichever of its lines that is. In
shell scripts and YAML it counts for its own line, in shell scripts with the lines before it that end in a
backslash. Text that only looks like a comment, inside a string, is none.
"""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from samedevice import rulebook
from samedevice.edited import content
from samedevice.messages import Phrase
from samedevice.provenance.notebook import read_notebook

_COMMENT = re.compile(r"#\s*samedevice:\s*ignore\b\s*(?:\[(?P<codes>[^\]]*)\])?(?P<reason>[^#]*)")
_CODE = re.compile(r"SD\d{3}")
_PLAIN = re.compile(r"(?:^|\s)(#.*)")
"""Where a comment of a shell script or of YAML begins."""
_CONTINUED = (".sh", ".bash", ".slurm", ".sbatch", ".zsh", ".ksh")
_LINES = (*_CONTINUED, ".yaml", ".yml", ".toml", ".cfg")
_LARGEST = 2_000_000
"""Bytes of a source file."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that leaves codes out for the lines of one statement."""

    file: str
    line: int
    codes: tuple[str, ...]
    reason: str
    """Empty where it gives none."""
    first: int
    last: int

    def covers(self, file: str, line: int) -> bool:
        """Whether the statement that it stands on has this line."""
        return self.first <= line <= self.last and real_path(file) == real_path(self.file)


@cache
def real_path(file: str) -> str:
    """One spelling for a file that has several, as `./train.py` and `train.py`."""
    return file if file.startswith("<") else os.path.realpath(file)


@dataclass(frozen=True, slots=True)
class Problem:
    """A comment that cannot be understood; it leaves nothing out."""

    file: str
    line: int
    what: Phrase


def comments_in(file: str, text: str | None = None) -> tuple[list[Comment], list[Problem]]:
    """The comments of a file, and those that cannot be understood; nothing for a file that cannot be read.

    `text` is its content where that is known already.
    """
    suffix = Path(file).suffix
    text = _text_of(file) if text is None else text
    lines: tuple[int, ...] = ()
    if suffix == ".ipynb" and (notebook := read_notebook(text)) is not None:
        text, lines = notebook.code, notebook.lines
    if _COMMENT.search(text) is None:
        return [], []  # most files: nothing else has to be read
    found = _of_lines(text, suffix) if suffix in _LINES else _of_python(text)
    comments: list[Comment] = []
    problems: list[Problem] = []
    for comment, line, span in found:
        match = _COMMENT.search(comment)
        if match is None:
            continue
        read = _read(match, file, *(_in_notebook(line, span, lines) if lines else (line, span)))
        (comments if isinstance(read, Comment) else problems).append(read)  # type: ignore[arg-type] # by its class
    return comments, problems


def _in_notebook(
    line: int, span: tuple[int, int] | None, lines: tuple[int, ...]
) -> tuple[int, tuple[int, int] | None]:
    """Lines of a notebook's code as lines of its file."""
    return lines[line - 1], None if span is None else (lines[span[0] - 1], lines[span[1] - 1])


def _text_of(file: str) -> str:
    """The text of a file in the encoding that it declares; empty for what is no text, or too large for a
    source.
    """
    try:
        if not Path(file).is_file() or Path(file).stat().st_size > _LARGEST:
            return ""
        source = content(file)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        return io.TextIOWrapper(io.BytesIO(source), encoding).read()
    except (OSError, SyntaxError, ValueError):
        return ""


def _read(match: re.Match[str], file: str, line: int, span: tuple[int, int] | None) -> Comment | Problem:
    codes = tuple(code.strip() for code in (match["codes"] or "").split(",") if code.strip())
    if not codes:
        return Problem(file, line, Phrase("ignore.no-code"))
    for code in codes:
        if not _CODE.fullmatch(code) or rulebook.find_rule(code) is None:
            return Problem(file, line, Phrase("ignore.unknown-code", code=code))
    if span is None:
        return Problem(file, line, Phrase("ignore.no-statement"))
    return Comment(file, line, codes, match["reason"].strip().lstrip(":-").strip(), *span)


def _of_python(text: str) -> Iterator[tuple[str, int, tuple[int, int] | None]]:
    """Each comment with its line and the lines of the logical line on which it stands, None for none."""
    waiting: list[tuple[str, int]] = []
    first: int | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            line = token.start[0]
            if token.type == tokenize.COMMENT:
                if first is None:
                    yield token.string, line, None
                else:
                    waiting.append((token.string, line))
            elif token.type == tokenize.NEWLINE:
                for comment, where in waiting:
                    yield comment, where, (first or line, line)
                waiting, first = [], None
            elif first is None and token.type not in _BETWEEN:
                first = line
    except (tokenize.TokenError, SyntaxError):  # no Python, or not whole: what was read so far counts
        return


_BETWEEN = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)


def _of_lines(text: str, suffix: str) -> Iterator[tuple[str, int, tuple[int, int]]]:
    first = 1
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PLAIN.search(line):
            yield match[1], number, (first, number)
        if suffix not in _CONTINUED or not line.endswith("\\"):
            first = number + 1
