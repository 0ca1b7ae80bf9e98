"""A command as people type it: what stands in front, Python or a launcher with its options, and the program.

Must guarantee: what is not understood is refused by name, and what is passed over is told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from samedevice.errors import UsageError
from samedevice.launchers.launcher import Launcher
from samedevice.launchers.options import LauncherCall, options_of
from samedevice.launchers.prefixes import Prefix, prefix_at
from samedevice.launchers.table import launcher_at, starter_of_tasks
from samedevice.messages import Phrase

_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_FLAGS_OF_PYTHON = "bBdOPquv"
"""Options of Python's that a program may be run with here. Without its environment or its packages
(`-E`, `-I`, `-s`, `-S`) neither samedevice nor what processes inherit would be there.
"""


@dataclass(frozen=True, slots=True)
class Typed:
    """A command, taken apart."""

    kind: Literal["script", "module", "code", "stdin", "command"]
    """What the program is; a `command` is any program that a launcher starts without Python."""
    program: str
    """Path, module or text of the program."""
    arguments: tuple[str, ...]
    starter: str = ""
    """The word that starts it, as it was typed: `python3`, `torchrun`; empty for a program alone."""
    environment: dict[str, str] = field(default_factory=dict)
    """Assignments in front."""
    python_options: tuple[str, ...] = ()
    call: LauncherCall[str] | None = None
    """The launcher with its options."""
    launcher_module: tuple[str, ...] = ()
    """What starts the launcher behind `python -m`."""
    launcher_options: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    """What stands in front and has no effect here."""
    environments: tuple[str, ...] = ()
    """Of those the ones that would have chosen a Python environment."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command without what stands in front of it."""
        program = (self.program, *self.arguments)
        if self.call is not None:
            return ("python", "-m", *self.launcher_module, *self.launcher_options, *program)
        marks: dict[str, tuple[str, ...]] = {"module": ("-m",), "code": ("-c",)}
        return (*((self.starter,) if self.starter else ()), *marks.get(self.kind, ()), *program)


def is_python(word: str) -> bool:
    """Whether a word of a command names Python."""
    return _PYTHON.fullmatch(word) is not None


def assigned(word: str) -> tuple[str, str] | None:
    """Name and value of an assignment in front of a command."""
    found = _ASSIGNMENT.fullmatch(word)
    return (found[1], found[2]) if found else None


def begins_command(words: Sequence[str]) -> bool:
    """Whether words begin with something other than a program: an assignment, a prefix, Python, a launcher.

    A file of that name is a program.
    """
    if not words or ("/" not in words[0] and Path(words[0]).is_file()):
        return False
    return (
        is_python(words[0])
        or assigned(words[0]) is not None
        or launcher_at(words) is not None
        or prefix_at(words) is not None
        or starter_of_tasks(words[:1]) is not None
    )


def read_typed(words: Sequence[str]) -> Typed:
    """Take a command apart; raises UsageError for what cannot be understood."""
    environment: dict[str, str] = {}
    passed: list[str] = []
    chosen: list[str] = []
    rest = list(words)
    while rest and begins_command(rest):
        prefix = prefix_at(rest)
        if (assignment := assigned(rest[0])) is not None:
            environment[assignment[0]] = assignment[1]
            rest = rest[1:]
        elif prefix is None:
            break
        else:
            behind = _behind(prefix, rest)
            if not prefix.assigns:
                passed.append(" ".join(prefix.words))
                chosen += passed[-1:] if prefix.environment else []
            rest = behind
    if not rest:
        raise UsageError(Phrase("command.no-program", command=" ".join(words)))
    front = Typed(
        "script",
        rest[0],
        tuple(rest[1:]),
        environment=environment,
        passed_over=tuple(passed),
        environments=tuple(chosen),
    )
    if not begins_command(rest):
        return replace(front, kind="stdin") if rest[0] == "-" else front
    if (tasks := starter_of_tasks(rest[:1])) is not None:
        raise UsageError(Phrase("command.tasks", command=tasks[0].name))
    front = replace(front, starter=rest[0])
    if is_python(rest[0]):
        return _of_python(front, rest)
    found = launcher_at(rest)
    assert found is not None, "a command begins with one of these"
    launcher, count = found
    return _of_launcher(front, launcher, launcher.modules[0], rest[count:])


def _behind(prefix: Prefix, words: Sequence[str]) -> list[str]:
    """The command behind a prefix and its options."""
    rest = list(words[len(prefix.words) :])
    while rest and rest[0].startswith("-"):
        name, has_value, _ = rest[0].partition("=")
        if name == "--":
            rest = rest[1:]
            break
        if name in prefix.module:
            return ["python", "-m", *rest[1:]]
        if name in prefix.script:
            return ["python", *rest[1:]]
        if name in prefix.values:
            rest = rest[1 if has_value else 2 :]
        elif name in prefix.flags:
            rest = rest[1:]
        else:
            raise UsageError(Phrase("command.option", command=" ".join(prefix.words), option=rest[0]))
    return rest[prefix.operands :]


def _of_python(front: Typed, words: Sequence[str]) -> Typed:
    """What `python ...` starts."""
    options: list[str] = []
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word, rest = rest[0], rest[1:]
        for position, letter in enumerate(word[1:], 2):
            value = word[position:]
            if letter in "cmWX":
                if not value and not rest:
                    raise UsageError(Phrase("command.no-program", command=" ".join(words)))
                value, rest = (value, rest) if value else (rest[0], rest[1:])
                if letter in "WX":
                    options.append(f"-{letter}{value}")
                    break
                if letter == "c":
                    return replace(
                        front,
                        kind="code",
                        program=value,
                        arguments=tuple(rest),
                        python_options=tuple(options),
                    )
                return _of_module(replace(front, python_options=tuple(options)), value, rest)
            if letter not in _FLAGS_OF_PYTHON:
                raise UsageError(Phrase("command.option", command=words[0], option=word))
            options.append(f"-{letter}")
    if not rest:
        raise UsageError(Phrase("command.no-program", command=" ".join(words)))
    return replace(
        front,
        kind="stdin" if rest[0] == "-" else "script",
        program=rest[0],
        arguments=tuple(rest[1:]),
        python_options=tuple(options),
    )


def _of_module(front: Typed, module: str, words: list[str]) -> Typed:
    """What `python -m module ...` starts; the module may be a launcher."""
    found = launcher_at([module, *words], module=True)
    if found is None:
        return replace(front, kind="module", program=module, arguments=tuple(words))
    launcher, count = found
    return _of_launcher(front, launcher, (module, *words[: count - 1]), words[count - 1 :])


def _of_launcher(front: Typed, launcher: Launcher, module: tuple[str, ...], words: Sequence[str]) -> Typed:
    """What a launcher starts, by the words behind its name."""
    call = options_of(launcher, words)
    if call is None:
        raise UsageError(Phrase("command.no-program", command=" ".join((front.starter, *words))))
    own = words[: len(words) - len(call.program)]
    kind: Literal["script", "module", "command"] = "script"
    if call.flag(*launcher.options.any_program):
        kind = "command"
    elif call.flag(*launcher.options.module):
        kind = "module"
    return replace(
        front,
        kind=kind,
        program=call.program[0],
        arguments=tuple(call.program[1:]),
        call=call,
        launcher_module=module,
        launcher_options=tuple(own),
    )
