"""Tests that accelerate, peft and PyTorch wrote for real GPUs do the same on a virtual machine.

Time: half an hour for peft, more for accelerate; PyTorch as long as one likes.
Needs: PyPI the first time; for PyTorch its sources (`--archive` or `--checkout`).

    python -m evidence peers accelerate peft
    python -m evidence peers torch --help           # PyTorch's own tests have options of their own

A peer's source distribution comes from the package index into the cache of overlays; nothing of it is kept
in the repository. Its tests run twice, unedited: on the plain CPU, and with the pytest plugin's `--machine`;
each file in a process of its own. `peer_reasons.json` says of every test that does not pass on the machine
why not; a test without a reason, and a reason without such a test, make the command fail.
"""

from __future__ import annotations

import ast
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from evidence.commands import command_parser
from evidence.environments.overlays import OverlayError, cache_folder, environment, installed
from evidence.peers import pipeline_stand_in, stand_ins, torch_tests
from evidence.peers.peer_reasons import Outcome, told, unaccounted
from evidence.places import SOURCES

_REASONS = Path(__file__).with_name("peer_reasons.json")
_VALUE_LIMIT = 256 << 20
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
    more: tuple[str, ...] = ()
    """Patterns of files of tests that only a checkout has."""
    more_pins: Mapping[str, str] = field(default_factory=dict)
    """What these import besides."""
    supplies: tuple[str, ...] = ()
    """Folders that tests read and only a checkout has."""


_SUITE = {
    "aiohappyeyeballs": "2.7.1",
    "aiohttp": "3.14.5",
    "aiosignal": "1.4.0",
    "attrs": "26.1.0",
    "bitsandbytes": "0.50.2",
    "certifi": "2026.10.18",
    "charset-normalizer": "3.5.2",
    "datasets": "3.6.0",
    "dill": "0.4.1",
    "evaluate": "0.4.6",
    "frozenlist": "1.8.0",
    "joblib": "1.6.0",
    "multidict": "7.2.1",
    "multiprocess": "0.70.19",
    "narwhals": "2.28.0",
    "pandas": "3.1.1",
    "parameterized": "0.9.0",
    "propcache": "0.5.4",
    "pyarrow": "21.0.0",
    "python-dateutil": "4.0.0",
    "requests": "2.32.5",
    "scikit-learn": "1.9.1",
    "scipy": "1.17.1",
    "threadpoolctl": "3.8.0",
    "torchao": "0.18.0",
    "torchvision": "0.28.0",
    "tzdata": "2026.6",
    "urllib3": "2.8.0",
    "xxhash": "4.1.0",
    "yarl": "1.25.1",
}
"""What the tests of several peers import besides our own dependencies."""

PEERS = {
    "accelerate": Peer(
        version="1.15.0",
        tests=("tests/test_*.py",),
        more=("tests/deepspeed/test_*.py", "tests/fsdp/test_*.py", "tests/tp/test_*.py"),
        more_pins={
            **pipeline_stand_in.PINS,
            "deepspeed": "0.19.6",
            "einops": "0.8.2",
            "hjson": "3.1.0",
            "msgpack": "1.2.4",
            "ninja": "1.13.2",
            "numpy": "1.26.4",
            "pandas": "2.2.3",
            "pytz": "2025.2",
            "scikit-learn": "1.6.1",
            "scipy": "1.15.3",
            "py-cpuinfo": "9.0.0",
            # A later one leaves on meta, in all ranks but the first, what a checkpoint lacks, and this
            # accelerate's FSDP knows parameters by their addresses: it takes all of those for one.
            "transformers": "5.21.1",
        },
        supplies=("examples",),
        machine="2x24GB",
        pins={
            **_SUITE,
            "absl-py": "2.5.1",
            "grpcio": "1.85.1",
            "markdown": "3.11.3",
            "protobuf": "7.36.2",
            "tensorboard": "2.21.0",
            "tensorboard-data-server": "0.7.2",
            "timm": "1.0.31",
            "torchdata": "0.11.0",
            "werkzeug": "3.1.9",
        },
    ),
    "peft": Peer(
        version="0.21.2",
        tests=(
            "tests/test_common_gpu.py",
            "tests/test_gpu_examples.py",
            "tests/test_gptqmodel.py",
        ),
        machine="2x24GB",
        pins={**_SUITE, "diffusers": "0.38.0", "importlib-metadata": "10.2.0", "zipp": "4.1.2"},
        # Its ini file wants a plugin that measures coverage, and makes errors of what a newer transformers
        # deprecates; its distribution lacks `tests/__init__.py`.
        options=(
            "-o",
            "addopts=",
            "-o",
            "pythonpath=.",
            "-o",
            "consider_namespace_packages=true",
            "--import-mode=importlib",
            "-W",
            "ignore::FutureWarning",
        ),
    ),
}
_WANTS_SEVERAL = re.compile(r"require_(torch_)?multi_")
"""Decorators of tests and of their classes that ask for more than one device."""
_PATIENCE = 3600.0
"""Seconds for one file."""


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
        options = [
            "--no-deps",
            "--no-binary",
            ":all:",
            "--no-input",
            "--quiet",
            "--disable-pip-version-check",
        ]
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            "--dest",
            str(unfinished),
            f"{name}=={version}",
        ]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
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


_WITHOUT_SOURCE = shutil.ignore_patterns("src")
"""The package is installed; but scripts inside it look for the tests beside it, where there is a checkout."""


@contextmanager
def workplace(name: str, checkout: Path | None = None) -> Iterator[Path]:
    """A folder with the files of the peer's source distribution and what it leaves out, for as long as tests
    run in it.
    """
    peer = PEERS[name]
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as temporary:
        folder = Path(temporary)
        if peer.tests:
            shutil.copytree(
                source_folder(name, peer.version),
                folder,
                ignore=None if checkout else _WITHOUT_SOURCE,
                dirs_exist_ok=True,
            )
        for part in ("tests", *peer.supplies) if checkout else ():
            for file in sorted((checkout / part).rglob("*")):  # type: ignore[operator]
                place = folder / file.relative_to(checkout)
                if file.is_file() and not place.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, place)
        stand_ins.write_data(folder)
        yield folder


def files_of(peer: Peer, folder: Path) -> list[str]:
    """The files of tests, sorted."""
    return sorted(
        {
            str(path.relative_to(folder))
            for pattern in (*peer.tests, *peer.more)
            for path in folder.glob(pattern)
        }
    )


def run_tests(
    name: str,
    machine: str,
    only: Sequence[str] = (),
    options: Sequence[str] = (),
    checkout: Path | None = None,
) -> dict[str, Outcome]:
    """Outcome of each test by its id; an empty `machine` means the plain CPU."""
    peer = PEERS[name]
    variables = _environment(name, peer, checkout)
    # By its module and not by an installed samedevice's entry point, which need not be there.
    plugin = (
        ["-p", "no:samedevice", "-p", "samedevice.pytest_plugin", f"--machine={machine}"] if machine else []
    )
    plugin += ["-p", "evidence.peers.stand_in_use", *peer.options]
    outcomes: dict[str, Outcome] = {}
    with workplace(name, checkout) as folder:
        if (folder / "src").is_dir():
            variables["PYTHONPATH"] = os.pathsep.join([str(folder / "src"), variables["PYTHONPATH"]])
        for file in files_of(peer, folder):
            if only and not any(word in file for word in only):
                continue
            with tempfile.TemporaryDirectory() as scratch:
                report = Path(scratch) / "report.xml"
                fixed = [
                    "-q",
                    "-p",
                    "no:cacheprovider",
                    "-o",
                    "junit_family=xunit1",
                    f"--junit-xml={report}",
                    file,
                ]
                started = time.monotonic()
                status, said = _pytest(
                    [*plugin, *fixed, *options],
                    folder,
                    {**variables, "TMPDIR": scratch, "HF_HOME": f"{scratch}/huggingface"},
                )
                if options:
                    print(said)
                if not report.is_file() or status not in _ENDED:
                    raise PeerError(
                        f"pytest did not come to an end in {file} (exit status "
                        f"{status}):\n{said[-_SAID_ON_FAILURE:]}"
                    )
                found = read_report(report, file)
            last = (said.strip().splitlines() or [""])[-1]
            print(
                f"{machine or 'plain CPU':10} {time.monotonic() - started:6.0f} s  {file}: {last}",
                file=sys.stderr,
                flush=True,
            )
            outcomes.update(found)
    return outcomes


def wanting_several(folder: Path, files: Iterable[str]) -> set[str]:
    """The tests that ask for more than one device by a decorator, their own or their class's; as ids without
    parameters.
    """
    found: set[str] = set()
    for file in files:
        for item in ast.parse((folder / file).read_text(encoding="utf-8")).body:
            inside = item.body if isinstance(item, ast.ClassDef) else [item]
            path = f"{file}::{item.name}::" if isinstance(item, ast.ClassDef) else f"{file}::"
            for test in inside:
                if isinstance(test, ast.FunctionDef) and test.name.startswith("test"):
                    decorators = [
                        *test.decorator_list,
                        *(item.decorator_list if isinstance(item, ast.ClassDef) else ()),
                    ]
                    if any(_WANTS_SEVERAL.search(ast.unparse(decorator)) for decorator in decorators):
                        found.add(path + test.name)
    return found


_ENDED = (0, 1, 2, 5)
"""Exit statuses of pytest that leave a report: passed, failed, not collected, nothing there."""


def _pytest(arguments: Sequence[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        command = [sys.executable, "-m", "pytest", *arguments]
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        with subprocess.Popen(
            command, cwd=folder, env=variables, start_new_session=True, **streams
        ) as process:  # type: ignore[call-overload]
            try:
                process.wait(_PATIENCE)
            finally:
                with suppress(ProcessLookupError):  # what its tests started ends with it
                    os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return process.returncode, output.read()


def read_report(report: Path, file: str) -> dict[str, Outcome]:
    """Outcomes from pytest's XML. Of a test with several entries (its teardown, its subtests) the worst
    counts.
    """
    found: dict[str, Outcome] = {}
    module = file.removesuffix(".py").replace("/", ".")
    for case in ElementTree.parse(report).iter("testcase"):
        classes = case.get("classname", "").removeprefix(module).strip(".")
        name = case.get("name", "")
        test = (
            "::".join([file, *classes.split("."), name])
            if classes
            else (file if name == module else f"{file}::{name}")
        )
        outcome = Outcome("passed", "")
        for entry in case:
            if entry.tag in ("failure", "error"):
                outcome = Outcome(
                    "failed",
                    entry.text or ""
                    if entry.get("message") == "collection failure"
                    else entry.get("message", ""),
                )
            elif entry.tag == "skipped" and outcome.outcome == "passed":
                outcome = Outcome("skipped", entry.get("message", ""))
        opened = any(entry.get("name") == "stand_in" for entry in case.iter("property"))
        outcome = replace(outcome, stand_in=opened or (test in found and found[test].stand_in))
        if test not in found or _WORSE.index(outcome.outcome) > _WORSE.index(found[test].outcome):
            found[test] = outcome
    return found


_WORSE = ("passed", "skipped", "failed")


def _environment(name: str, peer: Peer, checkout: Path | None) -> dict[str, str]:
    own = {name: peer.version} if peer.tests else {}
    wanted = {**own, **peer.pins, **(peer.more_pins if checkout else {})}
    pins = {pin: version for pin, version in wanted.items() if installed(pin) != version}
    variables = environment(pins)
    variables["PYTHONPATH"] = os.pathsep.join([*filter(None, [variables.get("PYTHONPATH")]), str(SOURCES)])
    if not peer.tests and checkout:
        variables["PYTHONPATH"] = os.pathsep.join([str(checkout.resolve() / "src"), variables["PYTHONPATH"]])
    # Tests start `accelerate`, `torchrun` and `python`.
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
    # accelerate takes `list(set(devices))[0]` as a model's main device, and strings hash by the seed.
    variables["PYTHONHASHSEED"] = "0"
    # Two of accelerate's tests compare what weights of 95 MiB compute; the machine's habit is values of a
    # megabyte.
    variables["SAMEDEVICE_VALUE_LIMIT"] = str(_VALUE_LIMIT)
    # Stand-ins are so small that threads only wait for each other.
    variables["OMP_NUM_THREADS"] = "1"
    # accelerate and transformers call slow what loads a model of the hub; a stand-in is loaded in no time.
    variables["RUN_SLOW"] = "1"
    variables["HF_HUB_CACHE"] = str(stand_ins.ensure())
    variables["DS_BUILD_OPS"] = "0"
    variables.update(
        HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_EVALUATE_OFFLINE="1", WANDB_MODE="offline"
    )
    return variables


def reasons(name: str, checkout: bool = False) -> dict[str, str]:
    """Why tests of a peer do not pass on the machine, by test."""
    found: dict[str, dict[str, str]] = json.loads(_REASONS.read_text(encoding="utf-8"))
    return {**found.get(name, {}), **found.get(f"{name} {'+' if checkout else '-'} checkout", {})}


def table(
    plain: Mapping[str, Outcome], machine: Mapping[str, Outcome], specification: str, several: Iterable[str]
) -> list[str]:
    """The two runs, one line each, and what became of the tests that ask for several devices."""
    lines = [f"{'':14}{'tests':>7}{'passed':>8}{'of those with a stand-in':>26}{'failed':>8}{'skipped':>9}"]
    for label, outcomes in (("plain CPU", plain), (specification, machine)):
        counts = Counter(outcome.outcome for outcome in outcomes.values())
        with_one = sum(outcome.stand_in for outcome in outcomes.values() if outcome.outcome == "passed")
        lines.append(
            f"{label:14}{len(outcomes):>7}{counts['passed']:>8}{with_one:>26}{counts['failed']:>8}{counts['skipped']:>9}"
        )
    tests = {
        wanted: [outcome for test, outcome in machine.items() if _without_parameters(test, wanted)]
        for wanted in several
    }
    through = [
        found for found in tests.values() if found and all(outcome.outcome == "passed" for outcome in found)
    ]
    with_one = sum(any(outcome.stand_in for outcome in found) for found in through)
    opened = sum(
        plain[test].outcome != "passed"
        for test, outcome in machine.items()
        if test in plain and outcome.outcome == "passed"
    )
    lost = [
        test
        for test, outcome in plain.items()
        if outcome.outcome == "passed" and machine.get(test, _GONE).outcome != "passed"
    ]
    lines.append(
        f"of the tests whose decorators ask for several devices, {len(through)} of {len(tests)} pass, "
        f"{with_one} with a stand-in"
    )
    lines.append(f"{opened} pass on the machine only, {len(lost)} on the plain CPU only")
    return lines


_GONE = Outcome("missing", "")


def _without_parameters(test: str, wanted: str) -> bool:
    """Whether a test is the wanted one; `parameterized` appends a number to the name, pytest its parameters
    in brackets.
    """
    return re.fullmatch(re.escape(wanted) + r"(_\d+.*|\[.*)?", test, re.DOTALL) is not None


def show(
    name: str,
    plain: Mapping[str, Outcome],
    machine: Mapping[str, Outcome],
    checkout: Path | None = None,
    whole: bool = True,
) -> list[str]:
    """Print the table and the reasons; returns what is not accounted for."""
    peer, known = PEERS[name], reasons(name, checkout is not None)
    ran = {test.split("::")[0] for test in machine}
    with workplace(name, checkout) as folder:
        several = wanting_several(folder, (file for file in files_of(peer, folder) if file in ran))
    print(f"{name} {peer.version}{' and a checkout' if checkout else ''}: {len(ran)} files")
    print("\n".join(table(plain, machine, peer.machine, several)))
    print("\n".join(told(machine, known)))
    problems = unaccounted(machine, known, whole)
    print("\n".join(problems), end="\n" if problems else "")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests of peers on the plain CPU and on a virtual machine, and account for each that does not
    pass.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["torch"]:
        return torch_tests.main(words[1:])
    parser = command_parser(__name__, __doc__)
    help_on_peers = f"{', '.join(sorted(PEERS))}; or torch: see `python -m evidence peers torch --help`"
    parser.add_argument("peers", nargs="+", choices=sorted(PEERS), metavar="PEER", help=help_on_peers)
    parser.add_argument(
        "-k", metavar="EXPRESSION", help="run these tests on the machine only and show what pytest says"
    )
    parser.add_argument(
        "--machine", metavar="SPEC", help="the machine for -k, where the peer's own has too few GPUs"
    )
    parser.add_argument(
        "--file", action="append", default=[], metavar="WORD", help="only files with this word in their path"
    )
    parser.add_argument(
        "--checkout",
        type=Path,
        metavar="FOLDER",
        help="the peer's repository, for what its source distribution leaves out",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there, too")
    given = parser.parse_args(words)
    if given.machine and not given.k:
        parser.error("--machine wants -k")
    if given.checkout and (len(given.peers) != 1 or not (given.checkout / "tests").is_dir()):
        parser.error("--checkout wants one peer and a folder with its tests")
    outcomes: dict[str, dict[str, dict[str, Outcome]]] = {}
    problems: list[str] = []
    try:
        for name in given.peers:
            peer = PEERS[name]
            if not peer.tests and not given.checkout:
                raise PeerError(
                    f"the source distribution of {name} has no tests: give a --checkout of its repository"
                )
            if given.k:
                found = run_tests(
                    name, given.machine or peer.machine, given.file, ["-k", given.k], given.checkout
                )
                problems += [test for test, outcome in found.items() if outcome.outcome == "failed"]
                continue
            plain = run_tests(name, "", given.file, checkout=given.checkout)
            machine = run_tests(name, peer.machine, given.file, checkout=given.checkout)
            outcomes[name] = {"plain CPU": plain, peer.machine: machine}
            problems += show(name, plain, machine, given.checkout, whole=not given.file)
    except (OverlayError, PeerError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 2
    if given.json:
        given.json.write_text(json.dumps(outcomes, default=asdict, indent=1) + "\n", encoding="utf-8")
    return 1 if problems else 0
