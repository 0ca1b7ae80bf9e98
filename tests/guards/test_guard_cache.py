"""`sd.guard_cache`: a served block's cache stays with the block."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

import samedevice as sd

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.usefixtures("machine")


class Attention(nn.Module):
    """The protocol of an old block: a pair goes in, a longer pair comes out."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, layer_past=None):
        key, value = self.key(x), self.value(x)
        if layer_past is not None:
            key, value = torch.cat([layer_past[0], key]), torch.cat([layer_past[1], value])
        return torch.softmax(x @ key.T, -1) @ value, (key, value)


def llama():
    modeling = transformers.models.llama.modeling_llama
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_attention_heads=4, num_hidden_layers=1
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    return config, modeling.LlamaDecoderLayer(config, 0).eval(), modeling.LlamaRotaryEmbedding(config)


@pytest.fixture(autouse=True)
def without_gradients(machine):
    with torch.no_grad():
        yield


def serve_pair(block, home):
    torch.manual_seed(1)
    past, answers = None, []
    for _ in range(3):
        answer, past = block(torch.randn(2, 4).to("cuda:0"), layer_past=past)
        past = tuple(part.to(home) for part in past)
        answers.append(answer.cpu())
    return answers


class PetalsBlock(nn.Module):
    """Petals' layout: keys are [heads, head size, length], values [heads, length, head size], and a step
    writes them back.
    """

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, layer_past=None, use_cache=False):
        key, value = self.key(x).transpose(1, 2), self.value(x)
        key, value = torch.cat([layer_past[0], key], dim=2), torch.cat([layer_past[1], value], dim=1)
        return torch.softmax(x @ key, -1) @ value, (key, value)


class Sharded(nn.Module):
    """`tensor_parallel.TensorParallel`, as far as a server uses it: it calls `forward` itself, so no hook of
    the wrapper runs.
    """

    def __init__(self, *shards):
        super().__init__()
        self.module_shards = nn.ModuleList(shards)

    def forward(self, x, layer_past):
        found = [
            shard(x.to(shard.key.weight.device), layer_past=past)
            for shard, past in zip(self.module_shards, layer_past, strict=True)
        ]
        return sum(answer.to("cuda:0") for answer, _ in found), [present for _, present in found]


def serve_petals(block, homes):
    """Three steps as `TransformerBackend.inference_step` makes them, over caches allocated at once on
    `homes`.
    """
    torch.manual_seed(1)
    caches = [(torch.zeros(2, 4, 16, device=home), torch.zeros(2, 16, 4, device=home)) for home in homes]
    answers, length = [], 0
    with torch.inference_mode():
        for tokens in (3, 1, 1):
            past = [(key[:, :, :length], value[:, :length]) for key, value in caches]
            answer, presents = block.forward(torch.randn(2, tokens, 4).to("cuda:0"), layer_past=past)
            for (key, value), (new_key, new_value) in zip(caches, presents, strict=True):
                key[:, :, length : length + tokens] = new_key[:, :, length:]
                value[:, length : length + tokens] = new_value[:, length:]
            length += tokens
            answers.append(answer.cpu())
    return answers


def test_the_shards_of_a_served_block_keep_their_own_parts(caplog):
    torch.manual_seed(0)
    block = Sharded(PetalsBlock().to("cuda:0"), PetalsBlock().to("cuda:1")).eval()
    expected = serve_petals(block, ("cuda:0", "cuda:1"))
    with pytest.raises(RuntimeError, match="same device"):
        serve_petals(block, ("cpu", "cpu"))
    guard = sd.guard_cache(block)
    assert all(map(torch.equal, serve_petals(block, ("cuda:0", "cuda:1")), expected))
    assert guard.moves == {}
    assert all(map(torch.equal, serve_petals(block, ("cpu", "cpu")), expected))
    assert guard.moves == {"layer_past[0]": 6, "layer_past[1]": 6}
    assert "layer_past[0] of PetalsBlock is on cpu while the block is on cuda:0" in caplog.text
    guard.remove()
    with pytest.raises(RuntimeError, match="same device"):
        serve_petals(block, ("cpu", "cpu"))


def test_a_pair_on_the_host(caplog):
    torch.manual_seed(0)
    block = Attention().to("cuda:0").eval()
    expected = serve_pair(block, "cuda:0")
    with pytest.raises(RuntimeError, match="same device"):
        serve_pair(block, "cpu")
    guard = sd.guard_cache(block)
    with caplog.at_level(logging.WARNING, logger="samedevice"):
        found = serve_pair(block, "cpu")
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert guard.moves == {"layer_past[0]": 2, "layer_past[1]": 2}
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("layer_past[0] of Attention is on cpu while the block is on cuda:0: moved 32 B")
    guard.remove()
    with pytest.raises(RuntimeError, match="same device"):
        serve_pair(block, "cpu")


def test_positional_and_raising():
    block = Attention().to("cuda:0")
    guard = sd.guard_cache(block, on_parted="raise")
    x = torch.ones(1, 4, device="cuda:0")
    assert block(x)[0].shape == (1, 4)
    with pytest.raises(
        RuntimeError, match=r"layer_past\[0\], the cache of Attention, is on cpu while the block is on cuda:0"
    ):
        block(x, (torch.ones(1, 4), torch.ones(1, 4)))
    assert guard.moves == {}


def test_refuses_another_word():
    with pytest.raises(ValueError, match="on_parted"):
        sd.guard_cache(nn.Linear(1, 1), on_parted="ignore")


def cached(kind, config):
    if kind == "static":
        return transformers.StaticCache(config=config, max_cache_len=16)
    return transformers.DynamicCache(config=config)


def serve_cache(block, rotary, cache, part=None):
    torch.manual_seed(1)
    answers = []
    position = 0
    for length in (4, 1, 1):
        hidden = torch.randn(1, length, 32).to("cuda:0")
        ids = torch.arange(position, position + length, device="cuda:0")[None]
        answers.append(
            block(
                hidden,
                past_key_values=cache,
                position_ids=ids,
                cache_position=ids[0],
                position_embeddings=rotary(hidden, ids),
                use_cache=True,
            )
        )
        position += length
        if part is not None:
            part(cache)
    return [(answer[0] if isinstance(answer, tuple) else answer).cpu() for answer in answers]


def to_host(cache):
    layer = cache.layers[0]
    layer.keys, layer.values = layer.keys.cpu(), layer.values.cpu()


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_cache_objects(kind):
    pytest.importorskip("transformers", minversion="4.56")  # for caches that have layers
    config, block, rotary = llama()
    block.to("cuda:0")
    rotary.to("cuda:0")
    expected = serve_cache(block, rotary, cached(kind, config))
    with pytest.raises(RuntimeError, match="same device"):
        serve_cache(block, rotary, cached(kind, config), to_host)
    guard = sd.guard_cache(block)
    found = serve_cache(block, rotary, cached(kind, config), to_host)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert guard.moves["past_key_values.layers[0].keys"] == 2


def test_speaks_chinese(caplog):
    block = Attention().to("cuda:0")
    sd.guard_cache(block, language="zh")
    with caplog.at_level(logging.WARNING, logger="samedevice"):
        block(torch.ones(2, 4, device="cuda:0"), layer_past=(torch.ones(1, 4), torch.ones(1, 4)))
    assert "Attention 的 layer_past[0] 在 cpu 上，而该块在 cuda:0 上" in caplog.records[0].getMessage()  # noqa: RUF001 # Chinese punctuation


class Static(nn.Module):
    """Writes its step into the cache that it was given, and reads all of it."""

    def __init__(self):
        super().__init__()
        self.key, self.steps = nn.Linear(4, 4), 0

    def forward(self, x, layer_past):
        layer_past[self.steps : self.steps + 1].data.copy_(self.key(x))
        layer_past[self.steps].mul_(2)
        self.held, self.steps = layer_past, self.steps + 1
        return x @ layer_past.T


def test_writes_to_a_cache_reach_who_made_it():
    torch.manual_seed(0)
    alone, block = Static().to("cuda:0"), Static()
    block.load_state_dict(alone.state_dict())
    block.to("cuda:0")
    x, one, cache = torch.ones(1, 4, device="cuda:0"), torch.zeros(4, 4, device="cuda:0"), torch.zeros(4, 4)
    guard = sd.guard_cache(block)
    for step in range(4):
        assert torch.equal(block(x, layer_past=cache), alone(x, layer_past=one))
        cache[step, 0] = one[step, 0] = 3.0
        assert torch.equal(cache, one.cpu())
    assert block.held is cache
    assert guard.moves == {"layer_past": 4}
