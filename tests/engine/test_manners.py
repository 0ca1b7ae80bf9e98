"""A machine leaves torch exactly as it found it, says what it replaced, and reaches threads, forks and nested
machines.
"""

from __future__ import annotations

import copyreg
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
import torch.cuda.nccl
import torch.nn.modules.module
import torch.nn.parallel.comm
import torch.utils._device
import torch.utils._python_dispatch
import torch.utils.checkpoint

from samedevice.machines import parse_machine
from samedevice.provenance import tensors_reached
from samedevice.runtime import VirtualMachine
from samedevice.runtime.patching import Change, Patches, PatchTable
from samedevice.runtime.state.machine_state import entered
from samedevice.runtime.state.memory import this_thread
from samedevice.runtime.table import TABLE

OWNERS: list[Any] = [
    torch,
    torch.Tensor,
    torch.nn.Module,
    torch.nn.Parameter,
    torch.UntypedStorage,
    torch.storage.TypedStorage,
    torch._C,
    torch._C._nn,
    torch._C._TensorBase,
    torch._ops.OpOverload,
    torch.jit,
    torch.serialization,
    torch.random,
    torch.version,
    torch.autograd,
    torch.autograd.profiler,
    torch.profiler,
    torch.backends.cudnn,
    torch.utils._device,
    torch.utils._python_dispatch,
    torch.utils.checkpoint,
    torch.nn.modules.module,
    torch.multiprocessing.reductions,
    threading,
    threading.Thread,
    copyreg,
    multiprocessing.process.BaseProcess,
]


def enter(spec="2x24GB", **options):
    return VirtualMachine(parse_machine(spec), **options)


def owner_name(owner):
    module = "" if not isinstance(owner, type) else owner.__module__ + "."
    return module + getattr(owner, "__qualname__", owner.__name__)


def owners():
    loaded = [
        module
        for path, module in sorted(sys.modules.items())
        if module is not None
        and path.startswith(("torch.cuda", "torch.accelerator", "torch.nn.parallel", "torch.mtia"))
    ]
    return OWNERS + [owner for owner in loaded if vars(owner) is not None]


def snapshot():
    """Every attribute of everything that a machine touches, by the identity of its value; values are kept
    alive.
    """
    found: dict[tuple[str, str], Any] = {}
    for owner in owners():
        for name, value in dict(vars(owner)).items():
            found[owner_name(owner), name] = value
    for key, value in copyreg.dispatch_table.items():
        found["copyreg.dispatch_table", str(key)] = value
    for name, value in torch.nn.modules.module._global_forward_pre_hooks.items():
        found["torch.nn.modules.module._global_forward_pre_hooks", str(name)] = value
    for position, finder in enumerate(sys.meta_path):
        found["sys.meta_path", str(position)] = finder
    for name in ("pynvml", "torch.backends.cudnn"):
        found["sys.modules", name] = sys.modules.get(name)
    found["modes", "dispatch"] = torch._C._len_torch_dispatch_stack()
    found["modes", "function"] = torch._C._len_torch_function_stack()
    found["modes", "in dispatch"] = torch.utils._python_dispatch.is_in_torch_dispatch_mode()
    found["modes", "lift"] = torch._C._only_lift_cpu_tensors()
    found["modes", "autocast"] = torch.is_autocast_enabled("cuda")
    found["modes", "deterministic"] = torch.are_deterministic_algorithms_enabled()
    found["modes", "grad"] = torch.is_grad_enabled()
    found["modes", "default dtype"] = torch.get_default_dtype()
    for own in ("AutocastIPU", "AutocastCUDA", "Python"):
        found["included", own] = torch._C._dispatch_tls_is_dispatch_key_included(own)
        found["excluded", own] = torch._C._dispatch_tls_is_dispatch_key_excluded(own)
    return found


def differing(before, after):
    """Names that are not the same object any more, new or gone; small plain values are compared as such."""
    absent = object()
    plain = (int, str, bool, type(None), tuple)
    return sorted(
        key
        for key in before.keys() | after.keys()
        if (one := before.get(key, absent)) is not (other := after.get(key, absent))
        and not (isinstance(one, plain) and isinstance(other, plain) and one == other)
    )


@pytest.fixture(scope="module", autouse=True)
def lazy_parts():
    """What torch itself imports and caches at its first use must not look like the machine's work."""
    with enter():
        work()


def work():
    """A bit of everything that has state."""
    model = torch.nn.Linear(4, 2).to("cuda:0")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.ones(3, 4, device="cuda:0")).sum()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    assert torch.cuda.is_available()
    return loss.item()


class Stop(Exception):
    pass


def leave_normally():
    with enter():
        work()


def leave_by_an_exception():
    with pytest.raises(Stop), enter():
        work()
        raise Stop


def leave_by_a_mismatch():
    with pytest.raises(RuntimeError, match="same device"), enter(on_mismatch="raise"):
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")


def leave_by_a_generator_exit():
    def inside():
        with enter():
            yield work()

    running = inside()
    next(running)
    running.close()


def leave_nested():
    with enter("4x24GB"):
        work()
        with enter("1x16GB"):
            work()
        work()


def leave_after_threads():
    with enter():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def enter_in_a_thread():
    thread = threading.Thread(target=leave_normally)
    thread.start()
    thread.join()


def leave_without_gpu_work():
    with enter():
        pass


def leave_after_deletions():
    """Whatever is replaced is deleted by the script, also what the machine itself needs to go on."""
    with enter() as machine:
        work()
        for owner, name, _ in machine._patches.values():
            if name in vars(owner):
                delattr(owner, name)


def leave_after_replacements():
    with enter() as machine:
        work()
        for owner, name, _ in machine._patches.values():
            setattr(owner, name, None)


def leave_after_an_emptied_meta_path():
    kept = list(sys.meta_path)
    with enter():
        sys.meta_path.clear()
        sys.meta_path.extend(kept)


def leave_with_a_machine_inside():
    with enter():
        enter("1x16GB").__enter__()
        work()


def leave_outer_before_inner():
    outer, inner = enter(), enter()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)


class Idle(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Keeping(Idle):
    """Holds the frames in which it handled operators, so that no two have one address."""

    def __init__(self):
        super().__init__()
        self.frames = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.frames.append(sys._getframe())
        return func(*args, **(kwargs or {}))


def test_what_composite_code_makes_is_on_the_gpu_under_a_mode_of_the_script():
    """A number that is written to a slice becomes a tensor on the carrier's device, in another operator."""
    with enter() as machine, Keeping():
        ids = torch.ones(2, 8, dtype=torch.long, device="cuda")
        ids[:, 0] = 5
        assert ids[:, 0].tolist() == [5, 5]
    assert machine.events == []


def leave_with_a_mode_inside():
    mode = Idle()
    with enter():
        mode.__enter__()
        work()
    assert torch._C._len_torch_dispatch_stack() == 1  # the script's own, which it never left
    mode.__exit__(None, None, None)


WAYS = [
    leave_normally,
    leave_after_deletions,
    leave_after_replacements,
    leave_after_an_emptied_meta_path,
    leave_with_a_machine_inside,
    leave_outer_before_inner,
    leave_with_a_mode_inside,
    leave_by_an_exception,
    leave_by_a_mismatch,
    leave_by_a_generator_exit,
    leave_nested,
    leave_after_threads,
    enter_in_a_thread,
    leave_without_gpu_work,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_leaving_restores_everything(way):
    before = snapshot()
    way()
    assert differing(before, snapshot()) == []
    assert not this_thread.raw
    assert not entered()


def test_a_machine_that_cannot_be_entered_leaves_nothing_behind(monkeypatch):
    before = snapshot()

    def fail():
        raise Stop

    done = TABLE.rows[: len(TABLE.rows) * 3 // 4]
    rows = (*done, Change("nothing", fail, lambda: None, "nothing", "it fails"))
    monkeypatch.setattr("samedevice.runtime.machine.TABLE", PatchTable(rows))
    machine = enter()
    with pytest.raises(Stop):
        machine.__enter__()
    assert differing(before, snapshot()) == []
    assert not entered()


class Stubborn:
    """An owner that lets itself be changed once."""

    def __init__(self, error):
        vars(self).update(value="own", error=error, changes=0)

    def __setattr__(self, name, value):
        vars(self)["changes"] += 1
        if self.changes > 1:
            raise self.error
        vars(self)[name] = value


def test_each_step_of_the_way_back_is_tried():
    order = []
    patches = Patches()
    owners = [Stubborn(ValueError("first")), Stubborn(KeyboardInterrupt("second"))]
    table = {"key": "own"}
    patches.call(lambda: None, lambda: order.append("call"), "call")
    for owner in owners:
        owner.__name__ = "stubborn"
        vars(owner)["changes"] = 0
        patches.attribute(owner, "value", "replaced")
    patches.item(table, "key", "replaced")
    patches.call(lambda: None, lambda: order.append(dict(table)), "later call")
    with pytest.raises(BaseExceptionGroup, match="could not all be put back") as caught:
        patches.undo()
    assert [str(error) for error in caught.value.exceptions] == ["second", "first"]
    assert table == {"key": "own"}
    assert order == [{"key": "replaced"}, "call"]
    assert patches.names() == []
    patches.undo()


def test_patched_lists_all_that_differs_inside():
    before = snapshot()
    with enter() as machine:
        inside = snapshot()
        patched = machine.patched
    assert patched == sorted(set(patched))
    changed = [(owner, name) for owner, name in differing(before, inside) if owner not in DISPATCHER]
    assert len(changed) > 100
    # Of a list or a table that was changed in place the list itself is named.
    missing = [
        f"{owner}.{name}"
        for owner, name in changed
        if not {f"{owner}.{name}", owner, f"[{name}]"} & set(patched)
    ]
    assert missing == []
    assert machine.patched == []


DISPATCHER = ("modes", "included", "excluded", "torch.utils._python_dispatch")
"""State of the dispatcher and its modes, which any dispatch mode changes by being entered."""


def test_nothing_is_patched_before_entering():
    before = snapshot()
    machine = enter()
    assert machine.patched == []
    assert differing(before, snapshot()) == []


# -- entering


def test_entering_twice_is_refused():
    machine = enter()
    with machine:
        with pytest.raises(RuntimeError, match="this virtual machine was entered before; make a new one"):
            machine.__enter__()
        assert torch.ones(2, device="cuda:1").device == torch.device("cuda:1")
    with pytest.raises(RuntimeError, match="entered before"):
        machine.__enter__()
    assert not entered()


def test_only_record_and_raise():
    with pytest.raises(ValueError, match="'record' or 'raise'"):
        enter(on_mismatch="ignore")


def test_machines_of_other_specs_nest():
    with enter("4x24GB") as outer:
        kept = torch.ones(8, device="cuda:3")
        with enter("1x80GB") as inner:
            assert torch.cuda.device_count() == 1
            assert (
                torch.cuda.get_device_properties(0).total_memory == 80 * 10**9
                or torch.cuda.mem_get_info()[1] > 70 << 30
            )
            with pytest.raises(RuntimeError, match="invalid device ordinal"):
                torch.ones(1, device="cuda:1")
            torch.ones(1 << 20, device="cuda:0")
            assert inner.memory()["cuda:0"].peak_allocated == 4 << 20
        assert torch.cuda.device_count() == 4
        assert outer.memory()["cuda:0"].peak_allocated == 0
        assert kept.sum().item() == 8
        assert kept.device == torch.device("cuda:3")


def test_leaving_an_inner_machine_leaves_the_outer_one_whole():
    """`torch.tensor` under a device context needs what a machine switches in C++: an inner one must not
    switch it off.
    """
    with enter("2x24GB"):
        with torch.device("cuda:1"):
            with enter("4x24GB"), torch.device("cuda:3"):
                assert torch.tensor([1.0]).device == torch.device("cuda:3")
            assert torch.tensor([1.0]).device == torch.device("cuda:1")
        assert torch.tensor([1.0], device="cuda").device == torch.device("cuda:0")
    assert not torch._C._only_lift_cpu_tensors()


def test_values_are_read_under_a_device_context():
    with enter("2x24GB"), torch.device("cuda:1"):
        assert repr(torch.ones(2)) == "tensor([1., 1.], device='cuda:1')"
        assert torch.ones(2).cpu().tolist() == [1.0, 1.0]
        assert len(torch.empty(1 << 20).tolist()) == 1 << 20  # too large for values: assumed


def test_the_innermost_machine_records():
    with enter("2x24GB") as outer, enter("2x24GB") as inner:
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
    assert len(inner.events) == 1
    assert outer.events == []


# -- errors


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: torch.ones(2, 3, device="cuda") @ torch.ones(2, 3, device="cuda"),
        lambda: torch.ones(2, device="cuda").view(3),
        lambda: torch.ones(2, device="cuda").add_(torch.ones(3, device="cuda")),
        lambda: torch.linalg.cholesky(-torch.eye(2, device="cuda")),
        lambda: torch.add(
            torch.ones(2, device="cuda"), torch.ones(3, device="cuda"), out=torch.ones(2, device="cuda")
        ),
        lambda: torch.ones(1 << 22, device="cuda").view(3),
        lambda: torch.ones(1 << 22, device="cuda") + torch.ones(3, device="cuda"),
        lambda: torch.ones(2, device="cuda")[5],
        lambda: torch.ones(2, device="cuda")[torch.tensor([7], device="cuda")],
    ],
)
def test_an_exception_inside_an_operator_does_not_leave_the_engine_raw(wrong):
    with enter() as machine:
        with pytest.raises((RuntimeError, IndexError)):
            wrong()
        assert not this_thread.raw
        assert torch.ones(2, device="cuda:1").device == torch.device("cuda:1")
        assert (torch.ones(2, device="cuda") + 1).tolist() == [2, 2]
    assert machine.events == []


def test_an_observer_that_raises_does_not_leave_the_engine_raw():
    def observe(event):
        raise Stop

    with enter(observer=observe):
        with pytest.raises(Stop):
            torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
        assert not this_thread.raw
        assert torch.ones(2, device="cuda").tolist() == [1, 1]


# -- threads and processes


def test_threads_run_on_the_machine_and_start_on_device_0():
    seen = []

    def look():
        seen.append(
            (torch.cuda.current_device(), torch.ones(2, device="cuda").device, torch.cuda.device_count())
        )

    class Looker(threading.Thread):
        def run(self):
            look()

    with enter():
        torch.cuda.set_device(1)
        for thread in (threading.Thread(target=look), Looker(), threading.Timer(0, look)):
            thread.start()
            thread.join()
        assert torch.cuda.current_device() == 1
    assert seen == [(0, torch.device("cuda:0"), 2)] * 3


def test_a_thread_makes_tensors_of_numbers_on_its_gpu():
    made = []

    class Maker(threading.Thread):
        def run(self):
            made.append(torch.tensor([1, 2], device="cuda:1"))

    def make():
        made.append(torch.tensor([1, 2], device="cuda:1"))

    with enter():
        for thread in (threading.Thread(target=make), Maker(), threading.Timer(0, make)):
            thread.start()
            thread.join()
        assert [(tensor.device, tensor.tolist()) for tensor in made] == [(torch.device("cuda:1"), [1, 2])] * 3
        threading.Thread(target=make).run()
        assert torch.tensor([1], device="cuda").is_cuda
    assert not torch._C._only_lift_cpu_tensors()


def test_a_mismatch_in_a_thread_is_recorded():
    with enter() as machine:
        thread = threading.Thread(
            target=lambda: torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
        )
        thread.start()
        thread.join()
    assert [event.op for event in machine.events] == ["aten.add.Tensor"]


def test_a_thread_that_outlives_the_machine_ends_in_peace():
    go, errors = threading.Event(), []

    def late():
        tensor = torch.ones(4, device="cuda")
        go.wait(10)
        try:
            del tensor
            assert torch.ones(2).sum().item() == 2
        except Exception as error:
            errors.append(error)

    with enter():
        thread = threading.Thread(target=late)
        thread.start()
    go.set()
    thread.join()
    assert errors == []
    assert torch.ones(2).device == torch.device("cpu")


def child_answers(report):
    """What a forked child sees, as plain data."""
    try:
        report((torch.cuda.is_available(), torch.ones(3).sum().item(), torch.cuda.device_count()))
    except Exception as error:
        report(repr(error))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_child_inside_a_machine():
    with enter():
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            child_answers(lambda answer: os.write(write, repr(answer).encode()))
            os._exit(0)
        os.close(write)
        _, status = os.waitpid(pid, 0)
        answer = os.read(read, 10_000).decode()
        os.close(read)
    assert status == 0
    assert answer == "(True, 3.0, 2)"


def forked_worker(queue):
    child_answers(queue.put)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_multiprocessing_fork_inside_a_machine():
    context = multiprocessing.get_context("fork")
    with enter():
        queue = context.SimpleQueue()
        process = context.Process(target=forked_worker, args=(queue,))
        process.start()
        answer = queue.get()
        process.join(30)
    assert process.exitcode == 0
    assert answer == (True, 3.0, 2)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_what_a_fork_inherits_counts_for_its_parent():
    with enter() as machine:
        held = torch.ones(1024, device="cuda")
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, str([own.peak_allocated for own in machine.memory().values()]).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        answer = os.read(read, 10_000).decode()
        os.close(read)
        assert machine.memory()["cuda:0"].peak_allocated == held.nbytes
    assert answer == "[0, 0]"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_cuda_refuses_a_fork_after_its_start():
    with enter():
        torch.ones(1, device="cuda")
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                torch.ones(1, device="cuda")
            except RuntimeError as error:
                os.write(write, str(error).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        answer = os.read(read, 10_000).decode()
        os.close(read)
    assert answer.startswith("Cannot re-initialize CUDA in forked subprocess")


# -- what survives


def test_tensors_survive_their_machine():
    with enter() as machine:
        kept = torch.arange(6.0, device="cuda:1").view(2, 3)
        model = torch.nn.Linear(3, 3).cuda()
        loss = model(torch.ones(2, 3, device="cuda")).sum()
        view = kept[1]
        large = torch.ones(1 << 28, device="cuda")
    assert machine.memory()["cuda:1"].allocated == 512
    repr(kept), repr(view), repr(large), kept.shape, kept.stride()
    del kept, model, loss
    gc.collect()
    assert machine.memory()["cuda:1"].allocated == 512, "a view still holds the memory"
    del view, large
    gc.collect()
    assert {device: memory.allocated for device, memory in machine.memory().items()} == {
        "cuda:0": 0,
        "cuda:1": 0,
    }


def test_a_tensor_of_a_machine_that_was_left_is_collected_in_the_next_one():
    with enter() as first:
        old = torch.ones(1024, device="cuda")
    with enter() as second:
        del old
        gc.collect()
        torch.ones(1, device="cuda")
    assert first.memory()["cuda:0"].allocated == 0
    assert second.memory()["cuda:0"].peak_allocated == 512


def test_a_process_that_ends_inside_a_machine_ends_in_peace():
    program = (
        "import torch\nfrom samedevice.machines import parse_machine\nfrom samedevice.runtime import "
        "VirtualMachine\nmachine = VirtualMachine(parse_machine('2x24GB')).__enter__()\nmodel = "
        "torch.nn.Linear(4, 4).cuda()\nkept = model(torch.ones(2, 4, "
        "device='cuda')).sum()\nprint(kept.device)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "cuda:0\n", "")


def test_the_loader_of_transformers_keeps_its_docstring():
    transformers = pytest.importorskip("transformers")
    with VirtualMachine(parse_machine("1x24GB")):
        # petals edits a copy of it while it is imported
        assert transformers.PreTrainedModel.from_pretrained.__doc__


class _Asked:
    def __init__(self):
        object.__setattr__(self, "kept", torch.ones(2))

    def __getattribute__(self, name):
        raise AssertionError(f"{name} was asked for")


def test_a_search_for_tensors_asks_objects_nothing():
    """`torch.distributed.reduce_op`, for one, warns at each attribute that is read of it, `__class__` too."""
    reached = list(tensors_reached({"rates": [_Asked()]}, "state", 4))
    assert [path for path, _ in reached] == ["state['rates'][0].kept"]
