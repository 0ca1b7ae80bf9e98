"""`samedevice run` starts a script in little more time than `import torch`.

Time: two minutes; with `--ghost` some more.
Needs: nothing more; `--ghost` transformers and, the first time, the index of packages for torchvision.

    python -m evidence start-cost [--rounds N] [--ghost]

Each round starts every program once, in turns, so that what slows the computer down slows all of them.
Seconds are the processor's, of user and system together, and the least of all rounds: other programs can only
add to them. A ratio is the median of the rounds' own ratios. Python's bytecode is written before the first
round, as an installation writes it. `--ghost` runs the first half of `make demo`: Qwen2.5-VL-7B at its full
size on eight virtual GPUs, from the start of Python to the printed finding, beside plain Python that only
imports what the script imports.

Exit status 1: an empty script costs more than 1.2 times `import torch`, which is 0.3 s where torch takes
1.5 s.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.commands import command_parser
from evidence.places import ROOT

LIMIT = 1.2
"""Of an empty run to `import torch`."""
_MODEL = "qwen2.5-vl-7b-instruct"
_SAMEDEVICE = ("-m", "samedevice")
_TEXTS = {
    "traceback": "corpus/third/pasted/iffyloop-triposr-bake-7.txt",
    "story": "corpus/stories/pasted/story-s1-en-chat.txt",
}
_IMPORTS = (
    "import numpy, torch; from PIL import Image; "
    "from transformers import AutoConfig, AutoProcessor, Qwen2_5_VLForConditionalGeneration"
)


@dataclass(frozen=True, slots=True)
class Start:
    """One program, and the program that its ratio is to."""

    name: str
    arguments: tuple[str, ...]
    beside: str = ""
    status: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one start took, in seconds."""

    processor: float
    clock: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when an empty run is too slow."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ghost", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="start-cost-") as folder:
        script = Path(folder) / "empty.py"
        script.write_text("", encoding="utf-8")
        starts, variables = _starts(script), dict(os.environ)
        if options.ghost:
            ghost, variables = _ghost()
            starts += ghost
        found = measured(starts, _environment(variables, Path(folder)), options.rounds)
    for start in starts:
        print(row(start, found))
    ratio = ratio_of("samedevice run, empty script", "import torch", found)
    return 1 if ratio > LIMIT else 0


def measured(
    starts: Sequence[Start], environment: Mapping[str, str], rounds: int
) -> Mapping[str, Sequence[Cost]]:
    """What each program took, round by round; a round before the first is not counted."""
    found: dict[str, list[Cost]] = {start.name: [] for start in starts}
    for number in range(rounds + 1):
        for start in starts:
            cost = _cost(start, environment)
            if number:
                found[start.name].append(cost)
    return found


def row(start: Start, found: Mapping[str, Sequence[Cost]]) -> str:
    """The line of one program."""
    least = min(cost.processor for cost in found[start.name])
    quickest = min(cost.clock for cost in found[start.name])
    beside = ""
    if start.beside:
        more = least - min(cost.processor for cost in found[start.beside])
        beside = f"  x{ratio_of(start.name, start.beside, found):.2f} of {start.beside} ({more:+.2f} s)"
    return f"{start.name:45} {least:6.2f} s of the processor, {quickest:6.2f} s by the clock{beside}"


def ratio_of(name: str, beside: str, found: Mapping[str, Sequence[Cost]]) -> float:
    """The median of the rounds' ratios."""
    pairs = zip(found[name], found[beside], strict=True)
    return statistics.median(one.processor / other.processor for one, other in pairs)


def _starts(script: Path) -> list[Start]:
    run = (*_SAMEDEVICE, "run", str(script))
    return [
        Start("plain Python", ("-c", "")),
        Start("import samedevice", ("-c", "import samedevice"), "plain Python"),
        Start("samedevice --help", (*_SAMEDEVICE, "--help"), "plain Python"),
        Start("samedevice explain SD111", (*_SAMEDEVICE, "explain", "SD111"), "plain Python"),
        *(
            Start(
                f"samedevice explain, a {kind}", (*_SAMEDEVICE, "explain", str(ROOT / path)), "plain Python"
            )
            for kind, path in _TEXTS.items()
        ),
        Start("import torch", ("-c", "import torch")),
        Start("samedevice run, empty script", run, "import torch"),
    ]


def _ghost() -> tuple[list[Start], dict[str, str]]:
    """The programs around a model of full size, and the variables that they need."""
    from evidence.bugs import situations
    from evidence.environments import example_models, overlays

    overlays.ensure_all([situations.pins_of("installed")])
    folder = example_models.make(_MODEL)
    script = ("examples/s2_describe.py", "--model", str(folder))
    run = (*_SAMEDEVICE, "run", "--machine", situations.MACHINE, *script)
    starts = [
        Start("imports of the script", ("-c", _IMPORTS)),
        Start("first finding on Qwen2.5-VL-7B", run, "imports of the script", status=1),
    ]
    return starts, situations.environment_of("installed")


def _environment(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """These variables, with bytecode written, and one thread: others would only wait."""
    kept = {name: value for name, value in variables.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "OMP_NUM_THREADS": "1"}


def _cost(start: Start, environment: Mapping[str, str]) -> Cost:
    nothing = [(os.POSIX_SPAWN_OPEN, output, os.devnull, os.O_WRONLY, 0) for output in (1, 2)]
    begin = time.perf_counter()
    os.chdir(ROOT)
    child = os.posix_spawn(
        sys.executable, [sys.executable, *start.arguments], environment, file_actions=nothing
    )
    _, status, usage = os.wait4(child, 0)
    clock = time.perf_counter() - begin
    if (code := os.waitstatus_to_exitcode(status)) != start.status:
        sys.exit(f"start-cost: {start.name} ended with {code}, not with {start.status}")
    return Cost(usage.ru_utime + usage.ru_stime, clock)
