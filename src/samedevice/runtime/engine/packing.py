"""`_pack_padded_sequence` reads lengths on the host, wherever the sequences are.

Batch sizes are made there, too.

Source: `aten/src/ATen/native/PackedSequence.cpp`. It is one operator for all devices, so no schema says it.
"""

from __future__ import annotations

from typing import Any

import torch

from samedevice.device_rules import Argument, judge_devices, row_for
from samedevice.events import EventKind
from samedevice.runtime.engine.transfers import Transfers
from samedevice.runtime.state import CPU, Operator, caller, device_of, memory_of, this_thread, value_of
from samedevice.runtime.tracking import Tracker, to_meta, to_value
from samedevice.torch_versions.adapter import RELEASE

Tensor = torch.Tensor


class Packing:
    """Packs the sequences of one machine."""

    def __init__(self, tracker: Tracker, transfers: Transfers) -> None:
        self._tracker = tracker
        self._transfers = transfers

    def pack(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operator, with its second result on the host; NotImplemented where no GPU has a part in it."""
        sequences, lengths, *rest = args
        devices = [device_of(sequences), device_of(lengths)]
        if all(device.type != "cuda" for device in devices):
            return NotImplemented
        if devices[1].type == "cuda":
            refusal = judge_devices(
                row_for(op.name), [Argument("lengths", str(devices[1]), lengths.dim())], RELEASE
            )
            assert refusal is not None
            named = [("input", sequences, False), ("lengths", lengths, False)]
            self._tracker.recorder.refused(
                EventKind.MISMATCH, op.name, refusal.message, named, devices, caller()
            )
            lengths = self._transfers.transfer(lengths, CPU, {}, None)
        record = memory_of(sequences)
        if record is None or not record.virtual:
            return op.func(sequences, lengths, *rest)
        this_thread.device, this_thread.decision = record.device, record.decision
        known = value_of(sequences, record)
        data, sizes = op.func(to_meta(sequences) if known is None else known, to_value(lengths), *rest)
        site = self._tracker.site()
        if known is None:
            data = self._tracker.adopt(data, record.device, site)
        else:
            data = self._tracker.with_value(data, record.device, site, assumed=record.assumed)
        this_thread.decision = None if (counted := memory_of(lengths)) is None else counted.decision
        self._tracker.note_host(sizes, site)
        own, source = memory_of(sizes), memory_of(lengths)
        if own is not None and source is not None and source.uncomputed:
            own.assumed = True
        return data, sizes
