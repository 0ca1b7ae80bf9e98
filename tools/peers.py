"""Runs the tests of neighbouring projects on a virtual machine: theirs were written for real GPUs and know nothing of ours.

A peer's source distribution comes from the package index into the cache of `tools.overlays`; nothing of it is kept in the
repository. Its tests run twice, on the plain CPU and on the machine, each file in a process of its own. `peer_reasons.json` says
of every test that does not pass on the machine why not; a test without a reason, and a reason without such a test, make the
command fail.

    python -m tools.peers accelerate
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
    machine: str
    pins: Mapping[str, str] = field(default_factory=dict)
    """What its tests import besides our own dependencies."""


PEERS = {
    "accelerate": Peer(
        version="1.15.0",
        tests=("tests/test_big_modeling.py", "tests/test_hooks.py", "tests/test_modeling_utils.py"),
        machine="2x24GB",
        pins={"parameterized": "0.9.0"},
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended: `passed`, `failed` or `skipped`, and what was said."""

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


def run_tests(name: str, machine: str, only: str | None = None) -> dict[str, Outcome]:
    """Outcome of each test by its id; an empty `machine` means the plain CPU."""
    peer = PEERS[name]
    folder = source_folder(name, peer.version)
    variables = _environment(name, peer)
    variables["PEER_MACHINE"] = machine
    outcomes: dict[str, Outcome] = {}
    for file in peer.tests:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "outcomes.json"
            command = [sys.executable, "-m", "pytest", "-q", "-p", "tools._peer_plugin", "-p", "no:cacheprovider", file]
            command += ["-k", only] if only else []
            done = subprocess.run(
                command,
                cwd=folder,
                env={**variables, "PEER_OUTCOMES": str(report), "TMPDIR": scratch},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if only:
                print(done.stdout)
            if not report.is_file():
                said = done.stdout[-_SAID_ON_FAILURE:]
                raise PeerError(f"pytest did not come to an end in {file} (exit status {done.returncode}):\n{said}")
            found = json.loads(report.read_text(encoding="utf-8"))
        outcomes.update({test: Outcome(**fields) for test, fields in found.items()})
    return outcomes


def _environment(name: str, peer: Peer) -> dict[str, str]:
    pins = {pin: version for pin, version in {name: peer.version, **peer.pins}.items() if _installed(pin) != version}
    variables = environment(pins)
    ours = [str(_REPOSITORY), str(_REPOSITORY / "src")]
    variables["PYTHONPATH"] = os.pathsep.join([*filter(None, [variables.get("PYTHONPATH")]), *ours])
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


def table(plain: Mapping[str, Outcome], machine: Mapping[str, Outcome], specification: str) -> list[str]:
    """The two runs, one line each."""
    lines = [f"{'':14}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}"]
    for label, outcomes in (("plain CPU", plain), (specification, machine)):
        counts = Counter(outcome.outcome for outcome in outcomes.values())
        lines.append(f"{label:14}{len(outcomes):>7}{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}")
    return lines


def unaccounted(machine: Mapping[str, Outcome], known: Mapping[str, str]) -> list[str]:
    """What the file of reasons does not say rightly."""
    open_tests = {test for test, outcome in machine.items() if outcome.outcome != "passed"}
    lines = [f"no reason given: {test}: {_one_line(machine[test].reason)}" for test in sorted(open_tests - set(known))]
    return lines + [f"a reason is given, but it passes or does not exist: {test}" for test in sorted(set(known) - open_tests)]


def _one_line(text: str) -> str:
    line = re.sub(r"\s+", " ", text)
    return line if len(line) <= _SAID_AT_MOST else line[: _SAID_AT_MOST - 1] + "…"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests of a peer on the plain CPU and on a virtual machine, and account for each that does not pass."""
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=main.__doc__)
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("-k", metavar="EXPRESSION", help="run these tests on the machine only and show what pytest says")
    given = parser.parse_args(arguments)
    peer = PEERS[given.peer]
    try:
        if given.k:
            return int(any(o.outcome == "failed" for o in run_tests(given.peer, peer.machine, given.k).values()))
        plain = run_tests(given.peer, "")
        machine = run_tests(given.peer, peer.machine)
    except (OverlayError, PeerError) as error:
        print(error, file=sys.stderr)
        return 1
    known = reasons(given.peer)
    print(f"{given.peer} {peer.version}: {', '.join(peer.tests)}")
    print("\n".join(table(plain, machine, peer.machine)))
    for test, reason in known.items():
        print(f"{machine[test].outcome if test in machine else 'missing':8}{test.removeprefix('tests/')}\n        {reason}")
    problems = unaccounted(machine, known)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
