"""In libraries as they are now, lint finds little, and what it finds is right.

Time: five minutes, and ten seconds for torch alone.
Needs: PyPI; transformers, accelerate and peft of this environment.

    python -m evidence lint-libraries                # findings per 1,000 files, by library and rule
    python -m evidence lint-libraries --sample 100   # so many findings with their lines, to be read
    python -m evidence lint-libraries --torch        # how long torch's own files take, two processes

Each library is linted with the rules that are on by default; --select tries others. The sample is drawn by a
hash of file, line and code, so it is the same every time.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from evidence.commands import command_parser
from samedevice.findings import Finding
from samedevice.lint import Options, check_files, files_below
from samedevice.messages import Phrase
from samedevice.report import finding_line

HERE = ("transformers", "accelerate", "peft")
FETCHED = {"diffusers": "diffusers", "torchmetrics": "torchmetrics", "torch_geometric": "torch_geometric"}
_BESIDE = 3
"""Lines that a sample shows before and after a finding."""
_JOBS = 2


@contextmanager
def libraries() -> Iterator[dict[str, Path]]:
    """The folders of the libraries, the newest releases of those that are not installed fetched from PyPI."""
    found = {name: _installed(name) for name in HERE}
    with tempfile.TemporaryDirectory(prefix="samedevice-lint-") as folder:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-d",
            folder,
        ]
        subprocess.run([*pip, *FETCHED], check=True)
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as content:
                content.extractall(folder)
        yield {**found, **{name: Path(folder) / package for name, package in FETCHED.items()}}


def _installed(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{name} is not installed")
    return Path(spec.submodule_search_locations[0])


def linted(folder: Path, options: Options) -> tuple[int, float, list[Finding[Phrase]]]:
    """The number of files, the seconds, and the findings."""
    started = time.monotonic()
    files = files_below([folder])
    findings = [each for checked in check_files(files, options, _JOBS) for each in checked.findings]
    return len(files), time.monotonic() - started, findings


def shown(finding: Finding[Phrase]) -> str:
    """A finding with the lines around it."""
    place = finding.at
    assert place is not None
    lines = Path(place.file).read_text("utf-8").splitlines()
    around = range(max(0, place.line - _BESIDE - 1), min(len(lines), place.line + _BESIDE))
    return "\n".join([finding_line(finding), *(f"  {number + 1:5} {lines[number]}" for number in around)])


def drawn(findings: Sequence[Finding[Phrase]], size: int) -> list[Finding[Phrase]]:
    """The same findings every time."""

    def rank(finding: Finding[Phrase]) -> str:
        place = finding.at
        named = (
            f"{finding.code} {Path(place.file).name} {place.code} {place.line}" if place is not None else ""
        )
        return hashlib.sha256(named.encode()).hexdigest()

    return sorted(findings, key=rank)[:size]


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="also print N findings with their lines"
    )
    parser.add_argument("--select", default="", metavar="CODES", help="these rules instead, with commas")
    parser.add_argument("--torch", action="store_true", help="torch's own files instead, for the time")
    given = parser.parse_args(arguments)
    options = Options(select=tuple(each for each in given.select.split(",") if each), fixes=False)
    if given.torch:
        files, seconds, findings = linted(_installed("torch"), options)
        print(f"torch: {files} files in {seconds:.1f} s on {_JOBS} processes, {len(findings)} findings")
        return 0
    every: list[Finding[Phrase]] = []
    with libraries() as folders:
        for name, folder in folders.items():
            files, seconds, findings = linted(folder, options)
            codes = Counter(finding.code for finding in findings)
            told = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
            rate = f"{1000 * len(findings) / max(1, files):5.1f} per 1,000"
            print(f"{name:16} {files:5} files {seconds:6.1f} s {len(findings):4} findings, {rate}: {told}")
            every += findings
        for finding in drawn(every, given.sample):
            print(f"\n{shown(finding)}")
    return 0
