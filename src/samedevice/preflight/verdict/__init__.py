"""The verdict on a launch: the mode that results, what it is refused for, and what repairs it."""

from __future__ import annotations

from samedevice.preflight.verdict.judgement import Judgement, preflight
from samedevice.preflight.verdict.mode import Mode

__all__ = ["Judgement", "Mode", "preflight"]
