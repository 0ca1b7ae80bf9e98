"""Reads torch's operator declarations, `torchgen/packaged/ATen/native/native_functions.yaml`, of the installed version.

A scan by lines, not a YAML parser: the file has 16,000 lines and one fixed layout, and reading it takes 20 ms instead of seconds.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

_FUNC = re.compile(r"^- func: ([\w.]+)\(")
_DELEGATE = re.compile(r"^  structured_delegate: ([\w.]+)")
_DEVICE_CHECK = re.compile(r"^  device_check: NoCheck\s*(?:#\s*(.*))?$")
_DISPATCH = re.compile(r"^    ([\w, ]+): \w+")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one entry says about devices."""

    name: str
    """`mul.Tensor`."""
    checked: bool
    """False when the entry says `device_check: NoCheck`."""
    remark: str
    """The comment beside it, which tells who checks instead."""
    structured: bool
    cuda: bool
    """Whether a kernel is registered for CUDA itself; composite operators have none, so no wrapper checks them."""


@functools.cache
def declarations() -> dict[str, Declaration]:
    """Every entry by name; empty when the file is not there."""
    path = _path()
    if path is None:
        return {}
    found: dict[str, Declaration] = {}
    name = ""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _FUNC.match(line)
        if match:
            if name:
                found[name] = _read(name, lines)
            name, lines = match.group(1), []
        else:
            lines.append(line)
    if name:
        found[name] = _read(name, lines)
    return found


def _path() -> Path | None:
    # find_spec of a top-level package runs none of its code.
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / "packaged" / "ATen" / "native" / "native_functions.yaml"
    return path if path.is_file() else None


def _read(name: str, lines: list[str]) -> Declaration:
    checked, remark, structured, cuda = True, "", False, False
    for line in lines:
        if (match := _DEVICE_CHECK.match(line)) is not None:
            checked, remark = False, match.group(1) or ""
        elif _DELEGATE.match(line):
            structured = cuda = True
        elif line.startswith("  structured: True"):
            structured = True
        elif (match := _DISPATCH.match(line)) is not None:
            cuda = cuda or "CUDA" in (key.strip() for key in match.group(1).split(","))
    return Declaration(name, checked, remark, structured, cuda)
