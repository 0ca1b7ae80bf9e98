"""Runs every operator of a virtual machine.

It decides where results are, computes small values, and keeps the ledger.

Note [C++ sees one device]
All virtual tensors, and host tensors too large to hold values, are meta tensors for C++; see Note [A device
is a property of memory]. While the engine runs a kernel itself, `this_thread.raw` is set and Python sees
torch's own answers as well, because decompositions ask tensors for their device.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.device_rules import Check, row_for
from samedevice.events import DecisionKind
from samedevice.runtime.engine.accumulation import alone, may_add_in_place
from samedevice.runtime.engine.calculation import Calculation, made_whole
from samedevice.runtime.engine.composites import Composites
from samedevice.runtime.engine.crossing import leads_to_host, passing
from samedevice.runtime.engine.cuda_terms import cuda_terms, refuse
from samedevice.runtime.engine.draws import engine_for
from samedevice.runtime.engine.fast_route import PREFIX as FOREACH
from samedevice.runtime.engine.fast_route import for_each
from samedevice.runtime.engine.higher_order import kernel_on_cuda
from samedevice.runtime.engine.interceptors import Collective, Interceptor, Order
from samedevice.runtime.engine.masks import masks_to_indices
from samedevice.runtime.engine.mismatches import Mismatches
from samedevice.runtime.engine.ordering import ORDERS, assumed_order
from samedevice.runtime.engine.packing import Packing
from samedevice.runtime.engine.quantized import MAKES_QUANTIZED, Quantized
from samedevice.runtime.engine.refusals import nested
from samedevice.runtime.engine.scalar_lists import WITH_LIST, scalars_in
from samedevice.runtime.engine.sparse import Sparse
from samedevice.runtime.engine.transfers import HOST_LIMIT, Transfers
from samedevice.runtime.engine.unmaterialized import EXPLICIT
from samedevice.runtime.engine.wording import in_own_words
from samedevice.runtime.engine.work_memory import WorkMemory, works
from samedevice.runtime.engine.wrappers import ASKS_DEVICE, asked_device, meant, overheard
from samedevice.runtime.engine.writing import Writing
from samedevice.runtime.state import (
    CPU,
    INDEX_OPERATORS,
    KEPT_BY_RESULTS,
    MAKES_OF_PARTS,
    META,
    SHAPE_ONLY,
    VALUE_LIMIT,
    Call,
    Decision,
    Form,
    Geometry,
    MachineState,
    Memory,
    Operator,
    QuantizedMemory,
    aten,
    device_of,
    has_geometry,
    is_virtual,
    memory_of,
    operator,
    plain,
    raw_is_meta,
    record_of_parts,
    storage_of,
    tensors_in,
    this_thread,
    use_on_stream,
    without_number,
)
from samedevice.runtime.tracking import (
    Recorder,
    Tracker,
    abstract,
    name_devices,
    pass_on_assumptions,
    record_of,
    replace_tensors,
)

Tensor = torch.Tensor
_DISABLED = torch._C._disabled_torch_dispatch_impl
_Key = torch._C._TorchDispatchModeKey
_INFRASTRUCTURE = (_Key.FAKE, _Key.PROXY, _Key.FUNCTIONAL)
_TRACED = (FakeTensor, FunctionalTensor)

_WIDEST = 16
"""Bytes of the widest element."""
_MAKES_BLANK = frozenset(
    (
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "new_zeros",
        "zeros",
        "zeros_like",
    )
)
"""Operators that reserve memory; see Note [Large buffers]."""
_WRAPS = frozenset(("alias", "detach", "lift", "lift_fresh"))
"""Operators by which torch hands out memory that it made below the dispatcher: `torch.tensor`."""


class Engine:
    """One machine's engine; threads share it, each through a mode of its own."""

    def __init__(self, state: MachineState, recorder: Recorder, value_limit: int = VALUE_LIMIT) -> None:
        self.state = state
        self.operators = 0
        self.left = False
        """True after the machine was left; a thread may outlive it."""
        self.tracker = Tracker(state, recorder, value_limit)
        self.composites = Composites(self.tracker)
        self.transfers = Transfers(self.tracker, self.composites)
        self.mismatches = Mismatches(self.tracker, self.transfers, self.composites)
        self.collectives: Collective | None = None
        """Runs what reaches other processes; without it, torch does."""
        self._interceptors: tuple[tuple[Order, Interceptor], ...] = ()
        self._calculation = Calculation(self.tracker)
        self._writing = Writing(self.tracker, self._calculation)
        self._sparse = Sparse(self.tracker, self._calculation, self.mismatches)
        self._quantized = Quantized(self.tracker, self.mismatches)
        self._work = WorkMemory(self.tracker, state)
        self._geometries: dict[Any, Geometry] = {}
        alone()  # learnt before any script's backward runs
        self._special: dict[Any, Callable[[Operator, Any, dict[str, Any]], Any]] = {
            aten._to_copy.default: self.transfers.to_copy,
            aten._local_scalar_dense.default: self._calculation.scalar,
            aten._has_compatible_shallow_copy_type.default: lambda op, args, kwargs: True,
            aten.is_pinned.default: lambda op, args, kwargs: self.transfers.is_pinned(args[0]),
            aten._pin_memory.default: lambda op, args, kwargs: self.transfers.pin(args[0]),
            aten.record_stream.default: lambda op, args, kwargs: use_on_stream(*args),
            aten._pack_padded_sequence.default: Packing(self.tracker, self.transfers).pack,
            aten.add.Tensor: self._sum,
            **dict.fromkeys(WITH_LIST, self._with_scalar_list),
            **dict.fromkeys(MAKES_OF_PARTS, self._sparse.make),
            **dict.fromkeys(MAKES_QUANTIZED, self._quantized.make),
            aten._nested_tensor_from_tensor_list.default: lambda op, args, kwargs: nested(args, kwargs),
            aten._efficientzerotensor.default: self._zeros,
        }

    def intercept(self, order: Order, interceptor: Interceptor) -> Callable[[], None]:
        """Show every operator to `interceptor` first; what is returned ends that."""
        entry = (order, interceptor)
        self._interceptors = tuple(sorted((*self._interceptors, entry), key=lambda each: each[0]))

        def end() -> None:
            self._interceptors = tuple(each for each in self._interceptors if each is not entry)

        return end

    def _intercepted(
        self,
        rest: Sequence[tuple[Order, Interceptor]],
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if not rest:
            return self.run(func, args, kwargs, intercepted=True)
        return rest[0][1](func, args, kwargs, functools.partial(self._intercepted, rest[1:]))

    def run(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, intercepted: bool = False
    ) -> Any:
        """Run one operator as the machine would."""
        # Long: every operator comes this way, and each function called on it would cost all of them.
        if self._interceptors and not intercepted:
            return self._intercepted(self._interceptors, func, args, kwargs)
        self.operators += 1
        special = self._special.get(func)
        op = operator(func)
        if special is not None:
            result = special(op, args, kwargs)
            if result is not NotImplemented:
                return result
        if op.collective:
            collective = self.collectives
            if collective is not None and collective.takes(op, args, kwargs):
                return collective.run(op, args, kwargs)
            return func(*args, **kwargs)
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
            return self._make(Call(op, args, kwargs, (), ()), target, generator)

        records: list[Any] = []
        home: torch.device | None = None
        decision: Decision | None = None
        mixed = virtual = assumed = parted = quantized = False
        for tensor in tensors:
            try:
                record = storage_of(tensor)._sd
            except NotImplementedError:
                record = record_of_parts(tensor)
                parted = parted or tensor.layout is not torch.strided
            if record.__class__ is Memory:
                device = record.device
                if record.virtual:
                    virtual = True
                if record.assumed:
                    assumed = True
                own = record.decision
                if not records:
                    decision = own
                elif own is not None and decision is not None and decision.how not in KEPT_BY_RESULTS:
                    if own.how == "placed" or (own.how == "moved" and tensor.__class__ is Parameter):
                        decision = own
            elif raw_is_meta(tensor):
                device = META
            elif record.__class__ is QuantizedMemory:
                device = record.device
                virtual = quantized = True
            else:
                device = CPU
            records.append(record)
            if home is None:
                home = device
            elif device is not home and device != home:
                mixed = True
        assert home is not None
        this_thread.decision = decision  # of a weight that was placed, or else of the first operand
        if op.form is Form.INPLACE and len(records) > 1 and not mixed:
            self._fill(records)
        on_host = home.type == "cpu" and not virtual and not mixed
        if on_host and (target is None or target.type == "cpu"):
            if generator is not None:
                self.mismatches.check_generator(Call(op, args, kwargs, tensors, records), generator, CPU)
            return self._on_assumed(op, args, kwargs, tensors) if assumed else self._on_host(op, args, kwargs)
        call = Call(op, args, kwargs, tensors, records)
        call.generator = generator
        if quantized:
            call.home, call.target = home, target or home
            return self._quantized.run(call, mixed=mixed)
        if parted and (virtual or mixed):
            call.home, call.target = home, target or home
            return self._sparse.run(call, mixed=mixed)
        if mixed:
            return (
                self._foreach_over_devices(op, args, kwargs)
                if op.short.startswith(FOREACH)
                else self._over_devices(call, target)
            )
        if home.type == "meta" and (target is None or target.type == "meta"):
            return self.composites.on_meta(op, args, kwargs, tensors, records)
        if target is not None and target.type == "meta":
            if not _in_a_formula():
                return self.composites.like(op, call.args, call.kwargs)
            target = home
        if (
            home.type == "meta"
            and target == CPU
            and op.form is Form.FRESH
            and _small(call, self.tracker.value_limit)
        ):
            return self._on_host(
                op, args, kwargs
            )  # as small copies to the host: scripts hand them to code that is not torch
        call.home, call.target = home, target or home
        if call.target != home:
            this_thread.decision = self.tracker.created(call.target, self.tracker.site())
        if generator is not None:
            self.mismatches.check_generator(call, generator, call.target)
        return self.on_virtual(call)

    def _fill(self, records: Sequence[Any]) -> None:
        """What one call made without an operand and fills from one is where that operand is: `one_hot`."""
        written = records[0]
        made = written.decision if written.__class__ is Memory else None
        if made is None or made.how != "created":
            return
        for record in records[1:]:
            given = record.decision if record.__class__ is Memory else None
            if given is None or given is made or (given.how == "created" and given.site == made.site):
                continue
            if self.tracker.site() == made.site:
                written.decision = given
            return

    def _over_devices(self, call: Call, target: torch.device | None = None) -> Any:
        """The tensors are on several devices; afterwards each that is written holds what it would hold."""
        if any(device_of(tensor).type == "cuda" for tensor in call.tensors):
            if row_for(call.op.name).check is Check.PARTS and not any(
                device_of(tensor) == META for tensor in call.tensors
            ):  # its parts would take what they make on meta for what is made for virtual tensors
                return self._in_parts(call)
            if cuda_terms(call.op) is refuse:
                refuse(call)
        given, call = call, self.mismatches.resolve(call)
        if call.given is not None:
            return call.given
        this_thread.decision = given.decision(call.home) or call.decision(call.home)
        if call.home.type == "cpu" and not any(
            record.__class__ is Memory and record.virtual for record in call.records
        ):
            result = self._on_assumed(call.op, call.args, call.kwargs, call.tensors)
            if call.op.short == "copy_":
                self._note_returned(call)
        elif target is not None and target.type == "meta":
            return self.composites.like(call.op, call.args, call.kwargs)
        else:
            call.target = target or call.home
            if call.generator is not None:
                self.mismatches.check_generator(call, call.generator, call.target)
            result = self.on_virtual(call)
        for own, stand_in in call.away:
            if own.size() != stand_in.size():
                self.run(aten.resize_.default, (own, list(stand_in.size())), {})
            self.run(aten.copy_.default, (own, stand_in), {})
        return (
            replace_tensors(result, {id(stand_in): own for own, stand_in in call.away})
            if call.away
            else result
        )

    def _in_parts(self, call: Call) -> Any:
        """An operator that CUDA has no kernel for: what it is made of comes back here."""
        func = call.op.func
        key = next(key for key in EXPLICIT if func.has_kernel_for_dispatch_key(key))
        this_thread.raw = False
        try:
            with VirtualDeviceMode(self).in_thread():
                return func._op_dk(key, *call.args, **call.kwargs)
        finally:
            this_thread.raw = True

    def _note_returned(self, call: Call) -> None:
        """Host memory that took known values of a GPU remembers that."""
        _, source = call.records
        if source.__class__ is Memory and source.returned:
            self.tracker.note_host(call.args[0], self.tracker.site())
            storage_of(call.args[0])._sd.returned = True

    def _sum(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An addition; see Note [Sums of gradients]."""
        return self.run(aten.add_.Tensor, args, kwargs) if may_add_in_place(args, kwargs) else NotImplemented

    def _zeros(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Zeros without memory; a carrier's are zeros as others are.

        Also those that forward derivatives make on the host: C++ would take them on to meta by itself.
        """
        device = kwargs.get("device")
        on_host = device is None or torch.device(device).type == "cpu"
        if on_host and forward_ad._current_level < 0:
            return NotImplemented
        return self.run(aten.zeros.default, args, kwargs)

    def _with_scalar_list(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) < len(op.argument_names) or not any(map(is_virtual, tensors_in([*args]))):
            return NotImplemented
        return self.run(WITH_LIST[op.func], (*args[:-1], scalars_in(self.tracker, op, args)), {})

    def _on_host(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """All tensors are real host memory."""
        pinned = kwargs.get("pin_memory")
        if pinned:
            kwargs = {**kwargs, "pin_memory": False}
        if op.form is Form.FRESH and op.returns_tensors and _too_large_for_host(op, args, kwargs):
            return self._large_host(op, args, kwargs)
        result = made_whole(op, args, kwargs)
        if op.form is not Form.INPLACE:
            site = self.tracker.site()
            if this_thread.decision is None:
                how: DecisionKind = "created" if op.short in _WRAPS else "outside"
                this_thread.decision = self.tracker.created(CPU, site, how)
            self.tracker.note_host(result, site)
            if pinned:
                for tensor in tensors_in(result):
                    storage_of(tensor)._sd.pinned = True
        return result

    def _on_assumed(
        self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]
    ) -> Any:
        """All tensors are real host memory, and some of it holds what was assumed."""
        result = self._on_host(op, args, kwargs)
        if op.form is not Form.VIEW:
            filled = [
                *tensors_in(result),
                *tensors_in([args[at] for at in op.writes(args) if at < len(args)]),
            ]
            pass_on_assumptions(op, tensors, list({id(tensor): tensor for tensor in filled}.values()))
        return result

    def _large_host(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        site = self.tracker.site()
        result = abstract(op, args, kwargs)
        for tensor in tensors_in(result):
            self.tracker.adopt(tensor, CPU, site)
        return result

    def _make(self, call: Call, target: torch.device | None, generator: Any) -> Any:
        """An operator without tensor arguments."""
        op, args, kwargs = call.op, call.args, call.kwargs
        this_thread.decision = decision = self.tracker.created(target or CPU, self.tracker.site())
        decision.without_index = without_number(kwargs.get("device"))
        if generator is not None and op.random:
            self.mismatches.check_generator(call, generator, target or CPU)
        if target is None or target.type == "cpu":
            return self._on_host(op, args, kwargs)
        if (
            target.type == "meta"
            and this_thread.device is not None
            and torch._C._current_autograd_node() is not None
        ):
            return self._zero_gradient(call, this_thread.device)
        if target.type == "meta" and not this_thread.to_meta:
            target = asked_device() or target
        if target.type != "cuda":
            result = op.func(*args, **kwargs)
            if target.type == "meta":
                self.composites.mark(result)
                self.composites.remember(op, result, args, kwargs)
            return result
        call.home = call.target = target
        call.generator = generator
        return self.on_virtual(call)

    def _zero_gradient(self, call: Call, device: torch.device) -> Any:
        """Autograd makes a gradient of its own, on the carrier's device.

        It may meet no other tensor on its way out.
        """
        call.home = call.target = device
        result = self.on_virtual(call)
        for tensor in tensors_in(result):
            record = memory_of(tensor)
            if record is not None:
                record.loose = True
        return result

    def on_virtual(self, call: Call) -> Any:
        """All tensors are on one device, and some are virtual or results will be."""
        result = self._result(call)
        if works(call.op) and call.target.type == "cuda":
            self._work.of(call)
        return result

    def _result(self, call: Call) -> Any:
        op = call.op
        form = op.form
        if op.random and call.target.type == "cuda":
            call.drawn = engine_for(call, self.state)
        if form is Form.VIEW:
            return op.func(*call.args, **call.kwargs)
        this_thread.device = call.home
        if call.target.type == "cuda" and (terms := cuda_terms(op)) is not None:
            terms(call)
        if not op.returns_tensors:
            return self._calculation.results(call, force=True)
        if op.name in INDEX_OPERATORS:
            masks_to_indices(self.tracker, call)
        known = _known(call, self.tracker.value_limit, self.tracker.joined_limit)
        if form is Form.INPLACE:
            return self._writing.in_place(call, known=known)
        if form is Form.MIXED:
            return self._writing.mixed(call, known=known)
        if known and call.target.type == "cuda" and not op.dynamic and self._grows(call):
            return self._fresh(call)
        if known or op.dynamic_shape or (op.short in SHAPE_ONLY and _small(call, self.tracker.value_limit)):
            result = self._calculation.results(call, force=not known)
            if result is not NotImplemented:
                return result
        if _asks_if_finite(call, self.tracker.value_limit):
            answer = plain.ones(call.tensors[0].size(), dtype=torch.bool)
            return self.tracker.with_value(answer, call.target, self.tracker.site(), assumed=True)
        result = self._fresh(call)
        if op.short in _MAKES_BLANK and call.target.type == "cuda":
            for tensor in tensors_in(result):
                storage_of(tensor)._sd.blank = True
        return self._in_order(call, result) if op.short in ORDERS else result

    def _in_order(self, call: Call, result: Any) -> Any:
        """The same, with an order in which unknown values are assumed to be."""
        *values, order = result if isinstance(result, (tuple, list)) else (result,)
        if not isinstance(order, Tensor) or _nbytes(order) > self.tracker.value_limit:
            return result
        places = assumed_order(call, order.size())
        if places is None:
            return result
        made = self.tracker.with_value(places, call.target, self.tracker.site(), assumed=True)
        return (*values, made) if values else made

    def _grows(self, call: Call) -> bool:
        """Whether small arguments make a result too large to hold values, as an outer product does.

        Then nothing is computed.
        """
        if (
            not call.op.sized and call.tensors
        ):  # without any, numbers tell the size: `arange`, `eye`, `linspace`
            elements = 1
            for tensor in call.tensors:
                elements *= tensor.numel() or 1
            if elements * _WIDEST <= self.tracker.value_limit:
                return False
        key = call.key()
        geometry = self._geometries.get(key)
        if geometry is None:
            try:
                result = abstract(call.op, call.args, call.kwargs)
            except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
                return False  # the CPU kernel says it in better words, or there is only that kernel
            if not has_geometry(result):
                return False
            geometry = Geometry(result)
            if key is not None:
                self._geometries[key] = geometry
        nbytes = sum(geometry.nbytes)
        return nbytes > self.tracker.value_limit and nbytes > self.tracker.room(call.tensors)

    def _fresh(self, call: Call) -> Any:
        """New results whose values nobody knows.

        Their geometry is remembered, so that equal layers cost little.
        """
        site = self.tracker.site()
        target = call.target
        key = call.key()
        geometry = self._geometries.get(key)
        if geometry is None:
            result = abstract(call.op, call.args, call.kwargs)
            if key is not None and not call.op.dynamic and has_geometry(result):
                self._geometries[key] = Geometry(result)
            for tensor in tensors_in(result):
                self.tracker.adopt(tensor, target, site)
            return result
        made: list[Any] = []
        for part, nbytes in zip(geometry.parts, geometry.nbytes, strict=True):
            if part is None:
                made.append(None)
                continue
            tensor = torch.empty_strided(part[0], part[1], dtype=part[2], device=META)
            record = Memory(target, virtual=True, made=site)
            if target.type == "cuda":
                self.tracker.book(record, target.index, nbytes)
            else:
                record.address = self.tracker.address(nbytes)
            storage_of(tensor)._sd = record
            made.append(tensor)
        return made[0] if geometry.single else tuple(made)

    def _foreach_over_devices(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lists over several devices take CUDA's slow route, element by element.

        Only each element's tensors must agree.
        """
        lists = [value for value in (*args, *kwargs.values()) if isinstance(value, (list, tuple)) and value]
        length = next(len(value) for value in lists if isinstance(value[0], Tensor))
        single = for_each(op, args, kwargs)
        one_op = op if single is None else operator(single)

        def one(value: Any, position: int) -> Any:
            if not isinstance(value, (list, tuple)) or len(value) != length:
                return value
            return [value[position]] if single is None else value[position]

        results = []
        for position in range(length):
            part = tuple([one(value, position) for value in args])
            options = {name: one(value, position) for name, value in kwargs.items()}
            results.append(self._one_element(one_op, part, options))
        if not op.func._schema.returns:
            return None
        return [tensor for result in results for tensor in tensors_in(result)]

    def _one_element(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [tensor for value in (*args, *kwargs.values()) for tensor in tensors_in(value)]
        if len({str(device_of(tensor)) for tensor in tensors}) == 1:
            return self.run(op.func, args, kwargs)
        return self._over_devices(Call(op, args, kwargs, tensors, [record_of(tensor) for tensor in tensors]))


def traced() -> bool:
    """Whether torch looks on itself.

    It works out shapes or records a graph, with modes that stand below all others.
    """
    return any(torch._C._get_dispatch_mode(key) is not None for key in _INFRASTRUCTURE)


@contextlib.contextmanager
def unset(key: Any) -> Iterator[None]:
    """One of torch's own modes is away."""
    mode: Any = torch._C._unset_dispatch_mode(key)
    try:
        yield
    finally:
        torch._C._set_dispatch_mode(mode)


class VirtualDeviceMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types there
    """Hands every operator of one thread to the machine's engine."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled on a virtual machine; the wrapper that torch would add imports dynamo and costs
        # every call.
        return False

    def __init__(self, engine: Engine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.engine = engine

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Inside it the mode is there for this thread, and nothing that belongs to the process changes."""
        _push(self)
        try:
            yield
        finally:
            while self in _modes():  # with what a script entered on top of it and never left
                _pop(None)

    def leave(self) -> None:
        """End this mode, whatever became of it.

        Modes that a script entered on top of it and never left stay entered.
        """
        above = []
        users = [
            mode for mode in _modes() if getattr(mode, "_mode_key", None) is None
        ]  # others have places of their own
        if self not in users:
            _push(self)
        else:
            above = users[users.index(self) + 1 :]
        for mode in reversed(above):
            TorchDispatchMode.__exit__(mode, None, None, None)  # type: ignore[no-untyped-call]  # torch's own
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch's own
        for mode in above:
            TorchDispatchMode.__enter__(mode)  # type: ignore[no-untyped-call]  # torch's own

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if this_thread.raw or self.engine.left:
            return func(*args, **(kwargs or {}))
        if types and any(kind.__torch_dispatch__ is not _DISABLED for kind in types):
            if func is ASKS_DEVICE:
                return overheard(func, args)
            if any(issubclass(kind, _TRACED) for kind in types):
                return self._for_tracer(func, args, kwargs or {})
            # a wrapper, such as a DTensor, takes the operator apart; its parts come back here
            return NotImplemented
        if _modes_below() and traced():
            return self._for_tracer(func, args, kwargs or {})
        if func.__class__ is not OpOverload and isinstance(
            func, HigherOrderOperator
        ):  # an abstract class, which is slow to ask
            with self:
                return kernel_on_cuda(func)(*args, **(kwargs or {}))
        op = operator(func)
        if op.composite:
            with self:
                return func.decompose(*args, **(kwargs or {}))
        if op.in_parts is not None:
            with self:
                return op.in_parts(*args, **(kwargs or {}))
        this_thread.raw = True
        try:
            result = self.engine.run(func, args, kwargs or {})
        except (RuntimeError, TypeError, AttributeError) as error:
            whole = None if hasattr(error, "samedevice_event") else _without_bare_numbers(op, args)
            if whole is None:
                if isinstance(error, RuntimeError):
                    in_own_words(op.name, error, tensors_in([*args, *(kwargs or {}).values()]))
                raise
            result = self.engine.run(func, whole, kwargs or {})
        finally:
            this_thread.raw = False
            this_thread.decision = None
        if op.uncounted:
            _count_writes(op, args)
        if self.engine.mismatches.host_moved and op.form in (Form.FRESH, Form.VIEW):
            self.engine.mismatches.lead_gradients()
            node = torch._C._current_autograd_node()
            if node is not None and leads_to_host(node):
                return passing(result)
        return result

    def _for_tracer(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """One of torch's own modes is active, which stand below all others.

        Among fake tensors nothing is left to do here. A tracer of real tensors must see the operator as the
        script called it, and the machine what the tracer then runs, so here they change places.
        """
        kwargs = meant(func, args, kwargs)
        if torch._C._get_dispatch_mode(_Key.FAKE) is not None:
            return func(*args, **kwargs)
        for key in (_Key.FUNCTIONAL, _Key.PROXY):
            tracer = torch._C._get_dispatch_mode(key)
            if tracer is not None:
                with self, unset(key):
                    result = tracer.__torch_dispatch__(func, (), args, kwargs)
                if key is _Key.PROXY:
                    name_devices(tracer.tracer, args)
                return result
        return func(*args, **kwargs)


def _without_bare_numbers(op: Operator, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments with tensors where the operator takes nothing else; None where they are so already.

    A constant of TorchScript is a tensor in C++, which hands it to a dispatch mode as a number of Python.
    Arithmetic takes that.
    """
    if torch._C._should_allow_numbers_as_tensors(op.short):
        return None
    changed = [
        plain.tensor(value, dtype=torch.float64 if isinstance(value, float) else None, device="cpu")
        if isinstance(value, (int, float, complex)) and str(argument.type) == "Tensor"
        else value
        for value, argument in zip(args, op.func._schema.arguments, strict=False)
    ]
    return tuple(changed) if any(new is not old for new, old in zip(changed, args, strict=True)) else None


def _count_writes(op: Operator, args: tuple[Any, ...]) -> None:
    written = [tensor for position in op.written for tensor in tensors_in(args[position])]
    counted = [tensor for tensor in written if not tensor.is_inference()]
    if counted:
        torch.autograd.graph.increment_version(counted)


_push = torch._C._push_on_torch_dispatch_stack
_pop = torch._C._pop_torch_dispatch_stack
_modes_below = torch._C._len_torch_dispatch_stack


def _modes() -> list[Any]:
    """The dispatch modes of this thread, outermost first."""
    return [
        torch._C._get_dispatch_stack_at(position) for position in range(torch._C._len_torch_dispatch_stack())
    ]


def _in_a_formula() -> bool:
    """Whether a derivative that C++ wrote runs.

    It copies the options of the gradients that it got, and never means the meta device.
    """
    node = torch._C._current_autograd_node()
    return node is not None and not isinstance(node, torch.autograd.function.BackwardCFunction)


def _too_large_for_host(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if op.factory and op.size_at == 0:
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        return op.factory_numel(args) * dtype.itemsize > HOST_LIMIT
    first = args[0] if args else None
    return isinstance(first, Tensor) and first.numel() * first.element_size() > HOST_LIMIT


def _known(call: Call, value_limit: int, joined_limit: int) -> bool:
    """Whether results can be computed.

    Unknown floats are never computed from, unknown small integers are assumed.
    """
    for tensor, record in zip(call.tensors, call.records, strict=True):
        if (
            record.__class__ is Memory
            and record.virtual
            and (record.shadow is None or _outgrown(tensor, record, joined_limit))
        ):
            dtype = tensor.dtype
            if dtype.is_floating_point or dtype.is_complex or tensor.numel() * dtype.itemsize > value_limit:
                return False
    return (
        not call.op.factory
        or call.op.factory_numel(call.args) * _itemsize(call.kwargs, call.tensors) <= value_limit
    )


def _outgrown(tensor: torch.Tensor, record: Memory, joined_limit: int) -> bool:
    """Whether this is more of a large buffer than may have values; see Note [Large buffers]."""
    return record.blank and tensor.numel() * tensor.element_size() > joined_limit


def _asks_if_finite(call: Call, value_limit: int) -> bool:
    """Whether this is half of `isfinite` (`x == x`, `abs(x) != inf`).

    What is not known is assumed finite, or no step would count.
    """
    if call.op.name == "aten.eq.Tensor":
        asks = call.args[0] is call.args[1]
    else:
        asks = call.op.name == "aten.ne.Scalar" and call.args[1] == math.inf
    return asks and call.tensors[0].numel() <= value_limit


def _small(call: Call, value_limit: int) -> bool:
    """Whether the result of a shape-only operator may have values."""
    if call.op.factory:
        return call.op.factory_numel(call.args) * _itemsize(call.kwargs, call.tensors) <= value_limit
    return all(tensor.numel() * tensor.element_size() <= value_limit for tensor in call.tensors)


def _itemsize(kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]) -> int:
    dtype = kwargs.get("dtype") or (tensors[0].dtype if tensors else torch.get_default_dtype())
    size: int = dtype.itemsize
    return size


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
