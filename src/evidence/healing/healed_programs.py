"""Drawn programs, healed and on one device, and how what they hold compares; for `heal-proof`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import linecache
import logging
import os
import pickle
import re
import signal
import time
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

import samedevice as sd
from evidence.environments import twin_device
from evidence.healing import drawn_programs

DEVICES = ("cuda:0", "cuda:1", "cpu")
WAYS = ("model", "block", "both")
_names = itertools.count()
WORDS = ("equal", "refused", "DIFFERENT", "unhealed", "ambiguous", "crashed")
_CHUNK = 100
"""Programs that share a process."""


@dataclass(frozen=True, slots=True)
class Program:
    """A source, where its parts are and how it is healed."""

    source: str
    places: tuple[str, ...]
    way: str

    @property
    def home(self) -> str:
        """The one device."""
        return self.places[0]

    def on_twins(self) -> Program:
        """The same program on two devices that are real for torch."""
        places = tuple(each.replace("cuda", "twin") for each in self.places)
        return Program(self.source, places, self.way)


@dataclass(slots=True)
class Run:
    """What was seen after each call, and how it ended."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    refused: bool = False
    """Whether the error has to do with devices, or with healing."""


def drawn(random: Random) -> Program:
    """A program, its places and a way."""
    source = drawn_programs.write(random)
    devices = (
        DEVICES[:2] if any(word in source for word in ("random_", "uniform_")) else DEVICES
    )  # the host draws other numbers
    places = ("cuda:0", *(random.choices(devices, (4, 2, 3)[: len(devices)])[0] for _ in range(7)))
    if "DataParallel" in source:  # it moves its inputs by itself, and parts them from others of their memory
        places = ("cuda:0",) * 8
    return Program(source, places, random.choice(WAYS))


def ran(program: Program, healed: bool) -> Run:
    """The program on its places and healed, or on one device; inside a machine."""
    name = f"<healed program {next(_names)}>"
    linecache.cache[name] = (len(program.source), None, program.source.splitlines(True), name)
    names: dict[str, Any] = {}
    run = Run()
    try:
        exec(compile(program.source, name, "exec"), names)
        with contextlib.ExitStack() as stack:
            if healed and program.way in ("block", "both"):
                stack.enter_context(sd.heal())

            def heal(model: Any) -> Any:
                if healed and program.way in ("model", "both"):
                    sd.heal(model)
                return model

            names["program"](
                lambda number: program.places[number] if healed else program.home,
                heal,
                lambda **held: run.seen.append(picture(held)),
            )
    except Exception as error:
        note = next((each for each in getattr(error, "__notes__", ()) if "not healed" in each), "")
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        run.error = note or said
        run.refused = bool(note) or bool(re.search(r"device|samedevice", said))
    finally:
        linecache.cache.pop(name, None)
    return run


def picture(held: dict[str, Any]) -> dict[str, Any]:
    """Everything that can be seen of what a program holds, by the expression that reaches it."""
    found = dict(_reached(held))
    seen: dict[str, Any] = {}
    objects: dict[int, int] = {}
    memories: dict[Any, int] = {}
    values: dict[Any, bytes] = {}
    pieces = _pieces(found.values())
    for name, tensor in found.items():
        one = objects.setdefault(id(tensor), len(objects))
        start = _piece_of(tensor, pieces)
        memory = memories.setdefault((tensor.untyped_storage()._cdata, start), len(memories))
        where = (memory, tuple(tensor.shape), tensor.stride(), _first_byte(tensor) - start, tensor.dtype)
        if where not in values:
            values[where] = tensor.detach().cpu().contiguous().numpy().tobytes()
        seen[name] = (*where, tensor.requires_grad, one, values[where])
    return seen


def _pieces(tensors: Iterable[torch.Tensor]) -> dict[int, list[int]]:
    """The bytes where pieces of a storage begin that no tensor joins: what lies apart shares no memory.

    The gradients of two parameters can be views of one buffer, which they cannot on two devices.
    """
    spans: dict[int, set[tuple[int, int]]] = {}
    for tensor in tensors:
        first = _first_byte(tensor)
        reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        last = first + (reach * tensor.element_size() if tensor.numel() else 0)
        spans.setdefault(tensor.untyped_storage()._cdata, set()).add((first, last))
    starts: dict[int, list[int]] = {}
    for storage, own in spans.items():
        end = -1
        for first, last in sorted(own):
            if first >= end:
                starts.setdefault(storage, []).append(first)
            end = max(end, last)
    return starts


def _piece_of(tensor: torch.Tensor, pieces: dict[int, list[int]]) -> int:
    starts = pieces[tensor.untyped_storage()._cdata]
    return starts[bisect_right(starts, _first_byte(tensor)) - 1]


def _first_byte(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _reached(held: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in held.items():
        yield from _of(name, value)


def _of(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
        if value.is_leaf and value.grad is not None:
            yield f"{name}.grad", value.grad
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from _of(f"{name}[{number}]", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _of(f"{name}[{key!r}]", part)
    elif isinstance(value, torch.nn.Module):
        for path, module in value.named_modules():
            for key, part in {**vars(module), **module._parameters, **module._buffers}.items():
                if isinstance(part, (torch.Tensor, list)):
                    yield from _of(f"{name}.{path}.{key}", part)


def judged(alone: Run, healed: Run) -> tuple[str, str]:
    """`equal`, `refused` or `DIFFERENT`, and why."""
    for call, (one, other) in enumerate(zip(alone.seen, healed.seen, strict=False)):
        if one != other:
            names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
            return "DIFFERENT", f"call {call}: {', '.join(sorted(names)[:6])}"
    if len(healed.seen) > len(alone.seen):
        return "DIFFERENT", f"one device: {alone.error}; healed: nothing"
    if len(healed.seen) < len(alone.seen):
        return "refused", healed.error
    if bool(alone.error) != bool(healed.error):
        return (
            ("refused", healed.error)
            if healed.error
            else ("DIFFERENT", f"one device: {alone.error}; healed: nothing")
        )
    return "equal", alone.error


def outcome(program: Program) -> tuple[str, str]:
    """How a program ends, judged."""
    alone, healed = ran(program, healed=False), ran(program, healed=True)
    word, why = judged(alone, healed)
    if word == "DIFFERENT":
        bare = ran(Program(program.source, program.places, "none"), healed=True)
        if not bare.error and bare.seen == healed.seen:
            return "unhealed", why
        for other in _one_device_otherwise(program):
            if ran(other, healed=False).seen != alone.seen:
                return "ambiguous", why
    return word, why


def _one_device_otherwise(program: Program) -> Iterator[Program]:
    """The program on one device in the other ways that promise the same numbers: without a compiler, whose
    operators on lists write a tensor that stands twice in the list once, and on the host itself.

    Where one of them gives other numbers, no run on one device says which are right.
    """
    if "torch.compile(" in program.source:
        source = re.sub(r"torch\.compile\((\w+), backend='\w+'\)", r"\1", program.source)
        yield Program(source, program.places, program.way)
    if program.home.startswith("twin"):
        yield Program(program.source, ("cpu",) * len(program.places), program.way)


def run(options: argparse.Namespace) -> int:
    """Run programs and print the table."""
    logging.getLogger("samedevice").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    chosen = (
        range(options.show, options.show + 1)
        if options.show is not None
        else range(options.start, options.start + options.programs)
    )
    if options.twin:
        twin_device.enter()
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    begin = time.monotonic()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # what was counted so far is told
        for start in range(0, len(chosen), _CHUNK):
            part = chosen[start : start + _CHUNK]
            for number, (word, why) in in_a_fork(options.seed, part, options.twin):
                counts[word] += 1
                if word == "refused":
                    reasons[re.sub(r"v?\d+|\[.*?\]", "N", why)[:120]] += 1
                if word not in ("equal", "refused"):
                    print(f"program {number}: {word}: {why}", flush=True)
    if options.show is not None:
        program = drawn(Random(f"{options.seed}:{options.show}"))
        print(
            f"{program.source}\n{program.way} on {' '.join(program.places)}: {dict(counts)} {dict(reasons)}"
        )
    print(
        f"{counts.total()} programs of seed {options.seed} from {chosen[0]}, {time.monotonic() - begin:.0f} "
        "s: ",
        end="",
    )
    print(", ".join(f"{word} {counts[word]}" for word in WORDS))
    for reason, count in reasons.most_common():
        print(f"{count:6} refused: {reason}")
    return 1 if counts["DIFFERENT"] else 0


def in_a_fork(seed: int, numbers: Sequence[int], twin: bool = False) -> Iterator[tuple[int, tuple[str, str]]]:
    """The outcomes of programs in processes of their own: torch itself crashes on one in some thousands,
    which is `crashed`.
    """
    left = list(numbers)
    while left:
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reading)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            machine = contextlib.nullcontext() if twin else sd.machine("2x24GB")
            with os.fdopen(writing, "wb") as pipe, machine:
                for number in left:
                    program = drawn(Random(f"{seed}:{number}"))
                    pickle.dump((number, outcome(program.on_twins() if twin else program)), pipe)
                    pipe.flush()
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe, contextlib.suppress(EOFError):
            while True:
                number, found = pickle.load(pipe)
                left.remove(number)
                yield number, found
        if os.waitpid(process, 0)[1] and left:
            yield left.pop(0), ("crashed", "in torch, with or without healing")
