"""All refusals of a launch, from its settings and its program, once each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from samedevice.preflight.launch import Launch
from samedevice.preflight.verdict.program import of_program
from samedevice.preflight.verdict.refusal import Refusal
from samedevice.preflight.verdict.settings import of_arguments, of_settings
from samedevice.static import Fact


def refusals(launch: Launch, ranks: Sequence[Sequence[Fact]]) -> list[Refusal]:
    """Every refusal of a launch, once each."""
    unique: dict[tuple[str, Path, int], Refusal] = {}
    for each in (*of_arguments(launch), *of_program(launch, ranks), *of_settings(launch)):
        unique.setdefault((each.rule, each.file, each.line), each)
    return list(unique.values())
