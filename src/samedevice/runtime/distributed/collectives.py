"""What collectives do to tensors on virtual GPUs.

The values of the other ranks are real, or the other ranks are assumed equal.

Note [One exchange]
Every collective of a group is one exchange: all ranks tell what they call, and everyone gets everyone's
bytes; what the collective means is then computed by each rank alone, reductions in the order of the ranks.
The bytes go over a CPU group that the group carries (see `exchange`). Whether bytes are sent depends
on their number only, which all ranks know alike: large tensors have no values here. Sends and receives are
pairs of their own. A group of one process whose other ranks are assumed (`--ranks one`) differs in the
exchange alone: everyone's bytes are one's own.

Note [What NCCL says]
Checks and their texts are those of `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp` and `ProcessGroup.cpp`,
and `Duplicate GPU detected` is NCCL's own (`src/init.cc`, when a communicator is made, which happens at a
group's first collective on a device). A rank that comes with another GPU than before asks for a new
communicator; where the others do not, all of them wait and nothing is said. Of the tensors of one call on
several GPUs c10d compares only those of a coalesced one.
"""

from __future__ import annotations

import operator as arithmetic
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist

from samedevice.errors import UnsupportedFeatureError
from samedevice.events import EventKind
from samedevice.runtime.cuda import pci_bus
from samedevice.runtime.distributed.exchange import Exchange, exchange_for, is_assumed
from samedevice.runtime.distributed.works import Works, done
from samedevice.runtime.state import (
    CPU,
    Memory,
    Operator,
    caller,
    carrier,
    device_of,
    memory_of,
    plain,
    tensors_in,
    this_thread,
    value_of,
)
from samedevice.runtime.tracking import Tracker, stand_in, write_value
from samedevice.torch_versions.adapter import TORCH

Tensor = torch.Tensor
_c10d: Any = torch._C._distributed_c10d
_ReduceOp: Any = dist.ReduceOp.RedOpType

_REDUCTIONS: dict[Any, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    _ReduceOp.SUM: arithmetic.add,
    _ReduceOp.AVG: arithmetic.add,
    _ReduceOp.PRODUCT: arithmetic.mul,
    _ReduceOp.MIN: torch.minimum,
    _ReduceOp.MAX: torch.maximum,
    _ReduceOp.BAND: torch.bitwise_and,
    _ReduceOp.BOR: torch.bitwise_or,
    _ReduceOp.BXOR: torch.bitwise_xor,
}
_BY_NAME: dict[str, Any] = {
    "sum": _ReduceOp.SUM, "avg": _ReduceOp.AVG, "product": _ReduceOp.PRODUCT, "min": _ReduceOp.MIN,
    "max": _ReduceOp.MAX, "band": _ReduceOp.BAND, "bor": _ReduceOp.BOR, "bxor": _ReduceOp.BXOR,
}  # fmt: skip
_NOT_BOUND = "Attempt to perform collective on tensor not on device passed to init_process_group"
_DUPLICATE = (
    "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp, invalid usage (run with NCCL_DEBUG=WARN "
    "for details)\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast "
    "error:\nDuplicate GPU detected : rank {one} and rank {other} both on CUDA device {bus:x}"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one rank gave: its bytes, or None where they are too many to send."""

    data: torch.Tensor | None
    known: bool
    assumed: bool
    gpu: int


class Collectives:
    """Runs the operators of `c10d` and `_c10d_functional` for one machine."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._communicators: dict[str, list[tuple[int, ...]]] = {}
        """For each group the physical GPUs of its ranks for which NCCL would have made a communicator, the
        first ones first.
        """

    def takes(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call concerns the machine.

        Some tensor of it is virtual, the group takes no host tensors, or its other ranks are assumed.
        """
        if any(_virtual(tensor) for value in (*args, *kwargs.values()) for tensor in tensors_in(value)):
            return True
        bound = dict(zip(op.argument_names, args, strict=False)) | kwargs
        if bound.keys().isdisjoint(("process_group", "group_name")):
            return False
        group = _group(op, bound)
        return not takes_host(group) or _assumed(group)

    def run(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        bound = dict(zip(op.argument_names, args, strict=False)) | kwargs
        handler = getattr(self, f"_{op.func.namespace.strip('_')}_{op.short.strip('_')}", None)
        if handler is None:
            raise UnsupportedFeatureError(f"{op.name} is not supported on a virtual machine.")
        return handler(op, bound)

    # -- c10d

    def _c10d_allreduce(self, op: Operator, call: dict[str, Any]) -> Any:
        if call.get("sparse_indices") is not None:
            raise UnsupportedFeatureError("A sparse all_reduce is not supported on a virtual machine.")
        self._all_reduce(op, call, call["tensors"])
        return call["tensors"], done(call["tensors"]).boxed()

    def _c10d_allreduce_coalesced(self, op: Operator, call: dict[str, Any]) -> Any:
        self._all_reduce(op, call, call["tensors"])
        return done(call["tensors"]).boxed()

    def _all_reduce(self, op: Operator, call: dict[str, Any], tensors: Sequence[torch.Tensor]) -> None:
        pieces = self._everyone(op, call, tensors, tensors)
        self._write(tensors, self._reduced(call["reduce_op"], pieces, tensors), pieces)

    def _c10d_reduce(self, op: Operator, call: dict[str, Any]) -> Any:
        tensors, group = call["tensors"], _unboxed(call["process_group"])
        pieces = self._everyone(op, call, tensors, tensors)
        if group.rank() == call["root_rank"]:
            self._write(tensors, self._reduced(call["reduce_op"], pieces, tensors), pieces)
        return done(tensors).boxed()

    def _c10d_broadcast(self, op: Operator, call: dict[str, Any]) -> Any:
        tensors, root = call["tensors"], call["root_rank"]
        group = _unboxed(call["process_group"])
        pieces = self._everyone(
            op, call, tensors, tensors, give=group.rank() == root or self._assumes(op, call, tensors)
        )
        if group.rank() != root:
            self._write(tensors, _split(pieces[root].data, tensors), [pieces[root]])
        return tensors, done(tensors).boxed()

    def _c10d_allgather(self, op: Operator, call: dict[str, Any]) -> Any:
        outputs, inputs = call["output_tensors"], call["input_tensors"]
        self._gathered(op, call, outputs, inputs)
        return outputs, done(list(tensors_in(outputs))).boxed()

    def _c10d_allgather_coalesced(self, op: Operator, call: dict[str, Any]) -> Any:
        # One list per rank there; one list per input here.
        outputs = [list(each) for each in zip(*call["output_lists"], strict=True)]
        self._gathered(op, call, outputs, call["input_list"])
        return done(list(tensors_in(outputs))).boxed()

    def _gathered(
        self, op: Operator, call: dict[str, Any], outputs: Any, inputs: Sequence[torch.Tensor]
    ) -> None:
        pieces = self._everyone(op, call, inputs, [*inputs, *tensors_in(outputs)])
        for rank, piece in enumerate(pieces):
            row = [output[rank] for output in outputs]
            self._write(row, _split(piece.data, row), [piece])

    def _c10d_allgather_base(self, op: Operator, call: dict[str, Any]) -> Any:
        self._gather_into(op, call, [call["output_tensor"]], [call["input_tensor"]])
        return call["output_tensor"], done([call["output_tensor"]]).boxed()

    def _c10d_allgather_into_tensor_coalesced(self, op: Operator, call: dict[str, Any]) -> Any:
        self._gather_into(op, call, call["outputs"], call["inputs"])
        return done(call["outputs"]).boxed()

    def _gather_into(
        self,
        op: Operator,
        call: dict[str, Any],
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
    ) -> None:
        size = _size(op, call)
        for output, given in zip(outputs, inputs, strict=True):
            if output.numel() != given.numel() * size:
                raise ValueError("output tensor size must be equal to world_size times input tensor size")
            if output.dtype != given.dtype:
                raise TypeError("output tensor must have the same type as input tensor")
        pieces = self._everyone(op, call, inputs, [*inputs, *outputs])
        if self._needless(outputs, pieces):
            self._write(outputs, [None] * len(outputs), pieces)
            return
        parts = [_split(piece.data, inputs) for piece in pieces]
        rows = zip(*parts, strict=True)
        whole = [
            None if any(part is None for part in row) else torch.cat([_flat(part) for part in row])
            for row in rows
        ]
        self._write(outputs, whole, pieces)

    def _needless(self, outputs: Sequence[torch.Tensor], pieces: Sequence[Piece]) -> bool:
        """Whether what was gathered is large and assumed anyway: all weights of a layer of gigabytes."""
        return (
            any(piece.assumed for piece in pieces) and sum(map(_nbytes, outputs)) > self._tracker.joined_limit
        )

    def _c10d_reduce_scatter(self, op: Operator, call: dict[str, Any]) -> Any:
        outputs, inputs = call["output_tensors"], call["input_tensors"]
        rank = _unboxed(call["process_group"]).rank()
        for output, row in zip(outputs, inputs, strict=True):
            pieces = self._everyone(op, call, row, [output, *row])
            self._write([output], self._reduced(call["reduce_op"], pieces, row)[rank : rank + 1], pieces)
        return outputs, done(outputs).boxed()

    def _c10d_reduce_scatter_base(self, op: Operator, call: dict[str, Any]) -> Any:
        self._reduce_into(op, call, [call["output_tensor"]], [call["input_tensor"]])
        return call["output_tensor"], done([call["output_tensor"]]).boxed()

    def _c10d_reduce_scatter_tensor_coalesced(self, op: Operator, call: dict[str, Any]) -> Any:
        self._reduce_into(op, call, call["outputs"], call["inputs"])
        return done(call["outputs"]).boxed()

    def _reduce_into(
        self,
        op: Operator,
        call: dict[str, Any],
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
    ) -> None:
        size, rank = _size(op, call), _rank(op, call)
        for output, given in zip(outputs, inputs, strict=True):
            if given.dtype != output.dtype:
                raise TypeError("input tensor must be the same type as the output tensor.")
            if given.numel() != output.numel() * size:
                raise ValueError("input tensor must be the same size as output size times world size")
        pieces = self._everyone(op, call, inputs, [*outputs, *inputs])
        whole = self._reduced(call["reduce_op"], pieces, inputs)
        self._write(
            outputs, [None if part is None else _flat(part).chunk(size)[rank] for part in whole], pieces
        )

    def _c10d_alltoall(self, op: Operator, call: dict[str, Any]) -> Any:
        outputs, inputs = call["output_tensors"], call["input_tensors"]
        rank = _unboxed(call["process_group"]).rank()
        pieces = self._everyone(
            op, call, inputs, [*inputs, *outputs], lengths=[_nbytes(tensor) for tensor in inputs]
        )
        for source, output in enumerate(outputs):
            self._write([output], [_sent_to(pieces[source], rank, _size(op, call), output)], [pieces[source]])
        return outputs, done(outputs).boxed()

    def _c10d_alltoall_base(self, op: Operator, call: dict[str, Any]) -> Any:
        self._swap(
            op, call, call["output"], call["input"], call["output_split_sizes"], call["input_split_sizes"]
        )
        return done([call["output"]]).boxed()

    def _swap(
        self,
        op: Operator,
        call: dict[str, Any],
        output: torch.Tensor,
        given: torch.Tensor,
        into: Sequence[int],
        out_of: Sequence[int],
    ) -> None:
        size, rank = _size(op, call), _rank(op, call)
        for name, tensor, sizes in (("output", output, into), ("input", given, out_of)):
            if not sizes and tensor.size(0) % size:
                raise RuntimeError(f"Tensor's dim 0 does not divide equally across group size ({name})")
            if sizes and sum(sizes) != tensor.size(0):
                raise RuntimeError("Split sizes doesn't match total dim 0 size")
        width = _nbytes(given) // max(given.size(0), 1)
        rows = list(out_of) or [given.size(0) // size] * size
        pieces = self._everyone(op, call, [given], [given, output], lengths=[row * width for row in rows])
        wanted = list(into) or [output.size(0) // size] * size
        flat = (
            plain.empty(output.size(), dtype=output.dtype)
            if _sent(output, self._tracker.joined_limit)
            else None
        )
        known = list(pieces)
        for source, part in enumerate(torch.split(flat, wanted) if flat is not None else ()):
            found = _sent_to(pieces[source], rank, size, part)
            if found is None:
                flat = None
                break
            part.copy_(found.view(part.size()))
        self._write([output], [flat], known)

    def _c10d_gather(self, op: Operator, call: dict[str, Any]) -> Any:
        outputs, inputs, group = (
            call["output_tensors"],
            call["input_tensors"],
            _unboxed(call["process_group"]),
        )
        pieces = self._everyone(op, call, inputs, [*inputs, *tensors_in(outputs)])
        if group.rank() == call["root_rank"]:
            for rank, piece in enumerate(pieces):
                row = [output[rank] for output in outputs]
                self._write(row, _split(piece.data, row), [piece])
        return done(list(tensors_in(outputs))).boxed()

    def _c10d_gather_into_tensor(self, op: Operator, call: dict[str, Any]) -> Any:
        output, given, group = call["output_tensor"], call["input_tensor"], _unboxed(call["process_group"])
        pieces = self._everyone(op, call, [given], [given, output])
        if group.rank() == call["root_rank"]:
            parts = [_split(piece.data, [given])[0] for piece in pieces]
            whole = (
                None if any(part is None for part in parts) else torch.cat([_flat(part) for part in parts])
            )
            self._write([output], [whole], pieces)
        return output, done([output]).boxed()

    def _c10d_scatter(self, op: Operator, call: dict[str, Any]) -> Any:
        outputs, inputs = call["output_tensors"], call["input_tensors"]
        group, root = _unboxed(call["process_group"]), call["root_rank"]
        given = list(tensors_in(inputs)) if group.rank() == root else []
        pieces = self._everyone(op, call, given, [*outputs, *given], sized=[outputs[0]] * group.size())
        source = pieces[root]
        length = _nbytes(outputs[0])
        part = (
            None
            if source.data is None or not source.data.numel()
            else source.data[group.rank() * length : (group.rank() + 1) * length]
        )
        self._write(outputs, _split(part, outputs), [source])
        return outputs, done(outputs).boxed()

    def _c10d_barrier(self, op: Operator, call: dict[str, Any]) -> Any:
        self._everyone(op, call, [], [call["tensor"]], chosen=self._of_barrier(op, call))
        return done([]).boxed()

    def _of_barrier(self, op: Operator, call: dict[str, Any]) -> torch.device:
        """The GPU on which NCCL waits, unless the group has used one: not the current one.

        Source: the note in `dist.barrier`.
        """
        state = self._tracker.state
        if call.get("device_ids"):
            return state.cuda(call["device_ids"][0])
        bound: torch.device | None = getattr(_group(op, call), "bound_device_id", None)
        return bound or state.cuda(dist.get_rank() % state.device_count())

    def _c10d_check_for_nan(self, op: Operator, call: dict[str, Any]) -> Any:
        return None

    def _c10d_send(self, op: Operator, call: dict[str, Any]) -> Any:
        tensors = call["tensors"]
        exchange, _ = self._joined(op, call, tensors)
        for tensor in tensors:
            values, known, assumed = (
                self._bytes([tensor]) if _sent(tensor, self._tracker.value_limit) else (None, False, True)
            )
            flags = plain.tensor([known, assumed], dtype=torch.uint8)
            exchange.send(flags if values is None else torch.cat([flags, values]), call["dst"], call["tag"])
        return done(tensors).boxed()

    def _c10d_recv(self, op: Operator, call: dict[str, Any]) -> Any:
        tensors = call["tensors"]
        exchange, _ = self._joined(op, call, tensors)
        waits = []
        for tensor in tensors:
            length = _nbytes(tensor) if _sent(tensor, self._tracker.value_limit) else 0
            data = plain.zeros(length + 2, dtype=torch.uint8)
            waits.append((tensor, data, exchange.receive(data, call["src"], call["tag"])))

        def wait() -> None:
            for tensor, data, arrive in reversed(waits):
                arrive()
                known, assumed = bool(data[0]), bool(data[1])
                piece = Piece(data[2:] if data.numel() > 2 else None, known, assumed, -1)
                self._write([tensor], _split(piece.data, [tensor]), [piece])

        return self._tracker.state.part(Works).calling(wait, _group(op, call)).boxed()

    def _c10d_recv_any_source(self, op: Operator, call: dict[str, Any]) -> Any:
        raise RuntimeError("Backend nccl does not support recvAnysource")

    # -- functional collectives: new results instead of written arguments

    def _c10d_functional_wait_tensor(self, op: Operator, call: dict[str, Any]) -> Any:
        return next(iter(call.values()))

    _c10d_functional_wait_tensors = _c10d_functional_wait_tensor
    _c10d_functional_wrap_tensor_autograd = _c10d_functional_wait_tensor

    def _c10d_functional_all_reduce(self, op: Operator, call: dict[str, Any]) -> Any:
        if op.short.endswith("_"):
            result = call["input"]
            self._all_reduce(op, call, [result])
            return result
        return self._reduce_fresh(op, call, [call["input"]])[0]

    def _c10d_functional_all_reduce_coalesced(self, op: Operator, call: dict[str, Any]) -> Any:
        if op.short.endswith("_"):
            self._all_reduce(op, call, call["inputs"])
            return call["inputs"]
        return self._reduce_fresh(op, call, call["inputs"])

    def _reduce_fresh(
        self, op: Operator, call: dict[str, Any], inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        outputs = [self._fresh(tensor, tensor.size()) for tensor in inputs]
        pieces = self._everyone(op, call, inputs, inputs)
        self._write(outputs, self._reduced(call["reduce_op"], pieces, inputs), pieces)
        return outputs

    def _c10d_functional_broadcast(self, op: Operator, call: dict[str, Any]) -> Any:
        source, rank = call["src"], _rank(op, call)
        given = call["input"]
        output = given if op.short.endswith("_") else self._fresh(given, given.size())
        pieces = self._everyone(op, call, [given], [given])
        if output is not given or rank != source:
            self._write([output], _split(pieces[source].data, [output]), [pieces[source]])
        return output

    def _c10d_functional_all_gather_into_tensor(self, op: Operator, call: dict[str, Any]) -> Any:
        return self._gather_fresh(op, call, [call["input"]])[0]

    def _c10d_functional_all_gather_into_tensor_out(self, op: Operator, call: dict[str, Any]) -> Any:
        self._gather_into(op, call, [call["out"]], [call["input"]])
        return call["out"]

    def _c10d_functional_all_gather_into_tensor_coalesced(self, op: Operator, call: dict[str, Any]) -> Any:
        return self._gather_fresh(op, call, call["inputs"])

    def _gather_fresh(
        self, op: Operator, call: dict[str, Any], inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        size = call["group_size"]
        outputs = [self._fresh(tensor, (tensor.size(0) * size, *tensor.size()[1:])) for tensor in inputs]
        self._gather_into(op, call, outputs, inputs)
        return outputs

    def _c10d_functional_reduce_scatter_tensor(self, op: Operator, call: dict[str, Any]) -> Any:
        return self._scatter_fresh(op, call, [call["input"]])[0]

    def _c10d_functional_reduce_scatter_tensor_out(self, op: Operator, call: dict[str, Any]) -> Any:
        self._reduce_into(op, call, [call["out"]], [call["input"]])
        return call["out"]

    def _c10d_functional_reduce_scatter_tensor_coalesced(self, op: Operator, call: dict[str, Any]) -> Any:
        return self._scatter_fresh(op, call, call["inputs"])

    def _scatter_fresh(
        self, op: Operator, call: dict[str, Any], inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        size = call["group_size"]
        outputs = [self._fresh(tensor, (tensor.size(0) // size, *tensor.size()[1:])) for tensor in inputs]
        self._reduce_into(op, call, outputs, inputs)
        return outputs

    def _c10d_functional_all_to_all_single(self, op: Operator, call: dict[str, Any]) -> Any:
        given, into = call["input"], call["output_split_sizes"]
        output = self._fresh(given, (sum(into), *given.size()[1:]))
        self._swap(op, call, output, given, into, call["input_split_sizes"])
        return output

    def _dtensor_shard_dim_alltoall(self, op: Operator, call: dict[str, Any]) -> Any:
        given, gather, shard = call["input"], call["gather_dim"], call["shard_dim"]
        size, rank = _size(op, call), _rank(op, call)
        shape = list(given.size())
        shape[gather] *= size
        shape[shard] //= size
        output = self._fresh(given, shape)
        pieces = self._everyone(op, call, [given], [given])
        parts = [_split(piece.data, [given])[0] for piece in pieces]
        whole = (
            None if any(part is None for part in parts) else torch.cat(parts, gather).chunk(size, shard)[rank]
        )
        self._write([output], [whole], pieces)
        return output

    # -- the exchange

    def _assumes(self, op: Operator, call: dict[str, Any], tensors: Sequence[torch.Tensor]) -> bool:
        group, device = _group(op, call), device_of(tensors[0])
        return exchange_of(group, device if _no_backend(group, device) is None else CUDA).assumes

    def _joined(
        self,
        op: Operator,
        call: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        *,
        chosen: torch.device | None = None,
    ) -> tuple[Exchange, torch.device]:
        """The exchange of the group and where it happens.

        Tensors that its backend does not take there are recorded.
        """
        group = _group(op, call)
        devices = [device_of(tensor) for tensor in tensors]
        gpu = next((device for device in devices if device.type == "cuda"), None)
        if gpu is None and _no_backend(group, devices[0]) is None:
            return exchange_of(group, devices[0]), devices[0]
        if _no_backend(group, CUDA) is not None:
            home = CPU
        else:
            current = self._tracker.state.cuda(None)
            bound = getattr(group, "bound_device_id", None)
            home = chosen or bound or (current if gpu is None or current in devices else gpu)
        if chosen is None and any(device != home for device in devices):
            self._off_its_gpu(op, call, group, devices, home)
        return exchange_of(group, home), home

    def _off_its_gpu(
        self,
        op: Operator,
        call: dict[str, Any],
        group: Any,
        devices: Sequence[torch.device],
        home: torch.device,
    ) -> None:
        """Record tensors that are not all on `home`, with what c10d says of them."""
        named = sorted(_one_of_each_device(call), key=lambda each: device_of(each[1]) == home)
        seen = [device_of(tensor) for _, tensor, _ in named]
        recorder, gpus = self._tracker.recorder, {device for device in devices if device.type == "cuda"}
        if (error := _no_backend(group, CUDA if gpus else devices[0])) is not None:
            recorder.off_its_gpu(op, error, named, seen, home, caller())
        elif dist.get_backend(group) == "gloo":
            message = f"ProcessGroupGloo::{op.short.strip('_')}: tensors should be on the same device"
            recorder.off_its_gpu(op, RuntimeError(message), named, seen, home, caller())
        elif TORCH.nccl_checks_each_tensor(dist.get_backend(group)):
            if refusal := _refusal_of_each(op, call, home):
                recorder.off_its_gpu(op, RuntimeError(refusal), named, seen, home, caller())
        elif len(gpus) < len(set(devices)):
            recorder.off_its_gpu(
                op, ValueError("Tensors must be CUDA and dense"), named, seen, home, caller()
            )
        elif len(gpus) > 1 and "coalesced" in op.short:
            recorder.off_its_gpu(
                op, ValueError("Expected list of tensors on the same device"), named, seen, home, caller()
            )
        elif devices[0] != home:
            recorder.off_its_gpu(
                op, torch.distributed.DistBackendError(_NOT_BOUND), named, seen, home, caller()
            )
        else:
            message = (
                f"NCCL reads and writes the tensors of {op.short} through the communicator of {home} and "
                "checks no device"
            )
            recorder.refused(
                EventKind.UNCHECKED, op.name, message, named, seen, caller(), bare=(("group", home),)
            )

    def _everyone(
        self,
        op: Operator,
        call: dict[str, Any],
        given: Sequence[torch.Tensor],
        concerned: Sequence[torch.Tensor],
        *,
        give: bool = True,
        lengths: Sequence[int] | None = None,
        sized: Sequence[torch.Tensor] | None = None,
        chosen: torch.device | None = None,
    ) -> list[Piece]:
        """What each rank gave.

        `lengths` tells how many bytes of it go to which rank, `sized` what counts for its size. `chosen`: the
        tensor is torch's own, and the group takes this GPU.
        """
        group = _group(op, call)
        exchange, device = self._joined(op, call, concerned, chosen=chosen)
        if any(not tensor.is_contiguous() for tensor in given):
            if device.type == "cuda" and any(not _dense(tensor) for tensor in given):
                raise ValueError("Tensors must be contiguous")
        small = all(
            _sent(tensor, self._tracker.value_limit) for tensor in (given if sized is None else sized)
        )
        travels = small or self._holds_all(given)
        data, known, assumed = (
            self._bytes(given) if travels and give else (None, all_known(given), any_assumed(given))
        )
        if data is not None and lengths is not None:
            data = torch.cat([plain.tensor(list(lengths), dtype=torch.int64).view(torch.uint8), data])
        place = _physical(self._tracker, device)
        header = [-1 if data is None else data.numel(), int(known), int(assumed), place]
        answers = exchange.everyone(header, data)
        pieces = [
            Piece(sent, bool(header[1]), bool(header[2]) or exchange.assumes, int(header[3]))
            for header, sent in answers
        ]
        if (
            device.type == "cuda"
            and not exchange.assumes
            and not (chosen and group.group_name in self._communicators)
        ):
            recorded = any(device_of(tensor) != device for tensor in concerned)
            self._make_communicator(op, call, group, device, tuple(piece.gpu for piece in pieces), recorded)
        return pieces

    def _make_communicator(
        self,
        op: Operator,
        call: dict[str, Any],
        group: Any,
        device: torch.device,
        gpus: tuple[int, ...],
        recorded: bool,
    ) -> None:
        """Make a communicator for the ranks' GPUs if there is none yet, as NCCL would.

        What it would refuse or wait for is recorded.
        """
        known = self._communicators.setdefault(group.group_name, [])
        if gpus in known or len(gpus) == 1 or dist.get_backend(group) == "gloo":
            return
        known.append(gpus)
        rank = group.rank()
        if any(
            gpu in {each[place] for each in known[:-1]} for place, gpu in enumerate(gpus)
        ):  # some rank has one and makes no other
            if (
                not recorded
                and gpus[rank] != known[0][rank]
                and (home := self._visible(known[0][rank])) is not None
            ):
                self._tracker.recorder.off_its_gpu(
                    op, None, _one_of_each_device(call), [device], home, caller()
                )
            return
        first: dict[int, int] = {}
        for place, gpu in enumerate(gpus):
            other = first.setdefault(gpu, place)
            if other != place and rank in (place, other):
                message = _DUPLICATE.format(one=place, other=other, bus=pci_bus(gpu % _NODE) << 12)
                self._tracker.recorder.duplicate_gpu(
                    op, message, _one_of_each_device(call), [device], caller()
                )
                return

    def _visible(self, physical: int) -> torch.device | None:
        """The device of this process that is a physical GPU."""
        devices = map(self._tracker.state.cuda, range(len(self._tracker.state.ledgers())))
        return next((device for device in devices if _physical(self._tracker, device) == physical), None)

    def _holds_all(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether large tensors are known; a header tells the other ranks of them. See Note [Values]."""
        return all_known(tensors) and sum(map(_nbytes, tensors)) <= self._tracker.joined_limit

    def _bytes(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor | None, bool, bool]:
        """The bytes of tensors one behind the other.

        Also whether they are known, and whether they were assumed.
        """
        parts = []
        known, assumed = all_known(tensors), any_assumed(tensors)
        for tensor in tensors:
            if not _sent(tensor, self._tracker.joined_limit):
                return None, False, True
            parts.append(
                _flat(values_of(tensor)).view(torch.uint8)
                if tensor.numel()
                else plain.empty(0, dtype=torch.uint8)
            )
        if not parts:
            return plain.empty(0, dtype=torch.uint8), True, False
        return (parts[0] if len(parts) == 1 else torch.cat(parts)), known, assumed

    def _reduced(
        self, how: Any, pieces: Sequence[Piece], like: Sequence[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        if any(piece.data is None for piece in pieces):
            return [None] * len(like)
        kind = _BY_NAME[how] if isinstance(how, str) else TORCH.reduction_of(how)
        results: list[torch.Tensor | None] = []
        for parts in zip(*(_split(piece.data, like) for piece in pieces), strict=True):
            combined = reduced(kind, parts)
            results.append(combined)
        return results

    def _write(
        self, tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor | None], pieces: Sequence[Piece]
    ) -> None:
        """Give tensors their values, or none where some rank had none."""
        known = all(piece.known for piece in pieces)
        assumed = any(piece.assumed or not piece.known for piece in pieces)
        for tensor, value in zip(tensors, values, strict=True):
            write_value(tensor, value, known, assumed, self._tracker.joined_limit)

    def _fresh(self, like: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
        shape = tuple(size)
        strides = plain.empty(shape, device="meta").stride()
        own = memory_of(like)
        this_thread.decision = None if own is None else own.decision
        return self._tracker.adopt(carrier(shape, strides, like.dtype), device_of(like), self._tracker.site())


def reduced(kind: Any, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """What NCCL makes of the parts of all ranks, in their order; `kind` is a `ReduceOp.RedOpType`.

    Raises UnsupportedFeatureError for a reduction that is not supported.
    """
    combine = _REDUCTIONS.get(kind)
    if combine is None:
        raise UnsupportedFeatureError(f"The reduction {kind} is not supported on a virtual machine.")
    if parts[0].dtype == torch.bool:  # NCCL reduces booleans as bytes
        all_of = kind in (_ReduceOp.MIN, _ReduceOp.PRODUCT, _ReduceOp.BAND)
        return reduce(torch.logical_and if all_of else torch.logical_or, parts)
    whole = not (parts[0].is_floating_point() or parts[0].is_complex())
    if kind == _ReduceOp.AVG and not whole:  # NCCL's `PreMulSum`: half precision does not overflow
        return reduce(combine, [part * (1 / len(parts)) for part in parts])
    combined: torch.Tensor = reduce(combine, parts)
    if kind == _ReduceOp.AVG:  # and its `SumPostDiv`
        return combined.div(len(parts), rounding_mode="trunc")
    return combined


# -- groups

CUDA = torch.device("cuda")
_NODE = 1 << 16
"""Physical GPUs of one node, in the numbers that tell GPUs of several nodes apart."""


def exchange_of(group: Any, device: torch.device) -> Exchange:
    """How the ranks of a group exchange what is on `device`.

    Raises RuntimeError, as torch does, when the group takes no such tensors.
    """
    return exchange_for(group._get_backend(device))


def takes_host(group: Any) -> bool:
    """Whether a group has a backend for host tensors."""
    return _no_backend(group, CPU) is None


def _assumed(group: Any) -> bool:
    """Whether there are no other processes behind the group's host tensors."""
    return is_assumed(group._get_backend(CPU))


def _no_backend(group: Any, device: torch.device) -> RuntimeError | None:
    """What torch raises where a group has no backend for such a device; None where it has one."""
    try:
        group._get_backend(device)
    except RuntimeError as error:
        return RuntimeError(str(error).partition("\n")[0])
    return None


def _one_of_each_device(call: dict[str, Any]) -> list[tuple[str, torch.Tensor, bool]]:
    """The tensors of a call by the names of their arguments, the first one of each device."""
    found: dict[torch.device, tuple[str, torch.Tensor, bool]] = {}
    for name, value in sorted(call.items(), key=lambda argument: argument[0].startswith("output")):
        tensors = list(tensors_in(value))
        for place, tensor in enumerate(tensors):
            spelled = f"{name}[{place}]" if len(tensors) > 1 else name.removesuffix("s")
            found.setdefault(device_of(tensor), (spelled, tensor, False))
    return list(found.values())


def _refusal_of_each(op: Operator, call: dict[str, Any], home: torch.device) -> str:
    """What `ProcessGroupNCCL2` says of tensors off the GPU of their group; empty where it takes them.

    The outputs of `all_gather` may be on any GPU: they are staged. Source: `ProcessGroupNCCL::all_gather` and
    `checkTensorDevice` in `torch/csrc/distributed/c10d/nccl2`.
    """
    wanted = dict(call)
    if op.short.strip("_") in ("allgather", "allgather_coalesced"):
        outputs = wanted.pop("output_tensors", None) or wanted.pop("output_lists", ())
        for output in tensors_in(outputs):
            if device_of(output).type != "cuda":
                return f"Expected all_gather output tensor on CUDA but found tensor on {device_of(output)}"
    off = (device_of(tensor) for value in wanted.values() for tensor in tensors_in(value))
    found = next((device for device in off if device != home), None)
    return f"Expected tensor on {home} but found tensor on {found}" if found is not None else ""


def _physical(tracker: Tracker, device: torch.device) -> int:
    if device.type != "cuda":
        return -1
    node = os.environ.get("GROUP_RANK", "0")
    return tracker.state.physical_index(device.index) + (int(node) * _NODE if node.isdecimal() else 0)


def _unboxed(group: Any) -> Any:
    return dist.ProcessGroup.unbox(group) if isinstance(group, torch.ScriptObject) else group


def _group(op: Operator, call: dict[str, Any]) -> Any:
    if "process_group" in call:
        return _unboxed(call["process_group"])
    name = call["group_name"]
    return _c10d._resolve_process_group(name) if isinstance(name, str) else _unboxed(name)


def _size(op: Operator, call: dict[str, Any]) -> int:
    return int(_group(op, call).size())


def _rank(op: Operator, call: dict[str, Any]) -> int:
    return int(_group(op, call).rank())


# -- bytes


def _virtual(tensor: torch.Tensor) -> bool:
    record = memory_of(tensor)
    return record is not None and record.virtual


def _dense(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(tensor))


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _sent(tensor: torch.Tensor, limit: int) -> bool:
    """Whether the bytes of a tensor travel whatever is known of them."""
    return _nbytes(tensor) <= limit


def _known(tensor: torch.Tensor) -> bool:
    record = memory_of(tensor)
    return record is None or not record.virtual or record.shadow is not None


def all_known(tensors: Sequence[torch.Tensor]) -> bool:
    return all(_known(tensor) for tensor in tensors)


def any_assumed(tensors: Sequence[torch.Tensor]) -> bool:
    records = [memory_of(tensor) for tensor in tensors]
    return any(record.__class__ is Memory and record.assumed for record in records if record is not None)


def values_of(tensor: torch.Tensor) -> torch.Tensor:
    record = memory_of(tensor)
    if record is None or not record.virtual:
        return tensor.detach()
    value = value_of(tensor, record)
    return stand_in(tensor) if value is None else value


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().resolve_conj().resolve_neg().view(-1)


def _split(data: torch.Tensor | None, like: Sequence[torch.Tensor]) -> list[Any]:
    """Bytes as tensors with the shapes and types of `like`; whatever is missing is None."""
    if data is None:
        return [None] * len(like)
    found: list[Any] = []
    start = 0
    for tensor in like:
        length = _nbytes(tensor)
        part = data[start : start + length]
        start += length
        found.append(part.clone().view(tensor.dtype).view(tensor.size()) if part.numel() == length else None)
    return found


def _sent_to(piece: Piece, rank: int, size: int, like: torch.Tensor) -> torch.Tensor | None:
    """What a piece with lengths in front holds for `rank`."""
    if piece.data is None:
        return None
    head = 8 * size
    lengths = piece.data[:head].clone().view(torch.int64).tolist()
    start = head + sum(lengths[:rank])
    found: torch.Tensor | None = _split(piece.data[start : start + lengths[rank]], [like])[0]
    return found
