"""A changed rule changes the answers that it was meant to change: what the rules say of recorded events.

Time: 20 minutes to record the programs, with the zoo 40; 15 seconds to ask.
Needs: transformers and accelerate to record; for the zoo, its old releases in the cache.

    python -m evidence answers --record          # run each labelled program, and keep its first event
    python -m evidence answers --record --zoo    # and the bad version of each case of the zoo
    python -m evidence answers --record F.py     # other programs, whose first lines are labels as well
    python -m evidence answers                   # ask the rules: which answers are not those of the last time
    python -m evidence answers --keep            # the same, and compare with these answers the next time

An event is what a rule sees of a failing statement. It is the same whatever the rules say, so it need not be
made again for each change of a rule; a change of what is recorded needs `--record --anew`. Cases of the zoo
of which no rule may be written in view are counted, and not shown. What is recorded stays in `build/answers`.
Exit status 1 when an answer that was right is wrong now.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import runpy
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evidence.bugs.programs import PROGRAMS, labels
from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.forks import answers as answers_of_forks
from evidence.places import ROOT
from evidence.zoo import zoo
from evidence.zoo.causes import expected
from samedevice.diagnosis import verdict_of, with_results
from samedevice.machines import parse_machine

FOLDER = ROOT / "build" / "answers"
_MACHINE = "2x24GB"
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Answer:
    """What the rules say of the first event of a program."""

    cause: str
    confidence: str
    guilty: str | None
    right: bool


def record(script: Path, machine: str, path: Path) -> int:
    """Run a program on a virtual machine and write its first event; how many it had."""
    import torch

    from samedevice.runtime import VirtualMachine

    torch.set_num_threads(1)
    sys.argv = [str(script)]
    with VirtualMachine(parse_machine(machine), on_mismatch="record") as entered:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(BaseException):
            runpy.run_path(str(script), run_name="__main__")
        events = list(with_results(entered.events))
    with path.open("wb") as file:
        pickle.dump(events[:1], file)
    return len(events)


def _record_programs(programs: Iterable[Path], anew: bool, jobs: int) -> None:
    import accelerate  # noqa: F401 -- once, for all forks
    import torch  # noqa: F401
    import transformers  # noqa: F401

    def work(program: Path) -> dict[str, Any]:
        os.chdir(FOLDER)
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        return {"events": record(program, _MACHINE, _kept(program))}

    missing = [each.resolve() for each in programs if anew or not _kept(each).exists()]
    for done, (program, said) in enumerate(answers_of_forks(work, missing, jobs, _SECONDS), 1):
        if not said or not said["events"]:
            print(f"{program.stem}: {'no event' if said else 'did not end'}")
        print(f"  {done} of {len(missing)}", end="\r", file=sys.stderr, flush=True)


def _kept(program: Path) -> Path:
    return FOLDER / f"{program.stem}.event"


def _record_case(case: zoo.Case) -> str | None:
    words = [str(case.script), case.machine, str(FOLDER / f"{case.id}.zoo")]
    try:
        subprocess.run(
            [sys.executable, "-c", _ONE, *words],
            cwd=FOLDER,
            env=zoo.environment(case, "bad"),
            capture_output=True,
            timeout=_SECONDS * 4,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return case.id
    return None


_ONE = """
import sys
from pathlib import Path
from evidence.bugs.answers import record
script, machine, path = sys.argv[1:]
record(Path(script), machine, Path(path))
"""


def _record_zoo(anew: bool, jobs: int) -> None:
    chosen = [each for each in zoo.cases() if anew or not (FOLDER / f"{each.id}.zoo").exists()]
    there = [each for each in chosen if not overlays.missing(each.pins["bad"])]
    if len(there) < len(chosen):
        print(f"{len(chosen) - len(there)} cases need old releases: python -m evidence zoo")
    with ThreadPoolExecutor(jobs) as pool:
        for failed in filter(None, pool.map(_record_case, there)):
            print(f"{failed}: not recorded")


def answer(path: Path, right: set[str]) -> Answer | None:
    """What the rules say of a recorded event; None where the program had none."""
    with path.open("rb") as file:
        events = pickle.load(file)  # this command wrote it
    if not events:
        return None
    verdict = verdict_of(events[0])
    return Answer(verdict.cause, verdict.confidence, verdict.guilty, verdict.cause in right)


def _asked() -> Iterator[tuple[str, str, Answer]]:
    """The part, the name and the answer of each event."""
    programs = sorted(FOLDER.glob("*.event"))
    known = json.loads((FOLDER / "programs.json").read_text("utf-8"))
    rights = [set(labels(Path(known[path.stem]))[0]) for path in programs]
    with ProcessPoolExecutor() as pool:
        for path, said in zip(programs, pool.map(answer, programs, rights, chunksize=20), strict=True):
            if said is not None:
                yield "programs", path.stem, said
    for case in zoo.cases():
        path = FOLDER / f"{case.id}.zoo"
        said = answer(path, expected(case)[0]) if path.exists() else None
        if said is not None:
            yield f"zoo, {case.part}", case.id, said


def compare(before: dict[str, Any], now: Sequence[tuple[str, str, Answer]]) -> bool:
    """Print what differs and the shares; whether no right answer was lost."""
    lost, hidden = False, 0
    shares: dict[str, list[bool]] = {}
    for part, name, said in now:
        shares.setdefault(part, []).append(said.right)
        old = before.get(f"{part}/{name}")
        if old is None or old["cause"] == said.cause:
            continue
        lost = lost or (old["right"] and not said.right)
        if part.endswith(zoo.UNSEEN):
            hidden += 1
            continue
        was, is_now = ("right" if each else "wrong" for each in (old["right"], said.right))
        print(f"{name}: {old['cause']} ({was}) -> {said.cause} ({said.confidence}, {is_now})")
    if hidden:
        print(f"{hidden} answers about cases that are not shown are others now")
    for part, rights in shares.items():
        print(f"{part}: {sum(rights)} of {len(rights)} right")
    return not lost


def main(arguments: Sequence[str] | None = None) -> int:
    """Record events, or ask the rules of those that are there."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument(
        "programs", nargs="*", type=Path, help="programs to record; those of the project when none"
    )
    parser.add_argument("--record", action="store_true", help="run what is not recorded yet")
    parser.add_argument("--zoo", action="store_true", help="record the cases of the zoo as well")
    parser.add_argument("--anew", action="store_true", help="record everything again")
    parser.add_argument("--keep", action="store_true", help="compare with the answers of now from here on")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")
    options = parser.parse_args(arguments)
    if (options.programs or options.zoo or options.anew) and not options.record:
        parser.error("programs, --zoo and --anew go with --record")
    FOLDER.mkdir(parents=True, exist_ok=True)
    if options.record:
        programs = options.programs or sorted(PROGRAMS.glob("*/*.py"))
        _remember(programs)
        _record_programs(programs, options.anew, options.jobs)
        if options.zoo:
            _record_zoo(options.anew, options.jobs)
    elif not any(FOLDER.glob("*.event")):
        print("answers: nothing is recorded yet: python -m evidence answers --record", file=sys.stderr)
        return 2
    last = FOLDER / "last.json"
    before = json.loads(last.read_text("utf-8")) if last.exists() else {}
    now = list(_asked())
    fine = compare(before, now)
    if options.keep or not before:
        kept = {f"{part}/{name}": asdict(said) for part, name, said in now}
        last.write_text(json.dumps(kept, indent=1), "utf-8")
    return 0 if fine else 1


def _remember(programs: Iterable[Path]) -> None:
    """Where each program is, for its labels."""
    file = FOLDER / "programs.json"
    known = json.loads(file.read_text("utf-8")) if file.exists() else {}
    known |= {each.stem: str(each.resolve()) for each in programs}
    file.write_text(json.dumps(known, indent=1), "utf-8")
