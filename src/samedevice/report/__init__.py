"""Showing what was found. Reports see findings and numbers only: no torch, no events to judge."""

from __future__ import annotations

from samedevice.report._render import error_text, render, renderer
from samedevice.report._words import bytes_text, short_path
from samedevice.report.terminal import (
    Needs,
    assumed_text,
    finding_text,
    open_console,
    print_finding,
    print_preflight,
    print_run,
    print_written,
    readable_language,
)

__all__ = [
    "Needs",
    "assumed_text",
    "bytes_text",
    "error_text",
    "finding_text",
    "open_console",
    "print_finding",
    "print_preflight",
    "print_run",
    "print_written",
    "readable_language",
    "render",
    "renderer",
    "short_path",
]
