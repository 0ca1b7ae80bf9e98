"""Wheels of the releases that a traceback is of, from the package index: read, never installed or run."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samedevice.cli._answering import cache_folder
from samedevice.errors import UsageError
from samedevice.findings import Finding
from samedevice.messages import Phrase

_PATIENCE = 600.0
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]{0,80})==(?P<version>[\w.!+-]{1,60})")
_VERSION = r"(\d{1,5}(?:\.\d{1,8}){1,4}(?:(?:a|b|rc|\.?dev|\.?post)\d{0,6})?)"
_OF_OTHERS = re.compile(
    r"(?:\b(?:from|needs?|requires?|required|wants?|not|than|before)|[<>!~=]=?|需要|要求)\W{0,3}$"
    r"|\b(?:fine|works?|worked|ok|okay)\b[^.\n]{0,32}$|(?:正常|没问题)[^。\n]{0,12}$",
    re.IGNORECASE,
)
"""What stands before a version that is not the one that failed."""
_OF_PACKAGE = re.compile(r"(?:site|dist)-packages[/\\](\w{1,80})[/\\]")
_PYTHON = re.compile(r"\bpython(3\.\d{1,2})\b")
_PYTHONS = ("3.12", "3.10", "3.9", "3.8", "3.7")
"""Tried where a text tells none: a wheel for another Python is as good to read."""
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64")
_OFFLINE = re.compile(r"NewConnectionError|ConnectTimeout|NameResolutionError|ProxyError|Connection refused")
_ALWAYS_HERE = frozenset(("torch",))
"""Packages whose frames stand around those that are read."""
_MOST = 3
"""Packages of one traceback, the innermost ones."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of a distribution; the newest one where no version is told."""

    name: str
    version: str | None

    @property
    def requirement(self) -> str:
        """As pip takes it."""
        return self.name if self.version is None else f"{self.name}=={self.version}"


def asked_release(written: str) -> Release | None:
    """What `NAME==VERSION` asks for; None for anything else."""
    found = _REQUIREMENT.fullmatch(written)
    return None if found is None else Release(found["name"], found["version"])


def told_releases(text: str, findings: Sequence[Finding[Phrase]]) -> list[Release]:
    """The releases that the frames of device errors are of, as far as they are not installed here."""
    packages = set(_OF_PACKAGE.findall(text)) - _ALWAYS_HERE
    files = [
        place.file
        for finding in findings
        if finding.verdict == "device-error"
        for place in reversed(finding.stack)
    ]
    tops = [top for file in files if (top := file.replace("\\", "/").partition("/")[0]) in packages]
    told = {name: version for each in findings for name, version in each.versions.items()}
    releases = [_release(top, told, text) for top in list(dict.fromkeys(tops))[:_MOST]]
    return [each for each in releases if not _installed(each)]


def _release(package: str, told: Mapping[str, str], text: str) -> Release:
    """The distribution of a package, by its name, or by the only installed one that brings it."""
    brought = importlib.metadata.packages_distributions().get(package, [])
    name = brought[0] if len(set(brought)) == 1 else package.replace("_", "-")
    version = _version(name, text) or told.get(name.lower())
    return Release(name, None if version is None else version.partition("+")[0])


def _version(name: str, text: str) -> str | None:
    """The version that a text tells of a distribution; the last one of several."""
    spelt = "[-_]".join(map(re.escape, re.split("[-_]", name)))
    shown = re.search(rf"(?mi)^Name: {spelt}\s*\nVersion: {_VERSION}", text)
    if shown:
        return shown[1]
    told = re.finditer(
        rf"(?i)(?<![\w.-]){spelt}(?:==|\s*:\s*v?|\s+(?:version\s+)?v?|-){_VERSION}(?![\w.])", text
    )
    own = [each[1] for each in told if not _OF_OTHERS.search(text[max(0, each.start() - 48) : each.start()])]
    return own[-1] if own else None


def _installed(release: Release) -> bool:
    try:
        here = importlib.metadata.version(release.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return release.version in (None, here.partition("+")[0])


def fetch(release: Release, text: str = "") -> Path:
    """The wheel of a release, kept in the cache folder of the user.

    Where there is none for this Python, one for that of the traceback in `text` does, or one for another.

    Raises:
        UsageError: pip is not there, or finds no wheel.
    """
    folder = cache_folder("releases") / f"{release.name}-{release.version or 'newest'}"
    if release.version is not None and (kept := _newest(folder)) is not None:
        return kept
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--retries", "1", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder)]
    reason = ""
    for others in ([], *_for_other_pythons(text)):
        try:
            done = subprocess.run(
                [*command, *others, release.requirement],
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise UsageError(
                Phrase("explain.no-release", release=release.requirement, reason="time")
            ) from None
        if done.returncode == 0 and (wheel := _newest(folder)) is not None:
            return wheel
        if _OFFLINE.search(done.stderr):
            raise UsageError(Phrase("explain.offline", release=release.requirement))
        errors = [line for line in done.stderr.splitlines() if line.strip() and "WARNING" not in line]
        reason = reason or (errors or [""])[-1].removeprefix("ERROR: ")
        if "No matching distribution" not in reason:
            break
    raise UsageError(Phrase("explain.no-release", release=release.requirement, reason=reason))


def _for_other_pythons(text: str) -> Iterator[list[str]]:
    for version in dict.fromkeys(_PYTHON.findall(text)) or _PYTHONS:
        platforms = [part for each in _PLATFORMS for part in ("--platform", each)]
        yield ["--python-version", version, *platforms]


def _newest(folder: Path) -> Path | None:
    wheels = sorted(folder.glob("*.whl"), key=lambda each: each.stat().st_mtime)
    return wheels[-1] if wheels else None
