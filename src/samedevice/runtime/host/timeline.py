"""Records a run over time: phases, what memory is for, what goes from device to device.

Must guarantee: nothing of the program changes, and nothing of it is held longer than without; a machine that
records no timeline pays nothing.

What memory is for is known late: parameters and buffers of a model that was called are weights, `.grad` of
them are gradients, tensors in an optimizer's state after its step are the optimizer's. Of the rest, what a
forward pass made and left behind was kept by it, for its backward pass where gradients were on.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from samedevice.provenance import Site, resolve
from samedevice.runtime.engine import Engine, Order, Proceed
from samedevice.runtime.state import MachineState, Memory, aten, device_of, memory_of, tensors_in
from samedevice.timeline import KINDS, Layer, Move, Phase, Sample, Timeline, Transfer, Work

_COPIES = (aten._to_copy.default, aten.copy_.default)
_POINTS = 600
"""Samples of a GPU."""

Describe = Callable[[torch.nn.Module], tuple[Layer, ...]]


@dataclass(slots=True)
class _Held:
    """One piece of memory, from its beginning to its end."""

    device: str
    nbytes: int
    born: int
    phase: _Open | None
    died: int | None = None
    kind: str | None = None


@dataclass(slots=True)
class _Open:
    """A phase while it lasts."""

    name: str
    start: int
    what: str
    gradients: bool
    """Whether gradients were on when it began."""
    end: int | None = None


@dataclass(slots=True)
class _Recording:
    state: MachineState
    describe: Describe
    most_work: int
    now: int = 0
    held: list[_Held] = field(default_factory=list)
    known: weakref.WeakKeyDictionary[Memory, _Held] = field(default_factory=weakref.WeakKeyDictionary)
    phases: list[_Open] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)
    depth: int = 0
    """Modules inside modules that are called now."""
    layers: dict[str, tuple[Layer, ...]] = field(default_factory=dict)
    alike: dict[str, int] = field(default_factory=dict)
    """Models that have layers here, by class."""
    described: weakref.WeakSet[torch.nn.Module] = field(default_factory=weakref.WeakSet)
    transfers: dict[tuple[str, str, Site | None], list[int]] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    reserved: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    engine: Engine | None = None

    # -- operators

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Proceed) -> Any:
        """Run an operator, and note what memory it made."""
        result = proceed(func, args, kwargs)
        self.now += 1
        device = "cpu"
        for tensor in tensors_in(result):
            record = memory_of(tensor)
            if record is None or record.device.type != "cuda":
                continue
            device = str(record.device)
            if record.booked and record not in self.known:
                self._begin(record, device)
        if func in _COPIES:
            self._copied(func, args, result)
        if len(self.work) < self.most_work:
            self.work.append(Work(self.now, str(func), device))
        return result

    def _begin(self, record: Memory, device: str) -> None:
        phase = self.open[0] if self.open else None
        held = _Held(device, record.booked, self.now, phase)
        self.held.append(held)
        self.known[record] = held
        weakref.finalize(record, self._end, held).atexit = False

    def _end(self, held: _Held) -> None:
        held.died = self.now

    def _copied(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        source, target = (args[0], result) if func is _COPIES[0] else (args[1], args[0])
        if not isinstance(source, torch.Tensor) or not isinstance(target, torch.Tensor):
            return
        ends = str(device_of(source)), str(device_of(target))
        if ends[0] == ends[1] or "meta" in ends:
            return
        assert self.engine is not None, "operators are seen by an engine"
        nbytes = target.numel() * target.element_size()
        entry = self.transfers.setdefault((*ends, self.engine.tracker.site()), [0, 0])
        entry[0] += nbytes
        entry[1] += 1
        if len(self.moves) < self.most_work:
            self.moves.append(Move(self.now, *ends, nbytes))

    # -- phases

    def enter(self, name: str, what: str) -> None:
        """A phase begins, where none is open."""
        self.open.append(_Open(name, self.now, what, torch.is_grad_enabled()))
        if len(self.open) == 1:
            self.phases.append(self.open[0])
            self._ask_reserved()

    def leave(self) -> None:
        """The innermost phase is over."""
        if self.open:
            self.open.pop().end = self.now
            if not self.open:
                self._ask_reserved()

    def _ask_reserved(self) -> None:
        for device, ledger in self.state.ledgers().items():
            self.reserved.setdefault(device, []).append((self.now, ledger.reserved))

    def module_begins(self, module: torch.nn.Module, *_: Any) -> None:
        """The outermost module is a model, and its call a forward pass."""
        self.depth += 1
        if self.depth == 1:
            self._look_at(module)
            self.enter("forward", type(module).__name__)

    def _look_at(self, module: torch.nn.Module) -> None:
        if module in self.described:
            return
        self.described.add(module)
        with suppress(Exception):  # whatever a model is like, its program goes on
            if layers := self.describe(module):
                self.layers[self._name_of(module)] = layers

    def _name_of(self, module: torch.nn.Module) -> str:
        """Its class; of a second model of one class (a teacher and its student) with its number."""
        kind = type(module).__name__
        number = self.alike[kind] = self.alike.get(kind, 0) + 1
        return kind if number == 1 else f"{kind} ({number})"

    def module_ends(self, module: torch.nn.Module, *_: Any) -> None:
        """What a model has is weights and gradients."""
        self.depth = max(self.depth - 1, 0)
        if not self.depth:
            self._mark_model(module)
            self.leave()

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """An optimizer takes a step."""
        self._mark(
            "gradients",
            (weight.grad for group in optimizer.param_groups for weight in group["params"]),
        )
        self.enter("optimizer", type(optimizer).__name__)

    def optimizer_ends(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """What an optimizer remembers is its state."""
        self._mark("optimizer", (each for state in optimizer.state.values() for each in state.values()))
        self.leave()

    @contextmanager
    def backward(self) -> Iterator[None]:
        """A backward pass."""
        self.enter("backward", "")
        try:
            yield
        finally:
            for module in list(self.described):
                self._mark_model(module)
            self.leave()

    def _mark_model(self, module: torch.nn.Module) -> None:
        weights = list(module.parameters())
        self._mark("weights", [*weights, *module.buffers()])
        self._mark("gradients", (weight.grad for weight in weights))

    def _mark(self, kind: str, tensors: Any) -> None:
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor) or (record := memory_of(tensor)) is None:
                continue
            held = self.known.get(record)
            if held is None and record.booked and record.device.type == "cuda":
                self._begin(record, str(record.device))
                held = self.known[record]
            if held is not None and held.kind is None:
                held.kind = kind

    # -- what came of it

    def timeline(self) -> Timeline:
        """Everything, as plain records."""
        self._ask_reserved()
        return Timeline(
            operators=self.now,
            memory={device: self._samples(device) for device in self.state.ledgers()},
            phases=tuple(
                Phase(each.name, each.start, self.now if each.end is None else each.end, each.what)
                for each in self.phases
            ),
            transfers=self._transfers(),
            layers=dict(self.layers),
            work=tuple(self.work),
            moves=tuple(self.moves),
        )

    def _transfers(self) -> tuple[Transfer, ...]:
        found = [
            Transfer(source, target, nbytes, count, resolve(site))
            for (source, target, site), (nbytes, count) in self.transfers.items()
        ]
        return tuple(sorted(found, key=lambda each: -each.nbytes))

    def _samples(self, device: str) -> tuple[Sample, ...]:
        """The bytes of each kind over time; of moments close together the one with the most."""
        changes: dict[int, Counter[str]] = {}
        for held in self.held:
            if held.device == device:
                kind = _kind(held)
                changes.setdefault(held.born, Counter())[kind] += held.nbytes
                if held.died is not None:
                    changes.setdefault(held.died, Counter())[kind] -= held.nbytes
        reserved = self.reserved.get(device, [(0, 0)])
        now: Counter[str] = Counter()
        width = max(self.now // _POINTS, 1)
        samples: dict[int, Sample] = {}
        at = 0
        for moment in sorted(changes):
            now.update(changes[moment])
            while at + 1 < len(reserved) and reserved[at + 1][0] <= moment:
                at += 1
            sample = Sample(moment, tuple(now[kind] for kind in KINDS), reserved[at][1])
            before = samples.get(moment // width)
            if before is None or sum(sample.held) >= sum(before.held):
                samples[moment // width] = sample
        last = Sample(self.now, tuple(now[kind] for kind in KINDS), reserved[-1][1])
        return (*(samples[bucket] for bucket in sorted(samples)), last)


def _kind(held: _Held) -> str:
    if held.kind is not None:
        return held.kind
    phase = held.phase
    outlived = (
        phase is not None
        and phase.name == "forward"
        and phase.end is not None
        and (held.died is None or held.died > phase.end)
    )
    if phase is None or not outlived:
        return "working"
    return "activations" if phase.gradients else "kept"


@contextmanager
def recorded(state: MachineState, describe: Describe, most_work: int = 0) -> Iterator[Callable[[], Timeline]]:
    """Record what the entered machine does from now on; what is given returns the records so far."""
    engine = state.part(Engine)
    recording = _Recording(state, describe, most_work, engine=engine)
    autograd: Any = torch.autograd
    run_backward = autograd._engine_run_backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        with recording.backward():
            return run_backward(*args, **kwargs)

    with ExitStack() as stack:
        stack.callback(engine.intercept(Order.WATCHED, recording.see))
        for handle in (
            register_module_forward_pre_hook(recording.module_begins),
            register_module_forward_hook(recording.module_ends, always_call=True),
            register_optimizer_step_pre_hook(recording.optimizer_begins),
            register_optimizer_step_post_hook(recording.optimizer_ends),
        ):
            stack.callback(handle.remove)
        stack.callback(setattr, autograd, "_engine_run_backward", run_backward)
        autograd._engine_run_backward = backward
        yield recording.timeline
