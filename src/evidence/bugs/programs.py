"""The cause of a bug in a small program is named right, also in programs that no rule was written in view of.

Time: half an hour for the 1,086 of `seen`.
Needs: transformers and accelerate.

    python -m evidence programs                  # both parts
    python -m evidence programs fresh            # those that nobody looked at while rules were written
    python -m evidence programs --json out.json

Each program of `labelled_programs/` has one bug on two GPUs. Its first lines say the cause (several where
more than one is right, or what happened) and how the failing statement spells the tensor in the wrong place,
`?` where it does not, with other names of the same tensor in parentheses: `table (self.sched.table)`. They
were written before the tool was asked, by somebody who did not know the rules' conditions. Rules may be
written in view of `seen` alone; once a program of `fresh` was asked it moves there, and the next writer fills
`fresh` anew. The first finding of `samedevice run` counts. `sure` are causes that are wrong and not called a
guess.

Exit status 1 when fewer than nine in ten causes of a part are right.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from samedevice.diagnosis import find_rule

PROGRAMS = Path(__file__).with_name("labelled_programs")
PARTS = ("seen", "fresh")
_LIMIT = 120.0
"""Seconds that a program may take."""
_ENOUGH = 0.9


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was said of one program."""

    name: str
    expected: tuple[str, ...]
    cause: str | None
    happened: str | None
    """The name of the finding's code, which may say more than what to look for: `collective-off-its-gpu`."""
    confidence: str | None
    guilty_right: bool | None
    """None where the label names no tensor."""

    @property
    def right(self) -> bool:
        """Whether the label has the cause, or what happened: `collective-off-its-gpu`, say."""
        return self.cause in self.expected or self.happened in self.expected


def labels(program: Path) -> tuple[tuple[str, ...], str]:
    """The causes that are right and the name of the tensor in the wrong place, from the first two lines."""
    first, second, *_ = program.read_text("utf-8").splitlines()
    return tuple(first.removeprefix("# cause: ").split("|")), second.removeprefix("# guilty: ").strip()


def outcome(program: Path) -> Outcome:
    """Run a program as a user would, and compare its first finding with the label."""
    causes, guilty = labels(program)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "samedevice", "run", "--machine", "2x24GB", "--json", str(report)]
        try:
            subprocess.run(
                [*command, str(program)], capture_output=True, check=False, timeout=_LIMIT, cwd=folder
            )
            found = json.loads(report.read_text("utf-8"))["findings"]
        except (subprocess.TimeoutExpired, OSError, ValueError):
            found = []
    if not found:
        return Outcome(program.stem, causes, None, None, None, None if guilty == "?" else False)
    first = found[0]
    named = None if guilty == "?" else is_named(first, guilty)
    happened = rule.name if (rule := find_rule(first["code"])) else None
    return Outcome(program.stem, causes, first["cause"], happened, first["confidence"], named)


def is_named(finding: dict[str, Any], guilty: str) -> bool:
    """Whether the operand that the finding blames goes by that name."""
    blamed = next((each for each in finding["operands"] if each["name"] == finding["guilty"]), None)
    if blamed is None:
        return False
    names = {blamed["local"], blamed["argument"], blamed["parameter"], blamed.get("from_argument")}
    names |= {step["name"] for step in blamed["lineage"]} | {blamed.get("at_user")}
    if not re.fullmatch(
        r"[\w.]+", blamed["local"] or ""
    ):  # a part of an expression goes by what it was computed from
        names |= {part["name"] for part in blamed["ingredients"] if part["device"] == blamed["device"]}
    wanted = [_parts(each) for each in spellings(guilty)]
    return any(_same_end(_parts(name), each) for name in names if name for each in wanted)


def spellings(guilty: str) -> tuple[str, ...]:
    """The names that a label gives: `x (self.a(x) or self.b(x))` has three."""
    others = re.fullmatch(r"(.+?) \((.+)\)", guilty)
    return (guilty,) if others is None else (others[1], *others[2].split(" or "))


def _parts(name: str) -> list[str]:
    """A spelling without its object and its quotes, in parts: `self.words.weight` is `words`, `weight`."""
    return name.replace('"', "'").removeprefix("self.").split(".")


def _same_end(one: list[str], other: list[str]) -> bool:
    """Whether the shorter spelling is the end of the longer one."""
    length = min(len(one), len(other))
    return one[-length:] == other[-length:]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the programs and print a row for each, then the shares."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help="seen, fresh")
    parser.add_argument("--json", type=Path, help="also write every outcome to this file")
    options = parser.parse_args(arguments)
    enough, written = True, {}
    for part in options.parts or PARTS:
        programs = sorted((PROGRAMS / part).glob("*.py"))
        if not programs:
            print(f"{part}: no programs")
            continue
        outcomes = []
        with ThreadPoolExecutor(2) as pool:
            for each in pool.map(outcome, programs):
                outcomes.append(each)
                said = f"{each.cause} ({each.confidence})" if each.cause else "nothing found"
                print(
                    f"  {each.name}: {said if each.right else f'{said}, not ' + ' or '.join(each.expected)}",
                    flush=True,
                )
        right = sum(each.right for each in outcomes)
        sure = sum(not each.right and each.confidence in ("certain", "likely") for each in outcomes)
        named = [each.guilty_right for each in outcomes if each.guilty_right is not None]
        print(
            f"{part}: cause right in {right} of {len(outcomes)}, wrong and sure in {sure}; "
            f"tensor right in {sum(named)} of {len(named)}",
            flush=True,
        )
        enough = enough and right >= _ENOUGH * len(outcomes)
        written[part] = [asdict(each) for each in outcomes]
    if options.json:
        options.json.write_text(json.dumps(written, indent=1), "utf-8")
    return 0 if enough else 1
