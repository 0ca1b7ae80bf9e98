"""Runs every operator of a virtual machine: decides where results are, computes small values, keeps the ledger.

Note [C++ sees one device]
All virtual tensors, and host tensors too large to hold values, are meta tensors for C++; see Note [A device is a property of
memory]. While the engine runs a kernel itself, `engine.raw` is set and Python sees torch's own answers as well, because
decompositions ask tensors for their device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.events import EventKind
from samedevice.provenance import Site
from samedevice.rules import Argument, Check, judge_devices, row_for
from samedevice.runtime._generators import generator_device
from samedevice.runtime._ledger import OutOfDeviceMemoryError
from samedevice.runtime._memory import (
    ASSUMED_FLOAT,
    VALUE_LIMIT,
    Helper,
    Memory,
    assumed_values,
    carrier,
    engine,
    memory_of,
    over,
    raw_is_meta,
    storage_of,
    tensors_in,
    value_of,
)
from samedevice.runtime._operators import Form, Operator, aten, operator
from samedevice.runtime._recorder import Recorder
from samedevice.runtime._state import CPU, META, MachineState, TorchDevice

Tensor = torch.Tensor

HOST_LIMIT = 256 << 20
"""Bytes from which a new host tensor is kept without values, so that a large model fits beside a person's browser."""

_TORCH_VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
# Their results depend on the shape of the argument, not on its values.
_SHAPE_ONLY = {
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided",
}  # fmt: skip
_INDEXED = {"index.Tensor", "_unsafe_index.Tensor", "index_put_.default", "index_put.default", "_index_put_impl_.default",
            "_unsafe_index_put.default"}  # fmt: skip
_INDEX_OPERATORS = {f"aten.{name}" for name in _INDEXED}
_VERDICT_ON_CUDA_ONLY = ("not implemented for", "not supported on CPU", "Could not run", "NYI")
_ADDRESS_OF_FIRST = 1 << 44
_PACKAGE_FOLDER = str(Path(__file__).parent.parent) + "/"


class Specification:
    """Geometry of an operator's results, remembered for the same shapes, types and arguments."""

    __slots__ = ("nbytes", "parts", "single")

    def __init__(self, result: Any) -> None:
        self.single = isinstance(result, Tensor)
        parts = [result] if self.single else list(result)
        self.parts = [None if part is None else (tuple(part.size()), part.stride(), part.dtype) for part in parts]
        self.nbytes = [0 if part is None else storage_of(part).nbytes() for part in parts]


def caller() -> FrameType:
    """The frame that called into the machine."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        frame = frame.f_back
    assert frame is not None, "an operator runs on behalf of some code"
    return frame


def _rememberable(result: Any) -> bool:
    if isinstance(result, Tensor):
        return result.layout == torch.strided and result.storage_offset() == 0
    return isinstance(result, tuple) and all(part is None or (isinstance(part, Tensor) and _rememberable(part)) for part in result)


class Engine:
    """One machine's engine; threads share it, each through a mode of its own."""

    def __init__(self, state: MachineState, recorder: Recorder) -> None:
        self.state = state
        self.recorder = recorder
        self.filter = recorder.filter
        self.operators = 0
        self.unlisted: dict[str, int] = {}
        """Operators that met mixed devices and have no row of their own, with how often."""
        self.ghosts: list[tuple[int, int]] = []
        """Address ranges of mapped ghost checkpoints, whose bytes mean nothing."""
        self.gradient_back: Callable[[torch.Tensor], None] | None = None
        """Told of tensors that were moved for an operator and want their gradient back."""
        self._memo: dict[Any, Specification] = {}
        self._next_address = _ADDRESS_OF_FIRST
        self._special: dict[Any, Callable[[Operator, Any, dict[str, Any]], Any]] = {
            aten._to_copy.default: self._to_copy,
            aten._local_scalar_dense.default: self._scalar,
            aten._has_compatible_shallow_copy_type.default: lambda op, args, kwargs: True,
            aten.is_pinned.default: lambda op, args, kwargs: self._is_pinned(args[0]),
            aten._pin_memory.default: lambda op, args, kwargs: self._pin(args[0]),
            aten.record_stream.default: lambda op, args, kwargs: None,
        }

    # -- records ---------------------------------------------------------------------------------------------------

    def site(self) -> Site | None:
        """Where the running operator was called from: the innermost line outside torch and this package."""
        return self.filter.site(sys._getframe(1))

    def adopt(
        self,
        tensor: torch.Tensor,
        device: torch.device,
        site: Site | None,
        *,
        moved: Site | None = None,
        nbytes: int = -1,
    ) -> torch.Tensor:
        """Make a meta tensor's memory belong to `device`; memory that belongs somewhere already stays."""
        try:
            storage = storage_of(tensor)
        except NotImplementedError:
            tensor._sd = Memory(device, virtual=True, made=site, moved=moved)  # type: ignore[attr-defined]
            return tensor
        if type(storage._sd) is Memory:
            return tensor
        record = Memory(device, virtual=True, made=site, moved=moved)
        if device.type == "cuda":
            self._book(record, device.index, storage.nbytes() if nbytes < 0 else nbytes)
        else:
            record.address = self._address(storage.nbytes() if nbytes < 0 else nbytes)
        storage._sd = record
        return tensor

    def _address(self, nbytes: int) -> int:
        address = self._next_address
        self._next_address = address + ((nbytes + 1023) & -512)
        return address

    def _book(self, record: Memory, index: int, nbytes: int) -> None:
        state = self.state
        if not state.initialized:
            state.initialize()
        try:
            record.book(state.ledger(index), nbytes, self._address(nbytes))
        except OutOfDeviceMemoryError as error:
            raise self.recorder.out_of_memory(state, index, error.requested, caller()) from None

    def note_host(self, result: Any, site: Site | None) -> None:
        """Remember where host memory was made."""
        for tensor in tensors_in(result):
            try:
                storage = storage_of(tensor)
            except NotImplementedError:
                continue
            if storage._sd is None and not raw_is_meta(tensor):
                storage._sd = Memory(CPU, virtual=False, made=site)

    def with_value(
        self,
        value: torch.Tensor,
        device: torch.device,
        site: Site | None,
        *,
        moved: Site | None = None,
        assumed: bool = False,
    ) -> torch.Tensor:
        """A virtual tensor on `device` with the values of a CPU tensor, whose memory it takes over."""
        if value.layout != torch.strided:
            return self._sparse_with_value(value, device, site)
        made = carrier(value.size(), value.stride(), value.dtype)
        storage = storage_of(made)
        nbytes = storage.nbytes()
        if nbytes <= VALUE_LIMIT or device.type == "cpu":
            source = value.untyped_storage()
            if source.nbytes() != nbytes or value.storage_offset() or value.is_conj() or value.is_neg():
                own = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
                own.copy_(value)
                source = own.untyped_storage()
        else:
            source = None
        self.adopt(made, device, site, moved=moved, nbytes=nbytes)
        storage._sd.shadow = source
        storage._sd.assumed = assumed
        return made

    def _sparse_with_value(self, value: torch.Tensor, device: torch.device, site: Site | None) -> torch.Tensor:
        return self.adopt(value.to("meta"), device, site)

    # -- one operator ----------------------------------------------------------------------------------------------

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator as the machine would."""
        self.operators += 1
        special = self._special.get(func)
        op = operator(func)
        if special is not None:
            return special(op, args, kwargs)
        tensors: list[torch.Tensor] = []
        for value in args:
            if isinstance(value, Tensor):
                tensors.append(value)
            elif value.__class__ is list or isinstance(value, (list, tuple)):
                tensors.extend([part for part in value if isinstance(part, Tensor)])
        target: torch.device | None = None
        generator = None
        if kwargs:
            for name, value in kwargs.items():
                if isinstance(value, Tensor):
                    tensors.append(value)
                elif isinstance(value, (list, tuple)):
                    tensors.extend([part for part in value if isinstance(part, Tensor)])
                elif value is None:
                    continue
                elif name == "device":
                    target = self.state.device(value)
                elif isinstance(value, torch._C.Generator):
                    generator = value
        if not tensors:
            return self._make(op, args, kwargs, target, generator)

        records = []
        home: torch.device | None = None
        mixed = False
        virtual = False
        for tensor in tensors:
            try:
                record = storage_of(tensor)._sd
            except NotImplementedError:
                record = getattr(tensor, "_sd", None)
            if record.__class__ is Memory:
                device = record.device
                if record.virtual:
                    virtual = True
            elif raw_is_meta(tensor):
                device = META
            else:
                device = CPU
            records.append(record)
            if home is None:
                home = device
            elif device is not home and device != home:
                mixed = True
        assert home is not None
        if not virtual and not mixed and (target is None or target.type == "cpu") and home.type == "cpu":
            return self._on_host(op, args, kwargs)
        if mixed:
            if op.short.startswith("_foreach_"):
                return self._foreach_over_devices(op, args, kwargs)
            args, kwargs, tensors, records, home = self._settle(op, args, kwargs, tensors, records)
            if home.type == "cpu" and not any(r.__class__ is Memory and r.virtual for r in records):
                return self._on_host(op, args, kwargs)
        elif home.type == "meta" and (target is None or target.type == "meta"):
            return self._on_meta(op, args, kwargs, tensors, records)
        if target is not None and target.type == "meta":
            return self._helper_like(op, args, kwargs)
        if generator is not None:
            generator = self._check_generator(op, generator, target or home)
        return self._on_virtual(op, args, kwargs, tensors, records, home, target or home, generator)

    def _on_host(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """All tensors are real host memory."""
        pinned = kwargs.get("pin_memory")
        if pinned:
            kwargs = {**kwargs, "pin_memory": False}
        if op.form is Form.FRESH and op.returns_tensors and self._too_large_for_host(op, args, kwargs):
            return self._large_host(op, args, kwargs)
        result = op.func(*args, **kwargs)
        if op.form is not Form.INPLACE:
            self.note_host(result, self.site())
            if pinned:
                for tensor in tensors_in(result):
                    storage_of(tensor)._sd.pinned = True
        return result

    def _too_large_for_host(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if op.factory and op.size_at == 0:
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            return op.factory_numel(args) * dtype.itemsize > HOST_LIMIT
        first = args[0] if args else None
        return isinstance(first, Tensor) and first.numel() * first.element_size() > HOST_LIMIT

    def _large_host(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        site = self.site()
        result = self._abstract(op, args, kwargs)
        for tensor in tensors_in(result):
            self.adopt(tensor, CPU, site)
        return result

    def _on_meta(
        self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor], records: Sequence[Any]
    ) -> Any:
        """All tensors are on the user's meta device, or are helpers of composite code."""
        result = op.func(*args, **kwargs)
        if any(record.__class__ is Helper for record in records):
            self._mark_helpers(result)
            if op.form is not Form.VIEW and op.returns_tensors:
                self._compute_helpers(op, args, kwargs, tensors, result)
        return result

    def _compute_helpers(
        self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor], result: Any
    ) -> None:
        """What follows from helpers with values has values: a causal mask is made in several steps."""
        shadows = [getattr(storage_of(tensor), "_helper_value", None) for tensor in tensors]
        results = list(tensors_in(result))
        if any(shadow is None for shadow in shadows) or any(t.numel() * t.element_size() > VALUE_LIMIT for t in results):
            for position in op.written:
                for tensor in tensors_in(args[position] if position < len(args) else None):
                    storage_of(tensor)._helper_value = None
            return
        values = {id(tensor): over(shadow, tensor) for tensor, shadow in zip(tensors, shadows, strict=True)}
        options = {name: _replace(value, values) for name, value in kwargs.items()}
        if options.get("device") is not None:
            options["device"] = CPU
        computed = op.func(*[_replace(value, values) for value in args], **options)
        if op.form is Form.FRESH:
            for made, value in zip(results, tensors_in(computed), strict=True):
                _keep_helper_value(made, value)

    def _mark_helpers(self, result: Any) -> None:
        frame = caller()
        mark = Helper(id(frame), frame.f_lasti, self.filter.site(frame))
        for tensor in tensors_in(result):
            storage = storage_of(tensor)
            if storage._sd is None:
                storage._sd = mark

    # -- factories -------------------------------------------------------------------------------------------------

    def _make(
        self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], target: torch.device | None, generator: Any
    ) -> Any:
        """An operator without tensor arguments."""
        if target is None or target.type == "cpu":
            if generator is not None and op.random:
                self._check_generator(op, generator, CPU)
            return self._on_host(op, args, kwargs)
        if target.type != "cuda":
            result = op.func(*args, **kwargs)
            if target.type == "meta":
                self._mark_helpers(result)
                self._remember_helper_value(op, result, args, kwargs)
            return result
        if generator is not None:
            generator = self._check_generator(op, generator, target)
        return self._on_virtual(op, args, kwargs, (), (), target, target, generator)

    def _helper_like(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`x.new_zeros(..., device=meta)`: C++ code copies the carrier's options, or the user wants a meta tensor."""
        result = self._abstract(op, args, kwargs)
        self._mark_helpers(result)
        if isinstance(result, Tensor) and op.short in _SHAPE_ONLY and result.numel() * result.element_size() <= VALUE_LIMIT:
            stand_ins = tuple([_to_value(value) for value in args])
            _keep_helper_value(result, op.func(*stand_ins, **{**kwargs, "device": CPU}))
        return result

    def _remember_helper_value(self, op: Operator, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # `where(c, x, 1.0)` and friends wrap their scalar in a helper; its value must not be lost.
        if not op.random and isinstance(result, Tensor):
            if result.numel() * result.element_size() <= VALUE_LIMIT:
                _keep_helper_value(result, op.func(*args, **{**kwargs, "device": CPU}))

    # -- virtual tensors -------------------------------------------------------------------------------------------

    def _on_virtual(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        records: Sequence[Any],
        home: torch.device,
        target: torch.device,
        generator: Any,
    ) -> Any:
        form = op.form
        if form is Form.VIEW:
            return op.func(*args, **kwargs)
        if not op.returns_tensors:
            return self._with_values(op, args, kwargs, records, target, generator, force=True)
        if op.name in _INDEX_OPERATORS:
            args, tensors, records = self._masks_to_indices(args, tensors, records, home)
        known = True
        for tensor, record in zip(tensors, records, strict=True):
            if record.__class__ is Memory and record.virtual and record.shadow is None:
                dtype = tensor.dtype
                if dtype.is_floating_point or dtype.is_complex or tensor.numel() * dtype.itemsize > VALUE_LIMIT:
                    known = False
                    break
        if op.factory and known and op.factory_numel(args) * _itemsize(kwargs, tensors) > VALUE_LIMIT:
            known = False
        if form is Form.FRESH:
            if known or op.short in _SHAPE_ONLY or (op.dynamic and op.name not in _INDEX_OPERATORS):
                if known or op.dynamic or _small(op, args, kwargs, tensors):
                    result = self._with_values(op, args, kwargs, records, target, generator, force=not known)
                    if result is not NotImplemented:
                        return result
            return self._fresh(op, args, kwargs, target)
        if form is Form.INPLACE:
            return self._in_place(op, args, kwargs, tensors, records, known, target, generator)
        return self._mixed(op, args, kwargs, tensors, records, known, target, generator)

    def _fresh(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], target: torch.device) -> Any:
        """New results whose values nobody knows."""
        site = self.site()
        try:
            key = (op.func, _signature(args), _signature(kwargs.values()) if kwargs else None, target.index)
            specification = self._memo.get(key)
        except TypeError:  # an argument that cannot be hashed
            key, specification = None, None
        if specification is None:
            result = self._abstract(op, args, kwargs)
            if key is not None and not op.dynamic and _rememberable(result):
                self._memo[key] = Specification(result)
            for tensor in tensors_in(result):
                self.adopt(tensor, target, site)
            return result
        made: list[Any] = []
        for part, nbytes in zip(specification.parts, specification.nbytes, strict=True):
            if part is None:
                made.append(None)
                continue
            tensor = torch.empty_strided(part[0], part[1], dtype=part[2], device=META)
            record = Memory(target, virtual=True, made=site)
            if target.type == "cuda":
                self._book(record, target.index, nbytes)
            else:
                record.address = self._address(nbytes)
            storage_of(tensor)._sd = record
            made.append(tensor)
        return made[0] if specification.single else tuple(made)

    def _abstract(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operator for its shapes only."""
        args = tuple([_to_meta(value) for value in args])
        if kwargs:
            kwargs = {name: _to_meta(value) for name, value in kwargs.items()}
            if kwargs.get("device") is not None:
                kwargs["device"] = META
            if kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
            if "generator" in kwargs:
                kwargs["generator"] = None
        return op.func(*args, **kwargs)

    def _with_values(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        records: Sequence[Any],
        target: torch.device,
        generator: Any,
        *,
        force: bool,
    ) -> Any:
        """Compute on the CPU. With `force`, unknown arguments stand in by their shape and results of floats stay unknown.

        Returns NotImplemented when the CPU has no kernel for what CUDA can do; the caller then goes on without values.
        """
        assumed = False
        for record in records:
            if record.__class__ is Memory and (record.assumed or (record.virtual and record.shadow is None)):
                assumed = True
        values = tuple([_to_value(value) for value in args])
        options = {name: _to_value(value) for name, value in kwargs.items()} if kwargs else {}
        if options.get("device") is not None:
            options["device"] = CPU
        if options.get("pin_memory"):
            options["pin_memory"] = False
        try:
            result = self._compute(op, values, options, target, generator)
        except (RuntimeError, NotImplementedError) as error:
            text = str(error)
            if not any(mark in text for mark in _VERDICT_ON_CUDA_ONLY):
                raise
            result = self._compute_otherwise(op, values, options)
            if result is NotImplemented:
                return NotImplemented
        if not op.returns_tensors:
            return result
        site = self.site()
        forget = force and op.short not in _SHAPE_ONLY
        return self._wrap(result, target, site, assumed=assumed, forget_floats=forget)

    def _compute(self, op: Operator, values: Any, options: dict[str, Any], target: torch.device, generator: Any) -> Any:
        if not op.random or target.type != "cuda":
            return op.func(*values, **options)
        if generator is None:
            generator = self.state.generator(target.index)
        if "generator" in op.argument_names:
            options = {**options, "generator": generator}
            position = op.argument_names.index("generator")
            if position < len(values):
                values = (*values[:position], *values[position + 1 :])
            return op.func(*values, **options)
        # Kernels such as native_dropout draw from the CPU's default engine: lend it the device's state.
        default = torch.default_generator
        kept = default.get_state()
        default.set_state(generator.get_state())
        try:
            return op.func(*values, **options)
        finally:
            generator.set_state(default.get_state())
            default.set_state(kept)

    def _compute_otherwise(self, op: Operator, values: Any, options: dict[str, Any]) -> Any:
        """CUDA accepts what this CPU kernel refuses: try it in a type that the CPU has."""
        for dtype in (torch.float32, torch.float64):
            converted = tuple([_as_dtype(value, dtype) for value in values])
            try:
                result = op.func(*converted, **options)
            except (RuntimeError, NotImplementedError):
                continue
            original = next((v.dtype for v in values if isinstance(v, Tensor)), None)
            if isinstance(result, Tensor) and original is not None and result.dtype == dtype:
                result = result.to(original)
            return result
        return NotImplemented

    def _wrap(
        self, result: Any, target: torch.device, site: Site | None, *, assumed: bool, forget_floats: bool
    ) -> Any:
        if isinstance(result, Tensor):
            # On the host too the result is a carrier: what descends from a carrier must be one for autograd.
            made = self.with_value(result, target, site, assumed=assumed)
            if forget_floats and (result.dtype.is_floating_point or result.dtype.is_complex):
                record = memory_of(made)
                assert record is not None
                record.shadow = None
            return made
        if isinstance(result, (tuple, list)):
            parts = [self._wrap(part, target, site, assumed=assumed, forget_floats=forget_floats) for part in result]
            return type(result)(parts)
        return result

    def _in_place(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        records: Sequence[Any],
        known: bool,
        target: torch.device,
        generator: Any,
    ) -> Any:
        if torch.Tag.inplace_view in op.func.tags or op.short in ("resize_", "set_"):
            return self._change_geometry(op, args, kwargs)
        written = [tensor for position in op.written if position < len(args) for tensor in tensors_in(args[position])]
        if not known and op.overwrites and len(written) == 1:
            known = self._revive(written[0], tensors, records)
        if known:
            for tensor in written:
                _give_shadow(tensor)
            done = self._with_values_in_place(op, args, kwargs, written, records, target, generator)
            if done:
                return _returned(op, args)
        try:
            key = (op.func, _signature(args), _signature(kwargs.values()) if kwargs else None)
            seen = key in self._memo
        except TypeError:
            key, seen = None, False
        if not seen:
            self._abstract(op, args, kwargs)
            if key is not None:
                self._memo[key] = _NOTHING
        for tensor in written:
            record = memory_of(tensor)
            if record is not None and record.virtual:
                record.shadow = None
        return _returned(op, args)

    def _revive(self, written: torch.Tensor, tensors: Sequence[torch.Tensor], records: Sequence[Any]) -> bool:
        """Whether an overwritten tensor becomes known although it was not: it is small, whole, and so is its source."""
        storage = storage_of(written)
        record = storage._sd
        if record.__class__ is not Memory or not record.virtual:
            return False
        nbytes = storage.nbytes()
        if nbytes > VALUE_LIMIT or written.numel() * written.element_size() != nbytes:
            return False
        return all(
            other.__class__ is not Memory or not other.virtual or other.shadow is not None
            for tensor, other in zip(tensors, records, strict=True)
            if tensor is not written
        )

    def _with_values_in_place(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        written: Sequence[torch.Tensor],
        records: Sequence[Any],
        target: torch.device,
        generator: Any,
    ) -> bool:
        assumed = any(r.__class__ is Memory and r.assumed for r in records)
        values = tuple([_to_value(value) for value in args])
        options = {name: _to_value(value) for name, value in kwargs.items()} if kwargs else {}
        try:
            self._compute(op, values, options, target, generator)
        except (RuntimeError, NotImplementedError) as error:
            if not any(mark in str(error) for mark in _VERDICT_ON_CUDA_ONLY):
                raise
            return False
        if assumed:
            for tensor in written:
                record = memory_of(tensor)
                if record is not None:
                    record.assumed = True
        return True

    def _change_geometry(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`t_`, `resize_`, `set_`: the tensor itself changes, and perhaps the size of its memory."""
        before = storage_of(args[0])
        size = before.nbytes()
        result = op.func(*args, **kwargs)
        storage = storage_of(args[0])
        record = storage._sd
        if storage is before and storage.nbytes() != size and record.__class__ is Memory:
            record.rebook(storage.nbytes())
            record.shadow = None
        return result

    def _mixed(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        records: Sequence[Any],
        known: bool,
        target: torch.device,
        generator: Any,
    ) -> Any:
        """Operators that change arguments and return new tensors too, and `out=` variants."""
        outs = {name for name in op.argument_names if name in kwargs and isinstance(kwargs[name], Tensor) and _is_out(op, name)}
        site = self.site()
        if outs:
            return self._into_out(op, args, kwargs, outs, known, target, site)
        if known:
            for position in op.written:
                if position < len(args):
                    for tensor in tensors_in(args[position]):
                        _give_shadow(tensor)
            result = self._with_values(op, args, kwargs, records, target, generator, force=False)
            if result is not NotImplemented:
                return result
        result = self._abstract(op, args, kwargs)
        for position in op.written:
            if position < len(args):
                for tensor in tensors_in(args[position]):
                    record = memory_of(tensor)
                    if record is not None and record.virtual:
                        record.shadow = None
        for tensor in tensors_in(result):
            self.adopt(tensor, target, site)
        return result

    def _into_out(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outs: set[str],
        known: bool,
        target: torch.device,
        site: Site | None,
    ) -> Any:
        sizes = {name: storage_of(kwargs[name]).nbytes() for name in outs}
        options = {name: value if name in outs else _to_meta(value) for name, value in kwargs.items()}
        result = op.func(*[_to_meta(value) for value in args], **options)
        fresh: dict[str, torch.Tensor] = {}
        inputs_known = known or all(
            record is None or not record.virtual or record.shadow is not None
            for record in (memory_of(t) for value in args for t in tensors_in(value))
        )
        if inputs_known:
            fresh = {name: torch.empty(0, dtype=kwargs[name].dtype) for name in outs}
            values = {name: fresh[name] if name in outs else _to_value(value) for name, value in kwargs.items()}
            op.func(*[_to_value(value) for value in args], **values)
        for name in outs:
            tensor = kwargs[name]
            record = memory_of(tensor)
            if record is None:
                continue
            if storage_of(tensor).nbytes() != sizes[name]:
                record.rebook(storage_of(tensor).nbytes())
            record.shadow = None
            if name in fresh and storage_of(tensor).nbytes() <= VALUE_LIMIT:
                _give_shadow(tensor)
                value = value_of(tensor, record)
                assert value is not None
                value.copy_(fresh[name])
        return result

    # -- index masks -----------------------------------------------------------------------------------------------

    def _masks_to_indices(
        self, args: tuple[Any, ...], tensors: Sequence[torch.Tensor], records: Sequence[Any], home: torch.device
    ) -> tuple[tuple[Any, ...], Sequence[torch.Tensor], Sequence[Any]]:
        """Boolean masks decide the shape of `x[mask]`: put the indices that they stand for in their place."""
        indices = args[1]
        if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
            return args, tensors, records
        expanded: list[Any] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                expanded.append(index)
                continue
            positions = _to_value(index).nonzero(as_tuple=True)
            record = memory_of(index)
            assumed = record is not None and record.virtual and (record.assumed or record.shadow is None)
            expanded.extend(self.with_value(p, home, None, assumed=assumed) for p in positions)
        changed = (args[0], expanded, *args[2:])
        tensors = [t for value in changed for t in tensors_in(value)]
        return changed, tensors, [storage_of(t)._sd for t in tensors]

    # -- transfers -------------------------------------------------------------------------------------------------

    def _to_copy(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[0]
        device = kwargs.get("device")
        record = memory_of(source)
        home = record.device if record is not None else (META if raw_is_meta(source) else CPU)
        target = home if device is None else self.state.device(device)
        options = {name: value for name, value in kwargs.items() if name not in ("device", "non_blocking", "pin_memory")}
        return self.transfer(source, target, options, self.site())

    def transfer(
        self, source: torch.Tensor, target: torch.device, options: dict[str, Any], site: Site | None
    ) -> torch.Tensor:
        """A copy of `source` on `target`; `options` are those of `_to_copy` (dtype, layout, memory_format)."""
        record = memory_of(source)
        func = aten._to_copy.default
        if record is None and raw_is_meta(source):
            return self._from_meta(source, target, options, site)
        if target.type not in ("cuda", "cpu"):
            made: torch.Tensor = func(_to_meta(source), **{**options, "device": target})
            return made
        home = CPU if record is None else record.device
        made_at = record.made if record is not None and record.made is not None else (site if home == CPU else None)
        moved = site if home != target else (record.moved if record is not None else None)
        if not (record is not None and record.virtual):
            return self._from_host(source, target, options, made_at, moved, site)
        value = value_of(source, record)
        dtype = options.get("dtype") or source.dtype
        small = source.numel() * dtype.itemsize <= VALUE_LIMIT
        if value is None and target.type == "cpu" and small:
            # Small host tensors are always real: scripts hand them to code that is not torch.
            result: torch.Tensor = func(assumed_values(source), **options)
            storage_of(result)._sd = self._host_record(made_at, moved, assumed=True)
            return result
        if value is None:
            result = func(source, **options)
            return self.adopt(result, target, made_at or site, moved=moved)
        result = func(value, **options)
        if target.type == "cpu" and home.type != "cpu":
            storage_of(result)._sd = self._host_record(made_at, moved, assumed=record.assumed)
            return result
        return self.with_value(result, target, made_at or site, moved=moved, assumed=record.assumed)

    def _host_record(self, made: Site | None, moved: Site | None, *, assumed: bool) -> Memory:
        record = Memory(CPU, virtual=False, made=made, moved=moved)
        record.assumed = assumed
        return record

    def _from_host(
        self,
        source: torch.Tensor,
        target: torch.device,
        options: dict[str, Any],
        made_at: Site | None,
        moved: Site | None,
        site: Site | None,
    ) -> torch.Tensor:
        func = aten._to_copy.default
        dtype = options.get("dtype") or source.dtype
        nbytes = source.numel() * dtype.itemsize
        ghost = self.is_ghost(source)
        if target.type == "cpu" and nbytes <= (VALUE_LIMIT if ghost else HOST_LIMIT):
            result: torch.Tensor = func(source, **options)
            storage_of(result)._sd = self._host_record(made_at or site, moved, assumed=ghost)
            return result
        if target.type == "cpu" or nbytes > VALUE_LIMIT or ghost:
            result = func(_to_meta(source), **options)
            return self.adopt(result, target, made_at or site, moved=moved)
        record = memory_of(source)
        return self.with_value(
            func(source, **options), target, made_at or site, moved=moved, assumed=record is not None and record.assumed
        )

    def _from_meta(
        self, source: torch.Tensor, target: torch.device, options: dict[str, Any], site: Site | None
    ) -> torch.Tensor:
        func = aten._to_copy.default
        if target.type == "meta":
            result: torch.Tensor = func(source, **options)
            return result
        mark = storage_of(source)._sd
        if mark.__class__ is Helper:
            self._settle_helper(source, target)
            return self.transfer(source, target, options, site)
        self.recorder.meta_copy(source, target, caller())
        result = func(source, **options)
        return self.adopt(result, target, site, moved=site)

    def is_ghost(self, tensor: torch.Tensor) -> bool:
        """Whether a host tensor lies in a mapped ghost checkpoint, or was assumed when it was copied out of one."""
        record = memory_of(tensor)
        if record is not None and record.assumed:
            return True
        if not self.ghosts:
            return False
        address = tensor.data_ptr()
        return any(start <= address < end for start, end in self.ghosts)

    def _scalar(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        record = memory_of(tensor)
        if record is None or not record.virtual:
            return op.func(tensor)
        value = value_of(tensor, record)
        if value is not None:
            return op.func(value)
        if tensor.dtype == torch.bool:
            return False
        return ASSUMED_FLOAT if tensor.dtype.is_floating_point or tensor.dtype.is_complex else 0

    def _is_pinned(self, tensor: torch.Tensor) -> bool:
        record = memory_of(tensor)
        return record is not None and record.pinned

    def _pin(self, tensor: torch.Tensor) -> torch.Tensor:
        record = memory_of(tensor)
        if record is not None and record.device.type != "cpu":
            raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
        if record is not None and record.virtual:
            record.pinned = True
            return tensor
        pinned = tensor.clone()
        own = self._host_record(None if record is None else record.made, None if record is None else record.moved, assumed=False)
        own.assumed = record is not None and record.assumed
        own.pinned = True
        storage_of(pinned)._sd = own
        return pinned

    # -- mixed devices ---------------------------------------------------------------------------------------------

    def _settle(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[torch.Tensor],
        records: list[Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[torch.Tensor], list[Any], torch.device]:
        """Tensors are on several devices: judge, record what CUDA would refuse, and bring what must move."""
        frame = caller()
        named = _named_tensors(op, args, kwargs)
        self._claim_helpers(named, frame)
        devices = [_device(tensor) for _, tensor, _ in named]
        home = _home(op, named, devices)
        on_gpu = any(device.type == "cuda" for device in devices)
        strangers = [i for i, device in enumerate(devices) if device.type == "meta"]
        row = row_for(op.name)
        if strangers and row.check is not Check.FREE:
            self.recorder.unmaterialized(op, named, devices, home, frame)
        elif strangers:
            self._copy_with_meta(op, named, devices, frame)
        elif on_gpu:
            if row.source.startswith("default"):
                self.unlisted[op.name] = self.unlisted.get(op.name, 0) + 1
            arguments = [
                Argument(name, str(device), tensor.dim(), written)
                for (name, tensor, written), device in zip(named, devices, strict=True)
            ]
            refusal = judge_devices(row, arguments, _TORCH_VERSION)  # type: ignore[arg-type]  # two parts
            if refusal is not None:
                kind = EventKind.UNCHECKED if refusal.silent else EventKind.MISMATCH
                self.recorder.refused(kind, op, refusal.message, named, devices, home, frame)
        moved = {id(t): self._bring(t, d, home) for (_, t, _), d in zip(named, devices, strict=True) if d != home}
        for (_, tensor, _), device in zip(named, devices, strict=True):
            if device != home and tensor.requires_grad and self.gradient_back is not None and torch.is_grad_enabled():
                self.gradient_back(tensor)
        args = tuple([_replace(value, moved) for value in args])
        kwargs = {name: _replace(value, moved) for name, value in kwargs.items()}
        found = [t for value in (*args, *kwargs.values()) for t in tensors_in(value)]
        return args, kwargs, found, [_record(t) for t in found], home

    def _foreach_over_devices(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lists over several devices take CUDA's slow route, element by element; only each element's tensors must agree."""
        lists = [value for value in (*args, *kwargs.values()) if isinstance(value, (list, tuple)) and value]
        length = next(len(value) for value in lists if isinstance(value[0], Tensor))

        def one(value: Any, position: int) -> Any:
            return [value[position]] if isinstance(value, (list, tuple)) and len(value) == length else value

        results = []
        for position in range(length):
            part = tuple([one(value, position) for value in args])
            options = {name: one(value, position) for name, value in kwargs.items()}
            results.append(self._one_element(op, part, options))
        if op.form is Form.INPLACE:
            return None
        return [tensor for result in results for tensor in tensors_in(result)]

    def _one_element(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [tensor for value in (*args, *kwargs.values()) for tensor in tensors_in(value)]
        records = [_record(tensor) for tensor in tensors]
        if len({str(_device(tensor)) for tensor in tensors}) == 1:
            return self.run(op.func, args, kwargs)
        args, kwargs, tensors, records, home = self._settle(op, args, kwargs, tensors, records)
        if home.type == "cpu":
            return self._on_host(op, args, kwargs)
        return self._on_virtual(op, args, kwargs, tensors, records, home, home, None)

    def _copy_with_meta(self, op: Operator, named: Sequence[Any], devices: Sequence[torch.device], frame: Any) -> None:
        if op.short == "copy_" and devices[0].type != "meta":
            self.recorder.meta_copy(named[1][1], devices[0], frame)

    def _claim_helpers(self, named: Sequence[tuple[str, torch.Tensor, bool]], frame: Any) -> None:
        home = next((_device(t) for _, t, _ in named if _device(t).type == "cuda"), None)
        if home is None:
            home = next((_device(t) for _, t, _ in named if _device(t).type == "cpu"), None)
        if home is None:
            return
        for _, tensor, _ in named:
            mark = _record(tensor)
            if mark.__class__ is Helper and mark.frame == id(frame) and mark.instruction == frame.f_lasti:
                self._settle_helper(tensor, home)

    def _settle_helper(self, tensor: torch.Tensor, home: torch.device) -> None:
        storage = storage_of(tensor)
        mark = storage._sd
        value = getattr(storage, "_helper_value", None)
        storage._sd = None
        self.adopt(tensor, home, mark.made)
        storage._sd.shadow = value

    def _bring(self, tensor: torch.Tensor, device: torch.device, home: torch.device) -> torch.Tensor:
        if device.type == "meta":
            made = carrier(tensor.size(), tensor.stride(), tensor.dtype)
            return self.adopt(made, home, None)
        record = _record(tensor)
        site = record.made if record.__class__ is Memory else None
        moved = self.transfer(tensor, home, {}, site)
        return moved

    def _check_generator(self, op: Operator, generator: Any, target: torch.device) -> Any:
        """The engine that draws; records the finding when it belongs to another kind of device."""
        own = generator_device(generator)
        if own.type != target.type:
            text = f"Expected a '{target.type}' device type for generator but found '{own.type}'"
            self.recorder.generator(op, text, own, target, caller())
        return generator


class VirtualDeviceMode(TorchDispatchMode):
    """Hands every operator of one thread to the machine's engine."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled on a virtual machine; the wrapper that torch would add imports dynamo and costs every call.
        return False

    def __init__(self, machine_engine: Engine) -> None:
        super().__init__()
        self.engine = machine_engine

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if engine.raw:
            return func(*args, **(kwargs or {}))
        if operator(func).composite:
            with self:
                return func.decompose(*args, **(kwargs or {}))
        engine.raw = True
        try:
            return self.engine.run(func, args, kwargs or {})
        finally:
            engine.raw = False


_NOTHING = Specification(())


def _keep_helper_value(helper: torch.Tensor, value: torch.Tensor) -> None:
    if value.untyped_storage().nbytes() == storage_of(helper).nbytes():
        storage_of(helper)._helper_value = value.untyped_storage()


def _signature(values: Any) -> Any:
    parts: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            parts.append((value.shape, value.stride(), value.dtype))
        elif isinstance(value, (list, tuple)):
            parts.append(_signature(value))
        else:
            parts.append((value.__class__, value))
    return tuple(parts)


def _to_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        if raw_is_meta(value):
            return value
        if value.layout != torch.strided:
            return value.to("meta")
        return carrier(value.size(), value.stride(), value.dtype)
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return type(value)([_to_meta(part) for part in value])
    return value


def _to_value(value: Any) -> Any:
    """CPU stand-in of an argument: its value where known, else what is assumed, without memory of its own."""
    if isinstance(value, Tensor):
        record = memory_of(value)
        if record is None:
            return value if not raw_is_meta(value) else _stand_in(value)
        if not record.virtual:
            return value
        if value.layout != torch.strided:
            return torch.sparse_coo_tensor(size=value.size(), dtype=value.dtype) if value.layout == torch.sparse_coo else value
        known = value_of(value, record)
        return _stand_in(value) if known is None else known
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return type(value)([_to_value(part) for part in value])
    return value


def _stand_in(like: torch.Tensor) -> torch.Tensor:
    fill = ASSUMED_FLOAT if like.dtype.is_floating_point or like.dtype.is_complex else 0
    if like.numel() * like.element_size() <= VALUE_LIMIT:
        dense = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype)
        return dense.fill_(fill)
    return torch.full((), fill, dtype=like.dtype).expand(like.size())


def _as_dtype(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) else value


def _give_shadow(tensor: torch.Tensor) -> None:
    """Make sure that the memory of a small virtual tensor has bytes."""
    storage = storage_of(tensor)
    record = storage._sd
    if record.__class__ is Memory and record.virtual and record.shadow is None:
        record.shadow = torch.zeros(storage.nbytes(), dtype=torch.uint8).untyped_storage()
        record.assumed = False


def _returned(op: Operator, args: tuple[Any, ...]) -> Any:
    written = [args[position] for position in op.returned]
    if not written:
        return None
    return written[0] if len(written) == 1 else tuple(written)


def _is_out(op: Operator, name: str) -> bool:
    argument = op.func._schema.arguments[op.argument_names.index(name)]
    return bool(argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write)


def _itemsize(kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]) -> int:
    dtype = kwargs.get("dtype") or (tensors[0].dtype if tensors else torch.get_default_dtype())
    size: int = dtype.itemsize
    return size


def _small(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]) -> bool:
    if op.factory:
        return op.factory_numel(args) * _itemsize(kwargs, tensors) <= VALUE_LIMIT
    return all(tensor.numel() * tensor.element_size() <= VALUE_LIMIT for tensor in tensors)


def _record(tensor: torch.Tensor) -> Any:
    try:
        return storage_of(tensor)._sd
    except NotImplementedError:
        return getattr(tensor, "_sd", None)


def _device(tensor: torch.Tensor) -> torch.device:
    record = _record(tensor)
    if record.__class__ is Memory:
        device: TorchDevice = record.device
        return device
    return META if raw_is_meta(tensor) else CPU


def _named_tensors(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor, bool]]:
    """(argument name, tensor, written) of every tensor, in schema order."""
    found: list[tuple[str, torch.Tensor, bool]] = []
    for position, name in enumerate(op.argument_names):
        value = args[position] if position < len(args) else kwargs.get(name)
        written = position in op.written
        if isinstance(value, Tensor):
            found.append((name, value, written))
        elif isinstance(value, (list, tuple)):
            found.extend((f"{name}[{i}]", part, written) for i, part in enumerate(value) if isinstance(part, Tensor))
    return found


def _home(op: Operator, named: Sequence[tuple[str, torch.Tensor, bool]], devices: Sequence[torch.device]) -> torch.device:
    """Where the operator runs: with what it writes or indexes, else on the first GPU among its tensors."""
    for (_, _, written), device in zip(named, devices, strict=True):
        if written and device.type != "meta":
            return device
    if op.name in _INDEX_OPERATORS and devices[0].type != "meta":
        return devices[0]
    candidates = [d for (_, t, _), d in zip(named, devices, strict=True) if d.type == "cuda" and t.dim() > 0]
    candidates += [d for d in devices if d.type == "cuda"] + [d for d in devices if d.type == "cpu"]
    return candidates[0]


def _replace(value: Any, moved: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, Tensor):
        return moved.get(id(value), value)
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return type(value)([_replace(part, moved) for part in value])
    return value


__all__ = ["HOST_LIMIT", "Engine", "VirtualDeviceMode", "over"]
