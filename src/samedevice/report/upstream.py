"""A bug of a library, told as its authors want to read it: what happens, how to see it, why, and the patch.

In English, whatever the language of the report; source of other people is quoted, never interpreted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from samedevice.events import Decision, Operand, Place
from samedevice.findings import Finding
from samedevice.messages import SOURCE, Phrase
from samedevice.report._render import render
from samedevice.report._words import harmless, short_path, typed_shape

_TOLD = {
    "created": "made there",
    "moved": "moved there",
    "placed": "placed there",
    "hook": "sent there by a module's hook",
    "loaded": "loaded there",
    "received": "received there",
    "outside": "first met there",
}


@dataclass(frozen=True, slots=True)
class Patch:
    """What changes in an installed package."""

    package: str
    version: str
    text: str
    findings: tuple[Finding[Phrase], ...]


def upstream_text(patch: Patch, command: Sequence[str], machines: Sequence[str]) -> str:
    """The description of a patch, in Markdown."""
    names = " and ".join(dict.fromkeys(_code(_statement(each)) for each in patch.findings))
    lines = [
        f"# {patch.package} {patch.version}: tensors on different devices in {names}",
        "",
        "## What happens",
        "",
    ]
    for finding in patch.findings:
        at = finding.at
        assert at is not None, "a patch changes a line"
        lines += [
            f"{_code(short_path(at.file) + ':' + str(at.line))}, in {_code(at.function)}:",
            "",
            _block(at.call or at.code, "python"),
            "",
            *([f"PyTorch raises: {_code(finding.message)}", ""] if finding.message else []),
            "| operand | type | device | how it came there |",
            "|---|---|---|---|",
            *(_row(operand) for operand in finding.operands),
            "",
        ]
    lines += [
        "## How to see it",
        "",
        f"On a computer without a GPU, with {patch.package} {patch.version}:",
        "",
        _block(shlex.join(["samedevice", "run", *command]), "sh"),
        "",
        "On hardware: the same script on a machine with those GPUs.",
        "",
        "## The change",
        "",
        f"With it the script ran again on {', '.join(machines)}, and the statement was not refused any more.",
        "",
        _block(patch.text.rstrip("\n"), "diff"),
        "",
        "In the folder that holds the package:",
        "",
        _block(shlex.join(["patch", "-p1", "-i", f"{patch.package}-{patch.version}.patch"]), "sh"),
        "",
    ]
    return "\n".join(lines)


def _statement(finding: Finding[Phrase]) -> str:
    at = finding.at
    return (
        at.function if at is not None and not at.function.startswith("<") else render(finding.title, SOURCE)
    )


def _row(operand: Operand) -> str:
    name = operand.local or operand.parameter or operand.name
    steps = "; ".join(_step(step) for step in operand.lineage) or "not known"
    return f"| {_cell(name)} | {_cell(typed_shape(operand))} | {_cell(operand.device)} | {steps} |"


def _step(step: Decision) -> str:
    where = "" if step.at is None else f", {_cell(_line(step.at))}"
    said = f" ({_cell(step.at.call or step.at.code)})" if step.at is not None and step.at.code else ""
    what = "computed from what was " if step.inherited else ""
    return f"{_cell(step.device)}: {what}{_TOLD[step.kind]}{where}{said}"


def _line(place: Place) -> str:
    return f"{short_path(place.file)}:{place.line}"


def _cell(text: str) -> str:
    return _code(text.replace("|", "\\|"))


def _code(text: str) -> str:
    """Text as Markdown's code, whatever marks it has."""
    text = " ".join(harmless(text).split())
    fence = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _block(text: str, kind: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}{kind}\n{text}\n{fence}"
