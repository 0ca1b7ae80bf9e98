"""A launcher's own options, read as its parser reads them: up to the program, which stands behind them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from samedevice.launchers.launcher import Launcher

Word = TypeVar("Word", bound=str)


@dataclass(frozen=True, slots=True)
class LauncherCall(Generic[Word]):
    """What stands between a launcher and the program, and the program."""

    launcher: Launcher
    values: dict[str, Any]
    """Values by the option's name with `_`; True for one that takes none."""
    program: list[Word]

    def value(self, *names: str) -> str | None:
        """The value of the first of some options that has one."""
        found = (self.values.get(name) for name in names)
        return next((value for value in found if isinstance(value, str)), None)

    def flag(self, *names: str) -> bool:
        """Whether one of some options is there."""
        return any(self.values.get(name) for name in names)

    def processes(self, gpus: int) -> int | None:
        """The number of processes that is asked for, of all machines where the launcher counts so.

        None when it cannot be told.
        """
        options = self.launcher.options
        text = self.value(*options.processes, *options.all_processes)
        return gpus if text in ("gpu", "auto") else int(text) if text and text.isdigit() else None

    @property
    def counts(self) -> bool:
        """Whether it says how many processes it wants, be it in a way that cannot be told."""
        return self.flag(*self.launcher.options.processes)

    @property
    def nodes(self) -> int:
        """Machines; the most of a range."""
        text = (self.value(*self.launcher.options.nodes) or "").rpartition(":")[2]
        return int(text) if text.isdigit() and int(text) > 0 else 1

    def gpus(self, visible: Sequence[int]) -> tuple[int, ...]:
        """The visible GPUs that are asked for."""
        text = self.value(*self.launcher.options.gpus) or ""
        asked = [int(each) for each in re.findall(r"\d+", text.partition(":")[2] or text)]
        return tuple(index for index in asked if index in visible) if asked else tuple(visible)


class _Parser(argparse.ArgumentParser):
    """One that raises where argparse ends the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def options_of(launcher: Launcher, words: Sequence[Word]) -> LauncherCall[Word] | None:
    """What a launcher makes of the words behind its name; None when no program is among them."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    flags = {spelled for name in launcher.options.flags for spelled in _spellings(name)}
    named = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[A-Za-z]", word)}
    for spelled in sorted(named):
        name = spelled.lstrip("-").replace("-", "_")
        if spelled in flags:
            parser.add_argument(spelled, dest=name, action="store_true")
        else:  # also what a newer release may have
            parser.add_argument(spelled, dest=name, nargs="?", const=True)
    parser.add_argument("the program")  # no option's name has a space
    parser.add_argument("its arguments", nargs=argparse.REMAINDER)
    try:
        found = vars(parser.parse_args(list(words)))
    except ValueError:
        return None
    program = [found.pop("the program"), *found.pop("its arguments")]
    return LauncherCall(launcher, found, program)


def flag_of(names: Sequence[str]) -> str:
    """The first of some options that take no value, as it is typed."""
    return _spellings(names[0])[0]


def _spellings(name: str) -> tuple[str, ...]:
    dash = "-" if len(name) == 1 else "--"
    return f"{dash}{name}", f"{dash}{name.replace('_', '-')}"
