"""Released bugs run to their end under `sd.heal`, with the numbers of a run on one device.

Time: about ten minutes.
Needs: PyPI the first time, for old releases.

    python -m evidence heal-zoo                            # every case
    python -m evidence heal-zoo clip-logits-matmul         # some
    python -m evidence heal-zoo --json FILE

Each case runs several times, each time in a fork of one process that has imported its libraries:

* one GPU: on a virtual machine with one GPU, which stands in the script for every GPU that it names: the run
  on one device;
* CPU: plain torch, no virtual machine, every device of the script replaced by the CPU; only where one GPU has
  the bug as well;
* copies: the CPU again, where each `.to(device)` copies as between devices: a checkpoint is then not the
  memory of what was loaded from it;
* broken: on the virtual machine, which raises as hardware does: the case counts when this ends with a refused
  operator;
* script: the same inside `with sd.heal():`, which is what `samedevice guard --heal script.py` does;
* model: with the line `sd.heal(module)` before each statement that calls a module or one of its methods, and
  such a statement made three times, so that the last one runs on what was learned. Before each time the
  numbers and gradients that the script holds are put back, since the run on one device makes it once.

What is compared is everything that the script holds when it ends, bit for bit: tensors in its variables, in
containers and outputs too, of its modules the parameters, buffers and gradients, and the states of its
optimizers. Random numbers come from a seed for each draw, the same for the same draw in all runs; memory that
nobody wrote holds the same in all of them. A healed run is equal when all is as on one GPU or the CPU, or
when all is as with copies. Exit status 1 when fewer than four of five cases end with equal numbers, or one
ends with other numbers.
"""

from __future__ import annotations

import ast
import ctypes
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.places import ROOT, SOURCES
from evidence.zoo.zoo import OFFLINE, ONE_THREAD, Case, cases

ONE_GPU, CPU, BROKEN, SCRIPT, MODEL, COPIES = WAYS = ("one GPU", "CPU", "broken", "script", "model", "copies")
ENOUGH = 0.8
_CALLS = 3
_GPU = re.compile(r"^cuda(:\d+)?$")
_TIMEOUT = 200.0
_M_PERTURB = -6
"""The parameter of glibc's `mallopt`, in malloc.h."""
_CHILD = f"import sys; from pathlib import Path; from evidence.zoo.heal_zoo import child; child(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), {_TIMEOUT})"  # noqa: E501

Numbers = Mapping[str, tuple[str, tuple[int, ...], bytes]]
"""Type, shape and bytes of each tensor, by the expression that reaches it."""


@dataclass(frozen=True, slots=True)
class End:
    """How one run ended."""

    numbers: Numbers | None
    """None when it did not come to its end."""
    complaint: str = ""
    """The exception's first line, and why it was not healed."""
    repairs: tuple[str, ...] = ()
    entered: bool = True
    """Whether any module that could be healed was called."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case, judged."""

    id: str
    refused: str
    """The message of the broken run; empty when it was not refused."""
    reference: str
    """What the numbers are compared with."""
    script: str
    model: str
    seconds: float
    notes: tuple[str, ...] = ()


# -- the run, in a process of its own


def on_one_device(source: str, device: str) -> ast.Module:
    """The script with every GPU that it names replaced by one device, numbers in a device map too."""

    class Replaced(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            named = isinstance(node.value, str) and _GPU.match(node.value)
            return ast.copy_location(ast.Constant(device), node) if named else node

        def visit_Dict(self, node: ast.Dict) -> ast.AST:
            values = [value.value if isinstance(value, ast.Constant) else None for value in node.values]
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            if (
                values
                and all(type(value) is int and value in (0, 1) for value in values)
                and all(type(key) is str for key in keys)
            ):
                node.values = [ast.copy_location(ast.Constant(device), value) for value in node.values]
            self.generic_visit(node)
            return node

    replaced: ast.Module = Replaced().visit(ast.parse(source))
    return ast.fix_missing_locations(replaced)


class Numbered(Protocol):
    """What counts draws of random numbers."""

    drawn: int


class Draws:
    """Seeds each draw of random numbers by its number, so that the same draw gives the same numbers on every
    device.
    """

    def __init__(self) -> None:
        import torch

        self.drawn = 0
        self._drawing = False
        plain = (
            "rand",
            "randn",
            "randint",
            "randperm",
            "rand_like",
            "randn_like",
            "randint_like",
            "normal",
            "bernoulli",
            "multinomial",
        )
        for name in plain:
            self._seed(torch, name)
        for name in (
            "normal_",
            "uniform_",
            "bernoulli_",
            "exponential_",
            "random_",
            "log_normal_",
            "bernoulli",
            "multinomial",
        ):
            self._seed(torch.Tensor, name)
        for name in (
            "dropout",
            "alpha_dropout",
            "scaled_dot_product_attention",
            "multi_head_attention_forward",
        ):
            self._seed(torch.nn.functional, name)

    def _seed(self, owner: Any, name: str) -> None:
        import torch

        before = getattr(owner, name)

        def seeded(*args: Any, **kwargs: Any) -> Any:
            if self._drawing:  # a mode looks a method up again by its name
                return before(*args, **kwargs)
            self.drawn += 1
            torch.manual_seed(self.drawn)
            self._drawing = True
            try:
                return before(*args, **kwargs)
            finally:
                self._drawing = False

        setattr(owner, name, seeded)


def healed_by_hand(source: str) -> ast.Module:
    """The script with `sd.heal(module)` before each statement that calls the module or one of its methods,
    and that statement three times.

    Modules are found by what the script writes: `model`, `model.visual`, `model.blocks[1].attn`. `_heal` and
    `_repeat` come from the caller; loops are not repeated.
    """
    body: list[ast.stmt] = []
    for statement in ast.parse(source).body:
        if isinstance(statement, (ast.Assign, ast.Expr, ast.With, ast.For)):
            for called in dict.fromkeys(_called(statement)):
                ways = ", ".join(f"lambda: {way}" for way in called)
                body += ast.parse(f"_heal({ways})").body
            if not isinstance(statement, ast.For):
                loop = ast.parse("for _ in _repeat(): pass").body[0]
                assert isinstance(loop, ast.For)
                loop.body = [statement]
                statement = loop  # noqa: PLW2901 -- what is appended
        body.append(statement)
    return ast.fix_missing_locations(ast.Module(body, []))


def _called(statement: ast.stmt) -> Iterator[tuple[str, ...]]:
    """What a statement calls, and the owner of a method, where names, attributes and constants say it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            part: ast.expr = node.func
            while isinstance(part, ast.Attribute) or (
                isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant)
            ):
                part = part.value
            if isinstance(part, ast.Name):
                owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
                yield tuple(map(ast.unparse, [node.func, *owner]))


def by_hand(draws: Numbered, healings: list[Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """`_heal` and `_repeat`: a statement is repeated once a module was healed for it, always with the same
    random numbers and with what the script held before it.
    """
    import torch

    import samedevice as sd

    healed: set[int] = set()
    pending = False

    def heal(*ways: Callable[[], Any]) -> None:
        nonlocal pending
        for way in ways:
            try:
                module = way()
            except Exception:  # not made yet, or a name of an inner function
                continue
            if isinstance(module, torch.nn.Module):
                pending = True
                if id(module) not in healed:
                    healed.add(id(module))
                    healings.append(sd.heal(module))
                return

    def repeat() -> Iterator[None]:
        nonlocal pending
        times, pending = _CALLS if pending and healings else 1, False
        drawn = draws.drawn
        held = Held(names) if times > 1 else None
        for call in range(times):
            if call and held is not None:
                held.put_back()
            draws.drawn = drawn
            yield

    return {"_heal": heal, "_repeat": repeat}


class Held:
    """The numbers and gradients that a script holds before a statement, to be put back before it runs again.

    A statement may write to its own input, add up a gradient or count its calls in a buffer.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        import torch

        tensors = {id(tensor): tensor for _, tensor in tensors_held(names)}.values()
        self._gradients = [
            (tensor, tensor.grad) for tensor in tensors if tensor.is_leaf and tensor.requires_grad
        ]
        gradients = (gradient for _, gradient in self._gradients if gradient is not None)
        with torch.no_grad():
            self._numbers = [(tensor, tensor.detach().clone()) for tensor in (*tensors, *gradients)]

    def put_back(self) -> None:
        """Write only what has changed, so that graphs of what has not can still go backward."""
        import torch

        for tensor, gradient in self._gradients:
            tensor.grad = gradient
        for tensor, before in self._numbers:
            if _bytes(tensor) != _bytes(before):
                with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                    tensor.copy_(before)


def tensors_held(names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every tensor that a script's variables hold, with the expression that reaches it."""
    import torch

    from samedevice.guards._align import tensors_of

    for name, value in names.items():
        if name.startswith("_"):
            continue
        if isinstance(value, torch.nn.Module):
            modules = {name: value}
        else:
            yield from ((path, tensor) for path, _, tensor in tensors_of(value, name, name, 6))
            modules = {
                f"{name}.{key}": part
                for key, part in getattr(value, "__dict__", {}).items()
                if isinstance(part, torch.nn.Module)
            }
        for path, module in modules.items():
            for own, parameter in module.named_parameters():
                yield f"{path}.{own}", parameter
                if parameter.grad is not None:
                    yield f"{path}.{own}.grad", parameter.grad
            yield from ((f"{path}.{own}", buffer) for own, buffer in module.named_buffers())
        if isinstance(value, torch.optim.Optimizer):
            for number, state in enumerate(value.state.values()):
                kept = ((key, each) for key, each in state.items() if isinstance(each, torch.Tensor))
                yield from ((f"{name}.state[{number}].{key}", each) for key, each in kept)


def _bytes(tensor: Any) -> bytes:
    import torch

    plain = tensor.detach().cpu().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def child(script: Path, machine: str, reports: Path, timeout: float) -> int:
    """Run the script in all ways and write what it held at its end; each way is a fork, so that libraries are
    imported once.
    """
    import numpy  # noqa: F401 -- for the forks

    import samedevice.guards
    import samedevice.runtime  # noqa: F401 -- for the forks

    source = script.read_text("utf-8")
    own: list[ast.stmt] = [
        node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    exec(compile(ast.Module(own, []), str(script), "exec"), {})
    for way in WAYS:
        if way == CPU and pickle.loads((reports / ONE_GPU).read_bytes()).numbers is not None:
            continue
        process = os.fork()
        if process == 0:
            signal.alarm(int(timeout))
            try:
                (reports / way).write_bytes(pickle.dumps(run_way(way, source, script, machine)))
            except BaseException as error:
                (reports / way).write_bytes(pickle.dumps(End(None, f"{type(error).__name__}: {error}")))
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(process, 0)[1]:
            (reports / way).write_bytes(pickle.dumps(End(None, f"stopped after {timeout:.0f} s, or died")))
    return 0


def run_way(way: str, source: str, script: Path, machine: str) -> End:
    """Run the script in one way."""
    import numpy
    import torch

    import samedevice as sd

    torch.manual_seed(0)
    numpy.random.seed(0)
    _fill_fresh_memory()
    device = {ONE_GPU: "cuda:0", CPU: "cpu", COPIES: "cpu"}.get(way)
    changed = on_one_device(source, device) if device else healed_by_hand(source) if way == MODEL else source
    code = compile(changed, str(script), "exec")
    sys.argv = [str(script)]
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    healings: list[Any] = []
    held: dict[str, tuple[str, tuple[int, ...], bytes]] | None = None
    complaint = ""
    with ExitStack() as stack:
        if way == COPIES:
            _copy_at_moves()
        if way not in (CPU, COPIES):
            stack.enter_context(sd.machine("1x24GB" if way == ONE_GPU else machine))
        draws = Draws()
        block = sd.heal() if way == SCRIPT else None
        if block is not None:
            healings.append(block)
        if way == MODEL:
            names |= by_hand(draws, healings, names)
        try:
            with block or nullcontext():  # what it says on an exception, it says when it is left
                exec(code, names)
        except Exception as error:
            if os.environ.get("HEAL_TRACE"):
                traceback.print_exc()
            note = next((each for each in getattr(error, "__notes__", ()) if "healed" in each), "")
            complaint = f"{str(error).splitlines()[0] if str(error) else type(error).__name__} {note}".strip()
        else:
            held = {}
            for path, tensor in tensors_held(names):
                held[path] = (str(tensor.dtype), tuple(tensor.shape), _bytes(tensor))
    repairs = tuple(
        f"{each.module}: {each.operand} {each.source} -> {each.target} ({each.finding.cause})"
        + (f" at {Path(each.finding.at.file).name}:{each.finding.at.line}" if each.finding.at else "")
        for healing in healings
        for each in healing.repairs
    )
    return End(held, complaint, repairs, bool(healings))


def _copy_at_moves() -> None:
    """Let each `.to(device)` copy, also where the tensor is there already."""
    import torch

    before = torch.Tensor.to

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        moved = before(self, *args, **kwargs)
        sent = "device" in kwargs or (bool(args) and isinstance(args[0], (str, torch.device)))
        return moved.clone() if sent and moved is self else moved

    setattr(torch.Tensor, "to", to)  # noqa: B010 -- a method, to mypy


def _fill_fresh_memory() -> None:
    """Let glibc fill what it hands out, so that `torch.empty` holds the same in all runs."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_PERTURB, 0x5A)


# -- the judgement


def ends_of(case: Case) -> dict[str, End]:
    """How a case ends on its bad version, each way."""
    env = overlays.environment(case.pins["bad"])
    env["PYTHONPATH"] = os.pathsep.join([str(SOURCES), env["PYTHONPATH"]])
    env |= {**OFFLINE, **ONE_THREAD, "PYTHONHASHSEED": "0", "SAMEDEVICE_VALUE_LIMIT": str(1 << 28)}
    with tempfile.TemporaryDirectory(prefix="samedevice-heal-") as scratch:
        command = [sys.executable, "-c", _CHILD, str(case.script), case.machine, scratch]
        done = subprocess.run(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if os.environ.get("HEAL_TRACE"):
            print(done.stdout, done.stderr, file=sys.stderr)
        ends = {
            path.name: pickle.loads(path.read_bytes())
            for path in Path(scratch).iterdir()
            if path.name in WAYS
        }
    failed = End(None, f"exit status {done.returncode}: {''.join(done.stderr.strip().splitlines()[-1:])}")
    return {way: ends.get(way, failed) for way in WAYS}


def unequal(one: Numbers, other: Numbers) -> list[str]:
    """Tensors that differ in type, shape or any bit, or that one run lacks."""
    return [path for path in sorted({*one, *other}) if one.get(path) != other.get(path)]


def differing(references: Sequence[End], end: End) -> list[str]:
    """What differs from the references: nothing as soon as one of them has the very same numbers."""
    found = [unequal(each.numbers or {}, end.numbers or {}) for each in references]
    return [] if [] in found else found[0]


def verdict(references: Sequence[End], end: End) -> str:
    """`equal`, `OTHER NUMBERS`, or how the run failed."""
    if end.numbers is None:
        return "refused" if "not healed" in end.complaint else "failed"
    return "OTHER NUMBERS" if differing(references, end) else "equal"


def judge(case: Case) -> Row:
    """Run a case all ways."""
    begin = time.monotonic()
    ends = ends_of(case)
    broken, script, model = ends[BROKEN], ends[SCRIPT], ends[MODEL]
    reference = ONE_GPU if ends[ONE_GPU].numbers is not None else CPU
    alone = ends[reference]
    references = [each for each in (alone, ends[COPIES]) if each.numbers is not None]
    refused = broken.complaint if broken.numbers is None else ""
    notes = []
    if alone.numbers is None:
        return Row(
            case.id,
            refused,
            "none",
            "no reference",
            "no reference",
            time.monotonic() - begin,
            (alone.complaint,),
        )
    for name, end in (("script", script), ("model", model)):
        if end.complaint:
            notes.append(f"{name}: {end.complaint}")
        if end.numbers is not None and (found := differing(references, end)):
            notes.append(f"{name}: differs in {', '.join(found[:6])} ({len(found)} of {len(alone.numbers)})")
        notes += [f"{name}: {repair}" for repair in end.repairs]
    return Row(
        case.id,
        refused,
        reference,
        verdict(references, script),
        verdict(references, model) if model.entered else "no module",
        time.monotonic() - begin,
        tuple(notes),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, print a line for each and the totals."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results")
    options = parser.parse_args(arguments)
    rows = []
    for case in cases():
        if options.cases and case.id not in options.cases:
            continue
        rows.append(row := judge(case))
        print(
            f"{row.id:34} script {row.script:14} model {row.model:14} with {row.reference:8} "
            f"{row.seconds:5.1f} s",
            flush=True,
        )
        for note in row.notes:
            print(f"    {note}", flush=True)
    counted = [row for row in rows if row.refused and row.script != "no reference"]
    for name in ("script", "model"):
        count = Counter(getattr(row, name) for row in counted)
        print(
            f"{name}: equal {count['equal']} of {len(counted)}; "
            + ", ".join(f"{word} {n}" for word, n in sorted(count.items()))
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", "utf-8")
    good = sum(row.script == "equal" for row in counted) >= ENOUGH * len(counted)
    return 0 if good and all("OTHER NUMBERS" not in (row.script, row.model) for row in counted) else 1
