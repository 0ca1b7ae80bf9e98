"""Each test starts clean, whatever the one before did, and torch is whole when the run is over."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

LEAKS = """
import pytest, torch

kept = []
default = torch.get_default_device()

class Node:
    def __init__(self):
        self.me, self.tensor = self, torch.ones(1 << 22, device="cuda:1")

def leak_memory_in_a_cycle():
    Node()

def leak_memory_by_failing():
    held = torch.ones(1 << 22, device="cuda:1")
    raise ValueError

def leak_current_device():
    torch.cuda.set_device(1)

def leak_default_device():
    torch.set_default_device("cuda:1")

def leak_autocast():
    torch.autocast("cuda", dtype=torch.bfloat16).__enter__()

def leak_attributes():
    torch.cuda.device_count = lambda: 0
    del torch.Tensor.is_cuda

def leak_a_machine():
    import samedevice
    kept.append(samedevice.machine("1x8GB"))
    kept[-1].__enter__()

def leak_a_limit():
    torch.cuda.set_per_process_memory_fraction(0.0001, 1)

def leak_a_stream():
    torch.cuda.set_stream(torch.cuda.Stream(0))

def leak_a_finding():
    try:
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
    except RuntimeError:
        pass

LEAKS = [leak for name, leak in sorted(globals().items()) if name.startswith("leak_")]

@pytest.fixture
def clean(virtual_machine):
    assert virtual_machine.findings == []
    assert torch.cuda.device_count() == 2 and torch.cuda.is_available()
    assert not torch.cuda.is_initialized()
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    for index in range(2):
        assert torch.cuda.memory_allocated(index) == torch.cuda.memory_reserved(index) == 0
        assert torch.cuda.max_memory_allocated(index) == 0
        assert torch.ones(1 << 20, device=index).is_cuda
    assert torch.ones(1).device.type == "cpu"
    product = torch.ones(2, 2, device="cuda:0") @ torch.ones(2, 2, device="cuda:0")
    assert product.dtype == torch.float32 and not torch.is_autocast_enabled("cuda")

@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.__name__)
def test_leak(clean, leak):
    leak()

def test_fixes_the_visible_devices(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert torch.ones(1, device="cuda").device.index == 0
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert torch.cuda.device_count() == 1

def test_after(clean):
    pass
"""
FAILING = 1
PASSING = LEAKS.count("\ndef leak_") + 2 - FAILING


def test_nothing_leaks(suite):
    result = suite(LEAKS, "--machine=2x24GB")
    result.assert_outcomes(passed=PASSING, failed=FAILING)


WIDER = """
import pytest, torch

@pytest.fixture(scope="module", autouse=True)
def settings():
    torch.set_default_device("cuda:1")
    torch.cuda.set_device(1)
    yield
    torch.set_default_device(None)
    torch.cuda.set_device(0)

@pytest.fixture(scope="module")
def weight():
    return torch.ones(1 << 20)

@pytest.mark.parametrize("time", range(3))
def test_holds(weight, time):
    assert torch.ones(2).device.index == torch.cuda.current_device() == weight.device.index == 1
    assert torch.cuda.memory_allocated(1) >= 4 << 20
    torch.set_default_device("cpu")
    torch.cuda.set_device(0)
"""


def test_what_wider_fixtures_set_holds_for_their_tests(suite):
    after = (
        "import torch\ndef test_after(): assert torch.ones(2).device.type == 'cpu' and "
        "torch.cuda.current_device() == 0\n"
    )
    suite(WIDER, "--machine=2x24GB", test_later=after).assert_outcomes(passed=4)


DYING = """
import os, pytest, torch

@pytest.fixture
def model():
    yield torch.nn.Linear(2, 2).to("cuda:1")
    torch.ones(1, device="cuda:1").sum().item()

def test_exception(model):
    torch.cuda.set_device(1)
    raise ValueError

def test_exit(model):
    raise SystemExit(3)

def test_dies(model):
    END

def test_never():
    pass
"""
WHOLE = """
import sys
import pytest, torch, torch.cuda, torch.nn.parallel

OWNERS = [torch, torch.Tensor, torch.nn.Module, torch.nn.Parameter, torch.cuda, torch.cuda.memory, torch._C,
torch.UntypedStorage]

def state():
    found = {(str(owner), name): value for owner in OWNERS for name, value in vars(owner).items()}
    modes = torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
    return found, modes, torch.is_autocast_enabled("cuda"), torch.get_default_device()

# what torch itself loads at its first use
pytest.main(["-q", "test_it.py", "-p", "no:cacheprovider", "--machine=1x24GB"])
before, gpus = state(), torch.cuda.is_available()
assert pytest.main(sys.argv[1:]) == int(EXPECTED)
after = state()
names = before[0].keys() | after[0].keys()
changed = sorted(name for name in names if before[0].get(name) is not after[0].get(name))
assert changed == [], changed
assert before[1:] == after[1:]
assert torch.cuda.is_available() is gpus
"""


@pytest.mark.parametrize(
    ("end", "options", "expected"),
    [
        ("pass", [], 1),
        ("raise KeyboardInterrupt", [], 2),
        ("pytest.exit('enough')", [], 2),
        ("pass", ["-x"], 1),
        ("pass", ["--machine=2xNOTHING"], 4),
        ("pass", ["no_such_file.py"], 4),
    ],
)
@pytest.mark.sample(3)
def test_torch_is_whole_afterwards(installed, pytester, end, options, expected):
    pytester.makepyfile(test_it=DYING.replace("END", end))
    code = WHOLE.replace("EXPECTED", str(expected))
    words = ["-q", "-p", "no:cacheprovider", "--machine=2x24GB", "test_it.py", *options]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=pytester.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_conftest_that_fails_leaves_torch_whole(installed, pytester):
    pytester.makeconftest("import torch\nassert torch.cuda.device_count() != 2")
    code = (
        "import pytest, torch\ncount, gpus = torch.cuda.device_count(), torch.cuda.is_available()\n"
        "pytest.main(['--machine=2x24GB'])\n"
        "assert torch.cuda.device_count() == count and torch.cuda.is_available() is gpus"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=pytester.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_worker_that_dies_takes_nothing_along(suite):
    pytest.importorskip("xdist")
    result = suite(DYING.replace("END", "os._exit(1)"), "--machine=2x24GB", "-n1")
    result.assert_outcomes(passed=1, failed=3)


def test_the_controller_of_xdist_enters_no_machine(fresh_suite):
    pytest.importorskip("xdist")
    conftest = """
        import os, sys
        if "PYTEST_XDIST_WORKER" not in os.environ:
            assert "torch" not in sys.modules
    """
    result = fresh_suite(LEAKS, "--machine=2x24GB", "-n2", conftest=conftest)
    result.assert_outcomes(passed=PASSING, failed=FAILING)
