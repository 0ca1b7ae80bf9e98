"""Findings parted into those to tell and those that somebody decided to leave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from samedevice import diagnosis, rulebook
from samedevice.events import WAYS_LIMIT, Event, Place
from samedevice.findings import Finding, Ignored, IgnoredCode
from samedevice.messages import Phrase
from samedevice.provenance import installed_path
from samedevice.suppression._baseline import Baseline
from samedevice.suppression._comments import Comment, Problem, comments_in, real_path
from samedevice.suppression._identity import Identity, identity_of

Ways = tuple[tuple[Place, ...], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with the statements on which a comment may leave it out."""

    finding: Finding[Phrase]
    ways: Ways = ()
    """The user's own statements by which it was reached, see `Event.reached`."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is to be left out, beside the comments."""

    codes: tuple[IgnoredCode, ...] = ()
    baseline: Baseline | None = None


@dataclass(frozen=True, slots=True)
class Sifted:
    """Findings to tell, findings left out, and what is to be said about the decisions."""

    findings: tuple[Finding[Phrase], ...]
    ignored: tuple[Ignored[Phrase], ...] = ()
    unused: tuple[Comment, ...] = ()
    """Comments that left nothing out."""
    unreasoned: tuple[Comment, ...] = ()
    """Comments that give no reason."""
    problems: tuple[Problem, ...] = ()
    absent: tuple[Identity, ...] = ()
    """Entries of the baseline that were not found, each as often as it was missed."""

    def identities(self, baseline: Baseline) -> list[Identity]:
        """What belongs into the baseline: all that is to be told, and what it knew already."""
        known = [each.finding for each in self.ignored if each.by == "baseline"]
        return [identity_of(finding, baseline.root) for finding in (*known, *self.findings)]


def found_in(finding: Finding[Phrase], event: Event) -> Found:
    """A finding that an event amounts to."""
    return Found(finding, event.reached)


def sift(
    found: Sequence[Found],
    decisions: Decisions,
    program: str,
    files: Iterable[str] = (),
    texts: Mapping[str, str] | None = None,
) -> Sifted:
    """Part what was found in `program`. Comments are read in `files` and wherever something was found.

    `texts` has the content of files that are otherwise on disk.
    """
    named = [*files, *(file for each in found for file in _files(each))]
    comments, problems = _comments(named, texts or {})
    used: set[Comment] = set()
    told: list[Finding[Phrase]] = []
    ignored: list[Ignored[Phrase]] = []
    baseline = decisions.baseline
    known = baseline.known(program) if baseline is not None else None
    for each in found:
        finding = each.finding
        codes = codes_of(finding)
        if covering := _covering(each, [comment for comment in comments if codes & set(comment.codes)]):
            used.update(covering)
            first = covering[0]
            ignored.append(Ignored(finding, "comment", first.reason or None, first.file, first.line))
        elif row := next((row for row in decisions.codes if row.code in codes), None):
            ignored.append(Ignored(finding, "settings", row.reason, row.file))
        elif baseline is not None and known is not None and known[own := identity_of(finding, baseline.root)]:
            known[own] -= 1
            ignored.append(Ignored(finding, "baseline", None, str(baseline.path)))
        else:
            told.append(finding)
    return Sifted(
        findings=tuple(told),
        ignored=tuple(ignored),
        unused=tuple(
            comment for comment in comments if comment not in used and installed_path(comment.file) is None
        ),
        unreasoned=tuple(comment for comment in comments if comment in used and not comment.reason),
        problems=tuple(problems),
        absent=tuple(sorted(known.elements())) if known is not None else (),
    )


def codes_of(finding: Finding[Phrase] | Finding[str]) -> set[str]:
    """The codes by which a finding may be left out: of what happened, and of its cause."""
    return {finding.code} | (
        {rulebook.rule_named(finding.cause).code} if finding.cause != diagnosis.UNDETERMINED else set()
    )


def _covering(found: Found, comments: Sequence[Comment]) -> list[Comment]:
    """The comments that leave a finding out: one on the failing statement, or one on every way to it."""
    at = found.finding.at
    if at is not None and (on := [each for each in comments if each.covers(at.file, at.line)]):
        return on
    if len(found.ways) >= WAYS_LIMIT:  # there may have been others
        return []
    user = found.finding.user_at
    covering = []
    for way in found.ways or (((user,),) if user is not None else ()):
        on = [each for place in way for each in comments if each.covers(place.file, place.line)]
        if not on:
            return []
        covering += on
    return list(dict.fromkeys(covering))


def _files(found: Found) -> list[str]:
    places = [found.finding.at, found.finding.user_at, *(place for way in found.ways for place in way)]
    return [place.file for place in places if place is not None]


def _comments(files: Iterable[str], texts: Mapping[str, str]) -> tuple[list[Comment], list[Problem]]:
    comments: list[Comment] = []
    problems: list[Problem] = []
    for file in {real_path(file): file for file in files if file}.values():
        own, wrong = comments_in(file, texts.get(file))
        comments += own
        if installed_path(file) is None:  # what others installed is not to be repaired here
            problems += wrong
    return comments, problems
