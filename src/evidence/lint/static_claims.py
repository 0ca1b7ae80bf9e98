"""Each device that the static reading claims is the device at which the tensor is when the program runs.

Time: twenty minutes for 3,000 programs.
Needs: nothing else.

    python -m evidence static-claims                            # 1,000 programs
    python -m evidence static-claims --programs 5000 --seed 7   # others

Each program is a package of three files that is drawn at random: functions, classes and modules that hand
tensors to each other, with attributes, parameters, buffers, properties, closures, loops, lists, dictionaries.
Its functions are read. Then it runs on a virtual machine of two GPUs, with its arguments in several places.
Statements that fail there are taken out first, so that most of a program runs. Wherever a note of a tensor
was taken while it ran, what was claimed of the tensor is compared with it: its device, and whether it has
dimensions. A wrong claim is printed with the program, which is made smaller first.
"""

from __future__ import annotations

import ast
import builtins
import random
import sys
import tempfile
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.lint.claim_programs import ENTER, Block, Node, Program, each_block, program
from samedevice.static.tensors import Project, Reading, Tensor, parse_source

PACKAGE = "drawn_package"
CLAIMED = ("default", "literal", "same", "likely")
_PLACES = ("cpu", "cuda:0", "cuda:1")
_MOST_REPAIRS = 40
_RUNS = 3
Line = tuple[str, int]
"""A file of the package and a line."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed of the tensor that a note is taken of."""

    kind: str
    of: tuple[str, ...]
    scalar: bool | None
    rank: int

    def __str__(self) -> str:
        size = {True: ", no dimensions", False: ", has dimensions", None: ""}[self.scalar]
        return f"{self.kind} {' or '.join(self.of)}{size}"


@dataclass(slots=True)
class Noted:
    """What happened at one note."""

    device: str
    dimensions: int
    known: dict[str, str | None]
    """The devices of what claims of the function name, when it began."""
    default: bool
    """Whether what is made without a device was made on the host when the function began."""


@dataclass(slots=True)
class Wrong:
    """A claim that is not what happened."""

    claim: Claim
    line: Line
    noted: Noted


@dataclass(slots=True)
class Total:
    """What came out of many programs."""

    programs: int = 0
    notes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """Claims that were compared, by kind."""
    wrong: list[tuple[int, Program, Wrong]] = field(default_factory=list)


def claims(folder: Path) -> dict[Line, Claim]:
    """What is claimed of each note in the files of a package."""
    found: dict[Line, Claim] = {}
    for path in sorted(folder.glob("*.py")):
        source = parse_source(path, path.read_text("utf-8"))
        assert source is not None, path
        reading = Reading(source, Project())
        told = {}
        for call in source.calls.get("note", ()):
            function, owner = call.around.function, call.around.owner
            if function is None:
                continue
            if id(function) not in told:
                text = None if owner is None else source.class_text(owner)
                told[id(function)] = reading.of(function, text)
            value = told[id(function)].values.get(id(call.node.args[0]))
            if isinstance(value, Tensor):
                where = value.where
                kind = where.kind if where.kind in CLAIMED else "unknown"
                claim = Claim(kind, where.of if kind != "unknown" else (), value.scalar, value.rank)
                found[(path.stem, call.node.lineno)] = claim
    return found


def symbols(told: dict[Line, Claim]) -> set[str]:
    """What the claims name, as far as it can be asked for while the program runs."""
    return {
        each
        for claim in told.values()
        if claim.kind in ("same", "likely")
        for each in claim.of
        if ":" not in each
    }


def run(folder: Path, told: dict[Line, Claim], seed: int) -> tuple[list[tuple[Line, Noted]], Line | None]:
    """What happened at the notes, and where the program failed, on the machine that is entered."""
    import torch

    names = symbols(told)
    noted: list[tuple[Line, Noted]] = []

    def entered(local: dict[str, Any]) -> tuple[dict[str, str | None], bool]:
        return {name: _device_of(name, local) for name in names}, str(torch.get_default_device()) == "cpu"

    def note(value: object) -> None:
        frame = sys._getframe(1)
        known, default = frame.f_locals["_entered"]
        if isinstance(value, torch.Tensor):
            line = Path(frame.f_code.co_filename).stem, frame.f_lineno
            noted.append((line, Noted(str(value.device), value.dim(), known, default)))

    chance = random.Random(seed)
    places = (
        [chance.choice(_PLACES)] * 4 if chance.random() < 0.4 else [chance.choice(_PLACES) for _ in range(4)]
    )
    with _given(note=note, entered=entered):
        try:
            main = _imported(folder)
            whole = main.Whole().to(places[2])
            x, y = (torch.ones(2, 2, device=device) for device in places[:2])
            whole(x, y, torch.device(places[3]), chance.random() < 0.5)
        except Exception as error:
            return noted, _failing(error, folder)
    return noted, None


def _imported(folder: Path) -> Any:
    """The package's `main`, new, with each function saying that it begins."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    made = {PACKAGE: package}
    before = {name: each for name, each in sys.modules.items() if name.partition(".")[0] == PACKAGE}
    for name in before:
        del sys.modules[name]
    sys.modules[PACKAGE] = package
    try:
        for name in ("other", "classes", "main"):
            path = folder / f"{name}.py"
            module = types.ModuleType(f"{PACKAGE}.{name}")
            module.__package__, module.__file__ = PACKAGE, str(path)
            sys.modules[module.__name__] = made[module.__name__] = module
            text = path.read_text("utf-8").replace(ENTER, "_entered = entered(locals())")
            exec(compile(text, str(path), "exec"), module.__dict__)
    finally:
        for name in made:
            sys.modules.pop(name, None)
    return made[f"{PACKAGE}.main"]


@contextmanager
def _given(**names: object) -> Iterator[None]:
    for name, value in names.items():
        setattr(builtins, name, value)
    try:
        yield
    finally:
        for name in names:
            delattr(builtins, name)


def _device_of(name: str, local: dict[str, Any]) -> str | None:
    """The device of what a claim names; None where there is nothing."""
    import torch

    first, *parts = name.split(".")
    if first not in local:
        return None
    value = local[first]
    for part in parts:
        value = (
            getattr(value, "__dict__", {}).get(part, None)
            if not isinstance(value, torch.nn.Module)
            else getattr(value, part, None)
        )
    if isinstance(value, torch.nn.Module):
        value = next(value.parameters(), None)
    if isinstance(value, torch.Tensor):
        return str(value.device)
    return str(value) if isinstance(value, torch.device) else None


def _failing(error: BaseException, folder: Path) -> Line | None:
    """The line of the package at which the program failed, the innermost."""
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).parent == folder
    ]
    return (Path(frames[-1].filename).stem, frames[-1].lineno or 0) if frames else None


def wrong(told: dict[Line, Claim], noted: Iterable[tuple[Line, Noted]]) -> Iterator[Wrong]:
    """The claims that are not what happened."""
    for line, each in noted:
        claim = told.get(line)
        if claim is not None and not _holds(claim, each):
            yield Wrong(claim, line, each)


def _holds(claim: Claim, noted: Noted) -> bool:
    if claim.scalar is not None and claim.scalar != (noted.dimensions == 0):
        return False
    if claim.rank > noted.dimensions:
        return False
    if claim.kind == "default":
        return noted.device == "cpu" or not noted.default
    if claim.kind == "literal":
        return noted.device in claim.of or noted.device.startswith(f"{claim.of[0]}:")
    if claim.kind == "unknown":
        return True
    known = [noted.known.get(each) for each in claim.of]
    return None in known or noted.device in known


def compared(claim: Claim, noted: Noted) -> bool:
    """Whether something was claimed that can be compared."""
    if claim.kind in ("same", "likely"):
        return None not in [noted.known.get(each) for each in claim.of]
    return claim.kind != "unknown"


def written(drawn: Program, folder: Path) -> bool:
    """Write a program's files; whether they are Python."""
    for name in drawn.files:
        text = drawn.text(name)
        try:
            ast.parse(text)
            compile(text, name, "exec")
        except SyntaxError:
            return False
        (folder / f"{name}.py").write_text(text, "utf-8")
    return True


def _without_line(drawn: Program, line: Line) -> bool:
    """Take the statement of a line out; False where there is none."""
    name, number = line
    at = [1]

    def search(nodes: list[Node]) -> bool:
        for place, node in enumerate(nodes):
            start = at[0]
            at[0] += 1
            if isinstance(node, Block):
                if start == number and not node.head.startswith(
                    ("def ", "class ", "elif", "else", "except", "case")
                ):
                    del nodes[place]
                    return True
                if search(node.body):
                    return True
                if not node.body:
                    at[0] += 1
            elif start == number and node != ENTER:
                del nodes[place]
                return True
        return False

    return search(drawn.files[name])


def fitted(drawn: Program, folder: Path, seed: int) -> bool:
    """Take out statements at which a program fails; whether there is something left to read."""
    for turn in range(_MOST_REPAIRS):
        if not written(drawn, folder):
            return False
        _, failing = run(folder, {}, seed + turn % 2)
        if failing is None:
            return True
        if not _without_line(drawn, failing):
            return turn > 0
    return written(drawn, folder)


def examined(drawn: Program, folder: Path, seed: int, total: Total | None = None) -> list[Wrong]:
    """Read a program and run it in several ways."""
    if not written(drawn, folder):
        return []
    told = claims(folder)
    found: list[Wrong] = []
    for number in range(_RUNS):
        noted, _ = run(folder, told, seed + number)
        found += wrong(told, noted)
        if total is not None:
            total.notes += len({line for line, _ in noted})
            total.kinds.update(
                {
                    line: told[line].kind
                    for line, each in noted
                    if line in told and compared(told[line], each)
                }.values()
            )
    return found


def smaller(drawn: Program, folder: Path, seed: int) -> tuple[Program, Wrong] | None:
    """The same wrong claim in a program with fewer statements."""
    found = examined(drawn, folder, seed)
    if not found:
        return None
    changed = True
    while changed:
        changed = False
        for nodes in [each for file in drawn.files.values() for each in each_block(file)]:
            for place in range(len(nodes) - 1, -1, -1):
                taken = nodes.pop(place)
                again = examined(drawn, folder, seed) if taken != ENTER else []
                if again:
                    found, changed = again, True
                else:
                    nodes.insert(place, taken)
    return drawn, found[0]


def judged(
    seeds: Iterable[int], shrink: bool = True, most_wrong: int = 10, shown: Callable[[str], object] = str
) -> Total:
    """Draw, read and run the programs of these seeds."""
    import samedevice as sd

    total = Total()
    with tempfile.TemporaryDirectory(prefix="samedevice-claims-") as home:
        folder = Path(home).resolve() / PACKAGE
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        with sd.machine("2x24GB", on_mismatch="raise"):
            for seed in seeds:
                drawn = program(seed)
                if not fitted(drawn, folder, seed):
                    continue
                total.programs += 1
                found = examined(drawn, folder, seed, total)
                if found:
                    least = smaller(drawn, folder, seed) if shrink else None
                    total.wrong.append((seed, *(least or (drawn, found[0]))))
                    shown(told_of(*total.wrong[-1]))
                    if len(total.wrong) >= most_wrong:
                        break
    return total


def told_of(seed: int, drawn: Program, wrong: Wrong) -> str:
    """A wrong claim with its program."""
    name, line = wrong.line
    files = "".join(f"# {each}.py\n{drawn.text(each)}" for each in drawn.files)
    place = f"{wrong.noted.device}, {wrong.noted.dimensions} dimensions, began with {wrong.noted.known}"
    return f"{files}\nseed {seed}: {name}.py:{line} claimed {wrong.claim}; it was on {place}"


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 where no claim is wrong."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--programs", type=int, default=1000, metavar="N", help="draw N programs")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="begin with this one")
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.programs)
    total = judged(seeds, shown=lambda text: print(text, flush=True))
    kinds = ", ".join(f"{kind} {count}" for kind, count in total.kinds.most_common())
    done = f"{total.programs} programs, {total.notes} notes taken"
    print(f"{done}, {total.kinds.total()} claims compared: {kinds}")
    print(f"{len(total.wrong)} programs with a wrong claim")
    return int(bool(total.wrong))
