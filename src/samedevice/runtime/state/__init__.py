"""What a machine, a GPU, a tensor's memory and an operator are."""

from __future__ import annotations

from samedevice.runtime.state import plain
from samedevice.runtime.state.allocator_history import frames_of
from samedevice.runtime.state.allocator_settings import parse_settings
from samedevice.runtime.state.allocator_snapshot import segments_of, settings_of, trace_of
from samedevice.runtime.state.allocator_statistics import allocator_stats
from samedevice.runtime.state.arenas import PoolId
from samedevice.runtime.state.caching_allocator import Booking, CachingAllocator
from samedevice.runtime.state.call import Call, Geometry, has_geometry
from samedevice.runtime.state.calling_code import asker, caller
from samedevice.runtime.state.decision import Decision
from samedevice.runtime.state.ledger import DeviceLedger, OutOfDeviceMemoryError
from samedevice.runtime.state.machine_state import (
    CPU,
    META,
    MachineState,
    TorchDevice,
    assumed_ranks,
    current_machine,
    entered,
    gpu_uuid,
    pop_state,
    push_state,
)
from samedevice.runtime.state.memory import (
    ASSUMED_FLOAT,
    JOINED_SHARE,
    VALUE_LIMIT,
    Helper,
    Memory,
    QuantizedMemory,
    as_torch,
    assumed_values,
    carrier,
    device_of,
    held,
    is_carrier,
    is_virtual,
    memory_of,
    over,
    raw_data_ptr,
    raw_device,
    raw_is_meta,
    record_of_parts,
    storage_of,
    tensors_in,
    this_thread,
    use_on_stream,
    value_of,
)
from samedevice.runtime.state.operators import INDEX_OPERATORS, SHAPE_ONLY, Form, Operator, aten, operator
from samedevice.runtime.state.parts import MAKES_OF_PARTS, READS_PARTS, of_parts, parts_of
from samedevice.runtime.state.pool_checkpoint import PoolCheckpoint, checkpoint_of, restore
from samedevice.runtime.state.virtual_generator import (
    TorchGenerator,
    VirtualGenerator,
    all_states,
    generator_device,
    virtual_state,
    whole,
)

__all__ = [
    "ASSUMED_FLOAT",
    "CPU",
    "INDEX_OPERATORS",
    "JOINED_SHARE",
    "MAKES_OF_PARTS",
    "META",
    "READS_PARTS",
    "SHAPE_ONLY",
    "VALUE_LIMIT",
    "Booking",
    "CachingAllocator",
    "Call",
    "Decision",
    "DeviceLedger",
    "Form",
    "Geometry",
    "Helper",
    "MachineState",
    "Memory",
    "Operator",
    "OutOfDeviceMemoryError",
    "PoolCheckpoint",
    "PoolId",
    "QuantizedMemory",
    "TorchDevice",
    "TorchGenerator",
    "VirtualGenerator",
    "all_states",
    "allocator_stats",
    "as_torch",
    "asker",
    "assumed_ranks",
    "assumed_values",
    "aten",
    "caller",
    "carrier",
    "checkpoint_of",
    "current_machine",
    "device_of",
    "entered",
    "frames_of",
    "generator_device",
    "gpu_uuid",
    "has_geometry",
    "held",
    "is_carrier",
    "is_virtual",
    "memory_of",
    "of_parts",
    "operator",
    "over",
    "parse_settings",
    "parts_of",
    "plain",
    "pop_state",
    "push_state",
    "raw_data_ptr",
    "raw_device",
    "raw_is_meta",
    "record_of_parts",
    "restore",
    "segments_of",
    "settings_of",
    "storage_of",
    "tensors_in",
    "this_thread",
    "trace_of",
    "use_on_stream",
    "value_of",
    "virtual_state",
    "whole",
]
