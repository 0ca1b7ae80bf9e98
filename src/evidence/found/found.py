"""The script of each page in docs/found shows its finding, and with the patch none and the same numbers.

Time: one minute a case.
Needs: transformers, accelerate and peft, diffusers and sentence-transformers for theirs, and git.

    python -m evidence found [NAME]

The release runs as it is installed; the patch is applied to a copy. Numbers are those of one device, compared
bit by bit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evidence.commands import command_parser
from evidence.found.case import Case, cases
from evidence.found.overlay import overlay
from evidence.places import SOURCES

_SEED = "torch.manual_seed(0)"
_DIGEST = '''
def numbers(value):
    """Every number of what was computed, exactly."""
    if isinstance(value, torch.Tensor):
        yield value.detach().double().cpu().flatten().tolist()
    elif isinstance(value, dict):
        for each in value.values():
            yield from numbers(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from numbers(each)

import hashlib
print("NUMBERS", hashlib.sha256(repr(list(numbers(result))).encode()).hexdigest())
'''


@dataclass(frozen=True, slots=True)
class Checked:
    """What came out of a case."""

    before: int
    """Findings of the release at the statement of the page; 0 where it is not there."""
    after: int
    """Findings of the release with the patch."""
    equal: bool
    """Whether one device computes the same numbers with the patch."""

    @property
    def holds(self) -> bool:
        """Whether the page is right."""
        return self.before > 0 and self.after == 0 and self.equal


def main(arguments: Sequence[str]) -> int:
    """Check all cases, or those whose name contains a word."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("name", nargs="?", default="", help="only cases whose name contains this")
    options = parser.parse_args(arguments)
    failed = skipped = 0
    for case in cases(options.name):
        package = case.seen["package"]
        if _installed(package) != case.seen["version"]:
            has = _installed(package) or "none"
            print(f"{case.name}: skipped, needs {package} {case.seen['version']}; installed: {has}")
            skipped += 1
            continue
        checked = check(case)
        failed += not checked.holds
        verdict, numbers = ("holds" if checked.holds else "FAILS"), ("equal" if checked.equal else "DIFFER")
        found = f"findings {checked.before}, with the patch {checked.after}"
        print(f"{case.name}: {verdict}; {found}; numbers on one device {numbers}", flush=True)
    checked_cases = len(cases(options.name)) - skipped
    print(f"{failed} of {checked_cases} do not hold, {skipped} skipped")
    return int(failed > 0 or not checked_cases)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check(case: Case) -> Checked:
    """Run the release and the patched copy."""
    with tempfile.TemporaryDirectory() as temporary:
        patched = overlay(case, Path(temporary) / "patched")
        before = findings_of(case.script, None)
        at_page = [each for each in before if _same(each, case)]
        after = findings_of(case.script, patched)
        digests = {numbers_of(case.script, where) for where in (None, patched)}
        return Checked(len(at_page), len(after), len(digests) == 1 and None not in digests)


def _same(finding: dict[str, object], case: Case) -> bool:
    at = finding["at"]
    assert isinstance(at, dict)
    return f"{at['file']}:{at['line']}".endswith(case.seen["statement"])


def findings_of(script: Path, where: Path | None) -> list[dict[str, object]]:
    """What a run on two virtual GPUs finds; raises where the script does not run to its end."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "found.json"
        words = ["-m", "samedevice", "run", "--machine", "2x24GB", "--json", str(file), str(script)]
        done = subprocess.run(
            [sys.executable, *words], env=_environment(where), capture_output=True, text=True, check=False
        )
        document = json.loads(file.read_text("utf-8"))
        if document["status"] != "completed":
            raise RuntimeError(f"{script}: {document['status']}\n{done.stderr[-2000:]}")
        found: list[dict[str, object]] = document["findings"]
        return found


def numbers_of(script: Path, where: Path | None) -> str | None:
    """A mark of all numbers that the script computes on the CPU; None where it does not run there."""
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary) / "numbers_of_one_device.py"
        program.write_text(on_one_device(script.read_text("utf-8")), "utf-8")
        done = subprocess.run(
            [sys.executable, str(program)],
            env=_environment(where),
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"NUMBERS (\w+)", done.stdout)
        return found[1] if found else None


def on_one_device(text: str) -> str:
    """The same program without a device map, which tells what it computed."""
    text = re.sub(r", device_map=[^,]+, max_memory=\{[^}]*\}", "", text)
    *lines, last = text.rstrip().splitlines()
    seeded = [f"{line}\n{_SEED}" if line == "import torch" else line for line in lines]
    return "\n".join([*seeded, f"result = {last}", _DIGEST])


def _environment(where: Path | None) -> dict[str, str]:
    path = os.pathsep.join(str(each) for each in (where, SOURCES, os.environ.get("PYTHONPATH")) if each)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
