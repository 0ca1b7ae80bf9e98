"""CUDA's automatic mixed precision on virtual tensors.

The same operators get the same casts, and autograd sees them.

Must guarantee: outside of CUDA autocast regions nothing costs anything; CPU autocast stays torch's own.

Note [A borrowed autocast key]
Virtual tensors are meta tensors for C++, and those have no autocast key. torch keeps dispatch keys for back
ends that no CPU build has; while CUDA autocast is enabled in a thread, the key of the IPU is included for
that thread, and Python kernels registered for it apply CUDA's policy. So casts happen where CUDA's happen:
above autograd, once per operator, for calls from Python and from composite C++ code alike. Inside a kernel
the key is excluded, as CUDA's own kernels do.

The key falls through for all other operators; that fallback stays registered until the process ends, because
a thread may outlive the machine.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.library import Library, fallthrough_kernel

from samedevice.runtime.kernels.autocast_table import APPENDED, BANNED_TEXT, POLICIES, RECURRENT, Policy
from samedevice.runtime.kernels.registrations import Registration
from samedevice.runtime.patching import Change, Patch
from samedevice.runtime.state import Memory, memory_of, this_thread

Tensor = torch.Tensor
_KEY = "AutocastIPU"
_KEYS = torch._C.DispatchKeySet(torch._C._parse_dispatch_key(_KEY))  # type: ignore[arg-type]  # it exists
_set_included = torch._C._dispatch_tls_set_dispatch_key_included
_set_excluded = torch._C._dispatch_tls_set_dispatch_key_excluded
_aten = torch.ops.aten


class _Thread(threading.local):
    enabled = False
    """What the borrowed key was set to: inside a dispatch mode torch's own flag reads False."""
    inside = False
    """True while a kernel of this module runs: the operators below it are not cast again."""


_thread = _Thread()


def _eligible(value: Any) -> bool:
    """Whether autocast may cast it: a floating point tensor on a GPU, but no double."""
    if not isinstance(value, Tensor) or not value.dtype.is_floating_point or value.dtype == torch.float64:
        return False
    return _on_gpu(value)


def _on_gpu(tensor: torch.Tensor) -> bool:
    record = memory_of(tensor)
    return record is not None and record.device.type == "cuda"


# -- casts


class CastCache:
    """Lower precision copies of float32 parameters, for the length of an autocast region.

    All threads share it.
    """

    def __init__(self) -> None:
        self._casts: dict[int, tuple[weakref.ref[torch.Tensor], Memory | None, torch.Tensor]] = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget every copy."""
        with self._lock:
            self._casts.clear()

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A copy of a parameter in `dtype`: the one made before, when there is one."""
        with self._lock:
            found = self._casts.get(id(tensor))
            if (
                found is not None
                and found[0]() is tensor
                and found[1] is memory_of(tensor)
                and found[2].dtype == dtype
            ):
                return found[2]
        copied = _copy(tensor, dtype)
        with self._lock:
            self._casts[id(tensor)] = (weakref.ref(tensor), memory_of(tensor), copied)
        return copied


def _copy(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    made: torch.Tensor = _aten._to_copy.default(tensor, dtype=dtype)
    return made


def _cast(value: Any, dtype: torch.dtype, cache: CastCache) -> Any:
    if isinstance(value, Tensor):
        if value.dtype == dtype or not _eligible(value):
            return value
        if (
            value.dtype == torch.float32
            and value.requires_grad
            and not value._is_view()
            and value.is_leaf
            and dtype == torch.get_autocast_dtype("cuda")
            and torch.is_autocast_cache_enabled()
        ):
            return cache.cast(value, dtype)
        return _copy(value, dtype)
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return [_cast(part, dtype, cache) for part in value]
    return value


def _widest(values: Any, lower: torch.dtype) -> torch.dtype:
    """`at::autocast::promote_type`, its refusals included."""
    widest = lower
    for value in values:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if not _eligible(tensor):
                continue
            if torch.float32 in (widest, tensor.dtype):
                widest = torch.float32
            elif tensor.dtype != lower:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return widest


# -- kernels


def _kernel(op: Any, policy: Policy, cache: CastCache) -> Callable[..., Any]:
    apply = _POLICIES[policy]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        outer, _thread.inside = _thread.inside, True
        try:
            with torch._C._ExcludeDispatchKeyGuard(_KEYS):
                if not any(isinstance(part, Tensor) and _on_gpu(part) for part in _flat(args)):
                    return op(*args, **kwargs)
                return apply(op, args, kwargs, cache)
        finally:
            _thread.inside = outer

    return kernel


def _flat(args: tuple[Any, ...]) -> Iterator[Any]:
    for value in args:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _run_cast(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype, cache: CastCache
) -> Any:
    named = {name: _cast(value, dtype, cache) for name, value in kwargs.items()}
    return op(*[_cast(value, dtype, cache) for value in args], **named)


def _lower(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], cache: CastCache) -> Any:
    return _run_cast(op, args, kwargs, torch.get_autocast_dtype("cuda"), cache)


def _fp32(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], cache: CastCache) -> Any:
    return _run_cast(op, args, kwargs, torch.float32, cache)


def _fp32_out(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], cache: CastCache) -> Any:
    if not _eligible(args[0]):
        return op(*args, **kwargs)
    position = _dtype_position(op)
    if position < len(args):
        if args[position] is None:
            args = (*args[:position], torch.float32, *args[position + 1 :])
    elif kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": torch.float32}
    return op(*args, **kwargs)


@functools.cache
def _dtype_position(op: Any) -> int:
    return [argument.name for argument in op._schema.arguments].index("dtype")


def _fp32_append(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], cache: CastCache) -> Any:
    typed = _overload(APPENDED[str(op).removeprefix("aten.")])
    given = {argument.name: argument.default_value for argument in op._schema.arguments}
    given |= dict(zip(given, args, strict=False)) | kwargs
    dtype = torch.float32 if _eligible(args[0]) else args[0].dtype
    return typed(*given.values(), dtype=dtype)


def _promote(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], cache: CastCache) -> Any:
    dtype = _widest((*args, *kwargs.values()), torch.get_autocast_dtype("cuda"))
    return _run_cast(op, args, kwargs, dtype, cache)


def _banned(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], cache: CastCache) -> Any:
    raise RuntimeError(BANNED_TEXT)


_POLICIES: dict[Policy, Callable[[Any, tuple[Any, ...], dict[str, Any], CastCache], Any]] = {
    Policy.LOWER: _lower,
    Policy.FP32: _fp32,
    Policy.FP32_OUT: _fp32_out,
    Policy.FP32_APPEND: _fp32_append,
    Policy.PROMOTE: _promote,
    Policy.BANNED: _banned,
}


def _overload(name: str) -> Any:
    """The operator of a table entry, or None where this torch has none such."""
    packet, _, overload = name.partition(".")
    found = getattr(_aten, packet, None)
    return None if found is None else getattr(found, overload or "default", None)


def _has_policy(op: Any) -> bool:
    """Whether this torch casts for the operator; older releases do for fewer."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "AutocastCUDA"))


# -- registration


def _fill(library: Library) -> None:
    for policy, names in (*POLICIES.items(), (Policy.LOWER, RECURRENT)):
        for name in names:
            op = _overload(name)
            if op is not None and (names is RECURRENT or _has_policy(op)):
                library.impl(op, _kernel(op, policy, _cache), _KEY)  # type: ignore[no-untyped-call]  # torch's own


def _fall_through(library: Library) -> None:
    library.fallback(fallthrough_kernel, _KEY)  # type: ignore[no-untyped-call]  # torch's own


_cache = CastCache()
_kernels = Registration(_fill, at_once=False)
_others = Registration(_fall_through, "_")
"""Never left: a thread may outlive the machine."""


def _follow() -> None:
    """Bring the borrowed key in line with torch's own flag of this thread."""
    enabled = torch.is_autocast_enabled("cuda")
    if enabled:
        _others.enter()
        _kernels.make()  # the first autocast region of a process does
    _switch(enabled)


def _switch(enabled: bool) -> None:
    _thread.enabled = enabled
    _set_included(_KEY, enabled)
    _set_excluded(_KEY, not enabled)


@contextmanager
def _again() -> Iterator[None]:
    """Autocast inside a dispatch mode, where torch excludes all keys above."""
    _set_excluded(_KEY, False)
    try:
        yield
    finally:
        _set_excluded(_KEY, True)


# -- rows


def _enter() -> None:
    _kernels.enter()
    _follow()


def _leave() -> None:
    _cache.clear()
    if not _kernels.leave():
        _switch(False)


def _set_enabled(original: Callable[..., None]) -> Callable[..., None]:
    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        _follow()

    return set_autocast_enabled


def _clear(original: Callable[[], None]) -> Callable[[], None]:
    def clear_autocast_cache() -> None:
        original()
        _cache.clear()

    return clear_autocast_cache


def _decompose(original: Callable[..., Any]) -> Callable[..., Any]:
    def decompose_with_autocast(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Under inference mode composite operators reach the engine whole.
        if this_thread.raw or _thread.inside or not _thread.enabled:
            return original(self, *args, **kwargs)
        with _again():
            return original(self, *args, **kwargs)

    return decompose_with_autocast


PATCHES: tuple[Patch | Change, ...] = (
    *(
        Patch(f"{owner}.{name}", make, why)
        for name, make, why in (
            (
                "set_autocast_enabled",
                _set_enabled,
                "the key that stands for CUDA's autocast would not follow torch's own flag",
            ),
            ("clear_autocast_cache", _clear, "C++ does not know the casts that the machine keeps"),
        )
        for owner in ("torch", "torch._C")
    ),
    Patch(
        "torch._ops.OpOverload.decompose",
        _decompose,
        "the parts of a composite operator that is taken apart inside a mode would not be cast",
    ),
    Change(
        "dispatcher[AutocastIPU]",
        _enter,
        _leave,
        "CUDA's casts, from the first autocast region on",
        "for C++ virtual tensors have no autocast",
    ),
)
