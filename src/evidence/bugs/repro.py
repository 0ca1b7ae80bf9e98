"""Every small program that went wrong once does what it must.

Time: two minutes.
Needs: nothing more; some programs are skipped without torchvision or gpytorch.

    python -m evidence repro                     # all of them, two at a time
    python -m evidence repro --short             # without those that their block calls long
    python -m evidence repro ctc.py cond.py      # some
    python -m evidence repro --json out.json

What must happen stands at the end of each program of `repro/`, between `# /// expect` and `# ///`;
`repro/README.md` says what may stand there. Each program runs in a fork of a process that has imported torch,
so that a run costs what the program costs.

Exit status 0: every program did what it must; 1: not so; 2: wrong usage.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from evidence.commands import command_parser
from evidence.places import ROOT

PROGRAMS = ROOT / "repro"
_LIMIT = 120.0
"""Seconds that a program may take."""
_SCRIPT_FAILED = 3
_OURS = "samedevice.errors.UnsupportedFeatureError"
_BLOCK = re.compile(r"^# /// expect$\n((?:^#(?: .*)?$\n)*?)^# ///$", re.MULTILINE)
_KEYS = {
    "must",
    "command",
    "args",
    "needs",
    "exit",
    "prints",
    "says",
    "never",
    "findings",
    "refused",
    "long",
}


class ReproError(Exception):
    """A program without a readable block."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program and what must happen."""

    name: str
    must: str
    command: tuple[str, ...] = ("run", "--machine", "2x24GB")
    args: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    exit: tuple[int, ...] = ()
    """The exit statuses that are right; empty: any but a crash."""
    prints: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    findings: tuple[Mapping[str, str], ...] | None = None
    long: bool = False
    """Whether it takes long and another program of the quick suite goes most of its way."""
    refused: bool = False
    """Whether one error of ours that names what is missing is right, too: then nothing else of the block
    counts.
    """


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened."""

    name: str
    must: str
    verdict: str
    """`ok`, `wrong`, or `skipped` where something is not installed."""
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def read(path: Path) -> Program:
    """The program with its block; `ReproError` where the block is missing or says something unknown."""
    found = _BLOCK.search(path.read_text())
    if found is None:
        raise ReproError(f"{path.name} has no block `# /// expect`")
    block = tomllib.loads("".join(line[2:] + "\n" for line in found[1].splitlines()))
    if unknown := block.keys() - _KEYS:
        raise ReproError(f"{path.name}: unknown key {', '.join(sorted(unknown))}")
    codes = block.pop("exit", [])
    block["exit"] = tuple(codes) if isinstance(codes, list) else (codes,)
    if "command" in block:
        block["command"] = tuple(block["command"].split())
    for key in ("args", "needs", "prints", "says", "never", "findings"):
        if key in block:
            block[key] = tuple(block[key])
    return Program(name=path.name, **block)


def programs(names: Sequence[str] = ()) -> list[Program]:
    """The programs of those names, or all that have a block."""
    paths = [PROGRAMS / name for name in names] or sorted(
        path for path in PROGRAMS.iterdir() if path.name not in ("README.md", "h.py")
    )
    for path in paths:
        if not path.is_file():
            raise ReproError(f"there is no program {path.name}")
    return [read(path) for path in paths if path.is_file()]


def run(wanted: Sequence[Program], jobs: int = 2) -> list[Outcome]:
    """Run programs, some at a time, each in a folder of its own; the outcomes in the same order."""
    outcomes: dict[str, Outcome] = {}
    waiting, running = list(wanted), list[_Running]()
    while waiting or running:
        while waiting and len(running) < jobs:
            program = waiting.pop(0)
            missing = [name for name in program.needs if not _installed(name)]
            if missing:
                outcomes[program.name] = Outcome(
                    program.name, program.must, "skipped", [f"not installed: {', '.join(missing)}"]
                )
            else:
                running.append(_Running(program))
        for each in list(running):
            if each.ended():
                running.remove(each)
                outcomes[each.program.name] = each.outcome()
        time.sleep(0.02)
    return [outcomes[program.name] for program in wanted]


def _installed(wanted: str) -> bool:
    """Whether a package such as `torch<2.15` is there."""
    requirement = Requirement(wanted)
    try:
        return requirement.specifier.contains(importlib.metadata.version(requirement.name), prereleases=True)
    except importlib.metadata.PackageNotFoundError:
        return False


class _Running:
    """A program in a fork of this process. Forks are made in the main thread: what ends a script waits for
    all others.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._folder = Path(
            tempfile.mkdtemp()
        )  # not a TemporaryDirectory: the exit handlers of a fork would remove it
        for name in (program.name, "h.py"):
            shutil.copy(PROGRAMS / name, self._folder / name)
        self._started = time.monotonic()
        self._code = -signal.SIGALRM
        self._pid = os.fork()
        if self._pid == 0:
            _in_child(program, self._folder)

    def ended(self) -> bool:
        """Whether it is over; one that takes too long is killed, and so are the processes it left."""
        done, status = os.waitpid(self._pid, os.WNOHANG)
        if done:
            self._code = os.waitstatus_to_exitcode(status)
        elif time.monotonic() - self._started < _LIMIT:
            return False
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        if not done:
            os.waitpid(self._pid, 0)
        return True

    def outcome(self) -> Outcome:
        """What happened."""
        program, folder = self.program, self._folder
        findings = _findings(folder / "out.json")
        wrong = list(
            _differences(program, self._code, _text(folder / "out.txt"), _text(folder / "said.txt"), findings)
        )
        shutil.rmtree(folder, ignore_errors=True)
        seconds = round(time.monotonic() - self._started, 1)
        return Outcome(program.name, program.must, "wrong" if wrong else "ok", wrong, seconds)


def _findings(document: Path) -> list[dict[str, Any]] | None:
    """The findings of the run; None where it was ended before it could write them."""
    text = _text(document)
    return json.loads(text)["findings"] if text else None


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _in_child(program: Program, folder: Path) -> None:
    """The program as the command line would run it; never returns."""
    code = 70
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open("out.txt", os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(os.open("said.txt", os.O_WRONLY | os.O_CREAT), 2)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
        code = _called(program)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _called(program: Program) -> int:
    words = [program.name, *program.args]
    if program.command == ("python",):
        import runpy

        sys.argv = words
        try:
            runpy.run_path(program.name, run_name="__main__")
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
            return 1
        return 0
    from samedevice.cli import main

    noted = ["--json", "out.json"] if program.command[0] == "run" else []
    sys.argv = ["samedevice", program.command[0], *noted, *program.command[1:], *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _differences(
    program: Program, code: int, out: str, said: str, findings: list[dict[str, Any]] | None
) -> Iterable[str]:
    if program.refused and code == _SCRIPT_FAILED and _OURS in said:
        return
    if code == -signal.SIGALRM:
        yield f"did not end within {_LIMIT:.0f} s"
    elif code < 0:
        yield f"ended by {signal.Signals(-code).name}"
    elif program.exit and code not in program.exit:
        last = said.strip().splitlines()[-1:] or out.strip().splitlines()[-1:] or [""]
        yield f"exit {code}: {last[0][:160]}"
    yield from (f"does not print {each!r}" for each in program.prints if each not in out)
    yield from (f"does not say {each!r}" for each in program.says if each not in said)
    yield from (f"says {each!r}" for each in program.never if each in out + said)
    if program.findings is None:
        return
    if findings is None:
        yield "writes no document"
        return
    for number, wanted in enumerate(program.findings):
        yield from (
            f"finding {number + 1}: {each}" for each in _unlike(wanted, findings[number : number + 1])
        )
    if len(findings) != len(program.findings):
        yield f"{len(findings)} findings, not {len(program.findings)}"


def _unlike(wanted: Mapping[str, str], found: list[dict[str, Any]]) -> Iterable[str]:
    if not found:
        yield "missing"
        return
    for key, text in wanted.items():
        if key == "fix":
            fixes = json.dumps(
                [(each["title"], each["diff"]) for each in found[0]["fixes"]], ensure_ascii=False
            )
            if text not in fixes.replace('\\"', '"'):
                yield f"no fix has {text!r}"
        elif text not in str(found[0].get(key)):
            yield f"{key} is {str(found[0].get(key))[:120]!r}, not {text!r}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them and print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("programs", nargs="*", help="names of programs; all when none is given")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file, too")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run at once (2)")
    parser.add_argument("--short", action="store_true", help="leave out those that their block calls long")
    chosen = parser.parse_args(arguments)
    try:
        wanted = [each for each in programs(chosen.programs) if not (chosen.short and each.long)]
    except ReproError as error:
        print(f"repro: {error}", file=sys.stderr)
        return 2
    os.environ.setdefault("PYTHONHASHSEED", "0")  # or `samedevice run` starts Python once more
    import torch  # noqa: F401 -- once, for all forks

    import samedevice.cli
    import samedevice.runtime  # noqa: F401 -- the same

    outcomes = run(wanted, chosen.jobs)
    width = max(len(each.name) for each in outcomes)
    for each in outcomes:
        print(
            f"{each.name:{width}}  {each.verdict:7}  {each.seconds:5.1f} s  "
            f"{'; '.join(each.wrong) or each.must}"
        )
    counts = {
        verdict: sum(each.verdict == verdict for each in outcomes) for verdict in ("ok", "wrong", "skipped")
    }
    print(
        f"\n{len(outcomes)} programs: {counts['ok']} ok, {counts['wrong']} wrong, {counts['skipped']} skipped"
    )
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")
    return 1 if counts["wrong"] else 0
