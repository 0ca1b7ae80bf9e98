"""A guard that records: findings of real devices with the decisions that a virtual machine would keep."""

import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import warnings
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils import _python_dispatch
from torch.utils.flop_counter import FlopCounterMode

import samedevice as sd
from samedevice.guards._live import frames_of_program, speaks_of_devices
from samedevice.runtime import Recording
from samedevice.runtime.state import CPU, Decision, shortened

PROGRAMS = Path(__file__).with_name("recorded_programs.py")
NAMES = (
    "in_a_helper",
    "inputs_left",
    "labels_in_a_dictionary",
    "kept_in_a_list",
    "loaded",
    "taken_back_in_inference_mode",
    "computed_in_inference_mode",
)


@pytest.fixture(scope="module")
def shown():
    """What is said of the programs on two devices that are real for torch, and on virtual ones."""
    if shutil.which("g++") is None:
        pytest.skip("the twin devices are built with g++")
    done = subprocess.run([sys.executable, PROGRAMS], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_the_finding_is_that_of_a_virtual_machine(name, shown):
    assert shown["real"][name] == shown["virtual"][name]
    assert all(each["lineage"] for each in shown["real"][name]["operands"])


def test_without_a_record_the_birthplace_behind_a_call_is_not_known(shown):
    made = {
        how: [each["made"] for each in shown[how]["in_a_helper"]["operands"]] for how in ("real", "plain")
    }
    assert made == {"real": ["forward", "weights_for"], "plain": [None, None]}


def test_a_check_before_any_operator_has_the_record_too(shown):
    found = shown["real"]["window_left"]
    assert found["cause"] == shown["virtual"]["window_left"]["cause"]
    assert [each["made"] for each in found["operands"]] == ["window_left", "weights_for"]
    assert all(each["lineage"] for each in found["operands"])


def test_nothing_is_told_of_memory_that_was_there_before(shown):
    assert shown["before"] == {case: ["undetermined", []] for case in ("detached", "computed", "filled")}


def test_what_torchscript_loses_is_in_the_note(shown):
    shapes, devices = shown["script"]
    assert shapes == "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"
    assert devices.startswith("SD101")


def test_threads_are_recorded(shown):
    assert shown["thread"] == ["forward", "weights_for"]


def test_a_result_that_nobody_filled_is_told_of_once():
    x, weight = torch.ones(2, 3), torch.empty(4, 3, device="meta")
    with warnings.catch_warnings(record=True) as told, sd.guard(record=True):
        warnings.simplefilter("always")
        for _ in range(2):
            x @ weight.t()
        nn.functional.embedding(torch.tensor([1]), weight)  # its result is on meta, too, and fails later
        torch.empty_like(weight, device="cpu")
        x * x
    assert [(each.category, Path(each.filename).name) for each in told] == [
        (RuntimeWarning, "test_guard_record.py")
    ]
    assert "mm computed nothing here" in str(told[0].message)
    with warnings.catch_warnings(), sd.guard(record=True), pytest.raises(RuntimeWarning):
        warnings.simplefilter("error")
        x @ weight.t()


def test_numbers_are_as_without():
    def trained(record):
        torch.manual_seed(0)
        model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        optimizer = torch.optim.AdamW(model.parameters())
        with sd.guard(record=record):
            for _ in range(3):
                model(torch.randn(2, 5, 16)).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        return torch.cat([each.detach().flatten() for each in model.parameters()])

    assert torch.equal(trained(False), trained(True))


def test_everything_is_as_before_afterwards():
    start, load = threading.Thread.start, torch.load
    with sd.guard(record=True), sd.guard(record=True):
        assert torch.ones(2).add(1).untyped_storage()._sd.made is not None
        assert threading.Thread.start is not start
    remove = sd.guard(record=True).install()
    assert torch.ones(2).add(1).untyped_storage()._sd.made is not None
    remove()
    assert (threading.Thread.start, torch.load) == (start, load)
    assert "_sd" not in vars(torch.UntypedStorage)


def test_nothing_is_kept_alive():
    with Recording(frames_of_program(), speaks_of_devices):
        tensor = torch.ones(3) * 2
        alive = weakref.ref(tensor)
        del tensor
        gc.collect()
        assert alive() is None


@pytest.mark.parametrize(
    "fails",
    [
        lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        lambda: torch.ones(2).twice(),
        lambda: nn.functional.embedding(torch.tensor([9]), torch.ones(2, 2)),
    ],
)
def test_other_errors_are_left_alone(fails):
    with pytest.raises(Exception) as caught, sd.guard(record=True):
        fails()
    assert not hasattr(caught.value, "samedevice_event")
    assert not hasattr(caught.value, "finding")


def test_tensors_without_memory_of_their_own_pass():
    with sd.guard(record=True):
        sparse = torch.eye(3).to_sparse()
        assert (sparse @ torch.ones(3, 1)).sum() == 3
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        assert sum(part.sum() for part in nested.unbind()) == 5


def test_compiled_code_runs_as_it_was_written():
    runs = []

    def noted(x):
        runs.append(1)
        return x + 1

    compiled = torch.compile(noted, backend="eager")
    with sd.guard(record=True):
        made = compiled(torch.ones(2))
        assert made.untyped_storage()._sd.made.__class__ is tuple
    assert runs


def test_a_virtual_machine_inside_keeps_its_own_record():
    def helper(x):
        return x * torch.arange(4)

    with sd.guard(record=True):
        with pytest.raises(RuntimeError) as caught, sd.machine("1x24GB", on_mismatch="raise"), sd.guard():
            helper(torch.ones(4, device="cuda:0"))
        assert torch.ones(2).add(1).untyped_storage()._sd.made is not None
    assert caught.value.finding.operands[1].made.function == "helper"


def modes():
    return _python_dispatch._get_current_dispatch_mode_stack()


def left_behind():
    """What of a recording is still there."""
    return [*modes(), *({"_sd"} & {*vars(torch.UntypedStorage)})]


@pytest.mark.parametrize("first", [0, 1])
def test_guards_may_end_in_any_order(first):
    kept = threading.Thread.start, torch.load, sys.excepthook
    guards = [sd.guard(record=True).install() for _ in range(2)]
    guards[first]()
    assert torch.ones(2).add(1).untyped_storage()._sd.made is not None
    guards[1 - first]()
    assert left_behind() == []
    assert (threading.Thread.start, torch.load) == kept[:2]
    with pytest.raises(Exception, match="asked to compile"):
        torch.compile(lambda x: x + 1, backend=refuses)(torch.ones(2))
    sys.excepthook = kept[2]


def refuses(graph, inputs):
    raise RuntimeError("asked to compile")


def test_a_mode_of_the_program_stays_when_a_guard_ends_below_it():
    remove = sd.guard(record=True).install()
    with FlopCounterMode(display=False) as counted:
        remove()
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert counted.get_total_flops() == 16
    assert left_behind() == []


def test_a_guard_that_ends_in_another_thread_records_no_more():
    guard = sd.guard(record=True)
    guard.__enter__()
    thread = threading.Thread(target=guard.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert not Recording.runs()
    assert not hasattr(torch.ones(2).add(1).untyped_storage(), "_sd")
    modes()[-1].end()


def test_operators_of_higher_order_run():
    with sd.guard(record=True):
        found = torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.ones(2),))
    assert found.tolist() == [2, 2]


def test_a_virtual_machine_inside_is_as_without():
    with sd.guard(record=True), sd.machine("2x24GB"):
        layer = nn.Linear(4, 4).to("cuda:0")
        assert str(layer.weight.device) == "cuda:0"
        assert dict(sd.placement(layer).devices) == {"cuda:0": 80}
        assert (torch.ones(2, device="cuda:0").cpu() + torch.ones(2)).sum() == 4


def test_a_compiled_function_with_a_guard_in_it():
    @torch.compile(backend="eager")
    def step(x):
        with sd.guard(record=True):
            return x + 1

    assert step(torch.ones(2)).tolist() == [2, 2]


def test_a_thread_is_freed_when_it_is_over():
    class Holds(threading.Thread):
        def __init__(self):
            super().__init__()
            self.held = torch.ones(3)

    with sd.guard(record=True):
        thread = Holds()
        thread.start()
        thread.join()
        alive = weakref.ref(thread.held)
        gc.disable()
        try:
            del thread
            assert alive() is None
        finally:
            gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_fork_records_nothing():
    with sd.guard(record=True):
        child = os.fork()
        if child == 0:
            os._exit(Recording.runs())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert Recording.runs()


def test_chains_of_moves_stay_short():
    made = Decision("created", CPU, None)
    chain = made
    for _ in range(100):
        chain = Decision("moved", CPU, None, shortened(chain))
    steps = [chain]
    while steps[-1].earlier is not None:
        steps.append(steps[-1].earlier)
    assert len(steps) <= 17
    assert steps[-1].order == made.order
    assert [each.order for each in steps] == sorted((each.order for each in steps), reverse=True)


def test_the_program_imports_torch_itself(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nassert 'torch' not in sys.modules\nimport torch\n"
        "print(torch.ones(2).add(1).untyped_storage()._sd.made is not None)\n"
    )
    command = [sys.executable, "-m", "samedevice", "guard", "--record", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_weights_that_were_never_loaded_have_a_line():
    def left_on_meta():
        return torch.ones(2, device="meta")

    with pytest.raises(RuntimeError) as caught, sd.guard(record=True):
        torch.arange(2) * left_on_meta()
    made = [each.made.function for each in caught.value.finding.operands]
    assert made == ["test_weights_that_were_never_loaded_have_a_line", "left_on_meta"]


def test_what_was_on_meta_before_stays_so_in_a_virtual_machine():
    with sd.guard(record=True):
        weight = torch.ones(2, device="meta")
        with sd.machine("1x24GB", on_mismatch="raise"):
            assert str(weight.device) == "meta"
            assert str((weight * 2).device) == "meta"
            with pytest.raises(RuntimeError, match="meta"):
                weight + torch.ones(2, device="cuda:0")
            assert str(torch.empty_like(weight, device="cuda:0").device) == "cuda:0"
