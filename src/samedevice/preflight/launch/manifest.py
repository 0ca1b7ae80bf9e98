"""Documents that hold commands: Kubernetes, Docker Compose, workflows of CI, Dockerfiles and Makefiles.

What holds a command is known by its key, not by the kind of the document: `command`, `args`, `entrypoint`,
`run`, `script`. The environment and the GPUs that stand beside it, or around it, belong to it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samedevice.preflight.launch.shell import Command, Commands, command_of, commands_in
from samedevice.static import Origin, line_of

_STARTS = ("entrypoint", "command", "args", "cmd")
"""Parts of one command, in the order in which a container joins them."""
_TEXTS = ("run", "script", "runScript", "bash", "shell_command", "setup")
"""Text for a shell."""
_ENVIRONMENTS = ("env", "environment", "environment_variables", "variables", "envs")
_DEEPEST = 30


@dataclass(frozen=True, slots=True)
class _Around:
    """What holds for the commands below a place of a document."""

    environment: Mapping[str, str]
    gpus: int | None = None


def commands_of_document(documents: Sequence[Any], file: Path, gpus: int) -> Commands:
    """The commands in a document of mappings and lists."""
    whole = Commands([], [])
    for document in documents:
        for around, origin, command in _walk(document, _Around({}), file, 0):
            there = min(gpus, around.gpus) if around.gpus is not None else gpus
            made = (
                commands_in(command, file, there, around.environment)
                if isinstance(command, str)
                else command_of(command, around.environment, origin, there)
            )
            whole.found.extend(_at(each, origin, around.gpus) for each in made.found)
            whole.unread.extend((file, origin.line, words) for _, _, words in made.unread)
    return whole


def _at(command: Command, origin: Origin, gpus: int | None) -> Command:
    words = tuple(type(word)(word, origin) for word in command.words)
    limited = {**command.slurm, "gpus": str(gpus)} if gpus is not None else command.slurm
    return replace(command, words=words, line=origin.line, slurm=limited)


def _walk(
    value: Any, around: _Around, file: Path, depth: int
) -> Iterator[tuple[_Around, Origin, str | list[str]]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for part in value:
            yield from _walk(part, around, file, depth + 1)
    if not isinstance(value, dict):
        return
    for name in _ENVIRONMENTS:
        around = replace(around, environment={**around.environment, **_environment(value.get(name))})
    around = replace(around, gpus=_gpus(value) or around.gpus)
    parts = [(name, value[name]) for name in _STARTS if isinstance(value.get(name), (str, list))]
    if parts:
        origin = Origin(file, line_of(value, parts[0][0]), kind="config")
        words = [
            word
            for _, part in parts
            for word in ([str(each) for each in part] if isinstance(part, list) else _split(part))
        ]
        if len(parts) == 1 and isinstance(parts[0][1], str):
            yield around, origin, parts[0][1]
        elif words:
            yield around, origin, words
    for name in _TEXTS:
        text = value.get(name)
        if isinstance(text, list) and all(isinstance(each, str) for each in text):
            text = "\n".join(text)
        if isinstance(text, str):
            yield around, Origin(file, line_of(value, name), kind="config"), text
    for name, part in value.items():
        if isinstance(part, (dict, list)) and name not in (*_STARTS, *_TEXTS):
            yield from _walk(part, around, file, depth + 1)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _environment(given: Any) -> dict[str, str]:
    """`{A: b}`, `[A=b]` or `[{name: A, value: b}]`."""
    if isinstance(given, dict):
        return {
            str(name): str(value) for name, value in given.items() if isinstance(value, (str, int, float))
        }
    found = {}
    for each in given if isinstance(given, list) else ():
        if isinstance(each, str) and "=" in each:
            name, _, value = each.partition("=")
            found[name] = value
        elif (
            isinstance(each, dict)
            and isinstance(each.get("name"), str)
            and isinstance(each.get("value"), (str, int))
        ):
            found[each["name"]] = str(each["value"])
    return found


def _gpus(value: Mapping[str, Any]) -> int | None:
    """The GPUs that a container gets, where the document says so."""
    resources = value.get("resources")
    if not isinstance(resources, dict) and isinstance(deploy := value.get("deploy"), dict):
        resources = deploy.get("resources")
    for kind in ("limits", "requests", "reservations"):
        part = resources.get(kind) if isinstance(resources, dict) else None
        if not isinstance(part, dict):
            continue
        count = part.get("nvidia.com/gpu")
        for device in part.get("devices") or ():
            if isinstance(device, dict):
                ids = device.get("device_ids")
                count = len(ids) if isinstance(ids, list) else device.get("count", count)
        if str(count).isdigit() and int(str(count)) > 0:
            return int(str(count))
    return None


def shell_of_makefile(source: str) -> str:
    """The recipes and variables of a Makefile as lines of a shell script; the number of each line stays."""
    lines = []
    for raw in source.splitlines():
        given = re.match(r"(?:export\s+)?([A-Za-z_]\w*)\s*(?:\?|:{1,2}|\+)?=\s*(.*)", raw)
        line = raw.lstrip("\t")[:] if raw.startswith("\t") else ""
        if given and not raw.startswith("\t"):
            exported = "export " if raw.startswith("export") else ""
            line = (
                f"{exported}{given[1]}={shlex.quote(_variables(given[2].strip()))}"
                if given[2].strip()
                else ""
            )
        elif line:
            line = _variables(line.lstrip("@-+ "))
        lines.append(line)
    return "\n".join(lines) + "\n"


def _variables(text: str) -> str:
    kept = text.replace("$$", "\0")
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", r"${\1}", kept).replace("\0", "$")


def shell_of_dockerfile(source: str) -> str:
    """The commands of a Dockerfile as lines of a shell script; the number of each line stays."""
    lines, entry = [], ""
    for raw in source.splitlines():
        name, _, rest = raw.strip().partition(" ")
        rest = rest.strip()
        if name.upper() in ("CMD", "ENTRYPOINT"):
            words = _listed(rest)
            text = shlex.join(words) if words is not None else rest
            if name.upper() == "ENTRYPOINT":
                entry, text = text, text if rest.endswith("\\") else ""
                lines.append(text)
            else:
                lines.append(f"{entry} {text}".strip())
                entry = ""
        elif name.upper() == "ENV":
            lines.append(f"export {rest}" if "=" in rest else "export " + "=".join(rest.split(None, 1)))
        else:
            lines.append(rest if name.upper() == "RUN" else "")
    if entry:
        lines.append(entry)
    return "\n".join(lines) + "\n"


def _listed(text: str) -> list[str] | None:
    try:
        words = json.loads(text)
    except ValueError:
        return None
    return [str(word) for word in words] if isinstance(words, list) else None
