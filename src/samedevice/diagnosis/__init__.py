"""Judging: from what the runtime saw to findings that people can act on. Plain records in and out; torch is never imported."""

from __future__ import annotations

from samedevice.diagnosis._codes import CODES, Code, code_of
from samedevice.diagnosis._judge import judge

__all__ = ["CODES", "Code", "code_of", "judge"]
