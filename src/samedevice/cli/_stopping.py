"""Where our options end, and the words of the program begin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from samedevice.launchers import begins_command


class StopsAtProgram(TyperCommand):
    """`-m MODULE` and `-` end our options just as SCRIPT does; click knows only the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _close_options(args, _taking_values(self)))

    def collect_usage_pieces(self, _: Any) -> list[str]:
        return ["[OPTIONS]", "SCRIPT|-m MODULE|COMMAND", "[ARGS]..."]


class StopsAtCommand(TyperCommand):
    """A command ends our options: `preflight --machine 8x24GB torchrun --nproc_per_node 8 train.py`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = next(_positions(args, _taking_values(self)), len(args))
        if args[at : at + 1] != ["--"] and (begins_command(args[at:]) or _is_installed(args[at:])):
            args = [*args[:at], "--", *args[at:]]
        return super().parse_args(ctx, args)


def _is_installed(words: list[str]) -> bool:
    """Whether the first word can only be an installed program: it has no suffix, and no file is so called."""
    return bool(words) and not Path(words[0]).suffix and not Path(words[0]).exists()


def _positions(args: list[str], taking_values: set[str]) -> Iterator[int]:
    """Where words stand that are neither options nor values of options, and `--`."""
    index = 0
    while index < len(args):
        word = args[index]
        if word in ("-", "--") or not word.startswith("-"):
            yield index
        index += 2 if word in taking_values else 1


def _taking_values(command: TyperCommand) -> set[str]:
    """Options of a command that take a value."""
    return {
        spelled
        for each in command.params
        if not getattr(each, "is_flag", True) and each.name != "module"
        for spelled in each.opts
    }


def _close_options(args: list[str], taking_values: set[str]) -> list[str]:
    end = next(_positions(args, taking_values), len(args))
    for index, word in enumerate(args[:end]):
        if word.startswith("-m") and args[index - 1] not in taking_values:  # also -mMODULE, as Python allows
            behind = index + (2 if word == "-m" else 1)
            return [*args[:behind], "--", *args[behind:]]
    return [*args[:end], "--", *args[end:]] if args[end : end + 1] == ["-"] else args
