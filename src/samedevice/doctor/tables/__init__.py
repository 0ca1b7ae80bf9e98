"""What is known of versions: one TOML file for each kind of knowledge, each row with its source.

`torch_pins.toml` is written by `tools.torch_pins` from wheels, `known_bad.toml` and `found_bad.toml` by
`tools.known_bad` from the zoo of released bugs and from what the sweep found; the others by hand.
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.version import Version


@dataclass(frozen=True, slots=True)
class KnownBug:
    """A device bug of a released library, from the zoo or from the sweep."""

    case: str
    package: str
    module: str
    """The name that is imported."""
    bad: Version
    """A release that has it."""
    good: Version | None
    """A release that has it no more; None where none is known."""
    subject: str
    """What of the library has it: a model, a class; empty where that is what the project uses of it."""
    names: tuple[str, ...]
    """Names whose use in a project means that it may be met."""
    together: bool
    """Whether only all of them together mean that."""
    stems: tuple[str, ...]
    """Beginnings of a model's classes."""
    source: str
    since: Version | None = None
    """An older release that has the same lines."""
    spread: bool = False
    """Whether only a model that a device map spreads meets it."""
    offloaded: bool = False
    """Whether only a model meets it whose weights wait in host memory."""

    def certain_in(self, version: Version) -> bool | None:
        """Whether a release has it.

        True for the one that was tried, False for a release that probably has it: between that and the
        repair, or with the same lines. None for all others.
        """
        if version == self.bad:
            return True
        later = self.good is not None and self.bad < version < self.good
        earlier = self.since is not None and self.since <= version < self.bad
        return False if later or earlier else None


@cache
def known_bugs() -> tuple[KnownBug, ...]:
    """Every bug of the zoo, and every one that the sweep found, that a version of a library explains."""
    return tuple(
        KnownBug(
            row["case"],
            row["package"],
            row["module"],
            Version(row["bad"]),
            Version(row["good"]) if "good" in row else None,
            row["subject"],
            tuple(row["names"]),
            row["together"],
            tuple(row["stems"]),
            row["source"],
            Version(row["since"]) if "since" in row else None,
            row.get("spread", False),
            row.get("offloaded", False),
        )
        for row in (*_rows("known_bad", "bug"), *_rows("found_bad", "bug"))
    )


@cache
def driver_minimum() -> Mapping[int, Mapping[str, str]]:
    """The oldest driver branch for each major release of CUDA."""
    return {row["cuda"]: row for row in _rows("drivers", "runtime")}


@cache
def bad_drivers() -> Sequence[Mapping[str, str]]:
    """Drivers with a known fault."""
    return _rows("drivers", "bad")


@cache
def torch_builds() -> Mapping[str, Mapping[str, str]]:
    """The builds of torch on PyPI by their version."""
    return {row["version"]: row for row in _rows("torch_pins", "torch")}


@cache
def companions() -> Mapping[tuple[str, str], Mapping[str, str]]:
    """What torchvision and torchaudio require, by name and version."""
    return {(row["name"], row["version"]): row for row in _rows("torch_pins", "companion")}


@cache
def architectures() -> Sequence[Mapping[str, Any]]:
    """The GPUs that builds of torch are for."""
    return _rows("architectures", "build")


@cache
def pairs() -> Sequence[Mapping[str, Any]]:
    """Packages that do not go together."""
    return _rows("pairs", "pair")


def _rows(file: str, kind: str) -> Sequence[Mapping[str, Any]]:
    data = pkgutil.get_data("samedevice.doctor.tables", f"{file}.toml")
    assert data is not None, f"{file}.toml is part of the package"
    rows: Sequence[Mapping[str, Any]] = tomllib.loads(data.decode("utf-8"))[kind]
    return rows
