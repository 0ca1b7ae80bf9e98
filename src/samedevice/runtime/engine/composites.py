"""What composite C++ operators make for themselves on the carrier's device.

See Note [Helpers of composite code] in `memory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from samedevice.runtime.state import (
    CPU,
    SHAPE_ONLY,
    Form,
    Helper,
    Memory,
    Operator,
    asker,
    caller,
    device_of,
    over,
    storage_of,
    tensors_in,
)
from samedevice.runtime.tracking import Tracker, abstract, record_of, replace_tensors, to_value

Tensor = torch.Tensor


class Composites:
    """Marks helpers, keeps their values, and gives them to the device that they are used with."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def mark(self, result: Any) -> None:
        """Remember which call made these meta tensors."""
        frame = caller()
        owner = asker(frame)
        mark = Helper(id(owner), owner.f_lasti, self._tracker.recorder.filter.site(frame))
        for tensor in tensors_in(result):
            storage = storage_of(tensor)
            if storage._sd is None:
                storage._sd = mark

    def on_meta(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        records: Sequence[Any],
    ) -> Any:
        """All tensors are on the user's meta device, or are helpers of composite code."""
        if not op.returns_tensors and all(record.__class__ is Helper for record in records):
            values = {
                id(tensor): over(shadow, tensor)
                for tensor in tensors
                if (shadow := _kept(tensor)) is not None
            }
            if len(values) == len({id(tensor) for tensor in tensors}):
                return op.func(*[replace_tensors(value, values) for value in args], **kwargs)
        result = op.func(*args, **kwargs)
        if any(record.__class__ is Helper for record in records):
            self.mark(result)
            if op.form is not Form.VIEW and op.returns_tensors and torch.Tag.inplace_view not in op.func.tags:
                self._compute(op, args, kwargs, tensors, result)
        return result

    def _compute(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        result: Any,
    ) -> None:
        """What follows from helpers with values has values: a causal mask is made in several steps."""
        shadows = [_kept(tensor) for tensor in tensors]
        results = list(tensors_in(result))
        if any(shadow is None for shadow in shadows) or any(
            t.numel() * t.element_size() > self._tracker.value_limit for t in results
        ):
            for position in op.written:
                for tensor in tensors_in(args[position] if position < len(args) else None):
                    storage_of(tensor)._helper_value = None
            return
        values = {
            id(tensor): over(shadow, tensor)
            for tensor, shadow in zip(tensors, shadows, strict=True)
            if shadow is not None
        }
        options = {name: replace_tensors(value, values) for name, value in kwargs.items()}
        if options.get("device") is not None:
            options["device"] = CPU
        computed = op.func(*[replace_tensors(value, values) for value in args], **options)
        if op.form is Form.FRESH:
            for made, value in zip(results, tensors_in(computed), strict=True):
                _keep(made, value)

    def like(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`x.new_zeros(..., device=meta)` has one of two meanings.

        C++ code copies the carrier's options, or the user wants a meta tensor.
        """
        result = abstract(op, args, kwargs)
        self.mark(result)
        if (
            not isinstance(result, Tensor)
            or result.numel() * result.element_size() > self._tracker.value_limit
        ):
            return result
        if op.short in SHAPE_ONLY or op.short == "_to_copy":
            stand_ins = tuple([to_value(value) for value in args])
            _keep(result, op.func(*stand_ins, **{**kwargs, "device": CPU}))
        return result

    def remember(self, op: Operator, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep what a factory would have filled in."""
        # `where(c, x, 1.0)` and friends wrap their scalar in a helper; its value must not be lost.
        if not op.random and isinstance(result, Tensor):
            if result.numel() * result.element_size() <= self._tracker.value_limit:
                value = op.func(*args, **{**kwargs, "device": CPU})
                # what is in there by chance may be an index, by which a kernel reads elsewhere
                _keep(result, value.zero_() if "empty" in op.short else value)

    def claim(self, named: Sequence[tuple[str, torch.Tensor, bool]], frame: Any) -> None:
        """Helpers among the tensors of one operator go to the device of the others.

        They were made by the same call.
        """
        settled = [device_of(tensor) for _, tensor, _ in named if not _is_loose(tensor)]
        home = next((device for device in settled if device.type == "cuda"), None)
        if home is None:
            home = next((device for device in settled if device.type == "cpu"), None)
        if home is None:
            return
        beside = (record_of(tensor) for _, tensor, _ in named if not _is_loose(tensor))
        there = next((each for each in beside if each.__class__ is Memory and each.device == home), None)
        decision = None if there is None else there.decision
        for _, tensor, _ in named:
            mark = record_of(tensor)
            if _is_loose(tensor) and device_of(tensor) != home:
                self._rehome(tensor, home)
            elif mark.__class__ is Helper and mark.made_in(frame):
                self.resolve(tensor, home)
            else:
                continue
            storage_of(tensor)._sd.decision = decision

    def _rehome(self, tensor: torch.Tensor, home: torch.device) -> None:
        storage = storage_of(tensor)
        record = storage._sd
        storage._sd = None
        self._tracker.adopt(tensor, home, record.made)
        storage._sd.shadow = record.shadow
        storage._sd.loose = True

    def resolve(self, tensor: torch.Tensor, home: torch.device) -> None:
        """Make a helper a virtual tensor on `home`."""
        storage = storage_of(tensor)
        mark = storage._sd
        value = getattr(storage, "_helper_value", None)
        storage._sd = None
        self._tracker.adopt(tensor, home, mark.made)
        storage._sd.shadow = value


def _is_loose(tensor: torch.Tensor) -> bool:
    record = record_of(tensor)
    return record.__class__ is Memory and record.loose


def _kept(helper: torch.Tensor) -> torch.UntypedStorage | None:
    found: torch.UntypedStorage | None = getattr(storage_of(helper), "_helper_value", None)
    return found


def _keep(helper: torch.Tensor, value: torch.Tensor) -> None:
    if value.untyped_storage().nbytes() == storage_of(helper).nbytes():
        storage_of(helper)._helper_value = value.untyped_storage()
