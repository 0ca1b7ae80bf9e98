"""`sd.heal` on the families of failures that people meet, with the real classes of transformers and peft."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.errors import UsageError

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

pytestmark = pytest.mark.usefixtures("machine")
GPU, OTHER = "cuda:0", "cuda:1"


TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attn_implementation": "eager",
}


def made(kind="Qwen2", **more):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}{'Text' if kind == 'Gemma3' else ''}Config")(**TINY, **more)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def spread(model):
    """Moved by hand, without hooks: ends on the second GPU, the first two layers on the first."""
    model.to(OTHER)
    for layer in model.model.layers[:2]:
        layer.to(GPU)
    return model


def ids(device=GPU):
    return torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 11, 12]], device=device)


def written(model, **how):
    given = ids()
    torch.manual_seed(1)
    return model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=6, **how).tolist()


SLIDING = {"sliding_window": 4}
MIXED = {"sliding_window": 4, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"] * 2}


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "config", "how"),
    [
        ("Qwen2", {}, {"do_sample": False}),
        ("Qwen2", {}, {"do_sample": False, "use_cache": False}),
        ("Qwen2", {}, {"num_beams": 3, "do_sample": False}),
        (
            "Qwen2",
            {},
            {"num_beams": 2, "num_return_sequences": 2, "do_sample": False, "no_repeat_ngram_size": 2},
        ),
        ("Qwen2", {}, {"do_sample": False, "cache_implementation": "static"}),
        ("Mistral", SLIDING, {"do_sample": False}),
        ("Mistral", SLIDING, {"do_sample": False, "cache_implementation": "static"}),
        ("Gemma3", MIXED, {"do_sample": False}),
        ("Gemma3", MIXED, {"num_beams": 2, "do_sample": False, "cache_implementation": "static"}),
        (
            "Qwen2",
            {},
            {
                "do_sample": False,
                "suppress_tokens": [5, 6],
                "bad_words_ids": [[7]],
                "repetition_penalty": 1.3,
            },
        ),
    ],
    ids=[
        "greedy",
        "no-cache",
        "beams",
        "beams-and-helpers",
        "static",
        "sliding",
        "static-sliding",
        "hybrid",
        "static-hybrid-beams",
        "helpers",
    ],
)
@pytest.mark.sample(4)
def test_generate(kind, config, how):
    expected = written(made(kind, **config).to(GPU), **how)
    with pytest.raises(RuntimeError, match="same device"):
        written(spread(made(kind, **config)), **how)
    model = spread(made(kind, **config))
    healing = sd.heal(model)
    for _ in range(3):
        assert written(model, **how) == expected
    assert healing.repairs


@torch.no_grad()
@pytest.mark.skipif(
    importlib.util.find_spec("optimum") is None, reason="a quantized cache needs optimum-quanto"
)
def test_a_quantized_cache():
    how = {
        "do_sample": False,
        "cache_implementation": "quantized",
        "cache_config": {"backend": "quanto", "nbits": 4, "q_group_size": 8},
    }
    expected = written(made().to(GPU), **how)
    model = spread(made())
    sd.heal(model)
    for _ in range(2):
        assert written(model, **how) == expected


@torch.no_grad()
def test_a_cache_made_by_the_user_on_another_gpu():
    """A static cache allocated before the model was spread: its tensors are written to, so they stay."""
    pytest.importorskip("transformers", minversion="4.56")  # for a cache that is made early

    def steps(model):
        cache = transformers.StaticCache(config=model.config, max_cache_len=16)
        cache.early_initialization(batch_size=2, num_heads=2, head_dim=8, dtype=torch.float32, device=GPU)
        first = model(ids(), past_key_values=cache, use_cache=True)
        second = model(ids()[:, -1:], past_key_values=cache, use_cache=True)
        return [first.logits.cpu(), second.logits.cpu()], cache

    expected, alone = steps(made().to(GPU))
    model = spread(made())
    sd.heal(model)
    for _ in range(3):
        found, cache = steps(model)
        assert all(map(torch.equal, found, expected))
        for layer, other in zip(cache.layers, alone.layers, strict=True):
            assert str(layer.keys.device) == GPU
            assert torch.equal(layer.keys, other.keys)


@torch.no_grad()
def test_a_helper_of_generate_on_the_host():
    class Favours(transformers.LogitsProcessor):
        """A table that its author made on the host."""

        def __init__(self, device):
            self.table = torch.arange(64.0, device=device)

        def __call__(self, input_ids, scores):
            return scores + self.table / 10

    expected = written(made().to(GPU), do_sample=False, logits_processor=[Favours(GPU)])
    model = made().to(GPU)
    assert written(model, do_sample=False) != expected
    healing = sd.heal(model)
    for _ in range(3):
        assert written(model, do_sample=False, logits_processor=[Favours("cpu")]) == expected
    assert [repair.source for repair in healing.repairs] == ["cpu"]


def lora(model):
    peft = pytest.importorskip("peft")
    torch.manual_seed(2)
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    )
    return adapted


@pytest.mark.parametrize("train", [False, True])
def test_adapter_weights_on_one_gpu(train):
    """As an adapter that was loaded to the first GPU, on a dispatched model."""

    def step(model):
        model.train(train)
        given = ids()
        loss = model(input_ids=given, labels=given).loss
        model.zero_grad()
        loss.backward()
        gradients = [value.grad.cpu() for name, value in sorted(model.named_parameters()) if "lora_" in name]
        return loss.detach().cpu(), gradients

    expected = step(lora(made()).to(GPU))
    model = made()
    ends = dict.fromkeys(["model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head"], GPU)
    layers = {f"model.layers.{number}": GPU if number < 2 else OTHER for number in range(4)}
    model = lora(accelerate.dispatch_model(model, ends | layers, main_device=GPU))
    for name, value in model.named_parameters():
        if "lora_" in name:
            value.data = value.data.to(GPU)
    with pytest.raises(RuntimeError, match="same device"):
        step(model)
    healing = sd.heal(model)
    for _ in range(3):
        loss, gradients = step(model)
        assert torch.equal(loss, expected[0])
        assert all(map(torch.equal, gradients, expected[1]))
    # Without a virtual machine nobody knows when the adapter came, or who put it there.
    assert {repair.finding.confidence for repair in healing.repairs} == {"guess"}
    named = {cause for each in healing.repairs for cause in (each.finding.cause, *each.finding.candidates)}
    assert "adapter-weights-on-other-device" in named
    assert all(str(value.device) == GPU for name, value in model.named_parameters() if "lora_" in name)


@pytest.mark.parametrize("kind", ["labels", "weights", "targets"])
def test_losses(kind):
    """Outside of any module of the model, as training loops have them."""
    logits = torch.arange(6.0, device=OTHER).reshape(2, 3).requires_grad_()
    alone = torch.arange(6.0, device=GPU).reshape(2, 3).requires_grad_()
    labels, weights = torch.tensor([1, 2]), torch.tensor([1.0, 2.0, 3.0])
    losses = {
        "labels": lambda x, at: nn.functional.cross_entropy(x, labels.to(at)),
        "weights": lambda x, at: nn.CrossEntropyLoss(weight=weights.to(at))(x, labels.to(x.device)),
        "targets": lambda x, at: (
            nn.functional.mse_loss(x, weights.to(at).expand(2, 3)) * nn.functional.l1_loss(x, x.detach() / 2)
        ),
    }
    expected = losses[kind](alone, GPU)
    expected.backward()
    with sd.heal() as healing:
        found = losses[kind](logits, GPU if kind == "labels" else "cpu")
    found.backward()
    assert torch.equal(found.to(GPU), expected)
    assert torch.equal(logits.grad.to(GPU), alone.grad)
    assert all(repair.target == OTHER for repair in healing.repairs)


# -- refused


def refused(call):
    with pytest.raises(RuntimeError) as caught, sd.heal() as healing:
        call()
    assert healing.repairs == []
    assert sum("not healed" in note for note in caught.value.__notes__) == 1
    assert caught.value.finding.code.startswith("SD1")
    return caught.value.finding.cause


@pytest.mark.parametrize("foreach", [False, True])
def test_optimizer_state(foreach):
    weight = nn.Parameter(torch.ones(3, device=GPU))
    optimizer = torch.optim.Adam([weight], foreach=foreach)
    weight.sum().backward()
    optimizer.step()
    for state in optimizer.state.values():
        state["exp_avg"] = state["exp_avg"].to(OTHER)
    assert refused(optimizer.step) == "optimizer-state-on-other-device"


def test_a_generator():
    assert (
        refused(lambda: torch.randn(3, device=GPU, generator=torch.Generator()))
        == "generator-or-default-device"
    )


QUANTIZED = """
import torch

class QuantLinear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("qweight", torch.ones(4, 4, dtype=torch.int8, device="cuda:0"))
        self.register_buffer("scales", torch.ones(4, device="cuda:1"))

    def forward(self, x):
        return x @ (self.qweight.float() * self.scales)
"""


def test_quantized_weights(tmp_path):
    """Told by the package in which the layer is."""
    file = tmp_path / "auto_gptq" / "qlinear.py"
    file.parent.mkdir()
    file.write_text(QUANTIZED)
    names = {}
    exec(compile(QUANTIZED, str(file), "exec"), names)
    layer = names["QuantLinear"]()
    assert refused(lambda: layer(torch.ones(2, 4, device=GPU))) == "quantized-state-on-other-device"


def test_replicas(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        replica = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        with pytest.raises(UsageError, match="replicated"):
            sd.heal(replica)
    finally:
        torch.distributed.destroy_process_group()
    with pytest.raises(UsageError, match="replicated"):
        sd.heal(nn.DataParallel(nn.Linear(2, 2).to(GPU), device_ids=[0, 1]))


def test_a_spread_model_in_a_job_of_several_processes(monkeypatch):
    model = spread(made())
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UsageError, match="a job of 4 processes"):
        sd.heal(model)
    with pytest.raises(RuntimeError) as caught, sd.heal():
        model(ids())
    assert any("not healed" in note for note in caught.value.__notes__)
