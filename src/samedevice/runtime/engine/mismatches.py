"""An operator whose tensors are on several devices.

Judge it, record what CUDA would refuse, and bring what must move.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch

from samedevice.device_rules import (
    Argument,
    Check,
    Refusal,
    Row,
    judge_devices,
    row_for,
    sparse_row_for,
)
from samedevice.events import EventKind
from samedevice.runtime.engine.composites import Composites
from samedevice.runtime.engine.convolutions import convolution_row
from samedevice.runtime.engine.crossing import Passing, passing_for
from samedevice.runtime.engine.draws import draws_nothing
from samedevice.runtime.engine.transfers import Transfers
from samedevice.runtime.engine.unmaterialized import Answer, asked, for_shapes
from samedevice.runtime.state import (
    INDEX_OPERATORS,
    META,
    Call,
    Form,
    Memory,
    Operator,
    caller,
    carrier,
    device_of,
    generator_device,
    operator,
    raw_is_meta,
    tensors_in,
    this_thread,
)
from samedevice.runtime.tracking import Tracker, record_of, replace_tensors
from samedevice.torch_versions.adapter import RELEASE

Tensor = torch.Tensor

Named = Sequence[tuple[str, torch.Tensor, bool]]

_log = logging.getLogger("samedevice.rules")


class Mismatches:
    """Brings the tensors of one operator together."""

    def __init__(self, tracker: Tracker, transfers: Transfers, composites: Composites) -> None:
        self._tracker = tracker
        self._transfers = transfers
        self._composites = composites
        self.unlisted: dict[str, int] = {}
        """Operators that met mixed devices and have no row of their own, with how often."""
        self.host_moved = False
        """Whether real host memory was moved for an operator, so that a gradient may be on its way back
        there.
        """
        self.gradient_back: Callable[[torch.Tensor], None] | None = None
        """Told of tensors that were moved for an operator and want their gradient back."""
        self._overwritten: list[tuple[weakref.ref[torch.Tensor], Any, torch.device]] = []
        """See Note [Host memory that took a GPU's values]."""

    def resolve(self, call: Call, key: str | None = None) -> Call:
        """The same call with all its tensors on one device; `key` is that of what it makes, where it is
        sparse.

        Raises as CUDA does when the machine was asked to.
        """
        op = call.op
        frame = caller()
        named = op.named(call.args, call.kwargs)
        self._composites.claim(named, frame)
        devices = [device_of(tensor) for _, tensor, _ in named]
        row = convolution_row(op, call.args, call.kwargs) or row_of(op, named, key)
        home = _home(op, row, named, devices)
        given = None
        if any(device.type == "meta" for device in devices):
            if op.short == "copy_":
                if devices[0].type != "meta":
                    self._tracker.recorder.meta_copy(named[1][1], devices[0], frame)
            else:
                answer = self._beside_meta(call, named, devices, home, frame)
                given = None if answer is None else answer.result
        elif any(device.type == "cuda" for device in devices):
            if row.by_default:
                if op.name not in self.unlisted:
                    _log.debug("no row for %s: %s", op.name, row.source)
                self.unlisted[op.name] = self.unlisted.get(op.name, 0) + 1
            refused = refusal(row, named, devices)
            if refused is not None:
                kind = EventKind.UNCHECKED if refused.silent else EventKind.MISMATCH
                error = NotImplementedError if refused.missing else RuntimeError
                self._tracker.recorder.refused(
                    kind, op.name, refused.message, named, devices, frame, error=error
                )
                self._send_gradients_back(named)
        gathered = self._gather(call, named, devices, home)
        gathered.given = given
        return gathered

    def reached(self, func: Any, *args: Any) -> Answer:
        """Record what comes of an operator to which only CUDA's route leads, with these tensors.

        It is not run: what the machine has in its place is. Where each result is, if a program is to go on as
        on hardware.
        """
        op = operator(func)
        tensors = list(tensors_in([*args]))
        call = Call(op, args, {}, tensors, [record_of(tensor) for tensor in tensors])
        named = op.named(args, {})
        devices = [device_of(tensor) for _, tensor, _ in named]
        if META not in devices or all(device == META for device in devices):
            return Answer()
        with_data = [device for device in devices if device != META]
        home = next((device for device in with_data if device.type == "cuda"), with_data[0])
        outer, this_thread.raw = this_thread.raw, True
        try:
            answer = self._beside_meta(call, named, devices, home, caller())
        finally:
            this_thread.raw = outer
        return answer or Answer()

    def _beside_meta(
        self,
        call: Call,
        named: Named,
        devices: Sequence[torch.device],
        home: torch.device,
        frame: FrameType,
    ) -> Answer | None:
        """Record what comes of an operator with a tensor on meta; what torch gave, where a program is to go
        on as on hardware: it does not where findings are recorded, so that one weight that was never loaded
        does not hide all that follows.
        """
        answer = asked(call, named, devices)
        free = row_for(call.op.name).check is Check.FREE  # may meet any device, and reads shapes perhaps
        if free and (answer is None or answer.error is None):
            return None
        silent = None if answer is None else answer.silent_result
        if answer is not None and (answer.invalid or (silent == "meta" and for_shapes(named, devices))):
            return answer
        recorder = self._tracker.recorder
        error, message = _told(call.op, answer, devices, home)
        recorder.unmaterialized(call.op, error, message, named, devices, frame, silent)
        return answer if recorder.on_mismatch == "raise" else None

    def check_generator(self, call: Call, generator: Any, target: torch.device) -> None:
        """Record the finding when a generator belongs to another kind of device than its tensor.

        The generator fills the tensor.
        """
        own, op = generator_device(generator), call.op
        if own.type != target.type and not draws_nothing(op, call.args, call.kwargs, call.tensors):
            text = f"Expected a '{target.type}' device type for generator but found '{own.type}'"
            self._tracker.recorder.generator(op, text, own, target, caller())

    def _gather(self, call: Call, named: Named, devices: Sequence[torch.device], home: torch.device) -> Call:
        moved: dict[int, torch.Tensor] = {}
        away: list[tuple[torch.Tensor, torch.Tensor]] = []
        for (_, tensor, written), device in zip(named, devices, strict=True):
            if device == home:
                continue
            if id(tensor) not in moved:
                moved[id(tensor)] = self._bring(tensor, device, home)
                self.host_moved = self.host_moved or (device.type == "cpu" and not raw_is_meta(tensor))
            if written and device.type != "meta":
                away.append((tensor, moved[id(tensor)]))
                continue
            if tensor.requires_grad and self.gradient_back is not None and torch.is_grad_enabled():
                self.gradient_back(tensor)
        if call.op.form is Form.INPLACE and home.type == "cpu" and torch.is_grad_enabled():
            self._follow_gradients(named, devices)
        args = tuple([replace_tensors(value, moved) for value in call.args])
        kwargs = {name: replace_tensors(value, moved) for name, value in call.kwargs.items()}
        tensors = [tensor for value in (*args, *kwargs.values()) for tensor in tensors_in(value)]
        gathered = Call(call.op, args, kwargs, tensors, [record_of(tensor) for tensor in tensors])
        gathered.home = gathered.target = home
        gathered.generator = call.generator
        gathered.away = away
        return gathered

    def _follow_gradients(self, named: Named, devices: Sequence[torch.device]) -> None:
        """Keep what an operator writes in real host memory with values of a GPU that have gradients.

        Note [Host memory that took a GPU's values]
        The gradient of such memory is in real host memory, and part of it goes on to the GPU, which autograd
        refuses with a text that no hardware prints. So it becomes a carrier that may pass, before the node
        of the operator gets it. That node is there only when the operator has returned: the next operator,
        or the backward itself, asks for it.
        """
        sources = [
            device
            for (_, tensor, written), device in zip(named, devices, strict=True)
            if not written and device.type == "cuda" and tensor.requires_grad
        ]
        for _, tensor, written in named if sources else ():
            if written and not raw_is_meta(tensor):
                whole = tensor if tensor._base is None else tensor._base
                self._overwritten.append((weakref.ref(whole), whole.grad_fn, sources[0]))
                self.host_moved = True

    def lead_gradients(self) -> None:
        """Let gradients of host memory that took a GPU's values pass to that GPU."""
        if not self._overwritten:
            return
        waiting, self._overwritten = self._overwritten, []
        for each in waiting:
            reference, before, device = each
            tensor = reference()
            node = None if tensor is None else tensor.grad_fn
            if node is not None and node is not before:
                node.register_prehook(functools.partial(self._leads, device))
            elif tensor is not None:
                self._overwritten.append(each)

    def _leads(self, device: torch.device, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients in real host memory as carriers on a GPU, which pass as what they were."""
        return tuple(
            passing_for(each, self._transfers.transfer(each, device, {}, None))
            if isinstance(each, Tensor) and type(each) is not Passing and not raw_is_meta(each)
            else each
            for each in gradients
        )

    def _send_gradients_back(self, named: Named) -> None:
        """What a refused operator saved is on several devices, and so is what backward makes of it."""
        if self.gradient_back is not None and torch.is_grad_enabled():
            for _, tensor, _ in named:
                if tensor.requires_grad:
                    self.gradient_back(tensor)

    def _bring(self, tensor: torch.Tensor, device: torch.device, home: torch.device) -> torch.Tensor:
        if device.type == "meta":
            made = carrier(tensor.size(), tensor.stride(), tensor.dtype)
            return self._tracker.adopt(made, home, None)
        record = record_of(tensor)
        site = record.made if record.__class__ is Memory else None
        moved = self._transfers.transfer(tensor, home, {}, site)
        return moved


def refusal(row: Row, named: Named, devices: Sequence[torch.device]) -> Refusal | None:
    """What CUDA says to these tensors; None when it takes them."""
    arguments = [
        Argument(
            name, str(device), tensor.dim(), written, str(tensor.dtype).removeprefix("torch."), tensor.numel()
        )
        for (name, tensor, written), device in zip(named, devices, strict=True)
    ]
    return judge_devices(row, arguments, RELEASE)


def row_of(op: Operator, named: Named, key: str | None = None) -> Row:
    """The row of an operator, or of its kernel for sparse tensors."""
    key = key or sparse_key([tensor for _, tensor, _ in named])
    return row_for(op.name) if key is None else sparse_row_for(op.name, key)


def sparse_key(tensors: Sequence[Tensor]) -> str | None:
    """The dispatch key of a kernel for sparse tensors on a GPU, as the first one of them decides."""
    layout = next((each.layout for each in tensors if each.layout is not torch.strided), None)
    if layout is None:
        return None
    return "SparseCUDA" if layout is torch.sparse_coo else "SparseCsrCUDA"


def _home(
    op: Operator, row: Row, named: Sequence[tuple[str, torch.Tensor, bool]], devices: Sequence[torch.device]
) -> torch.device:
    """Where the operator runs.

    With what it changes, indexes or copies into; else on the first GPU among its tensors.
    """
    if op.form is Form.INPLACE:
        for (_, _, written), device in zip(named, devices, strict=True):
            if written and device.type != "meta":
                return device
    copies = row.check is Check.FREE and not row.demands and "device" not in op.argument_names
    if (copies or op.name in INDEX_OPERATORS) and devices[0].type != "meta":
        return devices[0]
    taking_part = [
        (tensor, device)
        for (name, tensor, _), device in zip(named, devices, strict=True)
        if row.then is not None or name.partition("[")[0] not in row.free
    ]
    candidates = [d for t, d in taking_part if d.type == "cuda" and t.dim() > 0]
    candidates += [d for kind in ("cuda", "cpu") for _, d in taking_part if d.type == kind]
    return candidates[0]


def _told(
    op: Operator, answer: Answer | None, devices: Sequence[torch.device], home: torch.device
) -> tuple[Exception | None, str]:
    """What is raised where an operator met a tensor on meta, and what is said of it."""
    if answer is None:
        first, other = devices[0], next(device for device in devices if device != devices[0])
        error: Exception = RuntimeError(f"Tensor on device {other} is not on the expected device {first}!")
        return error, str(error)
    if answer.error is not None:
        return answer.error, str(answer.error)
    where = "is on meta" if answer.silent_result == "meta" else f"on {home} is memory that nobody filled"
    return None, f"{op.short}: it raises nothing, and its result {where}"
