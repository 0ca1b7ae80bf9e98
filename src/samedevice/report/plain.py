"""What a terminal shows, as plain text: what `str` gives of a plan, a placement."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, RenderableType


def plain_text(shown: RenderableType, width: int) -> str:
    """What is printed, without colours, in lines of at most so many columns."""
    stream = StringIO()
    console = Console(
        file=stream,
        width=width,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None,
    )
    console.print(shown)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
