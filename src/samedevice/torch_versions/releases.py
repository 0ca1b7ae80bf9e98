"""Which releases of torch the machine is proven on, and which one is installed."""

from __future__ import annotations

import importlib.metadata

from packaging.version import InvalidVersion, Version

Release = tuple[int, int]
"""Major and minor number: what differs inside of one is repairs."""

OLDEST: Release = (2, 6)
"""The first release that works."""
NEWEST: Release = (2, 15)
"""The last release that the test suite was run on; `docs/versions.md` says with which result."""


def release_of(version: str) -> Release | None:
    """The release of a version such as `2.9.0a0+git1234`; None where the text is no version."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return None
    return parsed.major, parsed.minor


def spelled(release: Release) -> str:
    """A release as people write it."""
    return f"{release[0]}.{release[1]}"


def installed_version() -> str:
    """The version of the installed torch; empty where its files do not tell."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:  # a checkout on the path, say
        return ""
