"""Other releases of a package, each in an environment of its own, and what changed between two sweeps.

An environment is a folder with one installed package; everything else comes from the environment that
samedevice runs in.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.sweep._sweep import Root, Swept

_VERSION = re.compile(r"\d+(\.\d+)*([a-z]+\d+)?")
_PATIENCE = 600.0


def python_with(package: str, version: str, cache: Path) -> str:
    """The interpreter of an environment with that release; it is made where it is not there yet.

    Raises `UsageError` for what is no version, and where pip does not find or install it.
    """
    if not _VERSION.fullmatch(version):
        raise UsageError(Phrase("sweep.no-version", given=version))
    folder = cache / "environments" / f"{package}-{version}"
    python = folder / "bin" / "python"
    if (folder / "complete").is_file():
        return str(python)
    venv.create(folder, with_pip=False, clear=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "samedevice-sweep.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", "utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    wanted = [f"{package}=={version}"]
    while wanted:
        try:
            done = subprocess.run(
                [*command, *wanted], capture_output=True, text=True, timeout=_PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise UsageError(
                Phrase("sweep.no-release", package=package, version=version, reason="time")
            ) from None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [""])[-1]
            raise UsageError(Phrase("sweep.no-release", package=package, version=version, reason=reason))
        tried = wanted
        wanted = [each for each in _unmet(str(site), sysconfig.get_paths()["purelib"]) if each not in tried]
    (folder / "complete").touch()
    return str(python)


def _unmet(own: str, shared: str) -> list[str]:
    """What packages in `own` need, and neither folder has in a release that they take.

    torch is not among them: every release runs on the one that is installed.
    """
    from importlib.metadata import distributions

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    have: dict[str, str] = {}
    for each in distributions(path=[own, shared]):
        have.setdefault(canonicalize_name(each.metadata["Name"]), each.version)
    found: dict[str, str] = {}
    for each in distributions(path=[own]):
        for wanted in map(Requirement, each.requires or ()):
            name = canonicalize_name(wanted.name)
            if name == "torch" or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
                continue
            if name not in have or not wanted.specifier.contains(have[name], prereleases=True):
                found[name] = f"{wanted.name}{wanted.specifier}"
    return list(found.values())


def releases_between(package: str, first: str, last: str) -> list[str]:
    """The final releases from `first` to `last`, oldest first, as the package index lists them.

    Raises `UsageError` where the index cannot be asked, or does not have both.
    """
    from packaging.version import InvalidVersion, Version

    command = [sys.executable, "-m", "pip", "index", "versions", package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    listed = re.search(r"Available versions: (.*)", done.stdout)
    try:
        found = sorted(Version(each.strip()) for each in (listed[1] if listed else "").split(","))
        low, high = Version(first), Version(last)
    except InvalidVersion:
        found = []
    else:
        found = [each for each in found if low <= each <= high and not each.is_prerelease]
    if len(found) < 2 or (found[0], found[-1]) != (low, high):
        raise UsageError(Phrase("sweep.no-releases", package=package, first=first, last=last))
    return [str(each) for each in found]


@dataclass(frozen=True, slots=True)
class Changes:
    """Two sweeps side by side, by root causes."""

    new: tuple[Root, ...]
    """In the second release only."""
    fixed: tuple[Root, ...]
    """In the first release only; of a class that the second one does not have, too."""
    still: tuple[Root, ...]
    unknown: tuple[Root, ...] = ()
    """In one release only, and none of their classes runs in the other: nothing says whether it has them."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Changes between two releases, and since which release each is so, where that was asked for."""

    first: str
    last: str
    changes: Changes
    since: Mapping[str, str] = field(default_factory=dict)
    """The release that brought or repaired a root cause, by its key."""


def changes_between(first: Swept, second: Swept) -> Changes:
    """What the second release has and the first has not, the other way round, and what both have."""
    before, after = ({root.key: root for root in each.roots} for each in (first, second))
    new = [root for key, root in after.items() if key not in before]
    fixed = [root for key, root in before.items() if key not in after]
    return Changes(
        tuple(root for root in new if has_root(first, root) is not None),
        tuple(root for root in fixed if has_root(second, root) is not None),
        tuple(root for key, root in after.items() if key in before),
        (
            *(root for root in new if has_root(first, root) is None),
            *(root for root in fixed if has_root(second, root) is None),
        ),
    )


def has_root(swept: Swept, root: Root) -> bool | None:
    """Whether a sweep of another release met a root cause.

    None where that release has classes which met it here, and none of them ends a run that could meet it.
    """
    if any(each.key == root.key for each in swept.roots):
        return True
    there = [each for each in swept.targets if each.name.rpartition(":")[2] in root.targets]
    ran = any(
        run["action"] in root.actions and run["status"] in ("ran", "found")
        for target in there
        for run in target.of_kind("run")
    )
    return None if there and not ran else False


def first_with(versions: Sequence[str], has: Callable[[str], bool | None]) -> str | None:
    """The first release, of releases in order, from which on something is so; None where the last has it not.

    Asks for as few releases as can be, and takes it that it came once and stayed. Releases that `has` knows
    nothing of are passed over.
    """
    if not versions or not has(versions[-1]):
        return None
    left = list(versions)
    low, high = 0, len(left) - 1
    while low < high:
        middle = (low + high) // 2
        answer = has(left[middle])
        if answer is None:
            del left[middle]
            high -= 1
        elif answer:
            high = middle
        else:
            low = middle + 1
    return left[high]
