"""What a terminal shows, as HTML for a notebook.

Must guarantee: every text is escaped, nothing is loaded or run, and all of it can be read on a white and on a
black page: plain text has the colour of the page around it.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from io import StringIO

from rich.console import Console
from rich.terminal_theme import TerminalTheme

_WIDTH = 110
_GREY, _RED, _GREEN, _YELLOW = (122, 122, 122), (214, 69, 61), (46, 139, 87), (176, 118, 0)
_BLUE, _MAGENTA, _CYAN = (64, 120, 210), (176, 84, 176), (0, 135, 145)
_COLOURS = [_GREY, _RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN, _GREY]
_MIDDLE = TerminalTheme(_GREY, _GREY, _COLOURS, _COLOURS)
"""Colours with a contrast of about 4 to 1 against white and against black."""
_FRAME = "{code}"
_PRE = (
    "overflow-x:auto;margin:0.3em 0 0.3em 0;padding:0;border:0;background:transparent;color:inherit;"
    "line-height:1.35;white-space:pre;font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:90%"
)


def html_of(show: Callable[[Console], None]) -> str:
    """What `show` prints."""
    console = Console(
        file=StringIO(),
        record=True,
        width=_WIDTH,
        force_terminal=True,
        force_jupyter=False,
        color_system="truecolor",
        highlight=False,
        markup=False,
        emoji=False,
    )
    show(console)
    code = console.export_html(theme=_MIDDLE, code_format=_FRAME, inline_styles=True)
    return f'<pre style="{_PRE}">{code.rstrip()}</pre>'


def folded(head: str, body: str, *, unfolded: bool = True) -> str:
    """`body`, which is HTML, below a heading that opens and closes it."""
    state = " open" if unfolded else ""
    return f'<details{state}><summary style="cursor:pointer">{escape(head)}</summary>{body}</details>'
