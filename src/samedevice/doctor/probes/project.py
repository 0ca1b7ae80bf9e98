"""What the files of a project show of what they use: launchers, tensor parallelism, models with known bugs.

Text is matched, nothing is run. Must guarantee: it ends soon in any folder, and an installed environment
below the folder is not taken for the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from samedevice.doctor.facts import Project, Use
from samedevice.doctor.host import Host
from samedevice.doctor.tables import KnownBug, known_bugs
from samedevice.launchers import LAUNCHERS

_MOST_FILES = 2000
_MOST_FOLDERS = 2000
_LONGEST = 1_000_000
_CODE = (".py", ".ipynb")
_COMMANDS = (".sh", ".bash", ".slurm", ".sbatch", ".yaml", ".yml", ".json", ".toml")
_BY_NAME = ("Makefile", "Dockerfile", "Procfile", "justfile")
_PASSED_OVER = {"node_modules", "site-packages", "dist-packages", "__pycache__", "build", "dist"}

_TENSOR_PARALLEL = re.compile(
    r"tensor[-_]parallel[-_]size[\"']?\s*[=: ]\s*([2-9]|\d\d+)"
    r"|\btp_plan\s*=|--tp(?:-size)?[= ]([2-9]|\d\d+)\b"
)
_SPREAD = re.compile(r"device_map[\"']?\s*[=:]\s*[\"'](?:auto|balanced|balanced_low_0|sequential)[\"']")
_OFFLOADED = re.compile(
    r"\benable_(?:group|model_cpu|sequential_cpu)_offload\s*\(|\bcpu_offload(?:_with_hook)?\s*\("
)
_WORKERS = re.compile(r"num_workers[\"']?\s*[=:]\s*[1-9]|--dataloader_num_workers[= ][1-9]")
_PROCESSES = re.compile(r"--(?:nproc[-_]per[-_]node|num_processes|num_gpus)[= ](\d+)\b")
_LAUNCHED = re.compile(
    "|".join(
        rf"(?:^|[\s;&|\"'\[]){re.escape(' '.join(words))}(?=[\s\"',])"
        for launcher in LAUNCHERS
        for words in launcher.commands
    ),
    re.MULTILINE,
)
_SHOWN = 60


def read_project(host: Host, folder: str) -> Project:
    """What the files of a folder show."""
    found: dict[str, list[Use]] = {
        name: [] for name in ("launchers", "tensor", "workers", "spread", "offloaded", "processes")
    }
    bugs: dict[str, Use] = {}
    count = 0
    for path, text in _texts(host, folder):
        count += 1
        place = path.removeprefix(f"{folder}/")
        commands = not path.endswith(_CODE)
        for name, pattern, wanted in (
            ("launchers", _LAUNCHED, commands),
            ("processes", _PROCESSES, commands),
            ("tensor", _TENSOR_PARALLEL, True),
            ("workers", _WORKERS, True),
            ("spread", _SPREAD, True),
            ("offloaded", _OFFLOADED, not commands),
        ):
            if wanted and (use := _first(pattern, text, place)) is not None:
                found[name].append(use)
        if path.endswith(_CODE):
            for case, name in _bugs(text):
                bugs.setdefault(case, Use(case, place, name))
    return Project(
        folder,
        count,
        launchers=tuple(found["launchers"]),
        tensor_parallel=tuple(found["tensor"]),
        workers=tuple(found["workers"]),
        spread=tuple(found["spread"]),
        offloaded=tuple(found["offloaded"]),
        bugs=tuple(bugs.values()),
        processes=tuple(found["processes"]),
    )


def _first(pattern: re.Pattern[str], text: str, place: str) -> Use | None:
    """The first match outside of a comment."""
    for match in pattern.finditer(text):
        start = text.rfind("\n", 0, match.start() + 1) + 1
        if "#" not in text[start : match.start()]:
            said = match[1] if pattern is _PROCESSES else match[0].strip(" \t\n;&|\"'[")
            return Use(said[:_SHOWN], f"{place}:{text.count(chr(10), 0, match.start() + 1) + 1}")
    return None


def _bugs(text: str) -> Iterator[tuple[str, str]]:
    """The known bugs that a file may meet, each with what of it the file uses."""
    modules = dict.fromkeys(bug.module for bug in known_bugs())
    taken = {module: _taken(module, text) for module in modules if module in text}
    for bug in known_bugs():
        names = taken.get(bug.module)
        if names is not None and _uses(bug, names, text):
            yield bug.case, ", ".join(name for name in bug.names if name in names)


def _uses(bug: KnownBug, taken: set[str], text: str) -> bool:
    """Whether a file takes what has the bug from its module, or loads a model of that kind by its address."""
    if not bug.names and not bug.stems:
        return True
    used = [name in taken for name in bug.names]
    if used and (all(used) if bug.together else any(used)):
        return True
    return any(
        any(re.match(rf"{re.escape(stem)}[A-Z]", name) for name in taken) or _loaded(stem, text)
        for stem in bug.stems
    )


def _taken(module: str, text: str) -> set[str] | None:
    """The names that a file takes from a module; None where it does not import it."""
    own = re.escape(module)
    listed = re.findall(rf"\bfrom\s+{own}(?:\.[\w.]+)?\s+import\s+(\([^)]*\)|[^\n;]+)", text)
    spelled = re.findall(rf"\bimport\s+{own}(?:\.[\w.]+)?(?:\s+as\s+(\w+))?", text)
    if not listed and not spelled:
        return None
    names = {name for each in listed for name in re.findall(r"\w+", each)}
    for alias in {each or module for each in spelled}:
        names |= set(re.findall(rf"\b{re.escape(alias)}\.(?:\w+\.)*(\w+)", text))
    return names


def _loaded(stem: str, text: str) -> bool:
    """Whether an address such as `Qwen/Qwen2.5-VL-7B-Instruct` names a model of these classes."""
    parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", stem)]
    name = r"[._-]?".join(map(re.escape, parts))
    return (
        re.search(rf"[\"'][\w.-]+/(?:[\w.-]*[._-])?{name}(?![a-z0-9])[\w.-]*[\"']", text, re.IGNORECASE)
        is not None
    )


def _texts(host: Host, folder: str) -> Iterator[tuple[str, str]]:
    """The files of the project with their text, folders in the order of their names."""
    waiting, seen, files = [folder], 0, 0
    while waiting and seen < _MOST_FOLDERS:
        current = waiting.pop(0)
        seen += 1
        names = host.names(current)
        if "pyvenv.cfg" in names or "conda-meta" in names:
            continue
        for name in names:
            if name.startswith(".") or name in _PASSED_OVER:
                continue
            path = f"{current}/{name}"
            if name.endswith((*_CODE, *_COMMANDS)) or name in _BY_NAME:
                text = host.text(path)
                if text is not None and len(text) <= _LONGEST:
                    files += 1
                    yield path, text
                    if files >= _MOST_FILES:
                        return
            elif "." not in name:
                waiting.append(path)


def commands_of(uses: Sequence[Use]) -> str:
    """Where something is used, in one line."""
    return ", ".join(f"{use.what} ({use.place})" for use in uses[:2])
