"""The test suite passes on each release of torch that is supported, from 2.6 to the newest.

Time: half an hour to two hours for each torch; what was run is not run again.
Needs: PyPI and about 6 GiB of disk for each torch; uv.

    python -m evidence versions [VERSION ...] [--tests PATH ...] [--cases N] [--again] [--python FILE]
        [--environments FOLDER] [--with NAME==VERSION ...]

For each torch (`2.15.0`; with a local build in UV_FIND_LINKS also `2.13.0+cpu`) an environment is made with
uv, then each folder of `tests` runs there in a process of its own. A folder that ran at this commit is not
run again, so an interrupted run goes on where it was; what pytest printed is in `logs` of the environment.
`--cases N` runs at most N cases of each test that has parameters, and the page says so. `--again` runs only
the tests that failed before, and the page says how many ran again, at which commit. `--with` takes other
releases than constraints.txt has, such as `transformers==4.44.2`, in an environment of their own. Then
`docs/versions.md` is written; without a VERSION only that. Exit status: 0 all tests passed that ran, 1 not
so; 2 where sources or tests are not committed, since a result needs its commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
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
    "setuptools<81", "pygls", "hatchling", "pip",
)  # fmt: skip
"""What the suite imports, and pip, which it runs. Parts of torch in its tests need setuptools up to 2.10."""
WITHOUT_TORCH = ("tests/lint", "tests/suppression", "tests/test_layers.py", "tests/test_settings.py")
"""Tests that pass where no torch is installed: one release of it is enough for them."""
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
    again: tuple[tuple[str, int], ...] = ()
    """Commits at which tests that had failed ran again, and how many; the counts have their new results."""

    @property
    def environment(self) -> tuple[str, str, str, str]:
        """What the tests ran with."""
        return self.torch, self.python, self.transformers, self.accelerate


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the environments, run the tests, write the page."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument("--tests", nargs="+", default=folders(), metavar="PATH")
    parser.add_argument("--cases", type=int, default=0, metavar="N")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    parser.add_argument("--with", nargs="+", default=[], metavar="NAME==VERSION", dest="others")
    parser.add_argument("--environments", type=Path, default=ROOT / ".versions")
    parser.add_argument("--again", action="store_true", help="only the tests that failed before")
    given = parser.parse_args(arguments)
    if given.versions and (changed := _uncommitted()):
        parser.error(f"not committed: {changed}")
    good = True
    for version in given.versions:
        folder = given.environments / "-".join([f"torch-{version}", *given.others])
        python = torch_environment(folder, version, _packages(given.others), given.python)
        subprocess.run(
            ["uv", "pip", "install", "--quiet", "--no-deps", "--python", python, "--editable", str(ROOT)],
            check=True,
        )
        (folder / "logs").mkdir(exist_ok=True)
        runs = _runs_again if given.again else _runs
        for outcome in runs(python, given.tests, given.cases, folder / "logs"):
            _keep(outcome)
            PAGE.write_text(page(recorded()), encoding="utf-8")
            good = good and not outcome.failed and not outcome.ended
            print(
                f"{outcome.torch:16} {outcome.tests:24} {outcome.passed:5} passed {outcome.failed:4} failed "
                f"{outcome.skipped:4} skipped {outcome.ended}",
                flush=True,
            )
    PAGE.write_text(page(recorded()), encoding="utf-8")
    return 0 if good else 1


def _packages(others: Sequence[str]) -> list[str]:
    """What an environment has, with other releases of some packages."""
    named = {each.partition("==")[0] for each in others}
    return [*(name for name in PACKAGES if name not in named), *others]


def folders() -> list[str]:
    """The folders and files of tests, as the suite has them."""
    tests = ROOT / "tests"
    found = [path for path in tests.iterdir() if path.is_dir() and any(path.glob("test_*.py"))]
    return sorted(str(path.relative_to(ROOT)) for path in (*found, *tests.glob("test_*.py")))


def _runs(python: str, paths: Iterable[str], cases: int, logs: Path) -> Iterator[Outcome]:
    """The results of folders and files, those of this commit without running them."""
    told, commit = _told(python), _commit()
    for tests in paths:
        known = [
            each
            for each in recorded()
            if (each.environment, each.tests, each.cases, each.commit) == (told, tests, cases, commit)
        ]
        yield known[0] if known else measure(python, told, tests, commit, _log(logs, tests), cases)


def _runs_again(python: str, paths: Iterable[str], cases: int, logs: Path) -> Iterator[Outcome]:
    """The results of folders and files after the tests that failed in them ran once more."""
    told, commit = _told(python), _commit()
    wanted = set(paths)
    for old in recorded():
        if (old.environment, old.cases) != (told, cases) or old.tests not in wanted or not old.failures:
            continue
        only = tuple(dict.fromkeys(old.failures))
        new = measure(python, told, old.tests, commit, _log(logs, f"{old.tests}-again"), cases, only)
        ran = new.passed + new.failed + new.skipped
        if new.ended or ran != len(only):
            print(
                f"{old.tests}: {len(only)} tests failed, {ran} ran {new.ended}; run the whole again",
                flush=True,
            )
            yield old
            continue
        yield replace(
            old,
            passed=old.passed + new.passed,
            failed=new.failed,
            skipped=old.skipped + new.skipped,
            failures=new.failures,
            again=(*old.again, (commit, ran)),
        )


def _keep(outcome: Outcome) -> None:
    kept = [each for each in recorded() if not _replaces(outcome, each)]
    text = json.dumps([asdict(each) for each in sorted([*kept, outcome], key=_order)], indent=1)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def _replaces(new: Outcome, old: Outcome) -> bool:
    """Whether a run of a folder or file ran all that an older one did, in the same environment."""
    inside = f"{old.tests}/".startswith(f"{new.tests}/")
    as_many = not new.cases or 0 < old.cases <= new.cases
    return new.environment == old.environment and inside and as_many


def _told(python: str) -> tuple[str, str, str, str]:
    torch, version, transformers, accelerate = json.loads(_output([python, "-c", _PROBE]))
    return torch, version, transformers, accelerate


def _commit() -> str:
    return _output(["git", "-C", str(ROOT), "rev-parse", "--short=9", "HEAD"])


def _uncommitted() -> str:
    """Files that differ from the commit, but for what this command writes."""
    lines = _output(["git", "-C", str(ROOT), "status", "--porcelain"]).splitlines()
    written = {str(path.relative_to(ROOT)) for path in (PAGE, RESULTS)}
    return ", ".join(name for name in (line.split()[-1] for line in lines) if name not in written)


def _log(logs: Path, tests: str) -> Path:
    return logs / f"{tests.replace('/', '-')}.txt"


def measure(
    python: str,
    told: tuple[str, str, str, str],
    tests: str,
    commit: str,
    log: Path,
    cases: int,
    only: Sequence[str] = (),
) -> Outcome:
    """Run some tests, or `only` a few of them, in a process of their own and read what they did."""
    with tempfile.TemporaryDirectory() as folder, log.open("wb") as printed:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += ["-p", some_cases.__name__, f"--cases={cases}"] if cases and not only else []
        command += only or [tests]
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
            return Outcome(*told, tests, commit, 0, 0, 0, f"no end after {LIMIT} s", cases=cases)
        ended = f"signal {-done.returncode}" if done.returncode < 0 else ""
        if not report.exists():
            return Outcome(*told, tests, commit, 0, 0, 0, ended or "no report", cases=cases)
        elements = list(ElementTree.parse(report).iter("testcase"))
    failures = [
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        for case in elements
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in elements)
    counts = (len(elements) - len(failures) - skipped, len(failures), skipped)
    return Outcome(*told, tests, commit, *counts, ended, tuple(sorted(failures)), cases)


def recorded() -> list[Outcome]:
    """All results so far."""
    if not RESULTS.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return [
        Outcome(
            **{**row, "failures": tuple(row["failures"]), "again": tuple(map(tuple, row.get("again", ())))}
        )
        for row in rows
    ]


def page(outcomes: Iterable[Outcome]) -> str:
    """The page of the results."""
    outcomes = sorted(outcomes, key=_order)
    rows, failing = [], []
    for environment, cases in dict.fromkeys((each.environment, each.cases) for each in outcomes):
        own = [each for each in outcomes if (each.environment, each.cases) == (environment, cases)]
        torch, python, transformers, accelerate = environment
        build = torch.partition("+")[2] or "?"
        ended = "; ".join(f"{each.tests}: {each.ended}" for each in own if each.ended)
        failed = f"{sum(each.failed for each in own)}{f' ({ended})' if ended else ''}"
        passed, skipped = sum(each.passed for each in own), sum(each.skipped for each in own)
        rows.append(
            f"| {torch.partition('+')[0]} | {build} | {python} | {transformers} | {accelerate} | {passed} "
            f"| {failed} | {skipped} | {_selection(own)} | {_commits(own)} |"
        )
        names = [name for each in own for name in each.failures]
        if names:
            heading = f"torch {torch}, Python {python}{_of_each(cases)}:"
            failing += ["", heading, "", *(f"- `{name}`" for name in names)]
    limits = _LIMITS.format(without_torch=", ".join(f"`{tests}`" for tests in WITHOUT_TORCH))
    return "\n".join([_HEAD, *rows, *(["", "## What fails", *failing] if failing else []), "", limits, ""])


def _selection(own: Sequence[Outcome]) -> str:
    """Which tests ran."""
    ran, whole = {each.tests for each in own}, folders()
    missing = [tests for tests in whole if tests not in ran and tests not in WITHOUT_TORCH]
    if len(missing) < len(whole) / 2 and ran <= set(whole):
        told = "all" if ran >= set(WITHOUT_TORCH) & set(whole) else "all that use torch"
        told += f" but {', '.join(f'`{tests}`' for tests in missing)}" if missing else ""
    else:
        told = ", ".join(f"`{tests}`" for tests in sorted(ran))
    return told + _of_each(own[0].cases)


def _of_each(cases: int) -> str:
    return f" ({cases} case{'s' if cases > 1 else ''} of each)" if cases else ""


def _commits(own: Sequence[Outcome]) -> str:
    """At which commits the tests ran, and how many of those that had failed ran again later."""
    again: dict[str, int] = {}
    for commit, count in (each for outcome in own for each in outcome.again):
        again[commit] = again.get(commit, 0) + count
    first = dict.fromkeys(each.commit for each in own)
    return ", ".join([*first, *(f"{count} again at {commit}" for commit, count in again.items())])


_HEAD = """# Versions

Written by `python -m evidence versions VERSION ...`; do not edit. Each row is what was run, and nothing else:
the tests of the folders named, each folder at one of the commits named, on a computer without a GPU;
`3 cases of each`: of each test with parameters at most three cases, the first, the last and one between;
`5 again at ...`: five tests that had failed ran again there, and count with their new result. `build` is what
torch says of itself: `cu...` is the build with CUDA that PyPI has, `cpu` the small one.

| torch | build | Python | transformers | accelerate | passed | failed | skipped | tests | commits |
|---|---|---|---|---|---|---|---|---|---|"""


_LIMITS = """## What older releases cannot do

- Healing inside of hooks for saved tensors (a checkpoint sets some): torch 2.8 or newer; older ones refuse by
  name.
- `torch.export.export` without `strict=False`: torch 2.6 traces with Dynamo then, which is refused by name.
- Up to torch 2.9, a storage object (`tensor.untyped_storage()`) that the program keeps in a reference cycle:
  when Python collects the cycle, the tensor is no longer on its GPU, but a meta tensor. `torch.save` and
  pickle make such cycles themselves, which are taken apart.
- Named tensors (`torch.rand(2, names=("rows",))`), which torch 2.10 has and 2.13 no longer: torch itself
  refuses them where something sees its operators, so also on a virtual machine, for those of the host, too.
- torch 2.10: gloo prints a line for each group, `[Gloo] Rank 0 is connected to ...`. It carries the bytes of
  a virtual machine's NCCL, too, so that the lines are in the output of a launch there.
- torch 2.6: after `split_group` of fewer ranks than all, `new_group` over gloo waits without end, also on
  hardware.
- `torch.load` of a `.safetensors` file: torch itself reads those only in newer releases.

On a torch newer than the newest row, a run says so in one line, names what is switched off because torch has
no such name any more, and goes on; where it cannot, it is refused with the name that is missing.

## What was not run

A folder of tests that a row does not name was not run on that torch, nor were the other cases of tests with
parameters where the row says how many of each ran. `all that use torch` leaves out
{without_torch}:
they pass where no torch is installed, and one release of it is enough for them."""


def _order(outcome: Outcome) -> tuple[Version, str, int, str]:
    return Version(outcome.torch), outcome.python, outcome.cases, outcome.tests


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, env=variables(), capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
