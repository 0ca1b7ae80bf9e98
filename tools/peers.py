"""Runs the tests of neighbouring projects on a virtual machine: theirs were written for real GPUs and know nothing of ours.

A peer's source distribution comes from the package index into the cache of `tools.overlays`; nothing of it is kept in the
repository. Its tests run twice, unedited: on the plain CPU, and with the pytest plugin's `--machine`; each file in a process of
its own. `peer_reasons.json` says of every test that does not pass on the machine why not; a test without a reason, and a reason
without such a test, make the command fail. A key of that file is a test, in which `*` stands for anything, or `said: ` and what
pytest says of the test, for all tests of which it says that.

    python -m tools.peers accelerate peft
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tools.overlays import OverlayError, cache_folder, environment

_REPOSITORY = Path(__file__).resolve().parent.parent
_REASONS = Path(__file__).with_name("peer_reasons.json")
_VALUE_LIMIT = 256 << 20
_SAID_AT_MOST = 150
_SAID_ON_FAILURE = 3000


@dataclass(frozen=True, slots=True)
class Peer:
    """A project whose tests we run."""

    version: str
    tests: tuple[str, ...]
    """Patterns of files in its source distribution."""
    machine: str
    pins: Mapping[str, str] = field(default_factory=dict)
    """What its tests import besides our own dependencies."""
    options: tuple[str, ...] = ()
    """What pytest is told besides."""
    two: str = "multiple"
    """What is said of a test that is skipped because it wants two devices."""


PEERS = {
    "accelerate": Peer(
        version="1.15.0",
        tests=("tests/test_*.py",),
        machine="2x24GB",
        pins={
            "certifi": "2026.10.18",
            "charset-normalizer": "3.5.2",
            "parameterized": "0.9.0",
            "requests": "2.32.5",
            "torchdata": "0.11.0",
            "urllib3": "2.8.0",
        },
    ),
    "peft": Peer(
        version="0.21.2",
        tests=(
            "tests/test_common_gpu.py",
            "tests/test_gpu_examples.py",
            "tests/test_gptqmodel.py",
            "tests/test_initialization.py",
            "tests/test_low_level_api.py",
            "tests/test_mixed.py",
            "tests/test_tuners_utils.py",
        ),
        machine="2x24GB",
        pins={
            "datasets": "5.2.0",
            "diffusers": "0.38.0",
            "dill": "0.4.1",
            "importlib-metadata": "10.2.0",
            "multiprocess": "0.70.19",
            "pandas": "3.1.1",
            "parameterized": "0.9.0",
            "pyarrow": "26.0.1",
            "python-dateutil": "4.0.0",
            "requests": "2.32.5",
            "certifi": "2026.10.18",
            "charset-normalizer": "3.5.2",
            "urllib3": "2.8.0",
            "zipp": "4.1.2",
            "scipy": "1.17.1",
            "tzdata": "2026.6",
            "xxhash": "4.1.0",
        },
        # Its ini file wants a plugin that measures coverage; its distribution lacks `tests/__init__.py`.
        options=("-o", "addopts=", "-o", "pythonpath=.", "-o", "consider_namespace_packages=true", "--import-mode=importlib"),
    ),
}
_PATIENCE = 1800.0
"""Seconds for one file."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended: `passed`, `failed` or `skipped`, and what pytest said."""

    outcome: str
    reason: str


class PeerError(Exception):
    """A peer whose tests cannot be run."""


def source_folder(name: str, version: str) -> Path:
    """The unpacked source distribution; fetched when it is not in the cache."""
    folder = cache_folder().parent / "peers" / f"{name}-{version}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".fetching-{name}-", dir=folder.parent))
    try:
        options = ["--no-deps", "--no-binary", ":all:", "--no-input", "--quiet", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(unfinished), f"{name}=={version}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        archives = list(unfinished.glob("*.tar.gz"))
        if done.returncode != 0 or len(archives) != 1:
            raise PeerError(f"pip could not download the source of {name}=={version}:\n{done.stdout.strip()}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(unfinished, filter="data")
        (unpacked,) = [entry for entry in unfinished.iterdir() if entry.is_dir()]
        unpacked.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def files_of(peer: Peer, folder: Path) -> list[str]:
    """The files of tests, sorted."""
    return sorted({str(path.relative_to(folder)) for pattern in peer.tests for path in folder.glob(pattern)})


def run_tests(name: str, machine: str, only: Sequence[str] = (), options: Sequence[str] = ()) -> dict[str, Outcome]:
    """Outcome of each test by its id; an empty `machine` means the plain CPU."""
    peer = PEERS[name]
    folder = source_folder(name, peer.version)
    variables = _environment(name, peer)
    # By its module and not by an installed samedevice's entry point, which need not be there.
    plugin = ["-p", "no:samedevice", "-p", "samedevice.pytest_plugin", f"--machine={machine}"] if machine else []
    plugin += peer.options
    outcomes: dict[str, Outcome] = {}
    for file in files_of(peer, folder):
        if only and not any(word in file for word in only):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            fixed = ["-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junit-xml={report}", file]
            started = time.monotonic()
            status, said = _pytest([*plugin, *fixed, *options], folder, {**variables, "TMPDIR": scratch})
            if options:
                print(said)
            if not report.is_file() or status not in _ENDED:
                raise PeerError(f"pytest did not come to an end in {file} (exit status {status}):\n{said[-_SAID_ON_FAILURE:]}")
            found = read_report(report, file)
        last = (said.strip().splitlines() or [""])[-1]
        print(f"{machine or 'plain CPU':10} {time.monotonic() - started:6.0f} s  {file}: {last}", file=sys.stderr, flush=True)
        outcomes.update(found)
    return outcomes


_ENDED = (0, 1, 2, 5)
"""Exit statuses of pytest that leave a report: passed, failed, not collected, nothing there."""


def _pytest(arguments: Sequence[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        command = [sys.executable, "-m", "pytest", *arguments]
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        with subprocess.Popen(command, cwd=folder, env=variables, start_new_session=True, **streams) as process:  # type: ignore[call-overload]
            try:
                process.wait(_PATIENCE)
            finally:
                with suppress(ProcessLookupError):  # what its tests started ends with it
                    os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return process.returncode, output.read()


def read_report(report: Path, file: str) -> dict[str, Outcome]:
    """Outcomes from pytest's XML. Of a test with several entries (its teardown, its subtests) the worst counts."""
    found: dict[str, Outcome] = {}
    module = file.removesuffix(".py").replace("/", ".")
    for case in ElementTree.parse(report).iter("testcase"):
        classes = case.get("classname", "").removeprefix(module).strip(".")
        name = case.get("name", "")
        test = "::".join([file, *classes.split("."), name]) if classes else (file if name == module else f"{file}::{name}")
        outcome = Outcome("passed", "")
        for entry in case:
            if entry.tag in ("failure", "error"):
                outcome = Outcome("failed", entry.text if entry.get("message") == "collection failure" else entry.get("message", ""))
            elif entry.tag == "skipped" and outcome.outcome == "passed":
                outcome = Outcome("skipped", entry.get("message", ""))
        if test not in found or _WORSE.index(outcome.outcome) > _WORSE.index(found[test].outcome):
            found[test] = outcome
    return found


_WORSE = ("passed", "skipped", "failed")


def _environment(name: str, peer: Peer) -> dict[str, str]:
    pins = {pin: version for pin, version in {name: peer.version, **peer.pins}.items() if _installed(pin) != version}
    variables = environment(pins)
    variables["PYTHONPATH"] = os.pathsep.join([*filter(None, [variables.get("PYTHONPATH")]), str(_REPOSITORY / "src")])
    # Tests start `accelerate`, `torchrun` and `python`.
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
    # accelerate takes `list(set(devices))[0]` as a model's main device, and strings hash by the seed.
    variables["PYTHONHASHSEED"] = "0"
    # Two of accelerate's tests compare what weights of 95 MiB compute; the machine's habit is values of a megabyte.
    variables["SAMEDEVICE_VALUE_LIMIT"] = str(_VALUE_LIMIT)
    # Without a network a model of the hub is a failure at once, with one, a download of some gigabytes.
    variables.setdefault("HF_HUB_OFFLINE", "1")
    return variables


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def reasons(name: str) -> dict[str, str]:
    """Why tests of a peer do not pass on the machine, by test."""
    found: dict[str, dict[str, str]] = json.loads(_REASONS.read_text(encoding="utf-8"))
    return found.get(name, {})


def table(plain: Mapping[str, Outcome], machine: Mapping[str, Outcome], specification: str, two: str) -> list[str]:
    """The two runs, one line each, and what became of the tests that want two devices."""
    lines = [f"{'':14}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}"]
    for label, outcomes in (("plain CPU", plain), (specification, machine)):
        counts = Counter(outcome.outcome for outcome in outcomes.values())
        lines.append(f"{label:14}{len(outcomes):>7}{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}")
    wanting = [test for test, outcome in plain.items() if outcome.outcome == "skipped" and two in outcome.reason]
    through = sum(test in machine and machine[test].outcome == "passed" for test in wanting)
    opened = sum(plain[test].outcome != "passed" for test, outcome in machine.items() if test in plain and outcome.outcome == "passed")
    lost = [test for test, outcome in plain.items() if outcome.outcome == "passed" and machine.get(test, _GONE).outcome != "passed"]
    lines.append(f"of those that the plain CPU skips for want of a second device, {through} of {len(wanting)} pass on the machine")
    lines.append(f"{opened} pass on the machine only, {len(lost)} on the plain CPU only")
    return lines


_GONE = Outcome("missing", "")


def explained(test: str, outcome: Outcome, known: Iterable[str]) -> str | None:
    """The key of the reason that speaks of this test; one that names the test comes before one that repeats what was said."""
    keys = [key for key in known if _speaks_of(key, test, outcome)]
    return min(keys, key=lambda key: (key.startswith(_SAID), "*" in key), default=None)


_SAID = "said: "


def _speaks_of(key: str, test: str, outcome: Outcome) -> bool:
    pattern, text = (key.removeprefix(_SAID), _squeezed(outcome.reason)) if key.startswith(_SAID) else (key, test)
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def unaccounted(machine: Mapping[str, Outcome], known: Mapping[str, str]) -> list[str]:
    """What the file of reasons does not say rightly."""
    open_tests = {test: outcome for test, outcome in machine.items() if outcome.outcome != "passed"}
    used = {test: explained(test, outcome, known) for test, outcome in open_tests.items()}
    lines = [
        f"no reason given: {open_tests[test].outcome} {test}: {_one_line(open_tests[test].reason)}"
        for test in sorted(used)
        if not used[test]
    ]
    return lines + [f"a reason is given, but no such test is left: {key}" for key in sorted(set(known) - set(used.values()))]


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _one_line(text: str) -> str:
    line = _squeezed(text)
    return line if len(line) <= _SAID_AT_MOST else line[: _SAID_AT_MOST - 1] + "…"


def show(name: str, plain: Mapping[str, Outcome], machine: Mapping[str, Outcome]) -> list[str]:
    """Print the table and the reasons; returns what is not accounted for."""
    peer, known = PEERS[name], reasons(name)
    print(f"{name} {peer.version}: {' '.join(peer.tests)}")
    print("\n".join(table(plain, machine, peer.machine, peer.two)))
    rows: dict[str, list[str]] = {}
    for test, outcome in machine.items():
        if outcome.outcome != "passed" and (key := explained(test, outcome, known)):
            rows.setdefault(known[key], []).append(outcome.outcome)
    for reason, outcomes in rows.items():
        counts = Counter(outcomes)
        print(f"{counts['failed']:>4} failed {counts['skipped']:>4} skipped  {reason}")
    problems = unaccounted(machine, known)
    print("\n".join(problems), end="\n" if problems else "")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests of peers on the plain CPU and on a virtual machine, and account for each that does not pass."""
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=main.__doc__)
    parser.add_argument("peers", nargs="+", choices=sorted(PEERS), metavar="PEER", help=", ".join(sorted(PEERS)))
    parser.add_argument("-k", metavar="EXPRESSION", help="run these tests on the machine only and show what pytest says")
    parser.add_argument("--file", action="append", default=[], metavar="WORD", help="only files with this word in their path")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there, too")
    given = parser.parse_args(arguments)
    outcomes: dict[str, dict[str, dict[str, Outcome]]] = {}
    problems: list[str] = []
    try:
        for name in given.peers:
            peer = PEERS[name]
            if given.k:
                found = run_tests(name, peer.machine, given.file, ["-k", given.k])
                problems += [test for test, outcome in found.items() if outcome.outcome == "failed"]
                continue
            plain = run_tests(name, "", given.file)
            machine = run_tests(name, peer.machine, given.file)
            outcomes[name] = {"plain CPU": plain, peer.machine: machine}
            problems += show(name, plain, machine)
    except (OverlayError, PeerError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 2
    if given.json:
        given.json.write_text(json.dumps(outcomes, default=asdict, indent=1) + "\n", encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
