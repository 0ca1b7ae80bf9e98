"""Repairs at run time, opt-in: what the diagnosis calls stale is moved, said once, and moved at a module's boundary from then on.

Note [Learning]
A call that was not seen before runs under a torch function mode: a refused call of torch is diagnosed, its stale operand is
moved, and that one call is made again; nothing runs twice, so caches and counters stay right. Afterwards a hook at the narrowest
boundary moves the tensor, and the next call of the same kind proves it, still under the mode. When nothing new happens the kind is
settled: from then on only the hooks are there, and the mode stays only around modules that make the tensor inside themselves.

Must guarantee: a move changes no number; where one would hide a wrong result it refuses; `remove()` restores everything.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from samedevice.diagnosis import judge
from samedevice.errors import UsageError
from samedevice.events import Event, EventKind
from samedevice.findings import Finding
from samedevice.guards._align import rebuilt
from samedevice.guards._boundary import Boundary, Producers, taken_by
from samedevice.guards._hooks import device_map_of
from samedevice.guards._live import event_of
from samedevice.guards._placement import amount
from samedevice.guards._stale import named_tensors, operator_name, target_of, written_to
from samedevice.messages import say
from samedevice.provenance import FrameFilter

if TYPE_CHECKING:
    import torch

REFUSED_CAUSES = frozenset(
    {
        "data-parallel-replica-device",
        "device-map-in-multi-process-launch",
        "generator-or-default-device",
        "hardware-or-driver",
        "meta-tensor-not-materialized",
        "misleading-after-effect",
        "optimizer-state-on-other-device",
        "quantized-state-on-other-device",
    }
)
"""Causes of which a mismatch is only the visible part: training that goes wrong, missing values, other random numbers."""
_KINDS_AT_MOST = 1000
_REPLICAS = ("DataParallel", "DistributedDataParallel")


class HealRefusedError(UsageError):
    """Healing this would hide a wrong result."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One statement that is healed."""

    finding: Finding
    operand: str
    source: str
    target: str
    nbytes: int
    boundary: str
    """`input`, `output` or `inside`."""
    module: str


class Healing:
    """What `sd.heal` returns: what was repaired, and `remove()`."""

    def __init__(self, model: torch.nn.Module) -> None:
        import torch

        self._model = model
        self._names = {id(module): name or type(module).__name__ for name, module in model.named_modules()}
        self._members = set(self._names)
        self._producers = Producers(self._members)
        ours = (str(Path(torch.__file__).parent) + "/", str(Path(__file__).parent.parent) + "/")
        self._filter = FrameFilter(ours, None)
        self._settled: set[Any] = set()
        self._handles: dict[tuple[Boundary, torch.device], Any] = {}
        self._uses: dict[tuple[Boundary, torch.device], set[Any]] = {}
        """The statements for which a boundary is there."""
        self._tried: dict[Any, list[str]] = {}
        self._targets: dict[Any, torch.device] = {}
        self._inside: set[int] = set()
        self._undo: list[Callable[[], None]] = []
        self._logged: set[Any] = set()
        self._fresh = 0
        self._in_generate = False
        """Whether a statement of `generate` itself needs the mode each time."""
        self.repairs: list[Repair] = []
        self._wrap(model, "forward", self._around)
        if callable(getattr(model, "generate", None)):
            self._wrap(model, "generate", self._around)

    # -- what people ask ---------------------------------------------------------------------------------------------

    @property
    def findings(self) -> list[Finding]:
        """What was healed, as findings, each statement once."""
        return list({(each.finding.at, each.finding.op): each.finding for each in self.repairs}.values())

    def diffs(self) -> list[str]:
        """The permanent changes, where one can be shown as a diff."""
        return [fix.diff for finding in self.findings for fix in finding.fixes if fix.diff]

    def remove(self) -> None:
        """Take everything off the model again."""
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()
        self._uses.clear()
        while self._undo:
            self._undo.pop()()

    # -- calls -------------------------------------------------------------------------------------------------------

    def _wrap(self, module: torch.nn.Module, name: str, around: Callable[..., Any]) -> None:
        """Put `around` in place of a method of one module."""
        before = module.__dict__.get(name)
        method = getattr(module, name)

        @functools.wraps(method)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(name, method, args, kwargs)

        def undo() -> None:
            if module.__dict__.get(name) is wrapped:
                if before is None:
                    del module.__dict__[name]
                else:
                    module.__dict__[name] = before

        module.__dict__[name] = wrapped
        self._undo.append(undo)

    def _around(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = (name, self._model.training, *map(_kind, args), *((key, _kind(value)) for key, value in kwargs.items()))
        if kind not in self._settled:
            return self._learn(kind, method, args, kwargs)
        try:
            return method(*args, **kwargs)
        except Exception as error:
            if event_of(error, self._model) is None:
                raise
            self._settled.discard(kind)  # a branch that was not seen yet: the next call of this kind learns it
            if name == "generate" or self._model.training or any(_keeps(key, value) for key, value in kwargs.items()):
                raise
        return self._learn(kind, method, args, kwargs)

    def _learn(self, kind: Any, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = self._fresh
        with self._healed(), self._producers.watch():
            result = method(*args, **kwargs)
        if self._fresh == before and not (kind[0] == "generate" and self._in_generate):
            if len(self._settled) >= _KINDS_AT_MOST:
                self._settled.clear()
            self._settled.add(kind)
        return result

    @contextmanager
    def _healed(self) -> Iterator[None]:
        from torch.overrides import TorchFunctionMode

        healing = self

        class Heals(TorchFunctionMode):
            """Makes a refused call of torch once more, with its stale operand moved."""

            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                try:
                    return func(*args, **(kwargs or {}))
                except (RuntimeError, NotImplementedError) as error:
                    moved = healing._repair(error, func, args, kwargs or {}, sys._getframe(1))
                    if moved is None:
                        raise
                args, kwargs = moved
                return func(*args, **kwargs)

        with ExitStack() as stack:
            stack.enter_context(Heals())
            yield

    def _within(self, _: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._healed():
            return method(*args, **kwargs)

    # -- repairs -----------------------------------------------------------------------------------------------------

    def _repair(self, error: Exception, function: Any, args: Any, kwargs: Any, frame: FrameType) -> tuple[Any, Any] | None:
        """The arguments with the stale ones moved; None when the error is not ours to heal."""
        named = named_tensors(function, args, kwargs)
        devices = tuple(str(tensor.device) for _, tensor in named)
        if len(set(devices)) < 2:
            return None
        module = self._module_at(frame)
        statement = (self._filter.site(frame), operator_name(function), id(module))
        target = self._targets.get((statement, devices))
        if target is None or statement not in self._tried or self._tried[statement][-1] != "inside":
            event = event_of(error, self._model, frame, named)
            if event is None:
                return None
            finding = judge(event)
            target = self._decide(error, finding, event, named, written_to(function, args, kwargs))
            if target is None:
                return None
            self._targets[statement, devices] = target
            self._remember(statement, finding, module, named, target, frame)
        to = target
        return rebuilt(args, lambda _, __, tensor: tensor.to(to)), rebuilt(kwargs, lambda _, __, tensor: tensor.to(to))

    def _decide(
        self, error: Exception, finding: Finding, event: Event, named: list[tuple[str, torch.Tensor]], written: torch.Tensor | None
    ) -> torch.device | None:
        reason = None
        target = None
        if finding.cause in REFUSED_CAUSES or event.kind is not EventKind.MISMATCH or any(each.device.type == "meta" for _, each in named):
            reason = say("heal.cause", "en", cause=finding.cause if finding.cause in REFUSED_CAUSES else event.kind.value)
        else:
            target = target_of(finding, event, named, written)
            if target is None:
                reason = say("heal.unclear", "en")
        if reason is not None and not hasattr(error, "finding"):
            error.finding = finding  # type: ignore[attr-defined] # ours, on torch's own exception
            error.add_note(say("heal.not-healed", "en", reason=reason))
        return target

    def _remember(
        self,
        statement: Any,
        finding: Finding,
        module: torch.nn.Module,
        named: list[tuple[str, torch.Tensor]],
        target: torch.device,
        frame: FrameType,
    ) -> None:
        """Install the narrowest boundary that was not tried for this statement yet, and say so once."""
        self._fresh += 1
        tried = self._tried.setdefault(statement, [])
        for key, users in self._uses.items():
            users.discard(statement)  # it did not help
            if not users and key in self._handles:
                self._handles.pop(key).remove()
        stale = [(name, tensor) for name, tensor in named if tensor.device != target]
        boundaries = self._boundaries([tensor for _, tensor in stale], target, frame, tried)
        if boundaries is None:
            tried.append("inside")
            if module is self._model and not self._runs_forward(frame):
                self._in_generate = True
            elif id(module) not in self._inside:
                self._inside.add(id(module))
                self._wrap(module, "forward", self._within)
        else:
            tried.append(boundaries[0].kind)
            for boundary in boundaries:
                self._uses.setdefault((boundary, target), set()).add(statement)
                if (boundary, target) not in self._handles:
                    self._handles[boundary, target] = boundary.install(target)
        self._say(finding, statement, stale, target, boundaries, module)

    def _boundaries(self, stale: list[torch.Tensor], target: torch.device, frame: FrameType, tried: list[str]) -> list[Boundary] | None:
        """A boundary of one kind for every stale tensor; None when there is none but the inside of the module."""
        weights = any(id(tensor) == id(own) for tensor in stale for own in self._model.parameters())
        if weights or "inside" in tried:
            return None
        if "input" not in tried:
            taken = [taken_by(tensor, _outwards(frame), self._members, target) for tensor in stale]
            if all(each is not None for each in taken):
                return [each for each in taken if each is not None]
        if "output" not in tried:
            given = [self._producers.of(tensor) for tensor in stale]
            if all(each is not None for each in given):
                return [each for each in given if each is not None]
        return None

    def _say(
        self,
        finding: Finding,
        statement: Any,
        stale: list[tuple[str, torch.Tensor]],
        target: torch.device,
        boundaries: list[Boundary] | None,
        module: torch.nn.Module,
    ) -> None:
        chosen = boundaries[0] if boundaries else None
        kind = chosen.kind if chosen else "inside"
        where = self._names.get(id(chosen.module if chosen else module), "?")
        text = say(f"heal.{kind}", "en", module=where, path=chosen.spelled() if chosen else "")
        held = sum(tensor.numel() * tensor.element_size() for _, tensor in stale)
        operand = ", ".join(name for name, _ in stale)
        source = ", ".join(dict.fromkeys(str(tensor.device) for _, tensor in stale))
        self.repairs = [each for each in self.repairs if (each.finding.at, each.operand, each.module) != (finding.at, operand, where)]
        self.repairs.append(Repair(finding, operand, source, str(target), held, kind, where))
        at = finding.at
        if (spot := (at and (at.file, at.line), operand)) in self._logged:
            return
        self._logged.add(spot)
        line = f"{at.file}:{at.line}" if at else "?"
        told = say(
            "heal.moved",
            "en",
            at=line,
            operand=operand,
            source=source,
            target=str(target),
            amount=amount(held),
            cause=finding.cause,
            boundary=text,
        )
        logging.getLogger("samedevice").warning("%s", told)

    def _module_at(self, frame: FrameType) -> torch.nn.Module:
        """The innermost module of the model whose method runs; the model itself when none does."""
        for each in _outwards(frame):
            code = each.f_code
            if code.co_argcount and code.co_varnames[0] == "self":
                owner = each.f_locals.get("self")
                if id(owner) in self._members:
                    found: torch.nn.Module = owner  # type: ignore[assignment] # a member is a module
                    return found
        return self._model

    def _runs_forward(self, frame: FrameType) -> bool:
        return any(each.f_code.co_name == "forward" and each.f_locals.get("self") is self._model for each in _outwards(frame))


def heal(model: torch.nn.Module) -> Healing:
    """Repair device mismatches of `model` while it runs: opt-in, logged, removable, and never at the price of other numbers.

    ```python
    import torch
    import samedevice as sd

    with sd.machine("2x24GB"):
        model = torch.nn.Embedding(8, 4, device="cuda:1")
        healing = sd.heal(model)
        print(model(torch.tensor([1], device="cuda:0")).device)  # cuda:1
        healing.remove()
    ```

    A call that torch refuses is diagnosed; the operand that is in the wrong place is moved, and the call is made again. Each statement
    is logged once on `samedevice`, as a warning, and `healing.repairs` has them. From then on a hook at the narrowest
    module boundary moves the tensor. `healing.diffs()` shows the permanent changes where a diff can, `healing.remove()` takes
    everything off.

    Raises `samedevice.errors.UsageError` for a model that is replicated, and for one that a device map spreads in a job of several
    processes. What would hide a wrong result (optimizer state, weights without values, generators) is not healed: torch's exception
    comes out, with the finding and the reason on it.
    """
    kind = type(model).__name__
    if kind in _REPLICAS or getattr(model, "_is_replica", False):
        raise HealRefusedError(say("heal.replicas", "en", model=kind))
    world = _world()
    if world > 1 and (len(set(device_map_of(model).values())) > 1 or len({str(each.device) for each in model.parameters()}) > 1):
        raise HealRefusedError(say("heal.launcher", "en", model=kind, world=world))
    return Healing(model)


def _world() -> int:
    """Processes of the job, from the process group or from what the launcher left."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdecimal() else 1


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _kind(value: Any) -> Any:
    """What of an argument may send a call through other statements; cheap, since every call pays for it."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return (value.device, len(shape), bool(shape) and shape[-1] == 1)
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_kind, value)) if len(value) < 8 else (type(value), len(value))
    if value is None or isinstance(value, (bool, str)):
        return value
    return (type(value), value == 0) if isinstance(value, int) else type(value)  # a step's number is not a kind of its own


def _keeps(name: str, value: Any) -> bool:
    return value is not None and ("past" in name or "cache" in name or "Cache" in type(value).__name__)
