"""Shell scripts and command lines, read and never run.

Assignments, exports, expansions, and the commands that start Python.

Control structures are read line by line, in order. What a command substitution would print is known for GPU
counts only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samedevice.errors import UsageError
from samedevice.launchers import LAUNCHERS
from samedevice.static import UNTOLD, Origin, Text, read_text

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_SKIPPED = (
    "nohup",
    "exec",
    "time",
    "env",
    "command",
    "then",
    "do",
    "else",
    "if",
    "elif",
    "while",
    "until",
    "&&",
    "||",
    "{",
    "!",
    "coproc",
)
_SHELLS = ("bash", "sh", "zsh", "dash", "ksh")
_WRAP_SHELLS = (
    *(launcher.name for launcher in LAUNCHERS if launcher.tasks is not None),
    *"sudo timeout nice numactl docker singularity apptainer conda uv poetry".split(),
)
_FUNCTION = re.compile(r"\s*(?:function\s+([\w-]+)\s*(?:\(\s*\))?|([\w-]+)\s*\(\s*\))\s*\{")
_HEREDOC = re.compile(r"(?<!<)<<-?\s*(['\"]?)(\w+)\1")
_READ_WHOLE = re.compile(r"""\s*read\s(?:\s*-\w+)*?\s*-\w*d\s*(?:''|"")\s+(?:-\w+\s+)*(\w+)\s*<<""")
_DEEPEST = 6
"""Functions, scripts and texts inside each other."""
_MOST_COMMANDS = 2000
_COUNTS_GPUS = re.compile(
    r"device_count\(\)|nvidia-smi[^|]*(?:-L|--list-gpus|--query-gpu)[^|]*\|\s*wc|nvidia-smi --list-gpus"
)
_VARIABLE = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w*|\d+)(?::?[-=](?P<default>[^}]*))?(?P<rest>[^}]*)\}|(?P<plain>[A-Za-z_]\w*)|(?P<special>[@*#?0-9]))"
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
    slurm: Mapping[str, str] = field(default_factory=dict)
    """What the script asks of SLURM."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What a script starts."""

    found: list[Command]
    unread: list[tuple[Path, int, str]]
    """What starts something that could not be read: file, line and words."""


def commands_in(source: str, file: Path, gpus: int, environment: Mapping[str, str]) -> Commands:
    """The commands of a script in their order, those of scripts and functions that it calls included."""
    reader = _Reader(gpus, environment)
    reader.slurm = _slurm(source)
    reader.exported |= {
        name: value
        for name, value in reader.slurm.items()
        if name.startswith("SLURM_") and name not in environment
    }
    reader.read(_logical_lines(source), file, 0)
    return Commands(reader.found, reader.unread)


def command_of(words: Sequence[str], environment: Mapping[str, str], origin: Origin, gpus: int) -> Commands:
    """The command that a list of words is, as a container starts it; a shell's `-c` is read on."""
    reader = _Reader(gpus, environment)
    reader.simple([Text(word, origin) for word in words], {}, origin.file, origin.line, 0)
    return Commands(reader.found, reader.unread)


class _Reader:
    """Reads commands in order, with the variables that were set so far."""

    def __init__(self, gpus: int, environment: Mapping[str, str]) -> None:
        self.found: list[Command] = []
        self.unread: list[tuple[Path, int, str]] = []
        self.plain: dict[str, str] = {}
        self.exported: dict[str, str] = dict(environment)
        self.slurm: dict[str, str] = {}
        self._gpus = gpus
        self._set_at: dict[str, int] = {}
        self._used: set[str] = set()
        self._functions: dict[str, list[tuple[int, str]]] = {}
        self._before: list[Text] = []
        """What wraps the shell that is read: `srun`."""
        self._commands = 0

    def read(self, lines: list[tuple[int, str]], file: Path, depth: int) -> None:
        """Read lines in order; bodies of functions wait for their call."""
        body: list[tuple[int, str]] | None = None
        for number, text in lines:
            if body is None and (begun := _FUNCTION.match(text)):
                body = self._functions[begun[1] or begun[2]] = []
                rest = text[begun.end() :]
                if rest.rstrip().endswith("}"):  # all in one line
                    body.append((number, rest.rstrip()[:-1].rstrip().removesuffix(";")))
                    body = None
                elif rest.strip():
                    body.append((number, rest))
            elif body is not None:
                if text.rstrip() == "}" or re.match(r"\}\s*(?:[;&|>].*)?$", text):
                    body = None
                else:
                    body.append((number, text))
            else:
                for part in _split(text):
                    self._part(part, file, number, depth)

    def _part(self, part: str, file: Path, number: int, depth: int) -> None:
        inside = part.strip()
        if inside.startswith("(") and inside.endswith(")") and not inside.startswith("(("):
            for each in _split(inside[1:-1]) if depth < _DEEPEST else ():
                self._part(each, file, number, depth + 1)
            return
        words = _words(
            part, {**self.exported, **self.plain}, self._gpus, Origin(file, number, kind="shell"), self._used
        )
        own: dict[str, str] = {}
        while words:
            if match := _ASSIGNMENT.fullmatch(words[0]):
                own[match[1]] = (
                    {**self.exported, **self.plain}.get(match[1], "") + match[3] if match[2] else match[3]
                )
            elif words[0] not in _SKIPPED and not (
                words[0].endswith(")") and "(" not in words[0]
            ):  # `multi)` of a case
                break
            words = words[1:]
        if words:
            self.simple(words, own, file, number, depth)
            return
        for name, value in own.items():
            (self.exported if name in self.exported else self.plain)[name] = value
            self._set_at[name] = number

    def simple(self, words: list[Text], own: dict[str, str], file: Path, number: int, depth: int) -> None:
        """One command with the variables that stand before it."""
        name = Path(words[0]).name
        self._commands += 1
        if self._commands > _MOST_COMMANDS:
            return
        if name == "for" and len(words) > 1:
            self.plain |= _first_turn(words)
        elif name == "read":
            self.plain |= {word: UNTOLD for word in words[1:] if word.isidentifier()}
        elif name in ("export", "declare", "typeset", "local", "readonly"):
            for word in words[1:]:
                variable, has_value, value = word.partition("=")
                if name in ("export", "declare", "typeset"):
                    self.exported[variable] = (
                        value if has_value else self.plain.pop(variable, self.exported.get(variable, ""))
                    )
                    self.plain.pop(variable, None)
                elif has_value:
                    self.plain[variable] = value
        elif name == "unset":
            for word in words[1:]:
                self.plain.pop(word, None)
                self.exported.pop(word, None)
        elif depth < _DEEPEST and words[0] in self._functions:
            self._called(self._functions[words[0]], words[1:], own, file, depth)
        elif depth < _DEEPEST and (shell := _shell_at(words)) is not None:
            before, self._before = self._before, [*self._before, *words[:shell]]
            if (inner := _text_run(words[shell:])) is not None:
                self._in_environment(own, [(number, line) for _, line in _logical_lines(inner)], file, depth)
            elif (script := _script_run(words[shell:])) is not None:
                self._script(script, words[shell:], own, file, number, depth)
            self._before = before
        else:
            hidden = {
                key: (line, self.plain[key])
                for key, line in self._set_at.items()
                if key in self.plain and key not in own
            }
            environment = {**self.exported, **own}
            self.found.append(
                Command(
                    (*self._before, *words), environment, number, hidden, frozenset(self._used), self.slurm
                )
            )

    def _called(
        self, body: list[tuple[int, str]], arguments: list[Text], own: dict[str, str], file: Path, depth: int
    ) -> None:
        """A function's lines with its arguments in them."""

        def given(found: re.Match[str]) -> str:
            which = found[1] or found[2]
            if which in "@*":
                return " ".join(map(shlex.quote, arguments))
            return arguments[int(which) - 1] if 0 < int(which) <= len(arguments) else ""

        lines = []
        for line, text in body:
            lines.append((line, re.sub(r'"?\$(?:\{([@*1-9])\}|([@*1-9]))"?', given, text)))
            if shifted := re.search(r"(?:^|[;&\s])shift\b\s*(\d*)", text):
                arguments = arguments[int(shifted[1] or 1) :]
        self._in_environment(own, lines, file, depth)

    def _in_environment(
        self, own: dict[str, str], lines: list[tuple[int, str]], file: Path, depth: int
    ) -> None:
        kept = self.exported
        self.exported = {**kept, **own}
        self.read(lines, file, depth + 1)
        self.exported = kept | {name: value for name, value in self.exported.items() if name not in own}

    def _script(
        self, script: str, words: list[Text], own: dict[str, str], file: Path, number: int, depth: int
    ) -> None:
        """Another script: read as a part of this one where it is sourced, else with what is exported."""
        path = next(
            (
                each
                for each in (file.parent / script, Path(script))
                if UNTOLD not in script and each.is_file()
            ),
            None,
        )
        try:
            lines = _logical_lines(read_text(path)) if path is not None else None
        except UsageError:
            lines = None
        if path is None or lines is None:
            self.unread.append((file, number, " ".join(words)))
            return
        kept = dict(self.plain)
        if words[0] not in ("source", "."):
            self.plain = {}
        self._in_environment(own, lines, path, depth)
        if words[0] not in ("source", "."):
            self.plain = kept


def _shell_at(words: Sequence[str]) -> int | None:
    """Where a shell, or a script of one, stands in a command.

    First, or behind what starts it in several tasks or elsewhere.
    """
    wraps = Path(words[0]).name in _WRAP_SHELLS
    for position in range(len(words) if wraps else 1):
        if _text_run(words[position:]) is not None or _script_run(words[position:]) is not None:
            return position
    return None


def _text_run(words: Sequence[str]) -> str | None:
    """The text that `eval` or a shell's `-c` runs."""
    if words[0] == "eval":
        return " ".join(words[1:])
    if Path(words[0]).name in _SHELLS:
        for position, word in enumerate(words[1:-1], 1):
            if re.fullmatch(r"-[a-z]*c", word):
                return words[position + 1]
    return None


def _script_run(words: Sequence[str]) -> str | None:
    """The script that a command runs."""
    name = Path(words[0]).name
    if name in (*_SHELLS, "source", ".", "sbatch"):
        return next((word for word in words[1:] if not word.startswith("-")), None)
    return words[0] if name.endswith((".sh", ".bash")) else None


def _slurm(source: str) -> dict[str, str]:
    """What the directives of a SLURM script ask for, as the variables that a job finds.

    `gpus` are for each node.
    """
    asked = dict(re.findall(r"^#SBATCH\s+--?([A-Za-z][\w-]*)[=\s]+([^\s#]+)", source, re.MULTILINE))
    if not asked:
        return {}
    found = {}
    for name, spellings in (
        ("SLURM_NNODES", ("nodes", "N")),
        ("SLURM_NTASKS", ("ntasks", "n")),
        ("SLURM_NTASKS_PER_NODE", ("ntasks-per-node",)),
        ("gpus", ("gpus-per-node", "gres", "gpus", "G")),
        ("SLURM_GPUS_PER_TASK", ("gpus-per-task",)),
    ):
        value = next((asked[each] for each in spellings if each in asked), "")
        number = re.search(r"(\d+)\Z", value.partition("-")[0])
        if number is not None:
            found[name] = number[1]
    found.setdefault("SLURM_NNODES", "1")
    found["SLURM_JOB_NUM_NODES"] = found["SLURM_NNODES"]
    if "gpus" in found:
        found["SLURM_GPUS_ON_NODE"] = found["SLURM_GPUS_PER_NODE"] = found["gpus"]
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
    text_until: str | None = None
    kept = False
    variable = ""
    body: list[str] = []
    for number, raw in enumerate(source.splitlines(), 1):
        line = raw
        if (
            text_until is not None
        ):  # a here-document: what a shell gets is read, what a file or a program gets is text
            if line.strip() == text_until:
                text_until = None
                if variable:
                    lines.append((first, _assignment(variable, body)))
            elif kept:
                lines.append((number, line))
            body.append(line)
            continue
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
        if (here := _HEREDOC.search(held + line)) is not None:
            text_until, kept = here[2], bool(re.match(r"\s*(?:\S*/)?(?:bash|sh|zsh)\b", held + line))
            read = _READ_WHOLE.match(held + line)
            variable, body = (read[1] if read is not None and not here[1] else ""), []
        held = ""
    if held:
        lines.append((first, held))
    return lines


def _assignment(name: str, body: Sequence[str]) -> str:
    """What `read -d ''` does with a here-document: its variables are filled in, its lines are words later."""
    text = "\n".join(body).replace("\\\n", " ").replace('"', '\\"')
    return f'{name}="{text}"'


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
    kept: list[Text] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif found := re.fullmatch(r"(?:\d|&)?(?:>>?|<)(&?)(.*)|<<.*", word):
            skip = found[2] == "" and found[1] == ""  # `> log`
        else:
            kept.append(Text(word, origin))
    return kept


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
