"""`python -m evidence NAME [options]`: run one command, or list them all."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence

from evidence.commands import GROUPS, commands, title

USAGE = "usage: python -m evidence NAME [options]; `python -m evidence NAME --help` tells a command's options"
_WIDTH = 108


def main(arguments: Sequence[str]) -> int:
    """The exit status of the named command; 2 for wrong usage."""
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_listing()
        return 0
    name, *rest = arguments
    for command in commands():
        if command.name == name:
            return command.main(rest)
    print(f"no command {name!r}\n{USAGE}", file=sys.stderr)
    return 2


def _print_listing() -> None:
    try:
        print(listing(), flush=True)
    except BrokenPipeError:  # `| head` has read enough; Python writes what is left when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def listing() -> str:
    """Each claim with its command, time and needs."""
    lines = [USAGE, "Times are on two cores, without the first time's downloads."]
    everything = commands()
    for group in GROUPS:
        lines += ["", title(group)]
        for command in [each for each in everything if each.group == group]:
            lines += textwrap.wrap(
                command.claim, _WIDTH, initial_indent=f"  {command.name:21}", subsequent_indent=" " * 23
            )
            terms = f"Time: {command.time} Needs: {command.needs}"
            lines += textwrap.wrap(terms, _WIDTH, initial_indent=" " * 23, subsequent_indent=" " * 23)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
