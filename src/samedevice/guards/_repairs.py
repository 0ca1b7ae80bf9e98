"""Healing one refused call of torch, or the reason why it is not healed.

The call is diagnosed, its stale operands are lent copies for this one operator, the call is made, and it is
said once. Numbers of the host are tried as they are first.

Must guarantee: a call that may have done anything before it was refused is not made again; what writes, or
draws random numbers, is tried on copies first, so that nothing was done when it is made; see Note [One
operator].
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from samedevice.diagnosis import fix_at_use, judge
from samedevice.errors import UsageError
from samedevice.events import Event, EventKind
from samedevice.findings import Finding, Renderer
from samedevice.guards._align import rebuilt, tensors_of
from samedevice.guards._compiled import is_recorded
from samedevice.guards._finding import FINDING_WITHOUT_NOTE
from samedevice.guards._lent import Lending, Reached, can_be_lent, saving_is_watched
from samedevice.guards._live import event_of
from samedevice.guards._operators import (
    is_python,
    named_tensors,
    operator_name,
    operator_of,
    read_on_host,
)
from samedevice.guards._rehearsal import refusal_of
from samedevice.guards._stale import target_of
from samedevice.messages import Bytes, Phrase
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
        "optimizer-built-before-move",
        "optimizer-state-on-other-device",
        "quantized-state-on-other-device",
    }
)
"""Causes of which a mismatch is only the visible part: training that goes wrong, missing values, other random
numbers.
"""
_STATE_OF_OPTIMIZERS = ("optimizer-built-before-move", "optimizer-state-on-other-device")
_PLANS_AT_MOST = 10_000
_OURS = str(Path(__file__).parent) + "/"


class HealRefusedError(UsageError):
    """Healing this would hide a wrong result."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One statement that is healed."""

    finding: Finding[str]
    operand: str
    source: str
    target: str
    nbytes: int
    module: str
    boundary: str = "inside"
    """Where it is moved: at the statement itself, each time."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a statement's call is made for operands on these devices."""

    target: torch.device | None
    """None: as it was written."""
    keeps_numbers: bool = False


_AS_WRITTEN = _Plan(None)


class Repairs:
    """What a function mode asks for; `made` lists what was healed."""

    def __init__(
        self,
        model: torch.nn.Module | None,
        renderer: Renderer,
        learn: Callable[[FrameType], None] = lambda _: None,
        speaks: bool = True,
    ) -> None:
        import torch

        self._model = model
        self.renderer = renderer
        self._learn = learn
        self._speaks = speaks
        modules = model.named_modules() if model is not None else ()
        self._names = {
            id(module): _without_wrappers(name) or type(module).__name__ for name, module in modules
        }
        self._filter = FrameFilter(
            (str(Path(torch.__file__).parent) + "/", str(Path(__file__).parent.parent) + "/"), None
        )
        self._plans: dict[Any, _Plan] = {}
        self._logged: set[Any] = set()
        self.healed: set[Any] = set()
        self.made: list[Repair] = []

    # -- what the mode asks

    def heal(self, error: Exception, function: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """The result of a refused call that only reads.

        Empty where it is not ours to heal, and why is on the error.
        """
        return _Call(self, function, args, kwargs).healed(error)

    def make(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result of a call whose tensors are on several devices, and which was not made yet."""
        call = _Call(self, function, args, kwargs)
        if is_recorded():
            return call.recorded()
        plan = self._plans.get(call.key) if call.is_known else _AS_WRITTEN
        if plan is not None:
            return call.made(plan)
        refused = call.refusal()
        if not isinstance(refused, Exception):
            return refused
        try:
            if healed := call.healed(refused):
                return healed[0]
            raise refused
        finally:
            del refused  # its frames hold this one, and the operands with it

    def leave(
        self, error: Exception, function: Any, args: Any, kwargs: Any, reason: Phrase | None = None
    ) -> None:
        """Say on an error that has to do with devices why the call is not healed."""
        if is_recorded():
            self.say_recorded(error)
        elif not hasattr(error, "finding"):
            call = _Call(self, function, args, kwargs)
            event = event_of(error, self._model, call.frame, call.named)
            if event is not None:
                finding = judge(event)
                reason = _unhealed(finding, event, call) or reason or Phrase("heal.partly-done")
                self.refuse(error, finding, reason)

    # -- what calls need

    def say_recorded(self, error: Exception) -> None:
        """Say on an error that a graph is recorded, and nothing is learned then."""
        note = self.renderer.text(Phrase("heal.recorded"))
        if event_of(error, self._model) is not None and note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def refuse(self, error: Exception, finding: Finding[Phrase], reason: Phrase) -> None:
        """Put the finding and the reason on an error, once."""
        if not hasattr(error, "finding"):
            error.finding = self.renderer.finding(finding)  # type: ignore[attr-defined] # ours, on torch's own exception
            setattr(error, FINDING_WITHOUT_NOTE, True)
            error.add_note(self.renderer.text(Phrase("heal.not-healed", reason=reason)))

    def remember(self, call: _Call, plan: _Plan, event: Event, finding: Finding[Phrase]) -> None:
        """Make the statement's next calls at once as this one, and say so."""
        if len(self._plans) >= _PLANS_AT_MOST:
            self._plans.clear()
        self._plans[call.key] = plan
        self.healed.add(call.function)
        self._learn(call.frame)
        stale = [
            (name, tensor) for name, tensor in call.named if tensor.device != call.target_of(plan, tensor)
        ]
        if not any(fix.diff for fix in finding.fixes):
            at_use = [fix for name, _ in stale if (fix := fix_at_use(event, name)) is not None]
            finding = replace(finding, fixes=(*at_use, *finding.fixes))
        self._say(call, plan, finding, stale)

    def accept(self, call: _Call) -> None:
        """The call needs no healing."""
        self._plans[call.key] = _AS_WRITTEN

    def forget(self, call: _Call) -> None:
        """What was learned of the call does not hold."""
        self._plans.pop(call.key, None)

    def _say(
        self, call: _Call, plan: _Plan, finding: Finding[Phrase], stale: list[tuple[str, torch.Tensor]]
    ) -> None:
        module = self.module_at(call.frame)
        where = self._names.get(id(module)) or finding.module or (finding.at.function if finding.at else "?")
        held = sum(tensor.numel() * tensor.element_size() for _, tensor in stale)
        operand = ", ".join(name for name, _ in stale)
        source = ", ".join(dict.fromkeys(str(tensor.device) for _, tensor in stale))
        target = ", ".join(dict.fromkeys(str(call.target_of(plan, tensor)) for _, tensor in stale))
        self.made = [
            each
            for each in self.made
            if (each.finding.at, each.operand, each.module) != (finding.at, operand, where)
        ]
        self.made.append(Repair(self.renderer.finding(finding), operand, source, target, held, where))
        at = finding.at
        if (spot := (at and (at.file, at.line), operand)) in self._logged or not self._speaks:
            return
        self._logged.add(spot)
        line = Phrase(
            "heal.moved",
            at=f"{at.file}:{at.line}" if at else "?",
            operand=operand,
            source=source,
            target=target,
            amount=Bytes(held),
            cause=finding.cause,
            module=where,
        )
        logging.getLogger("samedevice").warning("%s", self.renderer.text(line))

    def site(self, frame: FrameType) -> Any:
        """The statement of the script that runs."""
        return self._filter.site(frame)

    def module_at(self, frame: FrameType) -> torch.nn.Module | None:
        """The innermost module of the model whose method runs; the model itself when none does."""
        return next((module for module, _ in self.modules(frame)), self._model)

    def modules(self, frame: FrameType) -> Iterator[tuple[torch.nn.Module, str]]:
        """Modules of the model whose methods run, with the method, innermost first."""
        for each in outwards(frame):
            code = each.f_code
            if code.co_argcount and code.co_varnames[0] == "self":
                owner = variables_of(each).get("self")
                if id(owner) in self._names:
                    yield owner, code.co_name  # type: ignore[misc] # one of the model's modules

    def event_of(self, error: BaseException, call: _Call) -> Event | None:
        """The event that a refusal amounts to."""
        return event_of(error, self._model, call.frame, call.named)

    def decide(self, error: Exception, call: _Call) -> tuple[torch.device, Event, Finding[Phrase]] | None:
        """Where the refused call is to run.

        None, and the reason on the error, when it is not ours to heal.
        """
        event = self.event_of(error, call)
        if event is None:
            return None
        finding = judge(event)
        reason = _unhealed(finding, event, call)
        target = None if reason else target_of(finding, event, call.named, call.written_tensors)
        if target is None:
            self.refuse(error, finding, reason or Phrase("heal.unclear"))
            return None
        return target, event, finding


class _Call:
    """One call of torch that is looked at."""

    def __init__(self, repairs: Repairs, function: Any, args: Any, kwargs: Any) -> None:
        self._repairs = repairs
        self.function, self.args, self.kwargs = function, args, kwargs
        self.frame = _outside(sys._getframe(1))
        self.named = named_tensors(function, args, kwargs)
        operator = operator_of(function) if not is_python(function) else None
        written = operator.written(args, kwargs) if operator is not None else []
        self.is_known = written is not None
        """Whether it is known what the call writes to."""
        self.written: list[Any] = written or []
        self.written_tensors = [tensor for value in self.written for _, _, tensor in tensors_of(value)]
        self._in_parts = operator is not None and operator.in_parts
        self.only_reads = (
            operator is not None
            and operator.leaves_nothing
            and "out" not in kwargs
            and not saving_is_watched()
        )
        """Whether a call that was refused has done nothing."""
        self._places = _beside(self.written, (*args, *kwargs.values()))
        stays = [*self.written_tensors, *read_on_host(function, args, kwargs)]
        self._places |= {id(tensor): tensor.device for tensor in stays}  # a write to a copy would be lost

    @property
    def key(self) -> Any:
        """The statement, and what of its operands decides how it is made."""
        operands = tuple((tensor.device, not tensor.dim()) for _, tensor in self.named)
        at = (
            self._repairs.site(self.frame),
            operator_name(self.function),
            id(self._repairs.module_at(self.frame)),
        )
        return (*at, operands, tuple(tensor.device for tensor in self.written_tensors))

    def target_of(self, plan: _Plan, tensor: torch.Tensor) -> torch.device:
        """Where the tensor is to be for the call."""
        if plan.target is None or (plan.keeps_numbers and _is_number(tensor)):
            return tensor.device
        return self._places.get(id(tensor), plan.target)

    def refusal(self) -> Any:
        """The exception with which torch refuses the call, or else the result.

        After an exception nothing has been done.
        """
        if self.only_reads:
            try:
                return self.function(*self.args, **self.kwargs)
            except (RuntimeError, NotImplementedError) as error:
                return error
        refused = refusal_of(self.function, self.args, self.kwargs, self.written)
        if refused is not None:
            return refused
        self._repairs.accept(self)
        return self.made(_AS_WRITTEN)

    def healed(self, error: Exception) -> tuple[Any, ...]:
        """The result with stale operands moved.

        Empty where the error is not ours to heal, and why is on it.
        """
        decided = self._repairs.decide(error, self)
        if decided is None:
            return ()
        target, event, finding = decided
        stale = [tensor for _, tensor in self.named if tensor.device != target]
        # CUDA takes numbers from the host, and computes with them otherwise than with a tensor of its own
        # type.
        some = 0 < sum(map(_is_number, stale)) < len(stale)
        for keeps in (True, False) if some else (False,):
            plan = _Plan(target, keeps)
            try:
                result = self._lent(plan, tried=self.only_reads)
            except Reached as reached:
                self._repairs.refuse(error, finding, reached.why)
                return ()
            except (RuntimeError, NotImplementedError) as refused:
                if self._repairs.event_of(refused, self) is None:
                    raise
                continue
            self._repairs.remember(self, plan, event, finding)
            return (result,)
        self._repairs.refuse(error, finding, Phrase("heal.unclear"))
        return ()

    def made(self, plan: _Plan) -> Any:
        """The result by what was learned."""
        try:
            return (
                self.function(*self.args, **self.kwargs)
                if plan is _AS_WRITTEN
                else self._lent(plan, tried=True)
            )
        except Reached as reached:
            self._repairs.forget(self)
            raise HealRefusedError(self._repairs.renderer.text(reached.why)) from None
        except (RuntimeError, NotImplementedError) as error:
            self._repairs.forget(self)
            self._repairs.leave(error, self.function, self.args, self.kwargs)
            raise

    def recorded(self) -> Any:
        """The result while a graph is recorded: moves that were learned become a part of it."""
        plan = self._repairs._plans.get(self.key, _AS_WRITTEN)

        def place(_: str, __: str, tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(self.target_of(plan, tensor))

        try:
            return self.function(*rebuilt(self.args, place), **rebuilt(self.kwargs, place))
        except (RuntimeError, NotImplementedError) as error:
            self._repairs.say_recorded(error)
            raise

    def _lent(self, plan: _Plan, tried: bool) -> Any:
        """The result with copies lent.

        Raises `Reached` when one gets out of the operator, and what torch raises.
        """
        lending = Lending(lambda tensor: self.target_of(plan, tensor), self._repairs.renderer)
        given = [tensor for value in (self.args, self.kwargs) for _, _, tensor in tensors_of(value)]
        lending.ask_autocast(given)
        lending.copy_all(given, self._in_parts)
        args, kwargs = rebuilt(self.args, lending.place), rebuilt(self.kwargs, lending.place)
        if not tried:
            refused = refusal_of(self.function, args, kwargs, self.written, lending.check)
            if refused is not None:
                raise refused
        with lending.saving(
            [tensor for value in (*args, *kwargs.values()) for _, _, tensor in tensors_of(value)]
        ):
            result = self.function(*args, **kwargs)
        lending.check(result)
        lending.follow([*self.written_tensors, *(tensor for _, _, tensor in tensors_of(result))])
        return result


def _unhealed(finding: Finding[Phrase], event: Event, call: _Call) -> Phrase | None:
    """Why a refused call is not made again; None when it may be."""
    refused = finding.cause in REFUSED_CAUSES
    if finding.cause in _STATE_OF_OPTIMIZERS and not _in_optimizer(call.frame):
        refused = False  # a kept average, say: its own device is where it is written
    if (
        refused
        or event.kind is not EventKind.MISMATCH
        or any(tensor.device.type == "meta" for _, tensor in call.named)
    ):
        return Phrase("heal.cause", cause=finding.cause if refused else event.kind.value)
    if is_python(call.function) or operator_of(call.function) is None:
        return Phrase("heal.partly-done")
    if not all(can_be_lent(tensor) for _, tensor in call.named):
        return Phrase("heal.kind")
    processes = max(event.processes, world())
    if processes > 1 and len({device for each in event.running[-1:] for device in each.below}) > 1:
        return Phrase("heal.launcher", model=event.running[-1].kind, world=processes)
    return None if len({tensor.device for _, tensor in call.named}) > 1 else Phrase("heal.unclear")


def _beside(written: Sequence[Any], values: Sequence[Any]) -> dict[int, torch.device]:
    """Where the tensors of lists belong that go with a list that is written to.

    They go number by number, as in `torch._foreach_add_`.
    """
    places: dict[int, torch.device] = {}
    for target in written:
        for value in values:
            if (
                isinstance(target, (list, tuple))
                and isinstance(value, (list, tuple))
                and len(value) == len(target)
            ):
                for one, other in zip(target, value, strict=True):
                    if hasattr(one, "device") and places.setdefault(id(other), one.device) != one.device:
                        return {}
    return places


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and not tensor.dim()


def _outside(frame: FrameType) -> FrameType:
    """The innermost frame that is not one of healing's own."""
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _in_optimizer(frame: FrameType) -> bool:
    """Whether a step of an optimizer runs."""
    import torch

    return any(isinstance(variables_of(each).get("self"), torch.optim.Optimizer) for each in outwards(frame))


def world() -> int:
    """Processes of the job, from the process group or from what the launcher left."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdecimal() else 1


def _without_wrappers(name: str) -> str:
    """A qualified name as it is without `torch.compile`."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")
