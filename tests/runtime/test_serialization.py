"""`torch.save`, `torch.load` and pickle with tensors on virtual GPUs, against plain torch."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.provenance import resolve
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state.memory import memory_of

MEBIBYTE = 1 << 20


@pytest.fixture
def three_gpu_file(tmp_path):
    path = tmp_path / "three.pt"
    with VirtualMachine(parse_machine("4x24GB")):
        torch.save({"x": torch.arange(3.0, device="cuda:3"), "y": torch.ones(2)}, path)
    return path


def round_trip(value, *, legacy=False, **load):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=not legacy)
    buffer.seek(0)
    return torch.load(buffer, **load)


def plainly(script, *arguments):
    """Run a script under Python without samedevice."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("weights_only", [False, True])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint16, torch.complex64]
)
def test_values_and_devices_come_back(legacy, weights_only, dtype):
    if legacy and dtype == torch.uint16:
        pytest.skip("torch itself cannot")
    values = torch.tensor([0, 1, 1, 0, 1, 0]).to(dtype).view(2, 3)
    loaded = round_trip({"x": values.to("cuda:1"), "host": values}, legacy=legacy, weights_only=weights_only)
    assert loaded["x"].device == torch.device("cuda", 1)
    assert loaded["host"].device.type == "cpu"
    assert torch.equal(loaded["x"].cpu(), values)
    assert torch.equal(loaded["host"], values)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("location", "device"),
    [
        (None, "cuda:1"),
        ("cpu", "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        (torch.device("cuda", 0), "cuda:0"),
        (torch.device("cuda"), "cuda:0"),
        (torch.device("cpu"), "cpu"),
        ({"cuda:1": "cuda:0"}, "cuda:0"),
        ({"cuda:0": "cpu"}, "cuda:1"),
        ({"cuda:1": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: None, "cuda:1"),
        (lambda storage, location: storage.cuda(), "cuda:0"),
        (lambda storage, location: storage.cuda(1), "cuda:1"),
        ("meta", "meta"),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_map_location(location, device, legacy):
    if legacy and device == "meta":
        pytest.skip("torch itself cannot")
    loaded = round_trip(torch.arange(4.0, device="cuda:1"), legacy=legacy, map_location=location)
    assert str(loaded.device) == device
    if device != "meta":
        assert loaded.tolist() == [0, 1, 2, 3]


@pytest.mark.usefixtures("machine")
def test_an_integer_is_no_map_location():
    with pytest.raises(TypeError, match="'int' object is not callable"):
        round_trip(torch.ones(1, device="cuda"), map_location=0)


def test_a_gpu_that_is_not_there(three_gpu_file):
    text = (
        "Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count\\(\\) is 2. Please "
        "use torch.load with map_loc"
    )
    with VirtualMachine(parse_machine("2x24GB")):
        with pytest.raises(RuntimeError, match=text):
            torch.load(three_gpu_file)
        with pytest.raises(RuntimeError, match="on CUDA device 2 but"):
            torch.load(three_gpu_file, map_location="cuda:2")
        assert torch.load(three_gpu_file, map_location={"cuda:3": "cuda:1"})["x"].tolist() == [0, 1, 2]


def test_no_gpu_at_all(three_gpu_file, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with VirtualMachine(parse_machine("2x24GB")):
        with pytest.raises(RuntimeError, match=r"on a CUDA device but torch.cuda.is_available\(\) is False"):
            torch.load(three_gpu_file)


def test_plain_torch_reads_the_file(three_gpu_file):
    loaded = torch.load(three_gpu_file, map_location="cpu")
    assert loaded["x"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match=r"deserialize object on (a )?CUDA device"):
        torch.load(three_gpu_file)
    script = "import sys, torch; print(torch.load(sys.argv[1], map_location='cpu', mmap=True)['x'].tolist())"
    assert plainly(script, three_gpu_file) == "[0.0, 1.0, 2.0]\n"


@pytest.mark.usefixtures("machine")
def test_views_share_memory_again():
    base = torch.arange(6.0, device="cuda:1")
    for legacy in (False, True):
        loaded = round_trip([base, base[2:], base.view(2, 3).t()], legacy=legacy)
        loaded[0][2] = 7
        assert loaded[1][0].item() == 7
        assert loaded[2][2, 0].item() == 7
        assert loaded[1].data_ptr() == loaded[0].data_ptr() + 8
        assert len({tensor.untyped_storage().data_ptr() for tensor in loaded}) == 1


@pytest.mark.usefixtures("machine")
def test_one_memory_with_two_types_is_refused_as_in_torch():
    x = torch.zeros(4, device="cuda")
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        round_trip([x, x.view(torch.int32)])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, ids):
        return self.head(self.embed(ids)) * self.scale


@pytest.mark.usefixtures("machine")
def test_modules_and_state_dicts():
    model = Tied().to("cuda:1")
    loaded = round_trip(model, weights_only=False)
    assert loaded.head.weight is loaded.embed.weight
    assert isinstance(loaded.head.weight, nn.Parameter)
    assert loaded.head.weight.device.index == 1
    ids = torch.tensor([1, 2], device="cuda:1")
    assert torch.equal(loaded(ids), model(ids))
    state = round_trip(model.state_dict())
    assert state["embed.weight"].data_ptr() == state["head.weight"].data_ptr() != 0
    fresh = Tied()
    fresh.load_state_dict(state)
    assert fresh.embed.weight.device.type == "cpu"
    assert torch.equal(fresh.embed.weight, model.embed.weight.cpu())
    fresh.load_state_dict(state, assign=True)
    assert fresh.embed.weight.device.index == 1


@pytest.mark.usefixtures("machine")
def test_an_optimizer_continues():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).cuda(1)
    x = torch.ones(1, 3, device="cuda:1")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    step(model, optimizer)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    loaded = round_trip(saved)
    assert loaded["optimizer"]["state"][0]["exp_avg"].device.index == 1
    assert loaded["optimizer"]["state"][0]["step"].device.type == "cpu"
    for location in (None, "cpu"):
        loaded = round_trip(saved, map_location=location)
        twin = nn.Linear(3, 2).cuda(1)
        twin.load_state_dict(loaded["model"])
        again = torch.optim.AdamW(twin.parameters(), lr=0.1)
        again.load_state_dict(loaded["optimizer"])
        assert again.state[twin.weight]["exp_avg"].device.index == 1
        reference = copy.deepcopy(model)
        other = torch.optim.AdamW(reference.parameters(), lr=0.1)
        other.load_state_dict(optimizer.state_dict())
        step(twin, again)
        step(reference, other)
        assert torch.equal(twin.weight, reference.weight)


@pytest.mark.usefixtures("machine")
def test_random_states_come_back():
    saved = round_trip({"cuda": torch.cuda.get_rng_state_all(), "cpu": torch.get_rng_state()})
    first = torch.rand(2, device="cuda:1")
    torch.cuda.set_rng_state_all(saved["cuda"])
    assert torch.equal(torch.rand(2, device="cuda:1"), first)
    generator = torch.Generator("cuda:1").manual_seed(3)
    twin = round_trip(generator, weights_only=False)
    assert twin.device == generator.device
    assert torch.equal(
        torch.rand(2, device="cuda:1", generator=twin), torch.rand(2, device="cuda:1", generator=generator)
    )


def test_loaded_tensors_were_made_where_they_were_loaded(three_gpu_file):
    with VirtualMachine(parse_machine("4x24GB")):
        for location in (None, "cpu", "cuda:1", lambda storage, tag: storage.cuda(1)):
            for mmap in (False, True):
                loaded = torch.load(three_gpu_file, map_location=location, mmap=mmap)
                line = inspect.currentframe().f_lineno - 1
                record = memory_of(loaded["x"])
                made = resolve(record.made)
                assert (made.file, made.line) == (__file__, line) or callable(location)
                assert record.moved is None


@pytest.mark.usefixtures("machine")
def test_large_values_are_holes(tmp_path):
    path = tmp_path / "large.pt"
    saved = {
        "w": torch.empty(2 << 30, dtype=torch.float16, device="cuda:1"),
        "b": torch.arange(3.0, device="cuda:1"),
    }
    with pytest.warns(UserWarning, match="zeros in place of 1 of its 2 tensors"):
        torch.save(saved, path)
    status = path.stat()
    assert status.st_size > 4 << 30
    assert status.st_blocks * 512 < MEBIBYTE
    before = torch.cuda.memory_allocated(0)
    loaded = torch.load(path, map_location="cuda:0")
    assert loaded["w"].shape == saved["w"].shape
    assert loaded["b"].tolist() == [0, 1, 2]
    assert torch.cuda.memory_allocated(0) - before >= 4 << 30
    assert torch.load(path, mmap=True)["w"].device.index == 1
    on_host = torch.load(path, map_location="cpu")
    assert on_host["w"].device.type == "cpu"
    assert on_host["w"].cuda().device.index == 0
    script = (
        "import sys, torch; x = torch.load(sys.argv[1], map_location='cpu', mmap=True); "
        "print(x['w'][-1].item(), x['b'].tolist())"
    )
    assert plainly(script, path) == "0.0 [0.0, 1.0, 2.0]\n"
    with pytest.warns(UserWarning), path.open("wb") as file:
        torch.save(saved, file)
    assert path.stat().st_blocks * 512 < MEBIBYTE
    with pytest.raises(UnsupportedFeatureError, match="4096 MiB"):
        torch.save(saved, io.BytesIO())


@pytest.mark.usefixtures("machine")
def test_unknown_small_values_stay_unknown(tmp_path):
    unknown = torch.empty(MEBIBYTE, device="cuda").sum(0, keepdim=True)
    assert memory_of(unknown).shadow is None
    with pytest.warns(UserWarning, match="1 of its 2"):
        loaded = round_trip([unknown, torch.ones(1)], map_location="cpu")
    assert memory_of(loaded[0]).assumed
    assert not memory_of(loaded[1]).assumed


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux")
def test_a_real_checkpoint_is_not_read_for_a_gpu(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    state = {f"layer.{i}.weight": torch.full((1024, 1024), float(i)) for i in range(16)}
    state["bias"] = torch.arange(4.0)
    torch.save(state, path)

    def read_so_far():
        return int(Path("/proc/self/io").read_text().split()[1])

    with VirtualMachine(parse_machine("2x24GB")):
        before = read_so_far()
        loaded = torch.load(path, map_location="cuda:1")
        assert read_so_far() - before < 4 * MEBIBYTE
        assert loaded["bias"].tolist() == [0, 1, 2, 3]
        assert loaded["layer.3.weight"].device.index == 1
        on_host = torch.load(path, map_location="cpu")
        assert on_host["layer.3.weight"].sum().item() == 3 * 1024 * 1024
        # In memory of its own: the file may be written again.
        torch.save(on_host, path)
        assert torch.load(path, map_location="cpu", mmap=True)["layer.3.weight"][5, 5].item() == 3


@pytest.mark.usefixtures("machine")
def test_torch_s_own_errors_stay(tmp_path):
    path = tmp_path / "broken.pt"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    torch.save(torch.ones(2, device="cuda"), path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
        torch.load(path)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "missing.pt")
    torch.save({"x": Tied().cuda()}, path)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path)


@pytest.mark.usefixtures("machine")
def test_pickle_and_copy():
    x = torch.arange(6.0, device="cuda:1").view(2, 3).requires_grad_()
    x.note = "mine"
    twin = pickle.loads(pickle.dumps(x))
    assert (twin.device.index, twin.requires_grad, twin.note) == (1, True, "mine")
    assert torch.equal(twin, x)
    shallow = copy.copy(x)
    assert shallow.data_ptr() == x.data_ptr()
    deep = copy.deepcopy(x)
    assert deep.data_ptr() != x.data_ptr()
    assert deep.note == "mine"
    assert torch.equal(deep, x)
    for tensor in (x * 2, x.t()):
        with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
            copy.deepcopy(tensor)
    half = pickle.loads(pickle.dumps(x.detach()[1].half()))
    assert half.tolist() == [3, 4, 5]


@pytest.mark.usefixtures("machine")
def test_deepcopies_keep_what_is_shared():
    base = torch.arange(4.0, device="cuda:1")
    first, second, storage = copy.deepcopy([base, base[1:], base.untyped_storage()])
    first[1] = 9
    assert second[0].item() == 9
    assert storage.data_ptr() == first.data_ptr() == first.untyped_storage().data_ptr()
    assert base[1].item() == 1
    model = Tied().to("cuda:1")
    calls = []
    model.register_forward_hook(lambda *ignored: calls.append(1))
    model(torch.tensor([1], device="cuda:1")).sum().backward()
    twin = copy.deepcopy(model)
    assert twin.head.weight is twin.embed.weight
    assert twin.head.weight is not model.head.weight
    assert torch.equal(twin.head.weight, model.head.weight)
    twin(torch.tensor([1], device="cuda:1"))
    assert len(calls) == 2


@pytest.mark.usefixtures("machine")
def test_the_ledger_follows_copies_and_loads():
    gc.collect()
    before = torch.cuda.memory_allocated(1)
    x = torch.zeros(1 << 22, device="cuda:1")
    assert torch.cuda.memory_allocated(1) - before == 16 * MEBIBYTE
    twin = copy.deepcopy(x)
    assert torch.cuda.memory_allocated(1) - before == 32 * MEBIBYTE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = round_trip(x)
    assert torch.cuda.memory_allocated(1) - before == 48 * MEBIBYTE
    del twin, loaded, x
    gc.collect()  # up to torch 2.8 a cycle in `torch.save` holds what was saved
    assert torch.cuda.memory_allocated(1) == before


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("zipped", [True, False])
def test_what_was_saved_stays_where_it_is_when_garbage_is_collected(zipped):
    model, file = nn.Linear(2, 2).cuda(1), io.BytesIO()
    torch.save(model.state_dict(), file, _use_new_zipfile_serialization=zipped)
    gc.collect()
    assert model.weight.device == torch.device("cuda:1")
    file.seek(0)
    loaded = torch.load(file)
    gc.collect()
    assert loaded["weight"].device == model.bias.device == torch.device("cuda:1")


@pytest.mark.usefixtures("machine")
def test_sparse_tensors_are_refused():
    x = torch.eye(3).to_sparse().to("cuda")
    with pytest.raises(UnsupportedFeatureError, match="sparse_coo"):
        pickle.dumps(x)


def test_a_file_from_the_machine_is_a_normal_zip(three_gpu_file):
    with zipfile.ZipFile(three_gpu_file) as archive:
        assert archive.testzip() is None
        assert not any("samedevice" in name for name in archive.namelist())
    assert os.path.getsize(three_gpu_file) < 4096  # noqa: PTH202 # what torch itself asks


def test_all_is_restored(three_gpu_file):
    names = ("_open_zipfile_reader", "_open_zipfile_writer", "_get_restore_location")
    before = [getattr(torch.serialization, name) for name in names]
    reduce_ex, deepcopy = torch.Tensor.__reduce_ex__, torch.Tensor.__deepcopy__
    with VirtualMachine(parse_machine("1x24GB")):
        pass
    assert [getattr(torch.serialization, name) for name in names] == before
    assert torch.Tensor.__reduce_ex__ is reduce_ex
    assert torch.Tensor.__deepcopy__ is deepcopy


_OVER_ITSELF = """
import sys, torch
import samedevice as sd
path, opened = sys.argv[1], sys.argv[2] == "opened"
with sd.machine("2x24GB"):
    torch.save({"w": torch.arange(3_000_000.0)}, path)
    loaded = torch.load(path, map_location="cpu", mmap=True)
    if opened:
        with open(path, "wb") as file:
            torch.save(loaded, file)
    torch.save(loaded, path)
    print(torch.load(path)["w"].sum().item() == loaded["w"].sum().item())
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize("how", ["named", "opened"])
def test_saving_over_a_mapped_file_ends_no_process(tmp_path, how):
    done = subprocess.run(
        [sys.executable, "-c", _OVER_ITSELF, str(tmp_path / "weights.pt"), how],
        capture_output=True,
        text=True,
        check=False,
    )
    if how == "named":
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
        assert "bus error" in done.stderr
    else:
        assert done.returncode == 1
        assert "RuntimeError" in done.stderr
        assert "was cut or written anew" in done.stderr
