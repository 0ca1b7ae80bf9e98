"""Showing what was found. Reports see findings and numbers only: no torch, no events to judge."""

from __future__ import annotations

from samedevice.report._pages import page_text, pages
from samedevice.report._render import error_text, render, render_finding, worded_errors
from samedevice.report._words import short_path
from samedevice.report.gpus import print_gpus
from samedevice.report.terminal import (
    Needs,
    TextRenderer,
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
    "TextRenderer",
    "assumed_text",
    "error_text",
    "finding_text",
    "open_console",
    "page_text",
    "pages",
    "print_finding",
    "print_gpus",
    "print_preflight",
    "print_run",
    "print_written",
    "readable_language",
    "render",
    "render_finding",
    "short_path",
    "worded_errors",
]
