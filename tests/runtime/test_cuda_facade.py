"""`torch.cuda` inside a virtual machine: devices, memory, build, and the table of its public names."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
import subprocess
import sys
import threading

import pytest
import torch
import torch.cuda.profiler

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.cuda.torch_cuda import EMULATED_NAMES, SAFE_NAMES, UNSUPPORTED_NAMES
from samedevice.torch_versions.adapter import TORCH

TABLES = (EMULATED_NAMES, SAFE_NAMES, UNSUPPORTED_NAMES)


def enter(spec="2xA100-80G"):
    return VirtualMachine(parse_machine(spec), on_mismatch="raise")


# -- the table


@pytest.mark.parametrize("name", torch.cuda.__all__)
def test_every_public_name_is_classified_once(name):
    assert sum(name in table for table in TABLES) == 1, f"classify torch.cuda.{name} in _cuda.py"


# How each unsupported name is used.
USES = {
    "CUDAPluggableAllocator": lambda thing: thing("a.so", "alloc", "free"),
    "GreenContext": lambda thing: thing.create(num_sms=8),
    "change_current_allocator": lambda thing: thing(None),
    "jiterator": lambda thing: thing._create_jit_fn("template <typename T> T f(T x) { return x; }")(
        torch.ones(1, device="cuda")
    ),
    "tunable": lambda thing: thing.enable(),
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("name", sorted(UNSUPPORTED_NAMES & set(torch.cuda.__all__)))
def test_unsupported_names_say_so(name):
    with enter():
        thing = getattr(torch.cuda, name)
        with pytest.raises(UnsupportedFeatureError, match=name):
            USES.get(name, lambda thing: thing())(thing)


NEED_ARGUMENTS = {
    "caching_allocator_alloc": (1024,),
    "caching_allocator_delete": (0,),
    "can_device_access_peer": (0, 1),
    "check_error": (0,),
    "device": (1,),
    "device_of": (torch.ones(1),),
    "ExternalStream": (0,),
    "get_stream_from_external": (0,),
    "graph": (None,),
    "make_graphed_callables": ((), ()),
    "set_device": (1,),
    "set_per_process_memory_fraction": (0.5,),
    "set_stream": (None,),
    "set_sync_debug_mode": ("warn",),
    "StreamContext": (None,),
    "stream": (None,),
    "manual_seed": (1,),
    "manual_seed_all": (1,),
}
NO_SENSOR = {"clock_rate", "power_draw", "temperature"}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", sorted(EMULATED_NAMES & set(torch.cuda.__all__)))
def test_emulated_names_can_be_called(name):
    with enter():
        thing = getattr(torch.cuda, name)
        if inspect.ismodule(thing) or not callable(thing):
            return
        if name in NO_SENSOR:
            import pynvml

            with pytest.raises(pynvml.NVMLError_NotSupported):
                thing()
        elif name == "set_rng_state":
            thing(torch.cuda.get_rng_state())
        elif name == "set_rng_state_all":
            thing(torch.cuda.get_rng_state_all())
        elif name == "use_mem_pool":
            with thing(torch.cuda.MemPool()):
                pass
        else:
            thing(*NEED_ARGUMENTS.get(name, ()))


# -- entering and leaving


def snapshot():
    watched = [
        module
        for path, module in sys.modules.items()
        if path.startswith(("torch.cuda", "torch.accelerator", "torch.nn.parallel"))
    ]
    watched += [torch, torch._C, torch.version, torch.profiler, torch.autograd, torch.autograd.profiler]
    return {(module.__name__, name): id(value) for module in watched for name, value in vars(module).items()}


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="this torch has CUDA")
def test_leaving_lets_torch_initialize_the_real_cuda():
    with enter():
        torch.ones(1, device="cuda")
    with pytest.raises(AssertionError, match="not compiled with CUDA enabled"):
        torch.ones(1, device="cuda")


def test_leaving_restores_every_name():
    before = snapshot()
    nvml = sys.modules.get("pynvml")
    with enter():
        assert torch.cuda.is_available()
        assert sys.modules["pynvml"] is not nvml
    assert snapshot() == before
    assert sys.modules.get("pynvml") is nvml


def test_names_imported_before_answer_the_machine_too():
    from torch.cuda import device_count, get_device_name, is_available, mem_get_info, memory_allocated

    outside = is_available(), device_count()
    with enter("3x24GB"):
        assert is_available()
        assert device_count() == 3
        assert get_device_name(2) == torch.cuda.get_device_name(2)
        x = torch.ones(1024, device="cuda")
        assert memory_allocated() == x.nbytes
        assert mem_get_info()[1] == torch.cuda.get_device_properties(0).total_memory
    assert (is_available(), device_count()) == outside


def test_machines_nest():
    with enter("4x24GB"):
        torch.cuda.set_device(3)
        with enter("1x16GB"):
            assert torch.cuda.device_count() == 1
            assert torch.cuda.current_device() == 0
        assert torch.cuda.device_count() == 4
        assert torch.cuda.current_device() == 3


def test_submodules_agree():
    with enter():
        for name in torch.cuda.random.__all__:
            assert getattr(torch.cuda, name) is getattr(torch.cuda.random, name)
        assert torch.cuda.Stream is torch.cuda.streams.Stream
        assert torch.cuda.memory.is_initialized is torch.cuda.is_initialized


def test_patches_are_listed():
    with enter() as machine:
        for name in (
            "torch._C._cuda_getDevice",
            "torch.cuda.default_generators",
            "torch.Generator",
            "torch.version.cuda",
            "[pynvml]",
        ):
            assert name in machine.patched


# -- devices


def test_initialization_is_lazy():
    with enter():
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 2
        torch.manual_seed(0)
        assert not torch.cuda.is_initialized()
        assert torch.cuda.memory_stats() == {}
        torch.ones(1, device="cuda")
        assert torch.cuda.is_initialized()


def test_lazy_calls_wait():
    calls = []
    with enter():
        torch.cuda._lazy_call(lambda: calls.append(1))
        assert calls == []
        torch.cuda.init()
        assert calls == [1]
        torch.cuda._lazy_call(lambda: calls.append(2))
        assert calls == [1, 2]


def test_visible_devices_choose_and_reorder(monkeypatch):
    with enter("1xA100-80G+1xH100-80G+1xT4"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
        assert torch.cuda.device_count() == 2
        assert "T4" in torch.cuda.get_device_name(0)
        assert "A100" in torch.cuda.get_device_name(1)
        # Initialized now: the choice stands.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        assert torch.cuda.device_count() == 2


def test_no_visible_device(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with enter():
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
        torch.cuda.manual_seed_all(1)
        with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
            torch.cuda.current_device()


def test_device_contexts_nest_and_survive_exceptions():
    with enter("4x24GB"):
        with torch.cuda.device(1):
            with torch.cuda.device("cuda:2"):
                assert torch.ones(1, device="cuda").device.index == 2
                assert torch.ones(1).cuda().device.index == 2
            with pytest.raises(ZeroDivisionError), torch.cuda.device(torch.device("cuda", 3)):
                1 / 0  # noqa: B018  # the exception is the point
            assert torch.cuda.current_device() == 1
            with torch.cuda.device(None), torch.cuda.device(-1):
                assert torch.cuda.current_device() == 1
        assert torch.cuda.current_device() == 0
        with torch.cuda.device_of(torch.ones(1, device="cuda:3")):
            assert torch.cuda.current_device() == 3
        with torch.cuda.device_of(torch.ones(1)):
            assert torch.cuda.current_device() == 0
        with torch.cuda._DeviceGuard(2):
            assert torch.cuda.current_device() == 2


def test_the_current_device_belongs_to_the_thread():
    seen = []
    with enter():
        torch.cuda.set_device(1)
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_device()))
        thread.start()
        thread.join()
        assert seen == [0]
        assert torch.cuda.current_device() == 1


def test_a_device_that_is_not_there():
    with enter():
        with pytest.raises(TORCH.accelerator_error, match="invalid device ordinal"):
            torch.cuda.set_device(2)
        with pytest.raises(AssertionError, match="Invalid device id"):
            torch.cuda.get_device_properties(2)
        with pytest.raises(ValueError, match="Expected a cuda device"):
            torch.cuda.set_device("cpu")


def test_properties_print_as_torch_prints_them():
    with enter():
        properties = torch.cuda.get_device_properties("cuda:1")
        assert repr(properties) == (
            "_CudaDeviceProperties(name='NVIDIA A100-SXM4-80GB', major=8, minor=0, "
            f"total_memory={properties.total_memory >> 20}MB, multi_processor_count=108, "
            "uuid=5a3ede1c-0000-4000-8000-000000000001, pci_bus_id=17, pci_device_id=0, pci_domain_id=0, "
            "L2_cache_size=40MB)"
        )
        assert properties.max_threads_per_multi_processor == 2048
        assert properties.shared_memory_per_block_optin == 166912
        assert properties.regs_per_multiprocessor == 65536
        assert properties.warp_size == 32
        assert isinstance(properties, torch.cuda._CudaDeviceProperties)
        assert not hasattr(properties, "gcnArchName")
        assert pickle.loads(pickle.dumps(properties)) == copy.deepcopy(properties) == properties


@pytest.mark.parametrize(
    ("spec", "bf16", "tf32"),
    [
        ("1xT4", False, False),
        ("1xA100-80G", True, True),
        ("1xH100-80G", True, True),
        ("1xV100-32G", False, False),
    ],
)
def test_what_the_architecture_supports(spec, bf16, tf32):
    with enter(spec):
        assert torch.cuda.is_bf16_supported(including_emulation=False) is bf16
        assert torch.cuda.is_bf16_supported()
        if hasattr(torch.cuda, "is_tf32_supported"):  # since torch 2.7
            assert torch.cuda.is_tf32_supported() is tf32
        major, minor = torch.cuda.get_device_capability()
        assert f"sm_{major}{minor}" in torch.cuda.get_arch_list()
        assert f"code=sm_{major}{minor}" in torch.cuda.get_gencode_flags()


@pytest.mark.parametrize(("spec", "peers"), [("2xA100-80G", True), ("2xRTX4090", False), ("2xT4", True)])
def test_peer_access(spec, peers):
    with enter(spec):
        assert torch.cuda.can_device_access_peer(0, 1) is peers
        assert torch.cuda.can_device_access_peer(0, 0) is False


def test_the_build():
    built = torch.version.cuda
    with enter():
        assert torch.version.cuda == (built or "12.8")
        assert torch.backends.cuda.is_built()
        assert torch.backends.cuda.is_flash_attention_available()
        assert torch.backends.cudnn.is_available()
        assert torch.backends.cudnn.version() == 91002 or built
        assert torch.cuda.cudart().cudaGetErrorString(0) == "no error"
        with pytest.raises(UnsupportedFeatureError, match="cudaMalloc"):
            torch.cuda.cudart().cudaMalloc()
        torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStart())
        with pytest.raises(torch.cuda.CudaError, match=r"out of memory \(2\)"):
            torch.cuda.check_error(2)
    assert torch.version.cuda == built


def test_memory_of_the_host_is_pinned_where_it_lies():
    with enter():
        cudart, held = torch.cuda.cudart(), torch.ones(20)
        there, nbytes = held.data_ptr(), held.numel() * held.element_size()
        assert cudart.cudaHostRegister(there, nbytes, 0) == cudart.cudaError.success
        assert held.is_pinned()
        assert held[3:].is_pinned()
        assert not torch.ones(20).is_pinned()
        assert cudart.cudaHostRegister(there + 4, 4, 0) == 712
        assert cudart.cudaHostUnregister(there) == 0
        assert not held.is_pinned()
        assert cudart.cudaGetErrorString(cudart.cudaHostUnregister(there)).startswith(
            "pointer does not correspond"
        )


def test_observers_hear_of_what_does_not_fit():
    heard = []
    with enter():
        torch._C._cuda_attach_out_of_memory_observer(lambda *told: heard.append(told))
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 1024"):
            torch.empty(1 << 40, dtype=torch.int8, device="cuda")
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate more than 1EB memory"):
            torch.empty(1 << 60, dtype=torch.int8, device="cuda")
    assert [told[:2] for told in heard] == [(0, 1 << 40), (0, 1 << 60)]


def test_a_copy_to_the_host_that_does_not_wait_is_pinned():
    with enter():
        held = torch.ones(3, device="cuda")
        assert held.to("cpu", non_blocking=True).is_pinned()
        assert not held.to("cpu").is_pinned()
        assert not held.to("cuda:1", non_blocking=True).cpu().is_pinned()


def test_ranges_of_autograd_go_nowhere():
    with enter():
        with torch.autograd.profiler.emit_nvtx(record_shapes=True) as ranges:
            assert torch.ones(2, device="cuda").sum().item() == 2
        with pytest.raises(RuntimeError, match="not reentrant"):
            ranges.__enter__()


def test_data_of_a_tensor_cannot_be_deleted():
    with enter():
        x = torch.ones(2, device="cuda")
        with pytest.raises(RuntimeError, match="Deleting tensor data"):
            del x.data
        with pytest.raises(TypeError):
            x.data = None


def test_a_build_with_cuda_stays_what_it_is():
    script = """
import torch
torch.version.cuda, torch.version.git_version = "13.2", "f00"
import samedevice
with samedevice.machine("2x24GB"):
    print(torch.version.cuda, torch.version.git_version, torch._C._cuda_getCompiledVersion(), torch.backends.cuda.is_built())
print(torch.version.cuda)
"""  # noqa: E501  # a text, line by line
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["13.2", "f00", "13020", "True", "13.2"]


def test_switches_are_remembered():
    with enter():
        torch.cuda.set_sync_debug_mode("warn")
        assert torch.cuda.get_sync_debug_mode() == 1
        assert torch.cuda.get_allocator_backend() == "native"
        assert not torch.cuda.is_current_stream_capturing()
        if hasattr(torch.cuda, "caching_allocator_disabled"):  # newer than torch 2.6
            with torch.cuda.caching_allocator_disabled():
                torch.ones(1, device="cuda")


def test_profilers_find_nothing_and_do_no_harm():
    with enter():
        with torch.cuda.nvtx.range("step {}", 1):
            assert torch.cuda.nvtx.range_push("inner") == 1
            assert torch.cuda.nvtx.range_pop() == 1
        torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("a"))
        torch.cuda.nvtx.mark("here")
        with torch.cuda.profiler.profile():
            torch.ones(1, device="cuda")
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            torch.ones(1, device="cuda") + 1
        assert len(profile.key_averages())


def test_a_legacy_type_takes_no_tensor_of_the_host():
    other = r"device=cuda, .*\(got TensorOptions\(dtype=float, device=cpu"
    with enter(), pytest.raises(TypeError, match=other):
        torch.cuda.FloatTensor(torch.ones(2))


def test_legacy_tensor_types():
    with enter():
        x = torch.cuda.FloatTensor([1.0, 2.0])
        assert x.device == torch.device("cuda", 0)
        assert torch.cuda.LongTensor(2, 3).shape == (2, 3)
        assert torch.cuda.HalfTensor().numel() == 0
        assert isinstance(x, torch.cuda.FloatTensor)
        assert not isinstance(x, torch.cuda.HalfTensor)
        assert not isinstance(x.cpu(), torch.cuda.FloatTensor)


# -- memory


def test_memory_follows_tensors():
    with enter():
        x = torch.empty(1 << 20, device="cuda:1")
        assert torch.cuda.memory_allocated(0) == 0
        assert torch.cuda.memory_allocated(1) == torch.cuda.memory_allocated("cuda:1") == 4 << 20
        assert torch.cuda.memory_reserved(1) == 20 << 20
        free, total = torch.cuda.mem_get_info(1)
        assert total - free == 20 << 20
        if hasattr(torch.accelerator, "memory_allocated"):  # since torch 2.9
            assert torch.accelerator.memory_allocated(1) == 4 << 20
        assert torch.cuda.device_memory_used(1) == 20 << 20
        del x
        assert torch.cuda.memory_allocated(1) == 0
        assert torch.cuda.max_memory_allocated(1) == 4 << 20
        assert torch.cuda.memory_reserved(1) == 20 << 20
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved(1) == 0
        torch.cuda.reset_peak_memory_stats(1)
        assert torch.cuda.max_memory_allocated(1) == 0


def test_statistics_have_the_usual_keys():
    with enter():
        x = torch.ones(1000, device="cuda")
        statistics = torch.cuda.memory_stats()
        for metric in (
            "allocated_bytes",
            "reserved_bytes",
            "active_bytes",
            "requested_bytes",
            "inactive_split_bytes",
            "allocation",
        ):
            for pool in ("all", "small_pool", "large_pool"):
                for field in ("current", "peak", "allocated", "freed"):
                    assert isinstance(statistics[f"{metric}.{pool}.{field}"], int)
        assert statistics["allocated_bytes.all.current"] == 4096
        assert statistics["allocated_bytes.small_pool.current"] == 4096
        assert statistics["num_ooms"] == statistics["num_alloc_retries"] == 0
        assert "Allocated memory" in torch.cuda.memory_summary()
        assert "PyTorch CUDA memory summary" in torch.cuda.memory_summary(abbreviated=True)
        assert x.numel()


def test_a_memory_fraction_limits():
    with enter("1x24GB"):
        torch.cuda.set_per_process_memory_fraction(0.25)
        assert torch.cuda.get_per_process_memory_fraction() == 0.25
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(8 << 30, dtype=torch.uint8, device="cuda")


# -- processes


def _use_cuda(answers):
    try:
        answers.put(str(torch.ones(1, device="cuda").device))
    except RuntimeError as error:
        answers.put(str(error))


def _in_forked_child():
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_use_cuda, args=(answers,))
    child.start()
    answer = answers.get(timeout=60)
    child.join()
    return answer


def test_a_fork_after_initialization_is_refused():
    with enter():
        torch.cuda.init()
        assert _in_forked_child().startswith("Cannot re-initialize CUDA in forked subprocess")


def test_a_fork_before_initialization_is_fine():
    with enter():
        assert _in_forked_child() == "cuda:0"


def test_scripts_choose_among_cudas_libraries():
    with enter():
        assert (
            torch.backends.cuda.preferred_linalg_library("magma")
            == torch.backends.cuda.preferred_linalg_library()
        )
        assert str(torch.backends.cuda.preferred_linalg_library("cusolver")).endswith("Cusolver")
        assert str(torch.backends.cuda.preferred_blas_library("cublaslt")).endswith("Cublaslt")
    with enter():
        assert str(torch.backends.cuda.preferred_blas_library()).endswith("Cublas")
