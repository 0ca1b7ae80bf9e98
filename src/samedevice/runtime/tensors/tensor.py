"""`torch.Tensor`'s own answers on a virtual machine.

Device, transfers, and the ways out of torch (numpy, lists, text).

Note [Lists as indices]
`x[[0, 2]]` makes the index tensor in C++ on x's device, and for meta C++ leaves the values out, below every
mode. So lists, ranges and arrays become tensors before C++ sees them. A Python `__getitem__` also fills the C
slot that makes an object a sequence; `torch.tensor([scalar])` is told to see numbers instead, in
`factories`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from samedevice.runtime.cuda import type_named
from samedevice.runtime.engine import wrapped_device
from samedevice.runtime.patching import Constant, Patch, With
from samedevice.runtime.state import (
    CPU,
    META,
    Memory,
    as_torch,
    assumed_values,
    aten,
    current_machine,
    is_virtual,
    memory_of,
    note_made,
    over,
    plain,
    raw_data_ptr,
    raw_device,
    raw_is_meta,
    record_of_parts,
    storage_of,
    taken_from,
    taking,
    this_thread,
    told_device,
    use_on_stream,
    value_of,
)
from samedevice.runtime.tracking import Recorder, to_value

Tensor = torch.Tensor
_Base = torch._C.TensorBase
_Uninitialized: Any = torch.nn.parameter.UninitializedTensorMixin  # type: ignore[attr-defined]
# not among the exported names
_parse_to: Any = torch._C._nn._parse_to
"""torch's own argument parser of `Tensor.to`."""


def seen_device(tensor: torch.Tensor) -> torch.device:
    """Where the tensor is: torch's truth while the engine works, the machine's otherwise."""
    if not this_thread.raw:
        try:
            record = storage_of(tensor)._sd
        except NotImplementedError:
            record = record_of_parts(tensor)
        except RuntimeError:
            record = None
        except ValueError:  # what a lazy module has before its first call refuses whatever it does not know
            with torch._C.DisableTorchFunctionSubclass():
                record = storage_of(tensor)._sd
        if isinstance(record, Memory):
            return record.device
        if hasattr(tensor, "__tensor_flatten__"):  # a wrapper, such as a DTensor, is where its parts are
            parts = [getattr(tensor, name, None) for name in tensor.__tensor_flatten__()[0]]
            return next((seen_device(part) for part in parts if isinstance(part, Tensor)), META)
        wrapped = wrapped_device(tensor)
        if wrapped is not None:
            return wrapped
        try:
            if raw_is_meta(tensor):
                return META
        except RuntimeError:  # a ShardedTensor answers few questions; where it is, its shards tell
            shards = getattr(tensor, "_local_shards", ())
            return seen_device(shards[0].tensor) if shards else current_machine().cuda(None)
    found: torch.device = raw_device(tensor)
    return found


def _asked_device(tensor: torch.Tensor) -> torch.device:
    """`x.device`: an object that is known again when the program hands it on; see Note [Asked devices]."""
    if this_thread.raw:
        return seen_device(tensor)
    try:
        record = storage_of(tensor)._sd
    except (NotImplementedError, RuntimeError, ValueError):
        return seen_device(tensor)
    decision = record.decision if record.__class__ is Memory else None
    if decision is None or decision.device is not record.device:
        return seen_device(tensor)
    own = isinstance(tensor, torch.nn.Parameter) or decision.site in (record.made, record.moved)
    return told_device(decision, computed=not own)


class _Transfer(torch.autograd.Function):
    """A move between devices that knows where its gradient belongs.

    C++ sees one device for all and would leave it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        source: torch.Tensor, device: torch.device, dtype: torch.dtype, memory_format: Any, non_blocking: bool
    ) -> torch.Tensor:
        return _copied(source, device, dtype, memory_format, non_blocking=non_blocking)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        source, ctx.device, ctx.dtype, ctx.memory_format, _ = inputs
        ctx.source = (seen_device(source), source.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        device, dtype = ctx.source
        return _copied(gradients[0], device, dtype), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _copied(tangents[0], ctx.device, ctx.dtype, ctx.memory_format)


def _copied(
    source: torch.Tensor,
    device: torch.device,
    dtype: torch.dtype,
    memory_format: Any = None,
    *,
    non_blocking: bool = False,
) -> torch.Tensor:
    outer, this_thread.to_meta = this_thread.to_meta, device.type == "meta"
    try:
        options = {
            "dtype": dtype,
            "device": device,
            "memory_format": memory_format,
            "non_blocking": non_blocking,
        }
        made: torch.Tensor = aten._to_copy.default(source, **options)
        return made
    finally:
        this_thread.to_meta = outer


def move(
    tensor: torch.Tensor,
    device: torch.device | None,
    dtype: torch.dtype | None = None,
    *,
    copy: bool = False,
    memory_format: Any = None,
    non_blocking: bool = False,
    written: torch.device | None = None,
    given: object = None,
) -> torch.Tensor:
    """`Tensor.to` on a virtual machine; `device` is normalized already, `written` is what the program says,
    and `given` the very object that it gives.
    """
    home = seen_device(tensor)
    target = home if device is None else device
    dtype = dtype or tensor.dtype
    if (
        target == home
        and dtype == tensor.dtype
        and not copy
        and (
            memory_format in (None, torch.preserve_format)
            or tensor.is_contiguous(memory_format=memory_format)
        )
    ):
        return tensor
    with taking(given):
        if target != home and tensor.requires_grad and torch.is_grad_enabled():
            apply: Any = _Transfer.apply  # untyped in torch
            moved: torch.Tensor = apply(tensor, written or target, dtype, memory_format, non_blocking)
            return moved
        return _copied(tensor, written or target, dtype, memory_format, non_blocking=non_blocking)


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if this_thread.raw:
        answer: torch.Tensor = _Base.to(self, *args, **kwargs)
        return answer
    copy = kwargs.pop("copy", False)
    other = args[0] if args and isinstance(args[0], Tensor) else kwargs.get("other")
    if isinstance(other, Tensor):
        if len(args) > 2:
            copy = args[2]
        waits_not = args[1] if len(args) > 1 else kwargs.get("non_blocking", False)
        device = _asked_device(other)
        return move(
            self,
            device,
            other.dtype,
            copy=copy,
            memory_format=kwargs.get("memory_format"),
            non_blocking=waits_not,
            given=device,
        )
    state = current_machine()
    positional = list(args)
    if positional and isinstance(positional[0], int) and not isinstance(positional[0], bool):
        positional[0] = state.device(positional[0])
    limit = 2 if positional and isinstance(positional[0], torch.dtype) else 3
    if len(positional) > limit:
        copy = positional.pop()
    if isinstance(kwargs.get("device"), int):
        kwargs["device"] = state.device(kwargs["device"])
    device, dtype, waits_not, memory_format = _parse_to(*positional, **kwargs)
    place = None if device is None else state.device(device)
    return move(
        self,
        place,
        dtype,
        copy=copy,
        memory_format=memory_format,
        non_blocking=waits_not,
        written=device,
        given=kwargs.get("device", positional[0] if positional else None),
    )


def _cuda(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> torch.Tensor:
    target = current_machine().device(device)
    if target.type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    return move(self, target, memory_format=memory_format, non_blocking=non_blocking, given=device)


def _cpu(self: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    return move(self, CPU, memory_format=memory_format)


def _type(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    if dtype is None:
        device = seen_device(self)
        if device.type == "meta":
            return _Base.type(self)
        # C++ has no name for sparse tensors of the meta device, where carriers are for it.
        sparse = self.layout is torch.sparse_coo
        named = plain.empty(0, dtype=self.dtype, device="cpu") if sparse else self
        kind: str = _Base.type(named).rsplit(".", 1)[-1]
        places = ["cuda"] * (device.type == "cuda") + ["sparse"] * sparse
        return ".".join(["torch", *places, kind])
    if isinstance(dtype, torch.dtype):
        return move(self, None, dtype)
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    scalar, on_gpu = type_named(name)
    target = (
        (seen_device(self) if seen_device(self).type == "cuda" else current_machine().device(None))
        if on_gpu
        else CPU
    )
    return move(self, target, scalar)


def _deepcopying(deepcopy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(deepcopy)
    def copied(self: torch.Tensor, memo: dict[int, Any]) -> Any:
        record = None if this_thread.raw or not self.is_quantized else memory_of(self)
        if record is None or not record.virtual or id(self) in memo:
            return deepcopy(self, memo)
        memo[id(self)] = self.clone()
        return memo[id(self)]

    return copied


def _type_as(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return move(self, seen_device(other), other.dtype)


def _copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if not this_thread.raw and isinstance(src, Tensor) and src.requires_grad and torch.is_grad_enabled():
        home = seen_device(self)
        if home != seen_device(src) and home != META:
            src = move(src, home)
    copied: torch.Tensor = _Base.copy_(self, src, non_blocking)
    return copied


def _get_device(self: torch.Tensor) -> int:
    device = seen_device(self)
    return device.index if device.type == "cuda" else -1


def _data_ptr(self: torch.Tensor) -> int:
    # accelerate finds tied weights and safetensors finds shared memory by address: each virtual storage has
    # its own.
    if this_thread.raw:
        return int(raw_data_ptr(self))
    record = memory_of(self)
    if record is None or not record.virtual:
        return int(raw_data_ptr(self))
    if record.device.type == "cpu" and record.shadow is not None:
        return record.shadow.data_ptr() + int(self.storage_offset()) * self.element_size()
    if self.numel() == 0:
        return 0
    return record.address + int(self.storage_offset()) * self.element_size()


def brought(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A refused tensor where it should be, so that the program goes on; one on meta has nothing to move, and
    comes as zeros.
    """
    if seen_device(tensor).type != "meta":
        return move(tensor, device)
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device, requires_grad=tensor.requires_grad)


def host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A real CPU tensor with the tensor's values, or with what is assumed."""
    record = memory_of(tensor)
    if record is None or not record.virtual:
        return tensor
    with as_torch():  # or what is assumed would be a carrier again, when it is large
        if tensor.layout is not torch.strided:
            whole: torch.Tensor = to_value(tensor)
            return whole
        value = value_of(tensor, record)
        return assumed_values(tensor) if value is None else value


def _numpy(self: torch.Tensor, *, force: bool = False) -> Any:
    if this_thread.raw:
        return _Base.numpy(self, force=force)
    if force:
        return _Base.numpy(host_copy(self.detach()).resolve_conj().resolve_neg())
    device = seen_device(self)
    if device.type == "cuda":
        raise TypeError(
            f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first."
        )
    if is_virtual(self) and self.requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    return _Base.numpy(host_copy(self) if is_virtual(self) else self)


def _tolist(self: torch.Tensor) -> Any:
    return _Base.tolist(host_copy(self.detach()) if is_virtual(self) else self)


def _noted(read: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """`read`, and a note where what it reads was computed by nobody."""

    def noted(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        record = None if this_thread.raw else memory_of(self)
        if record is not None and record.uncomputed:
            number = self.dtype.is_floating_point or self.dtype.is_complex
            recorder.read_assumed(sys._getframe(1), number=number)
        return read(self, *args, **kwargs)

    return noted


def _shown(read: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """`_repr`, which shows dots for what has no values at all, and numbers for what was assumed."""
    noted = _noted(read, recorder)

    def shown(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        record = None if this_thread.raw else memory_of(self)
        return (noted if record is not None and record.assumed else read)(self, *args, **kwargs)

    return shown


_original_repr: Any = Tensor.__repr__
_numbers_as_text: Any = torch._tensor_str._tensor_str


def _repr(self: torch.Tensor, *, tensor_contents: Any = None) -> str:
    """torch writes the text, and is given the numbers, or dots for those that nobody knows."""
    if (
        tensor_contents is None
        and not this_thread.raw
        and is_virtual(self)
        and not has_torch_function_unary(self)
        and _is_dense(self)
    ):
        tensor_contents = _contents(self)
    return str(_original_repr(self, tensor_contents=tensor_contents))


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested


def _contents(tensor: torch.Tensor) -> str:
    record = memory_of(tensor)
    if record is None or record.shadow is None:
        return f"..., size={tuple(tensor.shape)}"
    head = "tensor(" if type(tensor) in (Tensor, torch.nn.Parameter) else f"{type(tensor).__name__}("
    with as_torch(), torch.no_grad():
        return str(_numbers_as_text(over(record.shadow, tensor), len(head)))


def _new(self: torch.Tensor, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
    """The old constructor: of a size, of data, or over the memory of a tensor or storage of the same type."""
    home = seen_device(self) if device is None else current_machine().device(device)
    if not is_virtual(self) and home == CPU:
        made: torch.Tensor = _Base.new(self, *args, **kwargs)
        return made
    given = kwargs.pop("size", args)
    first = given[0] if len(given) == 1 else given
    if isinstance(first, Tensor):
        if first.dtype != self.dtype or seen_device(first) != home:
            raise TypeError(f"expected {self.type()} (got {first.type()})")
        return first.detach()
    if self.layout == torch.sparse_coo and first is given and given and isinstance(given[0], Tensor):
        return torch.sparse_coo_tensor(*given)
    if isinstance(first, (torch.UntypedStorage, torch.TypedStorage)):
        return torch.empty(0, dtype=self.dtype, device=home).set_(first)
    if first is given or isinstance(first, (int, torch.Size)):
        return torch.empty(first or (0,), dtype=self.dtype, device=home)
    return torch.tensor(first, dtype=self.dtype, device=home)


def _new_tensor(
    self: torch.Tensor,
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> torch.Tensor:
    target = seen_device(self) if device is None else device
    if isinstance(data, Tensor):
        made = data.detach().to(device=target, dtype=dtype or self.dtype, copy=True)
        return made.requires_grad_(requires_grad)
    return torch.tensor(data, dtype=dtype or self.dtype, device=target, requires_grad=requires_grad)


def _number(name: str, original: Any, recorder: Recorder) -> Callable[[torch.Tensor], Any]:
    """`float(x)` and its siblings.

    `torch.Tensor([x, y])` asks below every mode, where C++ would read a carrier.
    """
    read = _noted(lambda tensor: original(host_copy(tensor)), recorder)

    def number(self: torch.Tensor) -> Any:
        below = torch._C._dispatch_tls_is_dispatch_key_excluded("Python")
        return read(self) if below and is_virtual(self) else original(self)

    return _method(name, number)


def _index(value: Any) -> Any:
    """See Note [Lists as indices].

    Source of the heuristic: python_variable_indexing.cpp, treatSequenceAsTuple.
    """
    if value.__class__ is list and len(value) < _SHORT and any(_makes_tuple(part) for part in value):
        value = tuple(value)
    return tuple([_index_part(part) for part in value]) if isinstance(value, tuple) else _index_part(value)


def _makes_tuple(part: Any) -> bool:
    return (
        part is None
        or part is Ellipsis
        or isinstance(part, (Tensor, slice, list, tuple, range))
        or _is_array(part)
    )


def _is_array(value: Any) -> bool:
    return value.__class__.__module__ == "numpy" and getattr(value, "shape", ()) != ()


def _index_part(value: Any) -> Any:
    if isinstance(value, (list, tuple, range)) or _is_array(value):
        found = torch.as_tensor(list(value) if isinstance(value, (tuple, range)) else value)
        return found.to(torch.long) if found.numel() == 0 else found
    return value


_SHORT = 32
"""Fewer elements than these may make a list stand for a tuple."""


def _getitem(self: torch.Tensor, index: Any) -> Any:
    if not this_thread.raw and raw_is_meta(self) and index.__class__ not in _PLAIN_INDICES:
        index = _index(index)
    return _base_getitem(self, index)


def _setitem(self: torch.Tensor, index: Any, value: Any) -> None:
    if not this_thread.raw and raw_is_meta(self) and index.__class__ not in _PLAIN_INDICES:
        index = _index(index)
    _base_setitem(self, index, value)


_PLAIN_INDICES = (int, slice, Tensor, type(None), type(Ellipsis), bool)
_base_getitem: Any = _Base.__getitem__
_base_setitem: Any = _Base.__setitem__


def _share_memory(self: torch.Tensor) -> torch.Tensor:
    return self if seen_device(self).type == "cuda" else _original_share_memory(self)


def _record_stream(self: torch.Tensor, stream: Any) -> None:
    """Some of torch's code calls this below every mode."""
    if is_virtual(self):
        use_on_stream(self, stream)
    else:
        _base_record_stream(self, stream)


_base_record_stream: Any = _Base.record_stream
_original_share_memory: Any = Tensor.share_memory_
_original_is_shared: Any = Tensor.is_shared


def _is_shared(self: torch.Tensor) -> bool:
    return True if seen_device(self).type == "cuda" else bool(_original_is_shared(self))


def _has_compatible_shallow_copy_type(input: torch.Tensor, from_: torch.Tensor) -> bool:
    """Whether `input.data = from_` may be done.

    `Module.to` then keeps its parameters, and with them ties and optimizers.

    C++ answers below every mode, and for it a carrier is a meta tensor: dense CPU and CUDA memory are
    compatible, meta's is not. Dynamo compares the names of the arguments with its own function's.
    """
    return input.layout == from_.layout and (seen_device(input) == META) == (seen_device(from_) == META)


def _of_shadow(original: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """What C++ knows of a tensor's bytes.

    It shares them lazily where it holds them, which is in the shadow.
    """

    def answer(tensor: torch.Tensor) -> Any:
        record = None if this_thread.raw else memory_of(tensor)
        return original(tensor if record is None or record.shadow is None else over(record.shadow, tensor))

    return answer


_OVERRIDABLE = frozenset(
    "get_device to cuda cpu type type_as copy_ data_ptr numpy tolist new new_tensor record_stream "
    "__getitem__ __setitem__".split()
)
"""Methods that are C++'s, and so ask a subclass first. Those that are Python's in torch ask by themselves."""


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a method of `torch.Tensor`."""
    function.__name__ = name  # a torch function mode knows methods by their names
    return _overridable(function) if name in _OVERRIDABLE else function


def _overridable(method: Any) -> Any:
    """`method`, after the `__torch_function__` of a subclass or of a mode."""

    @functools.wraps(method)
    def asking(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(self) and not this_thread.raw:
            return handle_torch_function(asking, (self,), self, *args, **kwargs)
        return method(self, *args, **kwargs)

    return asking


_storage_raw_device: Any = torch._C.StorageBase.device.__get__  # type: ignore[attr-defined]


def _storage_device(self: torch.UntypedStorage) -> torch.device:
    record = None if this_thread.raw else self._sd  # type: ignore[attr-defined]
    if isinstance(record, Memory):
        return record.device
    found: torch.device = _storage_raw_device(self)
    return found


def _parse_to_on_machine(*args: Any, **kwargs: Any) -> Any:
    """What `Module.to` understands.

    Also integers as devices, and tensors, whose device C++ would see as meta.
    """
    state = current_machine()
    like = args[0] if args and isinstance(args[0], Tensor) else kwargs.get("tensor")
    if isinstance(like, Tensor):
        _, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        return _asked_device(like), dtype, non_blocking, memory_format
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        args = (state.device(args[0]), *args[1:])
    if isinstance(kwargs.get("device"), int):
        kwargs["device"] = state.device(kwargs["device"])
    parsed = _parse_to(*args, **kwargs)
    if parsed[0] is not None:  # an object of its own, which goes on to each parameter
        note_made(parsed[0], taken_from(kwargs.get("device", args[0] if args else None)))
    return parsed


def _recorder() -> Recorder:
    return current_machine().part(Recorder)


def _noting(name: str, read: Callable[..., Any], note: Any = _noted) -> With:
    """The method `read`, with a note where what it reads was computed by nobody."""

    @functools.wraps(read)
    def make(original: Any, recorder: Recorder) -> Callable[..., Any]:
        return _method(name, note(read, recorder))

    return With(_recorder, make)


_PLACE = "C++ answers meta for a tensor on a virtual GPU"
_MOVES = "C++ sees one device for all: it would move nothing, and leave the gradient where it is"
_VALUES = "C++ has no values of a carrier to read"
_MAKES = "C++ would make the tensor on meta"
_SHARED = "memory on a GPU counts as shared, which C++ knows of its own CUDA only"
_INDICES = "C++ makes the index of a list where the tensor is, and on meta without the numbers"
_ANSWERS: dict[str, tuple[Callable[..., Any], str]] = {
    "get_device": (_get_device, _PLACE),
    "to": (_to, _MOVES),
    "cuda": (_cuda, _MOVES),
    "cpu": (_cpu, _MOVES),
    "type": (_type, _MOVES),
    "type_as": (_type_as, _MOVES),
    "copy_": (_copy_, _MOVES),
    "data_ptr": (
        _data_ptr,
        "libraries find tied and shared weights by address, and on meta all have the same",
    ),
    "new": (_new, _MAKES),
    "new_tensor": (_new_tensor, _MAKES),
    "record_stream": (
        _record_stream,
        "some of torch's code calls it below every mode, with our stream",
    ),
    "share_memory_": (_share_memory, _SHARED),
    "is_shared": (_is_shared, _SHARED),
    "__getitem__": (_getitem, _INDICES),
    "__setitem__": (_setitem, _INDICES),
}
_LAZY = tuple(name for name in _ANSWERS if getattr(Tensor, name) in _Uninitialized._allowed_methods)
"""Methods that the parameters of a lazy module have before its first call."""


PATCHES = (
    Patch("torch.Tensor.device", Constant(property(_asked_device)), _PLACE),
    *(
        Patch(f"torch.Tensor.is_{name}", Constant(property(answer)), _PLACE)
        for name, answer in (
            ("cuda", lambda self: seen_device(self).type == "cuda"),
            ("cpu", lambda self: seen_device(self).type == "cpu"),
            ("meta", lambda self: seen_device(self).type == "meta"),
        )
    ),
    *(
        Patch(f"torch.Tensor.{name}", Constant(_method(name, function)), why)
        for name, (function, why) in _ANSWERS.items()
    ),
    Patch(
        "torch.Tensor.__deepcopy__",
        _deepcopying,
        "torch makes a quantized tensor anew over a storage, which for C++ is one of the host",
    ),
    Patch("torch.Tensor.numpy", _noting("numpy", _numpy), _VALUES),
    Patch("torch.Tensor.tolist", _noting("tolist", _tolist), _VALUES),
    Patch("torch.Tensor.__repr__", _noting("__repr__", _repr, _shown), _VALUES),
    *(
        Patch(
            f"torch.Tensor.{name}",
            With(_recorder, functools.partial(_number, name)),
            "`torch.Tensor([x, y])` asks for it below every mode, where C++ would read a carrier",
        )
        for name in ("__float__", "__int__", "__index__", "__complex__")
    ),
    Patch(
        "torch.nn.parameter.UninitializedTensorMixin._allowed_methods",
        lambda original: [*original, *(getattr(Tensor, name) for name in _LAZY)],
        "the parameters of lazy modules have the methods in this list alone, and it holds torch's own",
    ),
    Patch(
        "torch._C._nn._parse_to",
        Constant(_parse_to_on_machine),
        "`Module.to` takes integers for GPUs, and tensors, whose device C++ sees as meta",
    ),
    Patch(
        "torch._has_compatible_shallow_copy_type",
        Constant(_has_compatible_shallow_copy_type),
        "`Module.to` would replace its parameters, and with them ties and what optimizers hold",
    ),
    Patch("torch.get_device", Constant(_get_device), _PLACE),
    *(
        Patch(f"torch._C.{name}", _of_shadow, "C++ would look for a carrier's bytes, which lie elsewhere")
        for name in ("_is_cow_tensor", "_data_address")
    ),
    Patch("torch.UntypedStorage._sd", Constant(None), "each storage is asked who owns its memory"),
    Patch("torch.UntypedStorage.device", Constant(property(_storage_device)), _PLACE),
)

__all__ = ["PATCHES", "host_copy", "move", "seen_device"]
