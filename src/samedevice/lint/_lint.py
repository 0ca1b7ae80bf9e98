"""Linting: each file is read once, by the rules that were chosen, and what they say becomes findings.

Must guarantee: a file that cannot be read or is no Python is told and stops nothing; the findings come in the
order of the files and lines, however many processes read them.
"""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from samedevice.diagnosis.fixes import file_diff
from samedevice.errors import UsageError
from samedevice.events import Place
from samedevice.findings import Finding, Fix
from samedevice.lint._files import Text, Unreadable, read_code
from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile
from samedevice.lint.rules import RULES
from samedevice.messages import Phrase
from samedevice.static.tensors import Project, parse_source

_FEW = 48
"""So many files are read faster than processes start."""
_SHARE = 16
"""Files that a process is given at a time."""


@dataclass(frozen=True, slots=True)
class Options:
    """Which rules are on."""

    select: tuple[str, ...] = ()
    """Beginnings of codes, or names; empty is every rule that is on by default."""
    ignore: tuple[str, ...] = ()
    """The same, to leave out."""
    fixes: bool = True
    """Whether changes are made ready."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one file."""

    path: Path
    findings: tuple[Finding[Phrase], ...] = ()
    unreadable: Unreadable | None = None


def chosen_rules(options: Options) -> tuple[LintRule, ...]:
    """The rules that are on; raises `UsageError` for a word that is the beginning of no code."""
    for word in (*options.select, *options.ignore):
        if word.upper() != "ALL" and not any(_means(word, rule) for rule in RULES):
            known = ", ".join(rule.code for rule in RULES)
            raise UsageError(Phrase("lint.no-rule", given=word, known=known))
    chosen = [
        rule
        for rule in RULES
        if (any(_means(word, rule) for word in options.select) if options.select else rule.default)
    ]
    return tuple(rule for rule in chosen if not any(_means(word, rule) for word in options.ignore))


def _means(word: str, rule: LintRule) -> bool:
    wanted = word.strip()
    return wanted.upper() == "ALL" or rule.code.startswith(wanted.upper()) or rule.name == wanted.lower()


def check_files(
    paths: Sequence[Path],
    options: Options,
    jobs: int | None = None,
    seen: Callable[[int], None] = lambda _: None,
) -> Iterator[Checked]:
    """Every file, in its order; `seen` is told how many are done."""
    processes = min(jobs or _cores(), max(1, len(paths) // _SHARE))
    chosen_rules(options)
    if processes < 2 or (jobs is None and len(paths) < _FEW):
        linter = Linter(options)
        for number, path in enumerate(paths, 1):
            yield linter.check(path)
            seen(number)
        return
    from concurrent.futures import ProcessPoolExecutor  # it cannot be imported while Python ends

    with ProcessPoolExecutor(processes, initializer=_start, initargs=(options,)) as pool:
        for number, checked in enumerate(pool.map(_check, paths, chunksize=_SHARE), 1):
            yield checked
            seen(number)


_linter: list[Linter] = []
"""The linter of a process of the pool."""


_COLLECTIONS = (700, 100, 20)
"""When a process of the pool looks through its objects: what one file left goes soon, and what stays at hand
of others is not looked through again and again, which took a fifth of all time.
"""


def _start(options: Options) -> None:
    gc.set_threshold(*_COLLECTIONS)
    _linter[:] = [Linter(options)]


def _check(path: Path) -> Checked:
    return _linter[0].check(path)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def check_file(path: Path, options: Options | None = None) -> Checked:
    """One file."""
    return Linter(options or Options()).check(path)


def check_text(path: Path, text: str, options: Options | None = None) -> Checked:
    """A file's text as an editor has it, saved or not."""
    return Linter(options or Options()).check_text(Text(path, text))


class Linter:
    """Lints files of one project, whose other files it keeps at hand."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rules = chosen_rules(options)
        self.project = Project()

    def check(self, path: Path) -> Checked:
        """One file."""
        text = read_code(path)
        return Checked(path, unreadable=text) if isinstance(text, Unreadable) else self.check_text(text)

    def check_code(self, path: Path, code: str) -> Checked:
        """A Python file with the code that it will have."""
        return self.check_text(Text(path, code))

    def check_text(self, text: Text) -> Checked:
        """The code of a file."""
        with _nothing_collected():
            return self._checked(text)

    def _checked(self, text: Text) -> Checked:
        rules = [rule for rule in self.rules if any(word in text.code for word in rule.words)]
        if not rules:
            return Checked(text.path)
        source = parse_source(text.path, text.code)
        if source is None:
            why = Phrase("lint.no-python", path=str(text.path))
            return Checked(text.path, unreadable=Unreadable(text.path, why))
        file = LintedFile(source, self.project)
        found = [
            (
                getattr(hit.node, "lineno", 1),
                getattr(hit.node, "col_offset", 0),
                rule.code,
                self._finding(file, rule, hit, text),
            )
            for rule in rules
            for hit in rule.check(file)
        ]
        return Checked(text.path, tuple(each[-1] for each in sorted(found, key=lambda each: each[:3])))

    def _finding(self, file: LintedFile, rule: LintRule, hit: Hit, text: Text) -> Finding[Phrase]:
        place = _place(file, hit.node, text)
        return Finding(
            code=rule.code,
            cause=rule.cause,
            confidence=hit.confidence,
            title=rule.headline(hit.values),
            message=None,
            op=None,
            at=place,
            user_at=None,
            module=None,
            reasons=hit.reasons,
            cure=rule.phrase("cure"),
            fixes=self._fixes(file, hit, text),
        )

    def _fixes(self, file: LintedFile, hit: Hit, text: Text) -> tuple[Fix[Phrase], ...]:
        repair = (
            hit.repair() if hit.repair is not None and self.options.fixes and text.notebook is None else None
        )
        if repair is None:
            return ()
        try:
            ast.parse(repair.text)
        except (SyntaxError, ValueError):
            return ()
        diff = file_diff(text.path, text.code, repair.text)
        return () if diff is None else (Fix(repair.title, repair.safety, diff, str(text.path)),)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Trees of syntax are many small objects that stay: to look through them for garbage while they are made
    takes two thirds of a parser's time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _place(file: LintedFile, node: ast.AST, text: Text) -> Place:
    line = getattr(node, "lineno", 1)
    lines = file.source.lines
    code = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    function = file.around_name(node)
    if text.notebook is None:
        return Place(str(text.path), line, function, code)
    cell = Place(str(text.path), text.notebook.lines[line - 1], function, code)
    return replace(
        cell, function=function if function != "<module>" else f"cell {text.notebook.cells[line - 1]}"
    )
