"""The test suite passes on each release of torch that is supported, from 2.6 to the newest.

Time: half an hour to two hours for each torch; what was run is not run again.
Needs: PyPI and about 6 GiB of disk for each torch; uv.

    python -m evidence versions [VERSION ...] [--tests PATH ...] [--cases N] [--python FILE]
        [--environments FOLDER]

For each torch (`2.15.0`; with a local build in UV_FIND_LINKS also `2.13.0+cpu`) an environment is made with
uv, then each folder of `tests` runs there in a process of its own. A folder that ran at this commit is not
run again, so an interrupted run goes on where it was; what pytest printed is in `logs` of the environment.
`--cases N` runs at most N cases of each test that has parameters, and the page says so. Then
`docs/versions.md` is written; without a VERSION only that. Exit status: 0 all tests passed that ran, 1 not
so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.version import Version

from evidence.commands import command_parser
from evidence.environments import some_cases
from evidence.environments.torch_environments import torch_environment, variables
from evidence.places import ROOT

PAGE = ROOT / "docs" / "versions.md"
RESULTS = Path(__file__).with_suffix(".json")
PACKAGES = (
    "transformers", "accelerate", "peft", "safetensors", "pillow", "sentencepiece", "rich", "typer",
    "ruamel.yaml", "psutil", "packaging", "PyYAML", "numpy", "pytest", "pytest-xdist", "hypothesis",
    "expecttest", "ipython", "ipykernel", "nbclient", "nbformat", "jsonschema", "nvidia-ml-py",
    "setuptools<81",
)  # fmt: skip
"""What the suite imports. The parts of torch that its tests use need setuptools up to 2.10."""
LIMIT = 7200
_PROBE = """
import json, sys, torch
from importlib.metadata import version
print(json.dumps([torch.__version__, sys.version.split()[0], version("transformers"), version("accelerate")]))
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one folder of tests did on one torch."""

    torch: str
    python: str
    transformers: str
    accelerate: str
    tests: str
    commit: str
    passed: int
    failed: int
    skipped: int
    ended: str = ""
    """How the process ended where it did not end by itself, such as `signal 7`."""
    failures: tuple[str, ...] = ()
    """Names of the tests that failed."""
    cases: int = 0
    """At most so many cases of each test ran; 0 where all did."""

    @property
    def environment(self) -> tuple[str, str, str, str]:
        """What the tests ran with."""
        return self.torch, self.python, self.transformers, self.accelerate

    @property
    def selection(self) -> str:
        """The tests that ran, for the page."""
        cases = "1 case" if self.cases == 1 else f"{self.cases} cases"
        return f"`{self.tests}`" + (f" ({cases} of each)" if self.cases else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the environments, run the tests, write the page."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument("--tests", nargs="+", default=folders(), metavar="PATH")
    parser.add_argument("--cases", type=int, default=0, metavar="N")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    parser.add_argument("--environments", type=Path, default=ROOT / ".versions")
    given = parser.parse_args(arguments)
    good = True
    for version in given.versions:
        folder = given.environments / f"torch-{version}"
        python = torch_environment(folder, version, PACKAGES, given.python)
        subprocess.run(
            ["uv", "pip", "install", "--quiet", "--no-deps", "--python", python, "--editable", str(ROOT)],
            check=True,
        )
        for tests in given.tests:
            outcome = _run(python, tests, given.cases, folder / "logs")
            good = good and not outcome.failed and not outcome.ended
            print(
                f"{outcome.torch:16} {tests:24} {outcome.passed:5} passed {outcome.failed:4} failed "
                f"{outcome.skipped:4} skipped {outcome.ended}",
                flush=True,
            )
    PAGE.write_text(page(recorded()), encoding="utf-8")
    return 0 if good else 1


def folders() -> list[str]:
    """The folders and files of tests, as the suite has them."""
    tests = ROOT / "tests"
    found = [path for path in tests.iterdir() if path.is_dir() and any(path.glob("test_*.py"))]
    return sorted(str(path.relative_to(ROOT)) for path in (*found, *tests.glob("test_*.py")))


def _run(python: str, tests: str, cases: int, logs: Path) -> Outcome:
    torch, version, transformers, accelerate = json.loads(_output([python, "-c", _PROBE]))
    told = torch, version, transformers, accelerate
    commit = _output(["git", "-C", str(ROOT), "rev-parse", "--short=9", "HEAD"])
    for outcome in recorded():
        ran = (*outcome.environment, outcome.tests, outcome.cases, outcome.commit)
        if ran == (*told, tests, cases, commit):
            return outcome
    logs.mkdir(exist_ok=True)
    log = logs / f"{tests.replace('/', '-')}.txt"
    outcome = replace(measure(python, told, tests, commit, log, cases), cases=cases)
    kept = [each for each in recorded() if not _replaces(outcome, each)]
    text = json.dumps([asdict(each) for each in sorted([*kept, outcome], key=_order)], indent=1)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    return outcome


def _replaces(new: Outcome, old: Outcome) -> bool:
    """Whether a run of a folder or file ran all that an older one did, in the same environment."""
    return new.environment == old.environment and f"{old.tests}/".startswith(f"{new.tests}/")


def measure(
    python: str, told: tuple[str, str, str, str], tests: str, commit: str, log: Path, cases: int
) -> Outcome:
    """Run some tests in a process of their own and read what they did."""
    with tempfile.TemporaryDirectory() as folder, log.open("wb") as printed:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", tests]
        command += ["-p", some_cases.__name__, f"--cases={cases}"] if cases else []
        environment = {**variables(), "PATH": f"{Path(python).parent}:{variables()['PATH']}"}
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                timeout=LIMIT,
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(*told, tests, commit, 0, 0, 0, f"no end after {LIMIT} s")
        ended = f"signal {-done.returncode}" if done.returncode < 0 else ""
        if not report.exists():
            return Outcome(*told, tests, commit, 0, 0, 0, ended or "no report")
        elements = list(ElementTree.parse(report).iter("testcase"))
    failures = [
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        for case in elements
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in elements)
    counts = (len(elements) - len(failures) - skipped, len(failures), skipped)
    return Outcome(*told, tests, commit, *counts, ended, tuple(sorted(failures)))


def recorded() -> list[Outcome]:
    """All results so far."""
    if not RESULTS.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return [Outcome(**{**row, "failures": tuple(row["failures"])}) for row in rows]


def page(outcomes: Iterable[Outcome]) -> str:
    """The page of the results."""
    outcomes = sorted(outcomes, key=_order)
    whole = set(folders())
    rows, failing = [], []
    for environment, commit in dict.fromkeys((each.environment, each.commit) for each in outcomes):
        own = [each for each in outcomes if (each.environment, each.commit) == (environment, commit)]
        torch, python, transformers, accelerate = environment
        build = torch.partition("+")[2] or "?"
        everything = {each.tests for each in own if not each.cases} >= whole
        ran = "all" if everything else ", ".join(each.selection for each in own)
        ended = "; ".join(f"{each.tests}: {each.ended}" for each in own if each.ended)
        failed = f"{sum(each.failed for each in own)}{f' ({ended})' if ended else ''}"
        passed, skipped = sum(each.passed for each in own), sum(each.skipped for each in own)
        rows.append(
            f"| {torch.partition('+')[0]} | {build} | {python} | {transformers} | {accelerate} | {passed} "
            f"| {failed} | {skipped} | {ran} | {commit} |"
        )
        names = [name for each in own for name in each.failures]
        if names:
            failing += ["", f"torch {torch}, commit {commit}:", "", *(f"- `{name}`" for name in names)]
    return "\n".join([_HEAD, *rows, *(["", "## What fails", *failing] if failing else []), "", _LIMITS, ""])


_HEAD = """# Versions

Written by `python -m evidence versions VERSION ...`; do not edit. Each row is what was run, and nothing else:
the tests of the folders named at one commit, on a computer without a GPU; `3 cases of each`: of each test
with parameters at most three cases, the first, the last and one between. `build` is what torch says of
itself: `cu...` is the build with CUDA that PyPI has, `cpu` the small one.

| torch | build | Python | transformers | accelerate | passed | failed | skipped | tests | commit |
|---|---|---|---|---|---|---|---|---|---|"""


_LIMITS = """## What older releases cannot do

- Healing inside of hooks for saved tensors (a checkpoint sets some): torch 2.8 or newer; older ones refuse by
  name.
- `torch.export.export` without `strict=False`: torch 2.6 traces with Dynamo then, which is refused by name.
- Up to torch 2.9, a storage object (`tensor.untyped_storage()`) that the program keeps in a reference cycle:
  when Python collects the cycle, the tensor is no longer on its GPU, but a meta tensor. `torch.save` and
  pickle make such cycles themselves, which are taken apart.
- `torch.load` of a `.safetensors` file: torch itself reads those only in newer releases.

On a torch newer than the newest row, a run says so in one line, names what is switched off because torch has
no such name any more, and goes on; where it cannot, it is refused with the name that is missing.

## What was not run

A folder of tests that a row does not name was not run on that torch, nor were the other cases of tests with
parameters where the row says how many of each ran."""


def _order(outcome: Outcome) -> tuple[Version, str, str]:
    return Version(outcome.torch), outcome.python, outcome.tests


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, env=variables(), capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
