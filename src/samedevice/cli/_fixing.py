"""Fixes that are tried: applied to what the program reads, and the program run again.

Must guarantee: a fix counts as clean only where the program ran again with it on every machine that was
named, its finding was gone, nothing new was found, and the program ended no worse. Files of installed
packages are never part of what is applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from samedevice import diagnosis
from samedevice.cli._trial import Again, Json, Ran, run_again
from samedevice.edited import content
from samedevice.findings import Finding, Fix
from samedevice.messages import Bytes, Phrase
from samedevice.report import render_finding

MOST_RUNS = 16
"""So often a program runs again at most, for each machine; fixes beyond are not tried."""
_TOGETHER = 4
"""More fixes than these are tried all at once first."""
CLEAN, FAILS = "clean", "fails"
Tried = str | Phrase
_WORDS = {CLEAN: Phrase("tried.clean"), FAILS: Phrase("tried.fails")}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A fix of one finding of the last run."""

    at: int
    """Which finding it was in the first run; -1 for one that came up later."""
    number: int
    """Which finding it is in the last run."""
    where: str
    """The finding, as a line of ours calls it: `SD101 at train.py:7`."""
    title: str
    file: str
    diff: str

    @property
    def key(self) -> tuple[str, tuple[tuple[str, ...], ...]]:
        """The same for the same change, also when lines above it have moved."""
        return self.file, tuple(change.new for change in diagnosis.changes_of(self.diff))


@dataclass(frozen=True, slots=True)
class _Passed:
    """Runs with a change, on each machine, none of them worse than before."""

    results: Mapping[str, Ran]
    origins: list[int]
    again: int | None


@dataclass(slots=True)
class Bench:
    """A program, its sources as they are changed so far, and what was found with them."""

    again_with: Again
    machines: tuple[str, ...]
    """The first one is that of the run itself."""
    owned: Callable[[str], bool]
    """Whether a file is the user's own."""
    seconds: float
    """How long the first run took."""
    status: str
    found: list[Json]
    origins: list[int] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    """The same files as they were read."""
    runs: int = 0
    again: int | None = None
    """Bytes that the last accepted run copied though it had done so before; None where nobody counted."""
    last: dict[str, Ran] = field(default_factory=dict)
    """How the last accepted run ended, on each machine."""
    accepted: list[Attempt] = field(default_factory=list)
    outcomes: dict[tuple[int, str], Tried] = field(default_factory=dict)
    """By the number of a finding of the first run and the title of its fix."""
    _failed: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.origins = list(range(len(self.found)))

    def attempts(self, library: bool) -> list[Attempt]:
        """The first change of each finding that was not tried in vain: safe ones of the project's files, or
        patches of libraries.
        """
        attempts = []
        for number, finding in enumerate(self.found):
            for fix in finding["fixes"]:
                file = fix["file"]
                if not fix["diff"] or not file or self.owned(file) is library:
                    continue
                if fix["safety"] != "safe" and not library:
                    continue
                attempt = Attempt(
                    self.origins[number], number, _where(finding), fix["title"], file, fix["diff"]
                )
                if attempt.key not in self._failed:
                    attempts.append(attempt)
                    break
        return attempts

    def mend(self, library: bool) -> list[Attempt]:
        """Try what there is until nothing is left; returns what was accepted."""
        begun, whole = len(self.accepted), True
        while attempts := self.attempts(library):
            if self.runs >= MOST_RUNS:
                for attempt in attempts:
                    self._note(attempt, Phrase("tried.limit", count=MOST_RUNS))
                break
            batch = attempts if whole and len(attempts) > _TOGETHER else attempts[:1]
            batch, texts, _ = self._together(batch)
            if batch and self._accept(batch, texts):
                continue
            if len(batch) > 1:
                whole = False
                continue
            for attempt in batch or attempts[:1]:
                self._failed.add(attempt.key)
                self._note(attempt, FAILS)
        return self.accepted[begun:]

    def take(self, library: bool) -> tuple[list[Attempt], list[tuple[Attempt, Attempt | None]]]:
        """Take all changes that go together, untried; the others with the one that each collides with."""
        attempts = self.attempts(library)
        batch, self.texts, refused = self._together(attempts)
        self.accepted += batch
        for each, other in refused:
            if other is not None:
                self._note(each, Phrase("tried.conflict", other=other.where))
        return batch, refused

    def _together(
        self, attempts: Sequence[Attempt]
    ) -> tuple[list[Attempt], dict[str, str], list[tuple[Attempt, Attempt | None]]]:
        """Those that go together, all texts with them, and the others with what each collides with."""
        texts = dict(self.texts)
        taken: list[Attempt] = []
        left: list[tuple[Attempt, Attempt | None]] = []
        for file in dict.fromkeys(each.file for each in attempts):
            here = [each for each in attempts if each.file == file]
            whole, refused = diagnosis.combined(self.text(file), [each.diff for each in here])
            kept = [each for number, each in enumerate(here) if number not in refused]
            if kept:
                texts[file] = whole
            taken += kept
            left += [(here[at], None if other is None else here[other]) for at, other in refused.items()]
        return taken, texts, left

    def text(self, file: str) -> str:
        """A file as it is changed so far."""
        if file not in self.texts and file not in self.originals:
            self.originals[file] = content(file).decode("utf-8")
        return self.texts[file] if file in self.texts else self.originals[file]

    def _accept(self, batch: Sequence[Attempt], texts: dict[str, str]) -> bool:
        """Run with the changes; keep them where nothing is worse. Of one that copies the same again at each
        use, another change of its finding that does so less takes the place.
        """
        passed = self._passed(batch, texts)
        if passed is None:
            return False
        kept, chosen = list(batch), texts
        for rival in self._rivals(batch, passed):
            together, others, _ = self._together([rival])
            if not together or (other := self._passed(together, others)) is None:
                continue
            if (other.again or 0) < (passed.again or 0):
                self._note(kept[0], Phrase("tried.again", amount=Bytes(passed.again or 0)))
                kept, chosen, passed = together, others, other
        self.last |= passed.results
        self.texts = chosen
        self.found, self.origins = list(passed.results[self.machines[0]].findings), passed.origins
        self.again = passed.again if self.again is not None else None
        self.accepted += kept
        for attempt in kept:
            self._note(attempt, CLEAN)
        return True

    def _rivals(self, batch: Sequence[Attempt], passed: _Passed) -> Iterator[Attempt]:
        """Other safe changes of the finding, where the one that was tried copies more again than before."""
        if len(batch) != 1 or self.again is None or passed.again is None or passed.again <= self.again:
            return
        own = batch[0]
        for fix in self.found[own.number]["fixes"]:
            if not fix["diff"] or fix["file"] != own.file or fix["safety"] != "safe":
                continue
            rival = replace(own, title=fix["title"], diff=fix["diff"])
            if rival.key != own.key and rival.key not in self._failed and self.runs < MOST_RUNS:
                yield rival

    def _passed(self, batch: Sequence[Attempt], texts: dict[str, str]) -> _Passed | None:
        """Run with the changes, on each machine; None where something is worse than before."""
        if len(self.machines) > 1 and not self.last:
            self.last = {
                each: run_again(self.again_with, {}, each, self.seconds) for each in self.machines[1:]
            }
        self.runs += 1
        results: dict[str, Ran] = {}
        origins: list[int] = []
        for machine in self.machines:
            first = machine == self.machines[0]
            ran = run_again(self.again_with, texts, machine, self.seconds)
            results[machine] = ran
            before = self.found if first else list(self.last[machine].findings)
            status = self.status if first else self.last[machine].status
            partners = self._matched(before, ran.findings, texts)
            if ran.status not in ("completed", status) or any(
                each.number in partners for each in batch if first
            ):
                return None
            for finding, partner in zip(ran.findings, partners, strict=True):
                same = self._at_statement(finding, batch, texts)
                if partner is None and same is None:
                    return None
                if first:
                    origins.append(self.origins[partner] if partner is not None else same or 0)
        return _Passed(results, origins, results[self.machines[0]].again)

    def _at_statement(self, finding: Json, batch: Sequence[Attempt], texts: Mapping[str, str]) -> int | None:
        """The finding of the first run whose statement, mended for one operand, is refused for another."""
        file, line, *_ = _spot(finding)
        lines = self._lines_before(file, line, texts)
        for attempt in batch:
            fixed, at, *_ = _spot(self.found[attempt.number])
            if fixed == file and at in lines:
                return attempt.at
        return None

    def _matched(
        self, before: Sequence[Json], now: Sequence[Json], texts: Mapping[str, str]
    ) -> list[int | None]:
        """Which finding of the run before each one is; None for a new one."""
        waiting = {at: _spot(finding) for at, finding in enumerate(before)}
        partners: list[int | None] = []
        for finding in now:
            file, line, *rest = _spot(finding)
            lines = self._lines_before(file, line, texts)
            found = next(
                (
                    at
                    for at, (other, number, *others) in waiting.items()
                    if other == file and others == rest and number in lines
                ),
                None,
            )
            if found is not None:
                del waiting[found]
            partners.append(found)
        return partners

    def _lines_before(self, file: str, line: int, texts: Mapping[str, str]) -> range:
        """The lines that a line of a changed file was made of."""
        if file not in texts:
            return range(line, line + 1)
        return diagnosis.lines_before(self.text(file), texts[file], line)

    def _note(self, attempt: Attempt, tried: Tried) -> None:
        if attempt.at >= 0:
            self.outcomes.setdefault((attempt.at, attempt.title), tried)


def documents(findings: Sequence[Finding[Phrase]]) -> list[Json]:
    """Findings as a trial writes them."""
    return [render_finding(finding).as_json() for finding in findings]


def told(bench: Bench, findings: Sequence[Finding[Phrase]]) -> list[Finding[Phrase]]:
    """The findings of the first run with what came out for each of their fixes."""
    left = set(bench.origins)
    mended = {each.at for each in bench.accepted}
    result = []
    for number, finding in enumerate(findings):
        fixes: deque[Fix[Phrase]] = deque()
        for fix, title in zip(
            finding.fixes, (each.title for each in render_finding(finding).fixes), strict=True
        ):
            tried = bench.outcomes.get((number, title))
            gone = tried is None and fix.diff and number not in left and number not in mended and bench.runs
            if gone:
                tried = Phrase("tried.not-needed")
            if tried == CLEAN and number in left:
                tried = Phrase("tried.partly")
            if tried == FAILS and fix.safety == "safe":
                fix = replace(fix, safety="check")  # noqa: PLW2901 -- what was promised did not hold
            fixes.append(replace(fix, tried=_phrase(tried)))
        result.append(replace(finding, fixes=tuple(_kept_first(bench, fixes) if number in mended else fixes)))
    return result


def _kept_first(bench: Bench, fixes: Iterable[Fix[Phrase]]) -> list[Fix[Phrase]]:
    """The fix that was kept in front of those that only might have been; but a change of the project's own
    files stays in front of a patch of a library.
    """
    ordered = sorted(fixes, key=lambda each: each.tried != _WORDS[CLEAN])
    if ordered and ordered[0].file is not None and not bench.owned(ordered[0].file):
        ordered.sort(key=lambda each: not (each.diff and each.file is not None and bench.owned(each.file)))
    return ordered


def _phrase(tried: Tried | None) -> Phrase | None:
    return _WORDS[tried] if isinstance(tried, str) else tried


def _spot(finding: Json) -> tuple[str, int, str, str]:
    """By what a finding is known again: file, line, operator, and the operand that it blames."""
    at = finding["at"] or {}
    blamed: Json = next((each for each in finding["operands"] if each["name"] == finding["guilty"]), {})
    operand = blamed.get("parameter") or blamed.get("local") or finding["guilty"] or ""
    return at.get("file") or "", at.get("line") or 0, finding["op"] or "", operand


def _where(finding: Json) -> str:
    file, line, *_ = _spot(finding)
    return f"{finding['code']} {Path(file).name}:{line}"
