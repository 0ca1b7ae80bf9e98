"""What counts as right: a bad version must give the expected finding, a good one nothing at all.

Judges the plain JSON of `samedevice run --json`; needs neither torch nor samedevice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LAST_LINE = "SCENARIO OK"
"""What every case prints last when it got through."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one case on one version."""

    exit_status: int | None
    """None when the run was stopped because it took too long."""
    findings: Sequence[Json] | None
    """None when no report was written."""
    last_line: str
    """The last line of stdout that is not blank."""
    complaint: str = ""
    """The end of stderr; shown only when something is wrong."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an outcome is right, and what a reader needs to see if it is not."""

    right: bool
    why: str = ""
    others: tuple[str, ...] = ()
    """Bad version: findings beside the expected one. Good version: the false alarms."""
    diagnosis: Json | None = None
    """Cause, confidence and operand to blame of the expected finding."""


def differences(finding: Json, expect: Json) -> list[str]:
    """In what the finding differs from the expected one: a subset of `file`, `line`, `op`, `devices`."""
    at = finding.get("at") or {}
    first, last = expect["lines"]
    found_op = finding.get("op") or ""
    devices = {operand.get("device") for operand in finding.get("operands") or ()}
    checks = {
        "file": _ends_with_path(at.get("file") or "", expect["file"]),
        "line": first <= (at.get("line") or 0) <= last,
        # `aten.mul.Tensor` is `aten.mul`; the in-place `aten.mul_` is another operator.
        "op": found_op == expect["op"] or found_op.startswith(expect["op"] + "."),
        "devices": devices >= set(expect["devices"]),
    }
    return [name for name, holds in checks.items() if not holds]


def matches(finding: Json, expect: Json) -> bool:
    """Whether the finding is the expected one: the statement, the operator and the devices."""
    return not differences(finding, expect)


def judge_bad(outcome: Outcome, expect: Json) -> Verdict:
    """Right when one finding is the expected one, whatever else was found."""
    findings = outcome.findings or ()
    if expected := [finding for finding in findings if matches(finding, expect)]:
        return Verdict(
            True,
            others=tuple(brief(finding) for finding in findings if not matches(finding, expect)),
            diagnosis={name: expected[0].get(name) for name in ("cause", "confidence", "guilty")},
        )
    others = tuple(brief(finding) for finding in findings)
    if outcome.findings is None:
        return Verdict(False, _no_report(outcome))
    if not findings:
        return Verdict(False, f"nothing found ({_how_it_ended(outcome)})")
    nearest = min((differences(finding, expect) for finding in findings), key=len)
    return Verdict(
        False, f"nearest finding has another {', '.join(nearest)} ({_how_it_ended(outcome)})", others
    )


def judge_good(outcome: Outcome) -> Verdict:
    """Right when nothing was found and the script got to its last line and ended well."""
    if outcome.findings is None:
        return Verdict(False, _no_report(outcome))
    if outcome.findings:
        return Verdict(False, "false alarm", tuple(brief(finding) for finding in outcome.findings))
    if outcome.exit_status != 0 or outcome.last_line != LAST_LINE:
        return Verdict(False, _how_it_ended(outcome))
    return Verdict(True)


def brief(finding: Json) -> str:
    """A finding in one line."""
    at = finding.get("at") or {}
    place = f"{_short_path(at.get('file') or '?')}:{at.get('line', '?')}"
    devices = ", ".join(str(operand.get("device")) for operand in finding.get("operands") or ())
    return f"{finding.get('code', '?')} {finding.get('op') or '?'} ({devices}) at {place}"


def _how_it_ended(outcome: Outcome) -> str:
    if outcome.exit_status is None:
        return f"stopped after {outcome.seconds:.0f} s"
    got_through = (
        f"'{LAST_LINE}' printed last" if outcome.last_line == LAST_LINE else f"'{LAST_LINE}' not printed last"
    )
    ended = f"exit status {outcome.exit_status}, {got_through}"
    failed = outcome.exit_status not in (0, 1) and outcome.complaint
    return f"{ended}: {outcome.complaint}" if failed else ended


def _no_report(outcome: Outcome) -> str:
    if outcome.exit_status is None:
        return f"no report: stopped after {outcome.seconds:.0f} s"
    return f"no report, exit status {outcome.exit_status}: {outcome.complaint or 'nothing on stderr'}"


def _ends_with_path(path: str, ending: str) -> bool:
    """Whether `ending` is the path's tail in whole components: `a/b.py` ends `x/a/b.py` but not
    `x/aa/b.py`.
    """
    return f"/{path.replace(chr(92), '/')}".endswith(f"/{ending}")


def _short_path(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-3:])
