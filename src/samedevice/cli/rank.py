"""What a launcher starts as each rank where `samedevice` wraps the program.

The command is `python -m samedevice.cli.rank COMMAND COUNT WORDS...`.

Some launchers add `--local_rank` of their own in front of a program's arguments, here in front of everything.
It goes behind the first COUNT words, which are the command's options and the program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from samedevice.cli import main


def words_of_rank(given: Sequence[str], commands: Sequence[str] = ("guard",)) -> list[str]:
    """The words of our own command line, by the words that the launcher gave to this process."""
    at = next(position for position, word in enumerate(given) if word in commands)
    count, ours = int(given[at + 1]), given[at + 2 :]
    return [given[at], *ours[:count], *given[:at], *ours[count:]]


if __name__ == "__main__":
    sys.argv[1:] = words_of_rank(sys.argv[1:])
    main()
