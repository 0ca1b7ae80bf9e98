"""Reads the operator declarations of the installed torch.

They are in `torchgen/packaged/ATen/native/native_functions.yaml`.

A scan by lines, not a YAML parser: the file has 16,000 lines and one fixed layout, and reading it takes 20 ms
instead of seconds.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from dataclasses import dataclass, replace
from pathlib import Path

_FUNC = re.compile(r"^- func: ([\w.]+)\((.*)\) -> ")
_DELEGATE = re.compile(r"^  structured_delegate: ([\w.]+)")
_DEVICE_CHECK = re.compile(r"^  device_check: NoCheck\s*(?:#\s*(.*))?$")
_DISPATCH = re.compile(r"^    ([\w, ]+): \w+")
_TENSOR = re.compile(r"^Tensor(?:\(\w+!?(?: -> \*)?\))?\??(\[\d*\])?\??\s+(\w+)")
_WRITTEN = re.compile(r"^Tensor\(\w+!\)")


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
    iterator: bool
    """Whether a structured kernel is a TensorIterator, which then compares devices itself."""
    cuda: bool
    """Whether a kernel is registered for CUDA itself; composite operators have none, so no wrapper checks
    them.
    """
    only_on_cpu: bool
    """Whether the CPU has a kernel, and neither CUDA nor all devices together: CUDA refuses the operator."""
    keys: frozenset[str]
    """The dispatch keys that have a kernel of their own."""
    implicit: bool
    """Made of other operators and taken apart by autograd, so that it never reaches a kernel."""
    explicit: bool
    """Made of other operators below autograd."""
    positional: tuple[str, ...]
    """Tensor arguments before the `*`."""
    outputs: tuple[str, ...]
    """The `out=` arguments."""
    keywords: tuple[str, ...]
    """Tensor arguments after the `*` that are no outputs; the generated wrapper does not look at them."""

    @property
    def wrapper(self) -> str:
        """Name of the generated wrapper.

        Source: torchgen/dest/register_dispatch_key.py, `wrapper_CUDA_` + overload + `_` + name, or for
        structured operators
        `wrapper_CUDA_` + name + `_` + overload; torchgen/api/cpp.py and native.py add `_out` to the name of
        out= variants.
        """
        base, _, overload = self.name.partition(".")
        if self.outputs:
            base += "_out"
        if self.structured:
            return f"wrapper_CUDA_{base}_{overload}" if overload else f"wrapper_CUDA_{base}"
        return f"wrapper_CUDA_{overload}_{base}"


@functools.cache
def declarations() -> dict[str, Declaration]:
    """Every entry by name; empty when the file is not there."""
    path = _path()
    if path is None:
        return {}
    found: dict[str, Declaration] = {}
    delegates: dict[str, str] = {}
    heading: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), "- func: end() -> ()"]:
        match = _FUNC.match(line)
        if match:
            if heading is not None:
                found[heading[1]] = _read(heading[1], heading[2], lines)
                delegates.update(
                    (heading[1], found_at[1]) for line in lines if (found_at := _DELEGATE.match(line))
                )
            heading, lines = match, []
        else:
            lines.append(line)
    for name, target in delegates.items():
        owner = found.get(target)
        found[name] = replace(
            found[name],
            iterator=owner is not None and owner.iterator,
            cuda=owner is not None and owner.cuda,
            only_on_cpu=owner is not None and owner.only_on_cpu,
        )
    return found


def _path() -> Path | None:
    # find_spec of a top-level package runs none of its code.
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / "packaged" / "ATen" / "native" / "native_functions.yaml"
    return path if path.is_file() else None


def _read(name: str, signature: str, lines: list[str]) -> Declaration:
    checked, remark, structured, iterator, cuda = True, "", False, False, False
    keys: set[str] = set()
    for line in lines:
        if (match := _DEVICE_CHECK.match(line)) is not None:
            checked, remark = False, match.group(1) or ""
        elif _DELEGATE.match(line):
            structured = True
        elif line.startswith("  structured: True"):
            structured = True
        elif line.startswith("  structured_inherits: TensorIteratorBase"):
            iterator = True
        elif line.startswith("  ufunc_inner_loop:"):
            cuda = True
        elif (match := _DISPATCH.match(line)) is not None:
            keys.update(key.strip() for key in match.group(1).split(","))
    cuda = cuda or "CUDA" in keys
    only_on_cpu = (
        "CPU" in keys and not cuda and not any("CUDA" in key or key.startswith("Composite") for key in keys)
    )
    implicit = not structured and (
        "  dispatch:" not in lines or any(line.startswith("    CompositeImplicitAutograd:") for line in lines)
    )
    explicit = (
        any(key.startswith("CompositeExplicitAutograd") for key in keys) and not structured and not implicit
    )
    before, _, after = signature.partition("*, ")
    positional = tuple([match[2] for part in before.split(", ") if (match := _TENSOR.match(part))])
    keywords = [
        (match[2], bool(_WRITTEN.match(part))) for part in after.split(", ") if (match := _TENSOR.match(part))
    ]
    outputs = tuple([argument for argument, written in keywords if written])
    others = tuple([argument for argument, written in keywords if not written])
    return Declaration(
        name,
        checked,
        remark,
        structured,
        iterator,
        cuda,
        only_on_cpu,
        frozenset(keys),
        implicit,
        explicit,
        positional,
        outputs,
        others,
    )
