"""Shell scripts and command lines, read and never run: assignments, exports, expansions, and the commands that start Python.

Control structures are read line by line, in order. What a command substitution would print is known for GPU counts only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samedevice.preflight._values import Origin, Text

UNTOLD = "\ufffd"
"""Stands for text that only running the script would tell."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_SKIPPED = ("nohup", "exec", "time", "srun", "env", "sudo", "command", "then", "do", "else", "&&", "||", "{", "!")
_COUNTS_GPUS = re.compile(r"device_count\(\)|nvidia-smi[^|]*(?:-L|--list-gpus|--query-gpu)[^|]*\|\s*wc|nvidia-smi --list-gpus")
_VARIABLE = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?::?[-=](?P<default>[^}]*))?(?P<rest>[^}]*)\}|(?P<plain>[A-Za-z_]\w*)|(?P<special>[@*#?0-9]))"
)


@dataclass(frozen=True, slots=True)
class Command:
    """One command that starts a program, with the environment that the program gets."""

    words: tuple[Text, ...]
    environment: dict[str, str]
    line: int
    unexported: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Variables that the script sets and the program does not get: line and value."""
    used: frozenset[str] = frozenset()
    """Variables that the command line itself spells."""


def commands_in(source: str, file: Path, gpus: int, environment: Mapping[str, str]) -> list[Command]:
    """The commands of a script in their order."""
    plain: dict[str, str] = {}
    exported: dict[str, str] = dict(environment)
    set_at: dict[str, int] = {}
    used: set[str] = set()
    found: list[Command] = []
    for number, text in _logical_lines(source):
        for part in _split(text):
            words = _words(part, {**exported, **plain}, gpus, Origin(file, number, kind="shell"), used)
            own: dict[str, str] = {}
            while words and (match := _ASSIGNMENT.fullmatch(words[0])):
                own[match[1]] = {**exported, **plain}.get(match[1], "") + match[3] if match[2] else match[3]
                words = words[1:]
            while words and words[0] in _SKIPPED:
                words = words[1:]
                while words and (match := _ASSIGNMENT.fullmatch(words[0])):
                    own[match[1]] = match[3]
                    words = words[1:]
            if not words:
                for name, value in own.items():
                    (exported if name in exported else plain)[name] = value
                    set_at[name] = number
                continue
            if words[0] == "for" and len(words) > 1:
                plain |= _first_turn(words)
                continue
            if words[0] == "read":
                plain |= {word: UNTOLD for word in words[1:] if word.isidentifier()}
                continue
            if words[0] in ("export", "declare", "typeset"):
                for word in words[1:]:
                    name, has_value, value = word.partition("=")
                    exported[name] = value if has_value else plain.pop(name, exported.get(name, ""))
                    plain.pop(name, None)
                continue
            if words[0] == "unset":
                for word in words[1:]:
                    plain.pop(word, None)
                    exported.pop(word, None)
                continue
            hidden = {name: (line, plain[name]) for name, line in set_at.items() if name in plain and name not in own}
            found.append(Command(tuple(words), {**exported, **own}, number, hidden, frozenset(used)))
    return found


def _first_turn(words: Sequence[Text]) -> dict[str, str]:
    """The variable of a `for` and its first value."""
    counted = re.fullmatch(r"\(\(\s*(\w+)\s*=\s*(\d+).*", "".join(words[1:]))
    if counted:
        return {counted[1]: counted[2]}
    return {words[1]: words[3] if len(words) > 3 and words[2] == "in" else UNTOLD}


def _logical_lines(source: str) -> list[tuple[int, str]]:
    """Lines with their continuations joined; the number is that of the first."""
    lines: list[tuple[int, str]] = []
    held, first = "", 0
    quote = ""
    for number, raw in enumerate(source.splitlines(), 1):
        line = raw
        if not held and line.lstrip().startswith("#"):
            continue
        if not held:
            first = number
        for character in re.sub(r"\\.", "", line):
            if character in "'\"" and (not quote or quote == character):
                quote = "" if quote else character
            elif character == "#" and not quote:
                break
        if line.rstrip().endswith("\\") and not line.rstrip().endswith("\\\\"):
            held += line.rstrip()[:-1] + " "
            continue
        if quote:
            held += line + "\n"
            continue
        lines.append((first, held + line))
        held = ""
    if held:
        lines.append((first, held))
    return lines


def _split(text: str) -> list[str]:
    """The simple commands of a line."""
    parts, current, quote, depth, index = [], "", "", 0, 0
    while index < len(text):
        character = text[index]
        if character == "\\" and quote != "'":
            current += text[index : index + 2]
            index += 2
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif depth == 0 and character == "#" and (not current or current[-1].isspace()):
            break
        elif depth == 0 and character in ";|&" and not (character == "&" and current.endswith(">")):
            parts.append(current)
            current = ""
            index += 1
            continue
        current += character
        index += 1
    return [part for part in (*parts, current) if part.strip()]


def _words(text: str, variables: Mapping[str, str], gpus: int, origin: Origin, used: set[str]) -> list[Text]:
    """The words of one command, expanded."""
    words: list[str] = []
    current, started, index = "", False, 0
    while index < len(text):
        character = text[index]
        if character == "'":
            end = text.find("'", index + 1)
            end = len(text) if end < 0 else end
            current, started, index = current + text[index + 1 : end], True, end + 1
        elif character == '"':
            end = index + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            inside = text[index + 1 : end].replace('\\"', '"')
            current, started, index = current + _expand(inside, variables, gpus, used), True, end + 1
        elif character == "\\":
            current, started, index = current + text[index + 1 : index + 2], True, index + 2
        elif character.isspace():
            if started:
                words.append(current)
            current, started, index = "", False, index + 1
        elif character in "$`":
            raw = _variable_text(text, index)
            value = _expand(raw, variables, gpus, used)
            index += len(raw)
            if current.endswith("=") or "=" in current:
                current, started = current + value, True
                continue
            pieces = value.split()
            if not pieces:
                continue
            current, started = current + pieces[0], True
            for piece in pieces[1:]:
                words.append(current)
                current = piece
        else:
            current, started, index = current + character, True, index + 1
    if started:
        words.append(current)
    return [Text(word, origin) for word in words if not re.fullmatch(r"\d?>>?&?.*|<.*", word)]


def _variable_text(text: str, index: int) -> str:
    if text[index] == "`":
        end = text.find("`", index + 1)
        return text[index:] if end < 0 else text[index : end + 1]
    if text.startswith("$(", index):
        depth = 0
        for position in range(index + 1, len(text)):
            depth += (text[position] == "(") - (text[position] == ")")
            if depth == 0:
                return text[index : position + 1]
        return text[index:]
    found = _VARIABLE.match(text, index)
    return found[0] if found else text[index]


def _expand(text: str, variables: Mapping[str, str], gpus: int, used: set[str]) -> str:
    """Text with its variables and substitutions filled in."""
    out, index = "", 0
    while index < len(text):
        if text.startswith("$(", index) or text[index] == "`":
            raw = _variable_text(text, index)
            out += str(gpus) if _COUNTS_GPUS.search(raw) else UNTOLD
            index += len(raw)
        elif (found := _VARIABLE.match(text, index)) is not None:
            out += _value(found, variables, gpus, used)
            index = found.end()
        else:
            out += text[index]
            index += 1
    return out


def _value(found: re.Match[str], variables: Mapping[str, str], gpus: int, used: set[str]) -> str:
    name = found["braced"] or found["plain"]
    if name is None:
        return UNTOLD
    used.add(name)
    if found["rest"]:
        return UNTOLD
    if name in variables and variables[name] != "":
        return variables[name]
    if found["default"] is not None:
        return _expand(found["default"].strip("\"'"), variables, gpus, used) if found["default"] else ""
    return variables.get(name, UNTOLD)
