"""Repairs at run time, opt-in: what the diagnosis calls stale is moved, said once, and moved at a module's boundary from then on.

Note [Learning]
A call that was not seen before runs under a torch function mode: a refused call of torch is diagnosed, its stale operand is
moved, and that one call is made again; nothing runs twice, so caches and counters stay right. Afterwards a hook at the narrowest
boundary moves the tensor, and the next call of the same kind proves it, still under the mode. When nothing new happens the kind is
settled: from then on only the hooks are there, and the mode stays only around modules that make the tensor inside themselves.

Note [Block]
Inside `with sd.heal():` the mode stays, for statements of which no module knows; there, each refused call is diagnosed once and
healed where it stands, without hooks.

Must guarantee: a move changes no number; where one would hide a wrong result it refuses; `remove()` restores everything.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from samedevice.diagnosis import fix_at_use, judge
from samedevice.errors import UsageError
from samedevice.events import Event, EventKind
from samedevice.findings import Finding
from samedevice.guards._align import rebuilt
from samedevice.guards._boundary import Boundary, Producers, taken_by
from samedevice.guards._compiled import as_written, breaking, breaks_a_full_graph, eagerly, is_recorded, untraced
from samedevice.guards._hooks import device_map_of, unwrapped
from samedevice.guards._layers import Layer, add_layer, called_method
from samedevice.guards._live import event_of
from samedevice.guards._placement import amount
from samedevice.guards._stale import is_one_step, named_tensors, operator_name, target_of, written_to
from samedevice.guards._traces import Traces
from samedevice.messages import Language, say
from samedevice.provenance import FrameFilter, variables_of

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
_QUIET_CALLS = 8
"""A call that leaves something behind cannot be made again when it meets something new, so more of them are watched."""
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

    def __init__(self, model: torch.nn.Module | None, language: Language = "en") -> None:
        import torch

        self._model = model
        self._language = language
        modules = model.named_modules() if model is not None else ()
        self._names = {id(module): _without_wrappers(name) or type(module).__name__ for name, module in modules}
        self._members = set(self._names)
        self._producers = Producers(model)
        ours = (str(Path(torch.__file__).parent) + "/", str(Path(__file__).parent.parent) + "/")
        self._filter = FrameFilter(ours, None)
        self._settled: dict[Any, bool] = {}
        """Kinds of calls that were learned, and whether a call may be made again because it leaves nothing behind."""
        self._quiet: dict[Any, int] = {}
        """Calls of a kind in a row that needed nothing new."""
        self._handles: dict[tuple[Boundary, torch.device], Callable[[], None]] = {}
        self._uses: dict[tuple[Boundary, torch.device], set[Any]] = {}
        """The statements for which a boundary is there."""
        self._returned: list[tuple[torch.Tensor, int, tuple[Boundary, torch.device]]] = []
        """Stale tensors that modules returned in this call, and how often they had been written to by then."""
        self._tried: dict[Any, list[str]] = {}
        self._targets: dict[Any, torch.device] = {}
        self._inside: set[int] = set()
        self._undo: list[Callable[[], None]] = []
        self._logged: set[Any] = set()
        self._fresh = 0
        self._as_written = False
        """Whether calls run as they were written, since the repairs break the one graph that the compiler was asked for."""
        self._learning: list[str] = []
        """The watched methods that run and are learned, the innermost last."""
        self._open: set[str] = set()
        """Watched methods of which a statement of their own, outside of any `forward`, needs the mode each time."""
        self.repairs: list[Repair] = []
        self._block: list[ExitStack] = []
        """What is entered with each block."""
        if model is not None:
            for name in (called_method(model), "generate", *methods_of(model)):
                if callable(getattr(model, name, None)):
                    self._undo.append(add_layer(model, name, self._watched(name)))

    def __enter__(self) -> Self:
        block = ExitStack()
        block.enter_context(as_written())
        block.enter_context(self._mode())
        self._block.append(block)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._block.pop().close()
        if not self._block:
            self.remove()

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
        for take_off in self._handles.values():
            take_off()
        self._handles.clear()
        self._uses.clear()
        while self._undo:
            self._undo.pop()()

    # -- calls -------------------------------------------------------------------------------------------------------

    def _watched(self, name: str) -> Layer:
        """A layer that learns calls; what every learned call pays stands here."""
        import torch

        model, settled = self._model, self._settled
        assert model is not None
        outermost = name in (called_method(model), "generate")
        kind_of = functools.partial(_kind, torch.Tensor)
        untraced(_kind, _watches, is_recorded, eagerly, Healing._may_be_learned, Healing._learn)

        def layer(method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                kind: tuple[Any, ...] = (name, model.training, *map(kind_of, args))
                if kwargs:
                    kind += tuple((key, kind_of(value)) for key, value in kwargs.items())
                recorded = is_recorded()  # asked first: torch.jit.trace has stopped when a call of torch has raised
                if recorded or kind in settled:
                    try:
                        return (eagerly(method) if self._as_written else method)(*args, **kwargs)
                    except Exception as error:
                        if not self._may_be_learned(kind, error, recorded):
                            raise
                return self._learn(kind, method, args, kwargs)

            breaking(call)

            def unless_watched(*args: Any, **kwargs: Any) -> Any:
                if torch.compiler.is_compiling() or _watches(sys._getframe(1), call.__code__):
                    return method(*args, **kwargs)  # a part of a call that is watched
                return call(*args, **kwargs)

            return call if outermost else unless_watched

        return layer

    def _may_be_learned(self, kind: Any, error: Exception, recorded: bool) -> bool:
        """Whether a call that failed is made again, learning; where a note on the error says why not, it is not."""
        full = bool(self.repairs) and breaks_a_full_graph(error)
        if not full and event_of(error, self._model) is None:
            return False
        if recorded:
            self._say_recorded(error)
            return False
        if not self._settled.pop(kind, True):  # a branch that was not seen yet: the next call of this kind learns it
            error.add_note(say("heal.next-call", self._language))
            return False
        if full:
            self._as_written = True
            logging.getLogger("samedevice").warning("%s", say("heal.full-graph", self._language, model=type(self._model).__name__))
        return True

    def _say_recorded(self, error: Exception) -> None:
        note = say("heal.recorded", self._language)
        if event_of(error, self._model) is not None and note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def _learn(self, kind: Any, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._model is not None
        before = self._fresh
        self._learning.append(kind[0])
        traces = Traces(self._model, args, kwargs)
        try:
            with self._producers.watch():
                result = eagerly(self._within(method))(*args, **kwargs)
        finally:
            self._learning.pop()
            self._install()
        if self._fresh != before:
            self._quiet.pop(kind, None)
        elif kind[0] not in self._open:
            left = traces.left()
            self._quiet[kind] = self._quiet.get(kind, 0) + 1
            if not left or self._quiet[kind] >= _QUIET_CALLS:
                if len(self._settled) >= _KINDS_AT_MOST:
                    self._settled.clear()
                self._settled[kind] = not left
                del self._quiet[kind]
        return result

    def _install(self) -> None:
        """Put the boundaries that the call showed on their modules, and take off those that did not help; no module runs now."""
        for tensor, version, key in self._returned:
            if tensor._version != version:
                self._uses.pop(key, None)  # written to after it was returned: its module may hold it too, and would miss a copy's writes
        self._returned.clear()
        for key in self._handles.keys() - self._uses.keys():
            self._handles.pop(key)()
        for boundary, target in self._uses:
            if (boundary, target) not in self._handles:
                self._handles[boundary, target] = boundary.install(target)

    def _mode(self) -> Any:
        from torch.overrides import TorchFunctionMode

        healing = self

        class Heals(TorchFunctionMode):
            """Makes a refused call of torch once more, with its stale operand moved."""

            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                recorded = is_recorded()
                try:
                    return func(*args, **(kwargs or {}))
                except (RuntimeError, NotImplementedError) as error:
                    if recorded:
                        healing._say_recorded(error)
                        raise
                    refused = error
                try:
                    return healing._again(refused, func, args, kwargs or {}, sys._getframe(1))
                finally:
                    del refused  # it holds this frame, which would hold it, and the operands with them

        return Heals()

    def _within(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A layer under which the mode is there."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._mode():
                return method(*args, **kwargs)

        return call

    def _always_within(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A layer under which the mode is there, and nothing is compiled."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return eagerly(self._within(method))(*args, **kwargs)

        untraced(call)
        return call

    # -- repairs -----------------------------------------------------------------------------------------------------

    def _again(self, error: Exception, function: Any, args: Any, kwargs: Any, frame: FrameType) -> Any:
        """The refused call, made once more with its stale operands moved; raises the error when it is not ours to heal."""
        named = named_tensors(function, args, kwargs)
        target = self._target(error, function, args, kwargs, named, frame)
        if target is None:
            try:
                raise error
            finally:
                del error
        stale = [tensor for _, tensor in named if tensor.device != target]
        # CUDA takes numbers from the host, and computes with them otherwise than with a tensor of its own type.
        numbers = {id(tensor) for tensor in stale if tensor.device.type == "cpu" and tensor.dim() == 0}

        def moved(kept: set[int]) -> Any:
            def place(_: str, __: str, tensor: torch.Tensor) -> torch.Tensor:
                return tensor if id(tensor) in kept else tensor.to(target)

            return function(*rebuilt(args, place), **rebuilt(kwargs, place))

        if 0 < len(numbers) < len(stale):
            try:
                return moved(numbers)
            except (RuntimeError, NotImplementedError) as refused:
                if event_of(refused, self._model, frame, named) is None:
                    raise
        return moved(set())

    def _target(
        self, error: Exception, function: Any, args: Any, kwargs: Any, named: list[tuple[str, torch.Tensor]], frame: FrameType
    ) -> torch.device | None:
        """Where the call is to run; None when the error is not ours to heal."""
        devices = tuple(str(tensor.device) for _, tensor in named)
        module = self._module_at(frame)
        statement = (self._filter.site(frame), operator_name(function), id(module))
        written = written_to(function, args, kwargs)
        target = self._targets.get((statement, devices, tuple(str(tensor.device) for tensor in written)))
        if target is not None and self._tried[statement][-1] == "inside":
            return target
        event = event_of(error, self._model, frame, named)
        if event is None:
            return None
        finding = judge(event)
        if finding.cause == "optimizer-state-on-other-device" and not _in_optimizer(frame):
            refused = False  # a kept average, say: its own device is where it is written
        else:
            refused = finding.cause in REFUSED_CAUSES
        reason, target = self._decide(finding, event, named, written, refused, is_one_step(function, args, kwargs))
        if target is None:
            if not hasattr(error, "finding"):
                error.finding = finding  # type: ignore[attr-defined] # ours, on torch's own exception
                error.add_note(say("heal.not-healed", self._language, reason=reason))
            return None
        stale = [name for name, tensor in named if tensor.device != target]
        if not any(fix.diff for fix in finding.fixes):
            at_use = [fix for name in stale if (fix := fix_at_use(event, name)) is not None]
            finding = replace(finding, fixes=(*at_use, *finding.fixes))
        self._targets[statement, devices, tuple(str(tensor.device) for tensor in written)] = target
        self._remember(statement, finding, module, named, target, frame)
        return target

    def _decide(
        self,
        finding: Finding,
        event: Event,
        named: list[tuple[str, torch.Tensor]],
        written: list[torch.Tensor],
        refused: bool,
        one_step: bool,
    ) -> tuple[str, torch.device | None]:
        """Where the call is to run, or why it is not made again."""
        meta = any(each.device.type == "meta" for _, each in named)
        if refused or event.kind is not EventKind.MISMATCH or meta:
            return say("heal.cause", self._language, cause=finding.cause if refused else event.kind.value), None
        if not one_step:
            return say("heal.partly-done", self._language), None
        world = max(event.processes, _world())
        if world > 1 and len({device for each in event.running[-1:] for device in each.below}) > 1:
            return say("heal.launcher", self._language, model=event.running[-1].kind, world=str(world)), None
        met = {tensor.device for _, tensor in named}
        return say("heal.unclear", self._language), target_of(finding, event, named, written) if len(met) > 1 else None

    def _remember(
        self,
        statement: Any,
        finding: Finding,
        module: torch.nn.Module | None,
        named: list[tuple[str, torch.Tensor]],
        target: torch.device,
        frame: FrameType,
    ) -> None:
        """Install the narrowest boundary that was not tried for this statement yet, and say so once."""
        self._fresh += 1
        tried = self._tried.setdefault(statement, [])
        for key, users in list(self._uses.items()):
            users.discard(statement)  # it did not help
            if not users:
                del self._uses[key]
        stale = [(name, tensor) for name, tensor in named if tensor.device != target]
        boundaries = self._boundaries([tensor for _, tensor in stale], target, frame, tried)
        if boundaries is None:
            tried.append("inside")
            running = self._running(frame)
            if running is None:
                self._open.update(self._learning)
            elif id(running) not in self._inside:
                self._inside.add(id(running))
                self._undo.append(add_layer(running, "forward", self._always_within))
        else:
            tried.append(boundaries[0].kind)
            for boundary in boundaries:
                self._uses.setdefault((boundary, target), set()).add(statement)
        self._say(finding, statement, stale, target, boundaries, module)

    def _boundaries(self, stale: list[torch.Tensor], target: torch.device, frame: FrameType, tried: list[str]) -> list[Boundary] | None:
        """A boundary of one kind for every stale tensor; None when there is none but the inside of the module."""
        if self._model is None or "inside" in tried:
            return None
        own = {id(parameter) for parameter in self._model.parameters()}
        if any(id(tensor) in own for tensor in stale):
            return None
        if "input" not in tried:
            taken = [taken_by(tensor, _outwards(frame), self._members, target) for tensor in stale]
            if all(each is not None for each in taken):
                return [each for each in taken if each is not None]
        if "output" not in tried:
            given = [(tensor, *found) for tensor in stale if (found := self._producers.of(tensor)) is not None]
            if len(given) == len(stale):
                self._returned += [(tensor, version, (boundary, target)) for tensor, boundary, version in given]
                return [boundary for _, boundary, __ in given]
        return None

    def _say(
        self,
        finding: Finding,
        statement: Any,
        stale: list[tuple[str, torch.Tensor]],
        target: torch.device,
        boundaries: list[Boundary] | None,
        module: torch.nn.Module | None,
    ) -> None:
        chosen = boundaries[0] if boundaries else None
        kind = chosen.kind if chosen else "inside"
        where = self._names.get(id(chosen.module if chosen else module)) or finding.module or (finding.at.function if finding.at else "?")
        text = say(f"heal.{kind}", self._language, module=where, path=chosen.spelled() if chosen else "")
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
            self._language,
            at=line,
            operand=operand,
            source=source,
            target=str(target),
            amount=amount(held),
            cause=finding.cause,
            boundary=text,
        )
        logging.getLogger("samedevice").warning("%s", told)

    def _module_at(self, frame: FrameType) -> torch.nn.Module | None:
        """The innermost module of the model whose method runs; the model itself when none does."""
        return next((module for module, _ in self._modules(frame)), self._model)

    def _running(self, frame: FrameType) -> torch.nn.Module | None:
        """The innermost module of the model whose forward runs."""
        return next((module for module, method in self._modules(frame) if method == "forward"), None)

    def _modules(self, frame: FrameType) -> Iterator[tuple[torch.nn.Module, str]]:
        """Modules of the model whose methods run, with the method, innermost first."""
        for each in _outwards(frame):
            code = each.f_code
            if code.co_argcount and code.co_varnames[0] == "self":
                owner = variables_of(each).get("self")
                if id(owner) in self._members:
                    yield owner, code.co_name  # type: ignore[misc] # a member is a module


def heal(model: torch.nn.Module | None = None, language: Language = "en") -> Healing:
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
    if model is None:
        return Healing(None, language)
    unwrapped(model, language)  # refuses what is no module
    kind = type(model).__name__
    if kind in _REPLICAS or getattr(model, "_is_replica", False):
        raise HealRefusedError(say("heal.replicas", language, model=kind))
    world = _world()
    if world > 1 and (len(set(device_map_of(model).values())) > 1 or len({str(each.device) for each in model.parameters()}) > 1):
        raise HealRefusedError(say("heal.launcher", language, model=kind, world=world))
    return Healing(model, language)


def _world() -> int:
    """Processes of the job, from the process group or from what the launcher left."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdecimal() else 1


def methods_of(model: torch.nn.Module) -> list[str]:
    """The public methods beside `forward` that a model's own classes define, those that are more than a plain module: `encode`, say."""
    import torch

    found: dict[str, None] = {}
    for kind in type(unwrapped(model)).__mro__:
        if kind is torch.nn.Module:
            break
        for name, method in vars(kind).items():
            plain = isinstance(method, FunctionType) and not inspect.isgeneratorfunction(method)
            if plain and name[0] != "_" and name != "generate" and not hasattr(torch.nn.Module, name):
                found[name] = None
        if "forward" in vars(kind):
            break
    return list(found)


def _without_wrappers(name: str) -> str:
    """A qualified name as it is without `torch.compile`."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def _watches(frame: FrameType | None, watched: CodeType) -> bool:
    """Whether a frame or one that called it is a watched call."""
    return any(each.f_code is watched for each in _outwards(frame))


def _in_optimizer(frame: FrameType) -> bool:
    """Whether a step of an optimizer runs."""
    import torch

    return any(isinstance(variables_of(each).get("self"), torch.optim.Optimizer) for each in _outwards(frame))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _kind(tensor: Any, value: Any) -> Any:
    """What of an argument may send a call through other statements; cheap, since every call pays for it."""
    if isinstance(value, tensor):
        shape = value.shape
        return (value.get_device(), len(shape), bool(shape) and shape[-1] == 1)
    if isinstance(value, (list, tuple)):
        return (type(value), *(_kind(tensor, part) for part in value)) if len(value) < 8 else (type(value), len(value))
    if value is None or isinstance(value, (bool, str)):
        return value
    return (type(value), value == 0) if isinstance(value, int) else type(value)  # a step's number is not a kind of its own
