"""Drawn programs, healed and on one device, and how what they hold compares; for `heal-proof`."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

import samedevice as sd
from evidence.healing import drawn_programs

DEVICES = ("cuda:0", "cuda:1", "cpu")
WAYS = ("model", "block", "both")
RANDOM = ("random_", "uniform_")
"""What draws in place; the host draws other numbers."""
RELATIVE, ABSOLUTE = 1e-4, 1e-6
"""How far numbers may be from each other that were rounded otherwise."""
_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Program:
    """A source, where its parts are and how it is healed."""

    source: str
    places: tuple[str, ...]
    way: str
    rounds: bool = False
    """Its devices have kernels of their own, which may round otherwise than each other."""

    @property
    def home(self) -> str:
        """The one device."""
        return self.places[0]

    def on_twins(self) -> Program:
        """The same program on two devices that are real for torch."""
        places = tuple(each.replace("cuda", "twin") for each in self.places)
        return Program(self.source, places, self.way)

    def on_one_gpu(self) -> Program:
        """The same program on a GPU and its host."""
        second = "cuda:0" if any(word in self.source for word in RANDOM) else "cpu"
        places = tuple(each.replace("cuda:1", second) for each in self.places)
        return Program(self.source, places, self.way, rounds=True)


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
    devices = DEVICES[:2] if any(word in source for word in RANDOM) else DEVICES
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


def near(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    """Whether two tensors of pictures are the same but for rounding."""
    if one is None or other is None or one[:-1] != other[:-1]:
        return False
    if one[-1] == other[-1]:
        return True
    dtype = one[4]
    if not dtype.is_floating_point:
        return False
    first, second = (torch.frombuffer(bytearray(each[-1]), dtype=dtype).double() for each in (one, other))
    finite = first[first.isfinite()].abs()
    scale = finite.max().item() if len(finite) else 0.0
    # beside the largest: what is small by cancellation is rounded as that is
    return torch.allclose(first, second, RELATIVE, ABSOLUTE + RELATIVE / 10 * scale, equal_nan=True)


Same = Callable[[Any, Any], bool]


def judged(alone: Run, healed: Run, same: Same = operator.eq) -> tuple[str, str]:
    """`equal`, `refused` or `DIFFERENT`, and why."""
    for call, (one, other) in enumerate(zip(alone.seen, healed.seen, strict=False)):
        names = [name for name in {**one, **other} if not same(one.get(name), other.get(name))]
        if names:
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
        same: Same = near if program.rounds else operator.eq
        nearly, reason = judged(alone, healed, same)
        if nearly != "DIFFERENT":
            return ("close", why) if nearly == "equal" else (nearly, reason)
        why = reason
        for other in _one_device_otherwise(program):
            again = ran(other, healed=False)
            if len(again.seen) != len(alone.seen) or judged(alone, again, same)[0] == "DIFFERENT":
                return "ambiguous", why
    return word, why


def _one_device_otherwise(program: Program) -> Iterator[Program]:
    """The program on one device in the other ways that promise the same numbers: without a compiler, whose
    operators on lists write a tensor that stands twice in the list once, on the host itself, and once more,
    for a kernel may be free in its order.

    Where one of them gives other numbers, no run on one device says which are right.
    """
    if "torch.compile(" in program.source:
        source = re.sub(r"torch\.compile\((\w+), backend='\w+'\)", r"\1", program.source)
        yield Program(source, program.places, program.way)
    if program.rounds:
        yield program
    if program.rounds or program.home.startswith("twin"):
        yield Program(program.source, ("cpu",) * len(program.places), program.way)
