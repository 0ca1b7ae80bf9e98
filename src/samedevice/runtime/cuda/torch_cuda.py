"""`torch.cuda` shows the GPUs of the machine that is entered now.

Must guarantee: every public name of `torch.cuda` is in exactly one of the three sets below; a test walks
`torch.cuda.__all__`, so a name that a new torch adds is noticed. torch's own Python stays wherever it works
on the functions that `driver` answers.

Note [The remembered initialization]
A factory of torch asks `torch.cuda._lazy_init` before the first tensor on CUDA, and C++ remembers for the
whole process that it was asked. Inside a machine that is the machine's. Without a reset a torch with CUDA
would then make its first real tensor without its own initialization, and without the seeds that wait for it;
a torch without CUDA would no longer say that it is one.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.cuda.nvtx
import torch.profiler
from torch._C._autograd import _supported_activities as _host_activities
from torch._utils import _LazySeedTracker

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.cuda.allocator import MemPool, use_mem_pool
from samedevice.runtime.cuda.build import CUDA_VERSION, CUDNN_VERSION
from samedevice.runtime.cuda.cudart import CUDART
from samedevice.runtime.cuda.driver import EMULATED, exchange_device, is_in_bad_fork, refuse
from samedevice.runtime.cuda.driver import UNSUPPORTED as UNSUPPORTED_C
from samedevice.runtime.cuda.legacy_tensors import PATCHES as LEGACY
from samedevice.runtime.cuda.properties import DeviceProperties, device_properties
from samedevice.runtime.cuda.streams import _CUDA_DEVICE_TYPE
from samedevice.runtime.cuda.streams import PATCHES as STREAMS
from samedevice.runtime.patching import SOME, Constant, Patch
from samedevice.runtime.state import current_machine

EMULATED_NAMES = frozenset(
    """
    BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
    ShortTensor
    CUDAGraph Event ExternalStream MemPool Stream StreamContext
    caching_allocator_alloc caching_allocator_delete
    caching_allocator_disabled caching_allocator_enable can_device_access_peer check_error clock_rate cudart
    current_device
    current_stream default_generators default_stream device device_count device_memory_used device_of
    empty_cache
    get_allocator_backend get_arch_list get_device_capability get_device_name get_device_properties
    get_gencode_flags
    graph graph_pool_handle get_per_process_memory_fraction get_rng_state get_rng_state_all
    get_stream_from_external get_sync_debug_mode
    has_magma
    host_memory_stats host_memory_stats_as_nested_dict init initial_seed ipc_collect is_available
    is_bf16_supported
    is_current_stream_capturing is_initialized is_tf32_supported list_gpu_processes make_graphed_callables
    manual_seed manual_seed_all
    max_memory_allocated max_memory_cached max_memory_reserved mem_get_info memory_allocated memory_cached
    memory_reserved memory_snapshot
    memory_stats memory_stats_as_nested_dict memory_summary memory_usage nvtx power_draw profiler random
    reset_accumulated_host_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated
    reset_max_memory_cached
    reset_peak_host_memory_stats reset_peak_memory_stats seed seed_all set_device
    set_per_process_memory_fraction
    set_rng_state set_rng_state_all set_stream set_sync_debug_mode stream streams synchronize temperature
    use_mem_pool utilization
    BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
    DoubleStorage FloatStorage
    HalfStorage IntStorage LongStorage ShortStorage
    """.split()
)
"""Answered by the machine, most of them by torch's own code on top of `driver`."""

SAFE_NAMES = frozenset(
    "CudaError DeferredCudaCallError amp cudaStatus export_dot export_graph_data graph_annotations graphs"
    " has_half memory nccl sparse".split()
)
"""Right as they are: constants, exceptions, and modules whose members are classified by their own names."""

UNSUPPORTED_NAMES = frozenset(
    """
    CUDAPluggableAllocator GreenContext MemPoolContext
    change_current_allocator current_blas_handle
    current_solver_handle
    jiterator tunable
    """.split()
)
"""Refused with `UnsupportedFeatureError` when they are called or made."""

_REQUIRES_INIT = "_ZN5torch5utils24set_requires_device_initEN3c1010DeviceTypeEb"
"""`torch::utils::set_requires_device_init(c10::DeviceType, bool)` of torch/csrc/utils/device_lazy_init.h, as
Linux names it.
"""

_REFUSED_FUNCTIONS = ("change_current_allocator",)
_REFUSED_CLASSES = ("MemPoolContext", "CUDAPluggableAllocator", "GreenContext")


def _is_initialized() -> bool:
    return current_machine().initialized and not is_in_bad_fork()


def _device_count() -> int:
    return current_machine().device_count()


def _lazy_init() -> None:
    """Fix the visible devices, then run what waited for that."""
    current_machine().initialize()
    waiting = torch.cuda._queued_calls
    while waiting:
        call, _ = waiting.pop(0)
        call()


def _get_device_properties(index: int) -> Any:
    return device_properties(current_machine(), index)


def _get_nvml_device_index(device: Any) -> int:
    state = current_machine()
    return state.physical_index(state.index(device))


def _refusing(name: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        refused = refuse(f"torch.cuda.{name}")
        # Dynamo reads `__wrapped__` of what torch decorates.
        return refused if original is None else functools.wraps(original)(refused)

    return make


def _refused_class(name: str) -> type:
    def refuse_new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedFeatureError(f"torch.cuda.{name} is not supported on a virtual machine.")

    return type(
        name, (), {"__new__": refuse_new, "create": classmethod(refuse_new), "__module__": "torch.cuda"}
    )


class _Nvtx:
    """Ranges for a profiler that is not there; depth and handles as NVTX counts them."""

    def __init__(self) -> None:
        self._depth = 0

    def rangePushA(self, message: str) -> int:  # NVTX's own name
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:  # NVTX's own name
        self._depth -= 1
        return self._depth

    def rangeStartA(self, message: str) -> int:  # NVTX's own name
        return 1

    def deviceRangeStart(self, message: str, stream: int) -> object:  # NVTX's own name
        return object()

    def _nothing(self, *args: Any) -> None:
        """No profiler listens."""

    rangeEnd = markA = deviceRangeEnd = _nothing  # NVTX's own names


def forget_initialization() -> None:
    """Let torch's C++ ask `torch.cuda._lazy_init` again; see Note [The remembered initialization]."""
    library = Path(str(torch.__file__)).parent / "lib" / "libtorch_python.so"
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(str(library))[_REQUIRES_INIT](ctypes.c_int8(_CUDA_DEVICE_TYPE), ctypes.c_bool(True))


def _supported_activities() -> set[Any]:
    return {*_host_activities(), torch._C._profiler.ProfilerActivity.CUDA}


def _enter_nvtx(self: Any) -> Any:
    if not self.enabled:
        return None
    if self.entered:
        raise RuntimeError("NVTX annotation context manager is not reentrant")
    self.entered = True
    return self


def _cudnn() -> ModuleType:
    # An object with properties stands in sys.modules; its functions read the module behind it.
    module = sys.modules["torch.backends.cudnn"]
    return getattr(module, "m", module)


_REFUSED = "what a virtual machine has not is refused by name"
_BUILT = "libraries read it to learn how torch was built"
_ASKED = "`torch.cuda` answers for the machine"
_POOLS = "C++ keeps the pools of the real allocator; a build without CUDA has none"
_PROFILED = "a profile of CUDA activity would record real events"
PATCHES = (
    *(
        Patch(
            f"torch._C.{name}",
            Constant(function),
            "the functions below `torch.cuda`, which ask the driver; a build without CUDA lacks them",
        )
        for name, function in EMULATED.items()
    ),
    *(
        Patch(f"torch._C.{name}", Constant(refuse(feature)), _REFUSED)
        for name, feature in UNSUPPORTED_C.items()
    ),
    Patch("torch.version.cuda", Constant(CUDA_VERSION), _BUILT),
    Patch("torch._C._has_cuda", Constant(True), _BUILT),
    Patch("torch._C._has_cudnn", Constant(True), _BUILT),
    Patch("torch._C._has_magma", Constant(True), _BUILT),
    Patch("torch.cuda.has_magma", Constant(True), _BUILT),
    Patch("torch._C._is_flash_attention_available", Constant(lambda: True), _BUILT),
    Patch("torch.backends.cudnn._init", Constant(lambda: True), _BUILT, owner=_cudnn),
    Patch("torch.backends.cudnn.__cudnn_version", Constant(CUDNN_VERSION), _BUILT, owner=_cudnn),
    Patch(
        "torch._use_cudnn_rnn_flatten_weight",
        Constant(lambda: False),
        "cuDNN would repack the weights of an RNN by a kernel that a build without CUDA lacks",
    ),
    *(
        Patch(f"{owner}._supported_activities", Constant(_supported_activities), _PROFILED, since=SOME)
        for owner in ("torch.autograd", "torch.autograd.profiler", "torch.profiler")
    ),
    # C++ refuses it in a build without CUDA; with CUDA it tells ranges to a profiler that is not there.
    Patch("torch.autograd.profiler.emit_nvtx.__enter__", Constant(_enter_nvtx), _PROFILED),
    Patch(
        "torch.autograd.profiler.emit_nvtx.__exit__",
        Constant(lambda self, *exc_info: False if self.enabled else None),
        _PROFILED,
    ),
    *(
        Patch(f"torch.cuda.{name}", make, why, copies="torch.cuda")
        for name, make, why in (
            # Read by `torch.utils.checkpoint` alone, to decide whether random states are kept: keeping them
            # always does no harm, while the engine initializes the machine without passing here.
            ("_initialized", Constant(True), "`torch.utils.checkpoint` keeps the random states of GPUs"),
            ("_cached_device_count", Constant(None), "the number of GPUs of another machine"),
            ("_queued_calls", lambda original: [], "calls that wait for another CUDA"),
            (
                "_lazy_seed_tracker",
                lambda original: _LazySeedTracker(),  # type: ignore[no-untyped-call]  # torch leaves it untyped
                "seeds that wait for another CUDA",
            ),
            ("_cudart", Constant(CUDART), "there is no CUDA runtime to load"),
            ("_is_in_bad_fork", Constant(is_in_bad_fork), _ASKED),
            ("is_initialized", Constant(_is_initialized), _ASKED),
            ("device_count", Constant(_device_count), _ASKED),
            ("_lazy_init", Constant(_lazy_init), _ASKED),
            ("_exchange_device", Constant(exchange_device), _ASKED),
            ("_maybe_exchange_device", Constant(exchange_device), _ASKED),
            ("_get_device_properties", Constant(_get_device_properties), _ASKED),
            ("_CudaDeviceProperties", Constant(DeviceProperties), _ASKED),
            # Negative: torch then asks the runtime, which is `driver`.
            ("_device_count_nvml", Constant(lambda: -1), "NVML would be asked for real GPUs"),
            ("_get_nvml_device_index", Constant(_get_nvml_device_index), _ASKED),
        )
    ),
    *STREAMS,
    *(
        Patch(f"torch.cuda.{name}", Constant(own), _POOLS, since=SOME, copies="torch.cuda")
        for name, own in (("MemPool", MemPool), ("use_mem_pool", use_mem_pool))
    ),
    Patch("torch.cuda.nvtx._nvtx", lambda original: _Nvtx(), "ranges are for a profiler that is not there"),
    *LEGACY,
    *(
        Patch(
            f"torch.cuda.{name}",
            made(name),
            _REFUSED,
            since=SOME,
            copies="torch.cuda",
        )
        for names, made in (
            (_REFUSED_FUNCTIONS, _refusing),
            (_REFUSED_CLASSES, lambda name: Constant(_refused_class(name))),
        )
        for name in names
    ),
)
