"""safetensors, transformers and accelerate: saving from virtual GPUs and loading to them."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch
from torch import nn

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state.memory import memory_of
from samedevice.torch_versions.adapter import TORCH

safetensors = pytest.importorskip("safetensors")
library = pytest.importorskip("safetensors.torch")

MEBIBYTE = 1 << 20
LOADS = (torch.load,) if ".safetensors" in Path(torch.serialization.__file__).read_text("utf-8") else ()
"""Newer releases of torch read such files themselves."""
pytestmark = pytest.mark.usefixtures("machine")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.safetensors"
    library.save_file(
        {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.int64)}, path, {"format": "pt"}
    )
    return path


@pytest.mark.parametrize(("device", "index"), [("cuda", 0), ("cuda:1", 1), (0, 0), (1, 1), ("cpu", None)])
def test_loading(file, device, index):
    loaded = library.load_file(file, device=device)
    assert [tensor.device.index for tensor in loaded.values()] == [index, index]
    assert loaded["a"].cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    with safetensors.safe_open(file, framework="pt", device=device) as opened:
        assert opened.metadata() == {"format": "pt"}
        assert sorted(opened.keys()) == ["a", "b"]
        assert opened.get_tensor("a").device.index == index
        part = opened.get_slice("a")
        assert part.get_shape() == [2, 3]
        assert part[:, 1:].tolist() == [[1, 2], [4, 5]]
        assert part[1:].device.index == index


def test_refusals_of_the_library_stay(file, tmp_path):
    with pytest.raises(TORCH.accelerator_error, match="invalid device ordinal"):
        library.load_file(file, device="cuda:7")
    with pytest.raises(safetensors.SafetensorError, match="gpu is invalid"):
        library.load_file(file, device="gpu")
    with pytest.raises(safetensors.SafetensorError, match="does not contain tensor c"):
        with safetensors.safe_open(file, "pt", device="cuda") as opened:
            opened.get_tensor("c")
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"\xff" * 64)
    for load in (library.load_file, *LOADS):
        with pytest.raises(safetensors.SafetensorError, match="header too large"):
            load(broken)
    with pytest.raises(FileNotFoundError):
        library.load_file(tmp_path / "missing.safetensors", device="cuda")


def test_saving(tmp_path):
    path = tmp_path / "y.safetensors"
    x = torch.arange(6.0, device="cuda:1").view(2, 3)
    library.save_file(
        {"x": x, "row": x[1].clone(), "h": torch.ones(2), "none": torch.empty(0, device="cuda")}, path
    )
    loaded = library.load_file(path)
    assert loaded["x"].tolist() == x.tolist()
    assert loaded["row"].tolist() == [3, 4, 5]
    assert library.load(library.save({"x": x.half()}))["x"].dtype == torch.float16
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        library.save_file({"x": x, "again": x}, path)
    with pytest.raises(ValueError, match="non contiguous tensor"):
        library.save_file({"x": x.t()}, path)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))


def test_tied_models(tmp_path):
    path = tmp_path / "tied.safetensors"
    model = Tied().to("cuda:1")
    library.save_model(model, path)
    assert len(library.load_file(path)) == 1
    for device in ("cpu", "cuda:0"):
        twin = Tied().to(device)
        assert library.load_model(twin, path, device=device) == (set(), [])
        assert torch.equal(twin.head.weight.cpu(), model.head.weight.cpu())


def test_large_tensors_are_holes(tmp_path):
    path = tmp_path / "large.safetensors"
    saved = {
        "w": torch.empty(2 << 30, dtype=torch.float16, device="cuda:1"),
        "b": torch.arange(3.0, device="cuda"),
        "h": torch.ones(5, dtype=torch.int64),
    }
    with pytest.warns(UserWarning, match="zeros in place of 1 of its 3 tensors"):
        library.save_file(saved, path, {"format": "pt"})
    status = path.stat()
    assert status.st_size > 4 << 30
    assert status.st_blocks * 512 < MEBIBYTE
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for device in ("cuda:1", "cpu"):
        loaded = library.load_file(path, device=device)
        assert loaded["w"].shape == (2 << 30,)
        assert loaded["b"].tolist() == [0, 1, 2]
        assert loaded["h"].tolist() == [1] * 5
        del loaded
    with safetensors.safe_open(path, "pt", device="cuda") as opened:
        assert opened.metadata()["format"] == "pt"
        assert memory_of(opened.get_slice("w")[:10]).shadow is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    with pytest.raises(UnsupportedFeatureError, match="4096 MiB"):
        library.save({"w": saved["w"]})
    assert library.load(library.save({"w": torch.empty(MEBIBYTE, device="cuda")}))["w"].sum().item() == 0


def test_a_real_checkpoint_is_not_read(tmp_path):
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("needs Linux")
    path = tmp_path / "real.safetensors"
    library.save_file({f"w{i}": torch.full((1024, 1024), float(i)) for i in range(16)}, path)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = library.load_file(path, device="cuda:1")
    assert loaded["w3"].device.index == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss < 32 * 1024
    assert library.load_file(path)["w3"][5, 5].item() == 3


def test_transformers_save_and_reload(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=50,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def same(other):
        state = other.state_dict()
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[name].cpu(), tensor) for name, tensor in expected.items())
        assert other.lm_head.weight is other.model.embed_tokens.weight

    model.to("cuda:1").save_pretrained(tmp_path / "one")
    same(transformers.LlamaForCausalLM.from_pretrained(tmp_path / "one"))
    split = {
        "model.embed_tokens": 0, "lm_head": 0, "model.layers.0": 0, "model.layers.1": 1, "model.norm": 1,
        "model.rotary_emb": 1,
    }  # fmt: skip
    two = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "one", device_map=split)
    same(two)
    two.save_pretrained(tmp_path / "two", max_shard_size="5KB")
    assert (tmp_path / "two" / "model.safetensors.index.json").exists()
    same(transformers.LlamaForCausalLM.from_pretrained(tmp_path / "two"))


@pytest.mark.filterwarnings("ignore:samedevice:UserWarning")
@pytest.mark.parametrize("device_map", ["auto", None])
def test_a_ghost_is_saved_as_a_ghost(tmp_path, device_map):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=8,
        num_attention_heads=32,
        num_key_value_heads=32,
        vocab_size=32000,
        dtype="float16",
    )
    config.save_pretrained(tmp_path / "config")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "config", device_map=device_map, dtype=torch.float16
    )
    model.save_pretrained(tmp_path / "saved", max_shard_size="2GB")
    torch.save(model.state_dict(), tmp_path / "saved.bin")
    files = [*(tmp_path / "saved").glob("*.safetensors"), tmp_path / "saved.bin"]
    assert len(files) == 3
    assert sum(file.stat().st_size for file in files) > 7_000_000_000
    assert sum(file.stat().st_blocks * 512 for file in files) < 8 * MEBIBYTE
    again = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "saved", device_map=device_map, dtype=torch.float16
    )
    assert again.device.type == ("cpu" if device_map is None else "cuda")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


@pytest.mark.parametrize("safe", [True, False])
def test_accelerate_saves_and_loads(tmp_path, safe):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator()
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.arange(5), 1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for ids in loader:
        accelerator.backward(model(ids).sum())
        optimizer.step()
        optimizer.zero_grad()
    expected = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}

    def same(other):
        return all(torch.equal(tensor.cpu(), expected[name]) for name, tensor in other.state_dict().items())

    accelerator.save_state(tmp_path / "state", safe_serialization=safe)
    with torch.no_grad():
        model.head.weight.zero_()
    accelerator.load_state(tmp_path / "state")
    assert same(model)
    accelerator.save_model(model, tmp_path / "model", safe_serialization=safe)
    with accelerate.init_empty_weights():
        empty = Tied()
    empty.tie_weights = lambda: setattr(empty.head, "weight", empty.embed.weight)
    empty.tie_weights()
    loaded = accelerate.load_checkpoint_and_dispatch(
        empty, tmp_path / "model", device_map={"embed": 1, "head": 1}
    )
    assert same(loaded)
    assert loaded.embed.weight.device.index == 1


def test_all_is_restored():
    originals = [safetensors.safe_open, library.safe_open, library.serialize_file, library._to_ndarray]
    with VirtualMachine(parse_machine("1x24GB")):
        pass
    assert [
        safetensors.safe_open,
        library.safe_open,
        library.serialize_file,
        library._to_ndarray,
    ] == originals
