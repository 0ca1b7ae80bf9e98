"""What a launcher starts as each rank where a program is tried with changes that are not on disk.

Python reads a main script by itself, past every hook; so a module of ours runs it. Words that a launcher puts
in front of the program's arguments (`--local_rank=0`) go behind the program again.
"""

from __future__ import annotations

import sys

from samedevice.cli._program import enter_path, find_script
from samedevice.edited import read_edited


def main() -> None:
    """Run the program that the first word which is no option names."""
    given = sys.argv[1:]
    at = next(position for position, word in enumerate(given) if not word.startswith("-"))
    read_edited()
    program = find_script(given[at], (*given[:at], *given[at + 1 :]))
    enter_path(program.path_entry)
    program.run()


if __name__ == "__main__":
    main()
