"""Parts of a pipeline made to fit each other: what a run says of shapes changes a size, until one ends.

A run that fails says which module got how wide an input, or which two sizes do not go together. Fields of
configurations that have the one number get the other; for a module the change is kept only where that module
comes out as wanted, and any change only where the next run comes further.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samedevice.sweep._case import Given, Untried
from samedevice.sweep._parts import Part
from samedevice.sweep._small import reason_of
from samedevice.sweep._tiny import is_count, others

_PATIENCE = 15.0
"""Seconds of the processor after which nothing is changed any more."""
_RUN = 5.0
"""Seconds of the processor for one run."""
_RUNS = 120
_NUMBERS = 2_500_000
"""Most numbers that a module is given."""

Far = tuple[int, int, int]
"""How far a run came: the line of the call, modules that ended, the line below the call."""


@dataclass(frozen=True, slots=True)
class Try:
    """What is run: the values of the parts, and how it is called."""

    values: Mapping[str, Mapping[str, Any]]
    without: frozenset[str] = frozenset()
    """Parts that are left out."""
    choices: Mapping[str, int] = field(default_factory=dict)
    """Which of the sizes of inputs."""
    otherwise: frozenset[str] = frozenset()
    """Arguments of the call that are left out though they are known, or given though they have a default."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that did not end."""

    far: Far
    reason: str
    numbers: tuple[tuple[int, int], ...]
    """Pairs of sizes: one that was wanted, and the one that came."""
    part: str = ""
    """The part that failed, where one did."""
    module: str = ""
    """The module in it."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """How a pipeline is made and called."""

    parts: Sequence[Part]
    assemble: Callable[[Mapping[str, Any]], Any]
    call: Callable[[Any, Try], Given]
    """Inputs for a pipeline."""
    choices: Mapping[str, int]
    """Sizes of inputs, and how many there are of each."""
    optional: Sequence[str]
    """Arguments that may be left out."""

    def made(self, tried: Try, kept: dict[str, Any] | None = None) -> Any:
        """A pipeline, of fresh parts or of those that are kept from earlier runs."""
        parts: dict[str, Any] = {}
        for part in self.parts:
            key = f"{part.name} {tried.values[part.name]!r}"
            if part.name in tried.without:
                parts[part.name] = None
            elif kept is None:
                parts[part.name] = part.make(tried.values[part.name])
            else:
                if key not in kept:
                    kept[key] = part.make(tried.values[part.name])
                parts[part.name] = kept[key]
        return self.assemble(parts)


def fitted(fitting: Fitting) -> tuple[Any, Given]:
    """A pipeline, and inputs with which it ran on the CPU. Raises `Untried` with the last reason."""
    spare = frozenset(part.name for part in fitting.parts if part.optional)
    now = Try({part.name: part.values for part in fitting.parts}, spare)
    kept: dict[str, Any] = {}
    failure = _run(fitting, now, kept)
    began, runs = time.process_time(), 0
    seen = {repr(now)}
    while failure is not None:
        better = None
        for move in _moves(fitting, now, failure):
            if time.process_time() - began > _PATIENCE or runs > _RUNS:
                break
            if repr(move) in seen:
                continue
            seen.add(repr(move))
            runs += 1
            then = _run(fitting, move, kept)
            if then is None or then.far > failure.far:
                better = move, then
                break
        if better is None:
            raise Untried(f"run: {failure.reason}")
        now, failure = better
    pipeline = fitting.made(now)
    return pipeline, fitting.call(pipeline, now)


def _run(fitting: Fitting, tried: Try, kept: dict[str, Any]) -> Failure | None:
    """None where it runs through."""
    import torch

    pipeline: Any = None
    with _Watch() as watch:
        try:
            pipeline = fitting.made(tried, kept)
            given = fitting.call(pipeline, tried)
            with torch.no_grad():
                pipeline(**given)
        except Exception as error:  # anything: it is foreign code
            return _failure(error, pipeline, watch)
    return None


def _failure(error: Exception, pipeline: Any, watch: _Watch) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    call = next((place for place, each in enumerate(frames) if each.name == "__call__"), None)
    line = below = 0
    if call is not None and pipeline is not None:
        line = frames[call].lineno or 0
        below = frames[call + 1].lineno or 0 if call + 1 < len(frames) else 0
    pairs = _pairs(str(error))
    module, shape = watch.last
    part = name = ""
    if pipeline is not None:
        part, name = _named(pipeline, watch.done if module is None else module)
    if module is not None:
        wanted = _wanted(module)
        if wanted is not None and shape is not None and len(shape) > wanted[1] + (wanted[1] < 0):
            came = shape[wanted[1]]
            pairs = [(wanted[0], came)] if came != wanted[0] else pairs
    unique = tuple(dict.fromkeys(pairs))[:6]
    return Failure((line, watch.ended, below), reason_of(error), unique, part, "" if module is None else name)


_SIZES = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")


def _pairs(message: str) -> list[tuple[int, int]]:
    """Sizes that a message holds against each other."""
    said = _SIZES.search(message)
    numbers = [int(each) for each in said.groups() if said] if said else [
        int(each) for each in re.findall(r"(?<![\w.:])\d{1,5}(?![\w.])", message)
    ]  # fmt: skip
    return [(a, b) for a in numbers for b in numbers if a != b and a > 1 and b > 1]


def _wanted(module: Any) -> tuple[int, int] | None:
    """How wide an input a module wants, and in which dimension."""
    for attribute, dimension in (("in_features", -1), ("in_channels", 1), ("num_channels", 1)):
        width = getattr(module, attribute, None)
        if isinstance(width, int):
            return width, dimension
    shape = getattr(module, "normalized_shape", None)
    return (int(shape[-1]), -1) if shape else None


def _named(pipeline: Any, module: Any) -> tuple[str, str]:
    for part, each in pipeline.components.items():
        for name, inside in each.named_modules() if hasattr(each, "named_modules") else ():
            if inside is module:
                return part, name
    return "", ""


class _Watch:
    """The innermost module that did not end, and how many ended."""

    def __init__(self) -> None:
        self.ended = 0
        self.done: Any = None
        self._until = time.process_time() + _RUN
        self._open: list[tuple[Any, tuple[int, ...] | None]] = []

    @property
    def last(self) -> tuple[Any, tuple[int, ...] | None]:
        """The module, and the shape of its first input."""
        return self._open[-1] if self._open else (None, None)

    def __enter__(self) -> _Watch:
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._handles = (
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end),
        )
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _begin(self, module: Any, inputs: Any) -> None:
        if time.process_time() > self._until:
            raise Untried(f"takes more than {_RUN:.0f} s in this size")
        first: Any = inputs[0] if inputs else None
        if hasattr(first, "numel") and first.numel() > _NUMBERS:
            raise Untried(f"runs with {first.numel():,} numbers at once")
        self._open.append((module, tuple(first.shape) if hasattr(first, "shape") else None))

    def _end(self, module: Any, inputs: Any, output: Any) -> None:
        self.ended += 1
        self.done = module
        while self._open and self._open.pop()[0] is not module:
            pass


def _moves(fitting: Fitting, now: Try, failure: Failure) -> Iterator[Try]:
    """What may mend a failure, the likeliest first."""
    yield from _sizes(fitting, now, failure)
    yield from _said_by_checkpoints(fitting, now, failure)
    for left_out in sorted(now.without):
        yield replace(now, without=now.without - {left_out})
    if now.without:
        yield replace(now, without=frozenset())
    for part in fitting.parts:
        for values in others(now.values[part.name]):
            yield replace(now, values={**now.values, part.name: values})
    for name, count in fitting.choices.items():
        at = now.choices.get(name, 0)
        for other in range(count):
            if other != at:
                yield replace(now, choices={**now.choices, name: other})
    for name in fitting.optional:
        if name not in now.otherwise:
            yield replace(now, otherwise=now.otherwise | {name})
    yield from _channels(fitting, now, failure)


def _sizes(fitting: Fitting, now: Try, failure: Failure) -> Iterator[Try]:
    """Configurations with one size changed."""
    parts = sorted(fitting.parts, key=lambda part: part.name != failure.part)
    for wanted, came in failure.numbers:
        for part in parts:
            if failure.module and part.name != failure.part:
                continue
            for values in _changed(now.values[part.name], wanted, came, in_proportion=bool(failure.module)):
                if failure.module and not _is_mended(part, values, failure.module, came):
                    continue
                yield replace(now, values={**now.values, part.name: values})


_ABSENT = re.compile(r"'(\w*Config)' object has no attribute '(\w+)'")


def _said_by_checkpoints(fitting: Fitting, now: Try, failure: Failure) -> Iterator[Try]:
    """A field that a model reads and that its configuration has no default for, as true and as false."""
    absent = _ABSENT.search(failure.reason)
    for part in fitting.parts if absent else ():
        if absent and part.values and absent[2] not in now.values[part.name]:
            for said in (True, False):
                yield replace(
                    now, values={**now.values, part.name: {**now.values[part.name], absent[2]: said}}
                )


_DEPTHS = (4, 8, 16, 32, 64, 128, 9, 12, 3)
"""Numbers of channels that latents have."""
_CHANNELS = re.compile(r"(in|out|latent)_(channels|dim)|z_dim|(in|out)_visual_dim")


def _channels(fitting: Fitting, now: Try, failure: Failure) -> Iterator[Try]:
    """Other numbers of channels, where a call has begun."""
    if not failure.far[0]:
        return
    for part in fitting.parts:
        for name, value in now.values[part.name].items():
            if (
                isinstance(name, str)
                and _CHANNELS.fullmatch(name)
                and (value is None or isinstance(value, int))
            ):
                for depth in _DEPTHS:
                    if depth != value:
                        values = {**now.values[part.name], name: depth}
                        yield replace(now, values={**now.values, part.name: values})


def _is_mended(part: Part, values: Mapping[str, Any], module: str, came: int) -> bool:
    """Whether a part with other values has the module that takes what came."""
    try:
        found = part.make(values).get_submodule(module)
    except Exception:  # with these values there is none
        return False
    wanted = _wanted(found)
    return wanted is None or wanted[0] == came


def _changed(
    values: Mapping[str, Any], wanted: int, came: int, *, in_proportion: bool
) -> Iterator[dict[str, Any]]:
    """The values with the first size replaced by the other one in one field, or the field in proportion."""
    for name, value in values.items():
        if is_count(str(name)):
            continue
        if isinstance(value, Mapping):
            for inside in _changed(value, wanted, came, in_proportion=in_proportion):
                yield {**values, name: inside}
        elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
            if value == wanted:
                yield {**values, name: came}
            elif in_proportion and wanted % value == 0 and value * came % wanted == 0 and value > 1:
                yield {**values, name: value * came // wanted}
            if in_proportion and value != wanted and value + came - wanted > 1:  # one of several in a sum
                yield {**values, name: value + came - wanted}
        elif isinstance(value, (list, tuple)) and wanted in value:
            yield {**values, name: type(value)(came if each == wanted else each for each in value)}
        elif value is None and _CHANNELS.fullmatch(str(name)):
            yield {**values, name: came}
