"""Lint flags a device that was taken out of a library's source where that makes a difference.

Time: three minutes, and what pip needs.
Needs: PyPI, for ten libraries.

    python -m evidence lint-mutants                    # by library, and by half
    python -m evidence lint-mutants --misses           # the missed ones of the half in view, with their lines
    python -m evidence lint-mutants --folder FOLDER    # libraries that are there already

Of ten libraries that no rule was written in view of, calls are drawn that make a tensor with `device=`, or
that send what they have just made to the device of something else. Each loses its device, alone, and the
file is linted again. A mutant is flagged when a finding is there that was not. Constructors, tests and
devices that are written as the host's are left out; of one file two calls at most are taken. Half of the
mutants, by a hash, are in view. Which of the others are flagged is not printed. Of the missed ones many
make no difference: numbers without dimensions, indices, data that stay on the host.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from evidence.commands import command_parser
from samedevice.findings import Finding
from samedevice.lint import Linter, Options, chosen_rules, files_below
from samedevice.messages import Phrase
from samedevice.static.tensors import (
    FUNCTIONS,
    MAKERS,
    Around,
    Call,
    Meeting,
    Project,
    Reading,
    SourceText,
    Tensor,
    Told,
    called,
    parse_source,
)

LIBRARIES = {
    "boltz": "2.2.1",
    "compressai": "1.2.8",
    "evotorch": "0.6.1",
    "linear_operator": "0.6.1",
    "rl4co": "0.7.0",
    "sbi": "0.27.0",
    "tabpfn": "9.2.0",
    "tensordict": "0.15.3",
    "torchani": "2.9.0",
    "transformer_lens": "4.3.0",
}
_LEFT_OUT = ("tests", "test", "testing", "examples", "docs", "test_*.py")
_CONSTRUCTORS = frozenset("__init__ __post_init__ reset_parameters setup build".split())
_OF_A_FILE = 2
_OF_A_LIBRARY = 40
_MAKING = MAKERS | FUNCTIONS["like"]
EVERY = Options(select=("ALL",), fixes=False)
USUAL = frozenset(rule.code for rule in chosen_rules(Options()))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file's text without one device."""

    library: str
    path: Path
    line: int
    before: str
    text: str
    in_view: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """What lint says of a mutant."""

    mutant: Mutant
    codes: tuple[str, ...]
    why: str
    """What is known of a missed one."""

    @property
    def by_default(self) -> bool:
        """Whether a rule that is on by default flags it."""
        return not USUAL.isdisjoint(self.codes)


@contextmanager
def fetched(folder: Path | None) -> Iterator[Path]:
    """A folder with the libraries."""
    with ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="samedevice-mutants-")))
        if folder is None:
            wanted = [f"{name}=={version}" for name, version in LIBRARIES.items()]
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*pip, "-d", str(home), *wanted], check=True)
            for wheel in home.glob("*.whl"):
                with zipfile.ZipFile(wheel) as content:
                    content.extractall(home)
        yield home


def mutants(library: str, folder: Path, seed: int) -> list[Mutant]:
    """The drawn mutants of a library."""
    found: list[tuple[str, Mutant]] = []
    for path in files_below([folder], _LEFT_OUT):
        text = path.read_text("utf-8", "replace")
        source = parse_source(path, text) if "device" in text else None
        of_file = (
            sorted(_of_file(library, folder, source, seed), key=lambda each: each[0])
            if source is not None
            else []
        )
        found += of_file[:_OF_A_FILE]
    return [each for _, each in sorted(found, key=lambda each: each[0])[:_OF_A_LIBRARY]]


def _of_file(library: str, folder: Path, source: SourceText, seed: int) -> Iterator[tuple[str, Mutant]]:
    for call in source.every_call():
        if call.around.function is None or call.around.function.name in _CONSTRUCTORS:
            continue
        cut = _device_keyword(call, source) or _sent_away(call)
        if cut is None:
            continue
        name = f"{seed} {library} {source.path.relative_to(folder)} {call.node.lineno} {call.node.col_offset}"
        rank = hashlib.sha256(name.encode()).hexdigest()
        text = _without(source.text, *cut)
        line = source.lines[call.node.lineno - 1].strip()
        in_view = int(rank[-1], 16) % 2 == 0
        yield rank, Mutant(library, source.path, call.node.lineno, line, text, in_view)


Span = tuple[tuple[int, int], tuple[int, int]]


def _device_keyword(call: Call, source: SourceText) -> Span | None:
    """The part of a call that names the device of what it makes."""
    node = call.node
    if call.name not in _MAKING or not source.dotted(node.func).startswith("torch."):
        return None
    for number, keyword in enumerate(node.keywords):
        if keyword.arg == "device" and not _is_host(keyword.value):
            others = [*node.args, *(each.value for each in node.keywords[:number])]
            after = node.keywords[number + 1 :]
            if others:
                return _end(max(others, key=_end)), _end(keyword.value)
            if after:
                return (keyword.lineno, keyword.col_offset), (after[0].lineno, after[0].col_offset)
    return None


def _sent_away(call: Call) -> Span | None:
    """`.to(x.device)` after a call that makes a tensor."""
    match call.node:
        case ast.Call(func=ast.Attribute(value=owner, attr="to"), args=[goal], keywords=[]) if _names_device(
            goal
        ):
            made: ast.expr = owner
            while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
                if called(made) in MAKERS and ast.unparse(made.func.value) == "torch":
                    placed = any(each.arg == "device" for each in made.keywords)
                    return None if placed else (_end(owner), _end(call.node))
                made = made.func.value
    return None


def _names_device(node: ast.expr) -> bool:
    return called(node).endswith("device") if isinstance(node, ast.Name | ast.Attribute) else False


def _is_host(node: ast.expr) -> bool:
    return ast.unparse(node) in ("None", "'cpu'", "torch.device('cpu')", "'meta'")


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _without(text: str, begin: tuple[int, int], end: tuple[int, int]) -> str:
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    head = b"".join(lines[: begin[0] - 1]) + lines[begin[0] - 1][: begin[1]]
    tail = lines[end[0] - 1][end[1] :] + b"".join(lines[end[0] :])
    return (head + tail).decode()


def judged(mutant: Mutant, linter: Linter, known: dict[Path, Counter[tuple[str, str]]]) -> Judged:
    """Lint a mutant; findings that the file itself has do not count."""
    if mutant.path not in known:
        known[mutant.path] = Counter(map(_known, linter.check(mutant.path).findings))
    left = Counter(known[mutant.path])
    codes = []
    for each in linter.check_code(mutant.path, mutant.text).findings:
        if left[_known(each)] > 0:
            left[_known(each)] -= 1
        else:
            codes.append(each.code)
    return Judged(mutant, tuple(codes), "" if codes else _why(mutant, linter.project))


def _known(finding: Finding[Phrase]) -> tuple[str, str]:
    place = finding.at
    return finding.code, "" if place is None else f"{place.function} {place.code}"


def _why(mutant: Mutant, project: Project) -> str:
    """What the reading knows of a tensor that lost its device."""
    source = parse_source(mutant.path, mutant.text)
    calls = (
        [] if source is None else [each for each in source.every_call() if each.node.lineno == mutant.line]
    )
    calls = [each for each in calls if each.name in _MAKING]
    if source is None or not calls:
        return "not found again"
    call = calls[0]
    told = _told(source, project, call.around)
    made = told.values.get(id(call.node))
    if not isinstance(made, Tensor) or not made.where.unplaced:
        return "is not known to be on the host"
    met = [each for each in told.meetings if any(tensor.made is call.node for _, tensor in each.operands)]
    return _of_meetings(met, call) if met else _of_use(call)


def _told(source: SourceText, project: Project, around: Around) -> Told:
    reading = Reading(source, project)
    assert around.function is not None
    return reading.of(around.function, None if around.owner is None else source.class_text(around.owner))


def _of_meetings(met: Sequence[Meeting], call: Call) -> str:
    own = [tensor for each in met for _, tensor in each.operands if tensor.made is call.node]
    others = [tensor for each in met for _, tensor in each.operands if tensor.made is not call.node]
    if all(each.indexed for each in met):
        return "is an index, or is indexed"
    if all(each.scalar is True for each in own):
        return "has no dimensions"
    if all(each.scalar is None for each in own):
        return "may have no dimensions"
    if not others:
        return "meets only what cannot be told"
    return "meets " + " or ".join(sorted({each.where.kind for each in others}))


def _of_use(call: Call) -> str:
    """What is done with a tensor that meets nothing."""
    statement = call.around.statement
    match statement:
        case ast.Return():
            return "is given back"
        case ast.Assign(targets=[ast.Attribute()]):
            return "is kept as an attribute"
        case ast.Assign(targets=[ast.Subscript()]):
            return "is put into something"
        case ast.Assign(targets=[ast.Name(id=name)]):
            assert call.around.function is not None
            uses = [
                each
                for each in ast.walk(call.around.function)
                if isinstance(each, ast.Name) and each.id == name
            ]
            loads = sum(isinstance(each.ctx, ast.Load) for each in uses)
            return "has a name and meets nothing" if loads else "is not used"
    return "is handed on"


def share(rows: Sequence[Judged]) -> str:
    """How many are flagged."""
    every, usual = sum(bool(each.codes) for each in rows), sum(each.by_default for each in rows)
    return (
        f"{every} of {len(rows)} flagged ({100 * every / max(1, len(rows)):.0f} %), {usual} by default rules"
    )


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="draw others")
    parser.add_argument("--misses", action="store_true", help="print the missed ones that are in view")
    parser.add_argument("--folder", type=Path, help="where the libraries are unpacked already")
    given = parser.parse_args(arguments)
    rows: list[Judged] = []
    with fetched(given.folder) as home:
        for library in LIBRARIES:
            linter = Linter(EVERY)
            known: dict[Path, Counter[tuple[str, str]]] = {}
            found = [judged(each, linter, known) for each in mutants(library, home / library, given.seed)]
            print(f"{library:18} {share(found)}", flush=True)
            rows += found
    for title, view in (("in view", True), ("not in view", False)):
        half = [each for each in rows if each.mutant.in_view is view]
        print(f"\n{title}: {share(half)}")
        for why, count in Counter(each.why for each in half if not each.codes).most_common():
            print(f"  {count:4} {why}")
    for each in rows if given.misses else ():
        if each.mutant.in_view and not each.codes:
            print(f"\n{each.mutant.path}:{each.mutant.line} {each.why}\n    {each.mutant.before}")
    return 0
