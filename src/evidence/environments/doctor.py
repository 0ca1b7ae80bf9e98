"""The doctor names what is wrong with broken environments, and nothing in healthy ones.

Time: two seconds.
Needs: nothing.

    python -m evidence doctor               # figures of both halves, and every environment that went wrong
    python -m evidence doctor --verbose     # every environment with what was named

Environments and their labels are in `recorded_environments.toml`: each broken one is a healthy one with a
single fact changed. The half `seen` is what checks may be written in view of; `unseen` was labelled before
any check ran. Exit status 0: every broken environment got its check, with a repair, and no healthy one got
any; 1: not so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evidence.commands import command_parser
from evidence.environments.recorded import PROJECT, Recorded, RecordedHost, environments
from evidence.zoo.zoo import SEEN, UNSEEN
from samedevice.doctor import examine, read_facts


@dataclass(frozen=True, slots=True)
class Judged:
    """One environment and what was named in it."""

    recorded: Recorded
    named: tuple[str, ...]
    repaired: bool
    """Whether everything that was named has a repair."""

    @property
    def right(self) -> bool:
        """The expected check was named with a repair; nothing was, where nothing is wrong."""
        if self.recorded.expect is None:
            return not self.named
        return self.recorded.expect in self.named and self.repaired

    @property
    def more(self) -> tuple[str, ...]:
        """What was named besides."""
        return tuple(name for name in self.named if name != self.recorded.expect)


def judged() -> list[Judged]:
    """Every environment, examined."""
    found = []
    for recorded in environments():
        findings = examine(read_facts(RecordedHost(recorded.description), PROJECT)).findings
        names = tuple(finding.cause for finding in findings)
        found.append(Judged(recorded, names, all(finding.cure is not None for finding in findings)))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the figures; 1 when any environment went wrong."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    everything = judged()
    for each in everything:
        if options.verbose or not each.right or each.more:
            word = "ok" if each.right else "WRONG"
            named = ", ".join(each.named) or "nothing"
            print(f"{word:6}{each.recorded.id:34} expected {each.recorded.expect or 'nothing'}: {named}")
    broken = [each for each in everything if each.recorded.expect is not None]
    healthy = [each for each in everything if each.recorded.expect is None]
    for half in (SEEN, UNSEEN):
        own = [each for each in broken if each.recorded.half == half]
        right, more = sum(each.right for each in own), sum(bool(each.more) for each in own)
        print(f"{half}: {right} of {len(own)} broken named; with something else: {more}")
    checks = {each.recorded.expect for each in broken}
    wrong = sum(not each.right for each in healthy)
    print(f"healthy: {wrong} of {len(healthy)} named; checks that were needed: {len(checks)}")
    return int(any(not each.right for each in everything))
