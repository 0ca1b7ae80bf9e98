"""What is told in single lines: findings for `--quiet`, and what was left out or decided wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from samedevice import rulebook
from samedevice.events import Place
from samedevice.findings import Finding, Ignored, IgnoredBy
from samedevice.messages import SOURCE, Language, Phrase, Several, Value
from samedevice.report._render import render
from samedevice.report._words import harmless, short_path
from samedevice.suppression import Comment, Identity, Problem, Sifted

_BY: Mapping[IgnoredBy, str] = {
    "comment": "ignore.by-comment",
    "settings": "ignore.by-settings",
    "baseline": "ignore.by-baseline",
}


def finding_line(finding: Finding[str | Phrase], language: Language = SOURCE) -> str:
    """`train.py:41: SD101 cross-device-operands: ...`, without a place where there is none."""
    where = f"{where_of(finding.at)}: " if finding.at is not None and finding.at.file else ""
    title = render(finding.title, language)
    return harmless(f"{where}{finding.code} {rulebook.code_of(finding.code).name}: {title}")


def where_of(place: Place | None) -> str:
    """`train.py:41`, as short as the reader knows the file."""
    if place is None or not place.file:
        return "?"
    return f"{short_path(place.file)}:{place.line}" if place.line else short_path(place.file)


def problem_lines(sifted: Sifted, language: Language = SOURCE) -> list[str]:
    """Comments that ignore nothing because they cannot be understood."""
    return [_line(_problem(each), language) for each in sifted.problems]


def notice_lines(sifted: Sifted, *, whole: bool, verbose: bool, language: Language = SOURCE) -> list[str]:
    """What was left out, in one line or with `verbose` each by itself, and decisions that are out of date.

    Entries of a baseline can only be told to be gone where the program ran `whole`.
    """
    lines = [_line(each, language) for each in _ignored(sifted.ignored, verbose)]
    lines += [_line(_about(each, "ignore.unreasoned"), language) for each in sifted.unreasoned]
    if whole:
        lines += [_line(_about(each, "ignore.unused"), language) for each in sifted.unused]
        lines += [_line(each, language) for each in _absent(sifted.absent, verbose)]
    return lines


def _line(phrase: Phrase, language: Language) -> str:
    return harmless(render(phrase, language))


def _problem(problem: Problem) -> Phrase:
    return Phrase("ignore.problem", place=f"{short_path(problem.file)}:{problem.line}", what=problem.what)


def _about(comment: Comment, key: str) -> Phrase:
    place = f"{short_path(comment.file)}:{comment.line}"
    return Phrase(key, place=place, codes=", ".join(comment.codes))


def _ignored(ignored: Sequence[Ignored[Phrase]], verbose: bool) -> Iterator[Phrase]:
    if verbose:
        yield from (_listed(each) for each in ignored)
    elif ignored:
        counts = Counter(each.by for each in ignored)
        ways: list[Value] = [Phrase(_BY[by], count=counts[by]) for by in _BY if counts[by]]
        yield Phrase(
            "ignore.counted", ways=Several((Several(tuple(ways), "comma"), Phrase("ignore.verbose")), "none")
        )


def _listed(ignored: Ignored[Phrase]) -> Phrase:
    place = short_path(ignored.file or "?")
    reason: Value = ignored.reason or Phrase("ignore.no-reason")
    way = {
        "comment": Phrase("ignore.reason-comment", place=f"{place}:{ignored.line}", reason=reason),
        "settings": Phrase("ignore.reason-settings", place=place, reason=reason),
        "baseline": Phrase("ignore.reason-baseline", place=place),
    }[ignored.by]
    finding = ignored.finding
    return Phrase("ignore.listed", code=finding.code, place=where_of(finding.at), way=way)


def gone_lines(absent: Sequence[Identity], language: Language = SOURCE) -> list[str]:
    """Entries of a baseline that no longer occur, each by itself."""
    return [_line(_gone(each), language) for each in absent]


def _gone(absent: Identity) -> Phrase:
    return Phrase("baseline.gone", code=absent.code, file=absent.file, statement=absent.statement)


def _absent(absent: Sequence[Identity], verbose: bool) -> Iterator[Phrase]:
    if verbose:
        yield from map(_gone, absent)
    if absent:
        yield Phrase("baseline.absent", count=len(absent))
