"""Two environments side by side, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from samedevice import doctor
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.terminal import print_notices, put_line


def print_comparison(
    console: Console, comparison: doctor.Comparison, names: tuple[str, str], language: Language = SOURCE
) -> None:
    """What may explain a device error, then what differs besides, then what only one is found wrong for."""
    explaining = [each for each in comparison.differences if each.why is not None]
    others = [each for each in comparison.differences if each.why is None]
    if not comparison.differences:
        return print_notices(console, [render(Phrase("environment.same"), language)])
    width = max(len(each.what) for each in comparison.differences)
    for head, group in (("environment.explains", explaining), ("environment.others", others)):
        if group:
            put_line(console, 0, Text(render(Phrase(head), language), "bold"))
            _group(console, group, width, language)
            console.print()
    lines = [Phrase("environment.count", count=len(comparison.differences), explaining=len(explaining))]
    for name, findings in zip(names, (comparison.first, comparison.second), strict=True):
        lines += [
            Phrase("environment.found", path=name, code=each.code, name=each.cause, reason=each.reasons[0])
            for each in findings
        ]
    print_notices(console, [harmless(render(line, language)) for line in lines])


def _group(console: Console, group: Sequence[doctor.Difference], width: int, language: Language) -> None:
    for each in group:
        head = Text.assemble((each.what.ljust(width), "cyan"), "  ")
        values = Text.assemble((harmless(each.first), "red"), "  |  ", (harmless(each.second), "green"))
        put_line(console, 2, head + values, head=len(head))
        if each.why is not None:
            put_line(console, 4 + width, Text(harmless(render(each.why, language))))
