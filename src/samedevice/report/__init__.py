"""Showing what was found. Reports see findings and numbers only: no torch, no events to judge.

Each form comes in with the first of its names that is asked for. Who must start quickly imports this package,
not names from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.parts import on_demand

if TYPE_CHECKING:
    from samedevice.report._pages import page_text, pages
    from samedevice.report._project import project_root
    from samedevice.report._render import error_text, render, render_finding, worded_errors
    from samedevice.report._words import name_files, short_path
    from samedevice.report.doctor import check_text, print_doctor
    from samedevice.report.environment import print_comparison
    from samedevice.report.github import finding_commands, problem_commands
    from samedevice.report.gpus import print_gpus
    from samedevice.report.html import html_of
    from samedevice.report.lines import finding_line, gone_lines, notice_lines, problem_lines
    from samedevice.report.sarif import sarif_document
    from samedevice.report.shown import Findings, shown_findings
    from samedevice.report.terminal import (
        Needs,
        TextRenderer,
        asked_text,
        assumed_text,
        finding_text,
        open_console,
        place_text,
        print_finding,
        print_notices,
        print_preflight,
        print_run,
        print_written,
        readable_language,
    )

__all__ = [
    "Findings",
    "Needs",
    "TextRenderer",
    "asked_text",
    "assumed_text",
    "check_text",
    "error_text",
    "finding_commands",
    "finding_line",
    "finding_text",
    "gone_lines",
    "html_of",
    "name_files",
    "notice_lines",
    "open_console",
    "page_text",
    "pages",
    "place_text",
    "print_comparison",
    "print_doctor",
    "print_finding",
    "print_gpus",
    "print_notices",
    "print_preflight",
    "print_run",
    "print_written",
    "problem_commands",
    "problem_lines",
    "project_root",
    "readable_language",
    "render",
    "render_finding",
    "sarif_document",
    "short_path",
    "shown_findings",
    "worded_errors",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "_pages": (
            "page_text",
            "pages",
        ),
        "_project": ("project_root",),
        "_render": (
            "error_text",
            "render",
            "render_finding",
            "worded_errors",
        ),
        "_words": (
            "name_files",
            "short_path",
        ),
        "doctor": (
            "check_text",
            "print_doctor",
        ),
        "environment": ("print_comparison",),
        "github": (
            "finding_commands",
            "problem_commands",
        ),
        "gpus": ("print_gpus",),
        "html": ("html_of",),
        "lines": (
            "finding_line",
            "gone_lines",
            "notice_lines",
            "problem_lines",
        ),
        "sarif": ("sarif_document",),
        "shown": (
            "Findings",
            "shown_findings",
        ),
        "terminal": (
            "Needs",
            "TextRenderer",
            "asked_text",
            "assumed_text",
            "finding_text",
            "open_console",
            "place_text",
            "print_finding",
            "print_notices",
            "print_preflight",
            "print_run",
            "print_written",
            "readable_language",
        ),
    },
)
