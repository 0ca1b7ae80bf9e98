"""`sd.heal`: the numbers of the run on one device, or the exception."""

from __future__ import annotations

import contextlib
import logging

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.errors import UsageError
from samedevice.guards._heal import QUIET_CALLS

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

pytestmark = pytest.mark.usefixtures("machine")


def qwen(tied=True):
    config = transformers.Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    torch.manual_seed(0)
    return transformers.Qwen2ForCausalLM(config).eval()


def state(model):
    """Everything that healing could leave behind."""
    return {
        name: (
            module.__dict__.get("forward"),
            module.__dict__.get("generate"),
            len(module._forward_hooks),
            len(module._forward_pre_hooks),
        )
        for name, module in model.named_modules()
    }


def ids(device="cuda:0"):
    return torch.tensor([[1, 2, 3, 4]]).to(device)


@torch.no_grad()
def test_ids_on_another_gpu_than_a_model_without_hooks(caplog):
    """S1."""
    expected = qwen().to("cuda:0")(input_ids=ids()).logits.cpu()
    model = qwen().to("cuda:1")
    before = state(model)
    healing = sd.heal(model)
    with caplog.at_level(logging.WARNING, logger="samedevice"):
        found = [model(input_ids=ids()).logits for _ in range(3)]
    assert all(torch.equal(each.cpu(), expected) for each in found)
    assert str(found[0].device) == "cuda:1"
    assert healing.repairs[0].module == "model.embed_tokens"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said)) >= 1
    assert "cuda:0 -> cuda:1, 32 B" in said[0]
    healing.remove()
    assert state(model) == before
    with pytest.raises(RuntimeError, match="same device"):
        model(input_ids=ids())


@torch.no_grad()
def test_generate(caplog):
    expected = qwen().to("cuda:0").generate(ids(), max_new_tokens=4, do_sample=False).tolist()
    model = qwen().to("cuda:1")
    sd.heal(model)
    for _ in range(2):
        assert model.generate(ids(), max_new_tokens=4, do_sample=False).tolist() == expected


def split_by_hand(model):
    """Moved block by block, as notebooks do it: nothing has a hook."""
    pytest.importorskip("transformers", minversion="4.48")  # for a rotary table that the model has
    model.model.embed_tokens.to("cuda:1")
    model.model.rotary_emb.to("cuda:0")
    for number, layer in enumerate(model.model.layers):
        layer.to(f"cuda:{number // 2}")
    model.model.norm.to("cuda:1")
    model.lm_head.to("cuda:1")
    return model


@torch.no_grad()
def test_a_model_spread_without_hooks():
    """S2: the embedding is on the second GPU, ids and first layers on the first."""
    torch.manual_seed(0)
    alone = qwen(tied=False).to("cuda:0")
    expected = alone(input_ids=ids()).logits.cpu()
    written = alone.generate(ids(), max_new_tokens=5, do_sample=False).tolist()
    model = split_by_hand(qwen(tied=False))
    before = state(model)
    healing = sd.heal(model)
    for _ in range(6):
        assert torch.equal(model(input_ids=ids()).logits.cpu(), expected)
    for _ in range(3):
        assert model.generate(ids(), max_new_tokens=5, do_sample=False).tolist() == written
    assert healing.repairs
    healing.remove()
    assert state(model) == before


@torch.no_grad()
def test_an_embedding_on_the_host():
    """S2 with one GPU: the rotary table is made beside the embedding, and each layer takes its own copy."""
    expected = qwen(tied=False).to("cuda:0")(input_ids=ids()).logits
    model = qwen(tied=False).to("cuda:0")
    model.model.embed_tokens.to("cpu")
    healing = sd.heal(model)
    for _ in range(QUIET_CALLS + 2):
        assert torch.equal(model(input_ids=ids()).logits, expected)
    assert len(healing._settled) == 1


class Positions(nn.Module):
    """S3: a helper on the host is multiplied inside a method."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, second_per_grid_ts=None):
        steps = torch.arange(4, device=x.device).float().expand(2, 4)
        return self.layer(x) * (steps * second_per_grid_ts).cos()


class Helper(nn.Module):
    """Its helper is made inside, so no boundary carries it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) * torch.arange(4.0)


def made(kind, *given):
    torch.manual_seed(0)
    return kind(*given).to("cuda:0").eval()


@torch.no_grad()
def test_an_input_that_stayed_on_the_host():
    model, x = made(Positions), torch.ones(2, 4, device="cuda:0")
    grid = torch.tensor([[1.5], [0.5]])
    expected = model(x, second_per_grid_ts=grid.to("cuda:0"))
    healing = sd.heal(model)
    for _ in range(QUIET_CALLS + 2):
        assert torch.equal(model(x, second_per_grid_ts=grid), expected)
    (repair,) = healing.repairs
    assert (repair.source, repair.target) == ("cpu", "cuda:0")
    assert len(healing._settled) == 1
    assert str(grid.device) == "cpu"


@torch.no_grad()
def test_a_helper_made_inside():
    model, x = made(Helper), torch.ones(2, 4, device="cuda:0")
    expected = model.layer(x) * torch.arange(4.0, device="cuda:0")
    before = state(model)
    healing = sd.heal(model)
    for _ in range(QUIET_CALLS + 2):
        assert torch.equal(model(x), expected)
    assert len(healing.repairs) == 1
    assert len(healing._settled) == 1
    healing.remove()
    assert state(model) == before


@torch.no_grad()
def test_a_cache_on_the_host():
    """S5: the pair of a served block."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.key = nn.Linear(4, 4)

        def forward(self, x, past_key_value=None):
            key_states = self.key(x)
            if past_key_value is not None:
                key_states = torch.cat([past_key_value[0], key_states], dim=0)
            return x @ key_states.T, (key_states,)

    block, x, past = made(Attention), torch.ones(2, 4, device="cuda:0"), (torch.full((3, 4), 0.25),)
    expected = block(x, past_key_value=(past[0].to("cuda:0"),))[0]
    healing = sd.heal(block)
    for _ in range(3):
        found, present = block(x, past_key_value=past)
        assert torch.equal(found, expected)
        assert str(present[0].device) == "cuda:0"
    (repair,) = healing.repairs
    assert repair.finding.cause == "cache-or-beam-state-on-wrong-device"
    assert repair.target == "cuda:0"
    assert str(past[0].device) == "cpu"


def test_labels_and_gradients():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x, labels=None):
            return nn.functional.cross_entropy(self.layer(x), labels)

    x, labels = torch.ones(2, 4, device="cuda:0"), torch.tensor([1, 2])
    model = made(Classifier)
    model(x, labels=labels.to("cuda:0")).backward()
    expected = model.layer.weight.grad.clone()
    healing = sd.heal(model)
    for _ in range(3):
        model.zero_grad()
        model(x, labels=labels).backward()
        assert torch.equal(model.layer.weight.grad, expected)
    assert healing.findings[0].cause == "loss-or-label-on-other-device"


@torch.no_grad()
def test_what_is_written_to_stays():
    class Writer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, total):
            return total.add_(self.layer(x))

    model, x, total = made(Writer), torch.ones(2, 4, device="cuda:0"), torch.zeros(2, 4)
    sd.heal(model)
    result = model(x, total)
    assert result is total
    assert torch.equal(total, model.layer(x).cpu())


@torch.no_grad()
def test_a_new_branch_is_learned():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.late = False

        def forward(self, x):
            y = self.layer(x)
            return y * torch.arange(4.0) if self.late else y

    model, x = made(Branches), torch.ones(2, 4, device="cuda:0")
    healing = sd.heal(model)
    for _ in range(2):
        model(x)
    model.late = True
    expected = model.layer(x) * torch.arange(4.0, device="cuda:0")
    for _ in range(3):
        assert torch.equal(model(x), expected)
    assert len(healing.repairs) == 1


@torch.no_grad()
def test_errors_of_another_kind_pass():
    model = made(Helper)
    sd.heal(model)
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(2, 3, device="cuda:0"))


@torch.no_grad()
def test_weights_without_values_are_not_healed():
    model = made(Helper)
    model.layer.to("meta")
    sd.heal(model)
    with pytest.raises((RuntimeError, NotImplementedError)) as caught:
        model(torch.ones(2, 4, device="cuda:0"))
    assert any("not healed" in note for note in caught.value.__notes__)


class ChecksItself(nn.Module):
    def forward(self, x, index):
        if x.device != index.device:
            raise ValueError(f"x and index must be on the same device, got {x.device} and {index.device}")
        return x[index]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_check_of_the_program_itself_is_no_refused_operator(language):
    given = torch.ones(2, device="cuda:0"), torch.tensor([0])
    model = ChecksItself()
    sd.heal(model, language=language)
    with pytest.raises(ValueError, match="same device") as of_model:
        model(*given)
    with pytest.raises(ValueError, match="same device") as of_block, sd.heal(language=language):
        ChecksItself()(*given)
    own = {"en": "not healed: the program compares devices itself", "zh": "未修复：这个异常由程序自己"}  # noqa: RUF001 # Chinese punctuation
    for caught in (of_model, of_block):
        assert sum(note.startswith(own[language]) for note in caught.value.__notes__) == 1
    with pytest.raises(KeyError) as other, sd.heal(language=language):
        {}["nothing on the same device"]
    assert not hasattr(other.value, "__notes__")


@pytest.mark.parametrize("chained", ["while handling", "from it", "from None"])
def test_a_check_inside_of_a_handler_is_the_programs_own(chained):
    """A fallback for a missing name looks at devices: nothing before it was about devices."""
    check = ValueError("both must be on the same device")
    with pytest.raises(ValueError, match="same device") as caught, sd.heal():
        try:
            {}["a"]
        except KeyError as missing:
            if chained == "while handling":
                raise check  # noqa: B904 # what is tested
            raise check from (missing if chained == "from it" else None)
    (note,) = caught.value.__notes__
    assert note.startswith("not healed: the program compares devices itself")


def test_what_torch_refused_and_the_program_raised_again_is_no_check_of_the_program():
    with pytest.raises(RuntimeError, match="again") as caught, sd.heal():
        try:
            torch.meshgrid(torch.ones(2), torch.ones(2, device="cuda:0"), indexing="ij")
        except RuntimeError as refused:
            raise RuntimeError("not on the same device, again") from refused
    assert caught.value.__notes__ == ["not healed: the failing call is not one that heal can repeat"]


class Speechless(ValueError):
    def __str__(self):
        raise TypeError("no text")


class FailsWithoutText(nn.Module):
    def forward(self, x):
        raise Speechless


def test_an_error_that_has_no_text_stays_and_everything_is_removed():
    model = FailsWithoutText()
    before = state(model)
    with pytest.raises(Speechless), sd.heal(model):
        model(torch.ones(2))
    assert state(model) == before
    with pytest.raises(Speechless), sd.heal(model):
        raise Speechless
    assert state(model) == before


def test_heal_leaves_no_public_name_but_the_finding_on_an_error():
    with pytest.raises(RuntimeError) as caught, sd.heal():
        torch.rand(3, device="cuda:0", generator=torch.Generator())
    assert {name for name in vars(caught.value) if name[0] != "_"} <= {"finding", "samedevice_event"}


def test_a_guard_shows_the_finding_of_what_is_not_healed():
    generator = torch.Generator()
    with pytest.raises(RuntimeError) as caught, sd.guard(), sd.guard(), sd.heal():
        torch.rand(3, device="cuda:0", generator=generator)
    notes = caught.value.__notes__
    assert [note.startswith("not healed: ") for note in notes] == [True, False]
    assert notes[1].startswith(f"{caught.value.finding.code} ")


def test_refuses_a_device_map_under_a_launcher(monkeypatch):
    model = split_by_hand(qwen(tied=False))
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(UsageError, match="a job of 8 processes"):
        sd.heal(model)
    assert sd.heal(qwen().to("cuda:1"))


def test_refuses_replicas():
    with pytest.raises(UsageError, match="replicated"):
        sd.heal(nn.DataParallel(made(Helper), device_ids=[0, 1]))


@torch.no_grad()
def test_with_hooks_of_accelerate():
    expected = qwen(tied=False).to("cuda:0")(input_ids=ids()).logits.cpu()
    model = qwen(tied=False)
    ends = {"model.embed_tokens": 1, "model.norm": 1, "lm_head": 1}
    layers = {f"model.layers.{number}": number // 2 for number in range(4)}
    model = accelerate.dispatch_model(model, ends | layers | {"model.rotary_emb": 0})
    before = state(model)
    healing = sd.heal(model)
    for _ in range(4):
        assert torch.equal(model(input_ids=ids()).logits.cpu(), expected)
    healing.remove()
    assert state(model) == before


@torch.no_grad()
def test_a_statement_of_generate_itself():
    class Generates(Helper):
        def generate(self, x):
            return self.layer(x) + torch.arange(4.0)

    model, x = made(Generates), torch.ones(2, 4, device="cuda:0")
    expected = model.layer(x) + torch.arange(4.0, device="cuda:0")
    before = state(model)
    healing = sd.heal(model)
    for _ in range(4):
        assert torch.equal(model.generate(x), expected)
    healing.remove()
    assert state(model) == before


@torch.no_grad()
def test_learned_calls_have_the_mode_only_around_what_needs_it():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.helper = nn.Linear(4, 4), Helper()

        def forward(self, x):
            return self.helper(self.first(x))

    model, x = made(Outer), torch.ones(2, 4, device="cuda:0")
    healing = sd.heal(model)
    modes = {"first": [], "layer": []}
    for name, module in (("first", model.first), ("layer", model.helper.layer)):
        module.register_forward_hook(
            lambda *_, name=name: modes[name].append(torch.overrides._get_current_function_mode() is not None)
        )
    for _ in range(QUIET_CALLS + 3):
        model(x)
    assert modes["first"] == [True] * (QUIET_CALLS + 1) + [False] * 2
    assert all(modes["layer"])
    healing.remove()
    model.helper.layer(x)
    assert not modes["layer"][-1]


@torch.no_grad()
def test_a_healthy_model_has_no_mode_after_learning():
    model, x = made(nn.Sequential, nn.Linear(4, 4)), torch.ones(2, 4, device="cuda:0")
    sd.heal(model)
    modes = []
    model[0].register_forward_hook(
        lambda *_: modes.append(torch.overrides._get_current_function_mode() is not None)
    )
    for _ in range(QUIET_CALLS + 2):
        model(x)
    assert modes == [True] * QUIET_CALLS + [False] * 2


@torch.no_grad()
@pytest.mark.parametrize("kind", ["pre", "post", "below"])
def test_a_statement_in_a_hook(kind):
    model, x = made(nn.Sequential, nn.Linear(4, 4)), torch.ones(2, 4, device="cuda:0")
    scale = torch.arange(4.0, device="cuda:0")
    expected = model(x * scale) if kind == "pre" else model(x) * scale
    if kind == "pre":
        model.register_forward_pre_hook(lambda _, given: given[0] * torch.arange(4.0))
    else:
        (model if kind == "post" else model[0]).register_forward_hook(
            lambda _, __, result: result * torch.arange(4.0)
        )
    healing = sd.heal(model)
    for _ in range(QUIET_CALLS + 2):
        assert torch.equal(model(x), expected)
    assert len(healing.repairs) == 1
    healing.remove()
    with pytest.raises(RuntimeError, match="same device"):
        model(x)


SCRIPT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        steps = torch.arange(4.0)
        y = self.layer(x) * 2
        return y * steps

torch.manual_seed(0)
model = Model().to("cuda:0")
batch = torch.ones(2, 4, device="cuda:0")
labels = torch.tensor([1, 2])
scores = model(batch)
loss = nn.functional.cross_entropy(scores, labels)
"""


@torch.no_grad()
@pytest.mark.parametrize("as_hardware", [False, True])
def test_the_permanent_changes_repair_the_script(tmp_path, as_hardware):
    """What the diffs make of the script runs without healing, and gives the healed numbers."""
    from evidence.engine import on_hardware
    from evidence.zoo import causes

    file = tmp_path / "script.py"
    file.write_text(SCRIPT)

    def run(text):
        names = {}
        exec(compile(text, str(file), "exec"), names)
        return names["loss"]

    with on_hardware.as_on_hardware() if as_hardware else contextlib.nullcontext():
        with sd.heal() as healing:
            healed = run(SCRIPT)
        diffs = healing.diffs()
        assert len(diffs) == 2
        assert len(healing.repairs) == 2
        text = SCRIPT
        for diff in diffs:
            with pytest.raises(RuntimeError, match="same device"):
                run(text)
            assert diff.startswith("--- ")
            text = causes.apply(diff, text)
        assert torch.equal(run(text), healed)


@torch.no_grad()
def test_numbers_of_steps_are_no_kinds_of_their_own():
    class Steps(Helper):
        def forward(self, x, step):
            return self.layer(x) + step

    model, x = made(Steps), torch.ones(2, 4, device="cuda:0")
    healing = sd.heal(model)
    for step in (*range(QUIET_CALLS + 1), *[0] * QUIET_CALLS):
        model(x, step)
    assert len(healing._settled) == 2


class MeetsMeta(nn.Module):
    def forward(self, x):
        return x + torch.ones(2, device="meta")


@pytest.mark.parametrize(
    ("language", "moved", "kept"),
    [
        ("en", "copied for this operator each time, in Embedding", "not healed: "),
        ("zh", "在 Embedding 中每次只为这个算子复制", "未修复："),  # noqa: RUF001 # Chinese punctuation
    ],
)
def test_speaks_both_languages(language, moved, kept, caplog, monkeypatch):
    model = nn.Embedding(8, 4, device="cuda:1")
    with caplog.at_level(logging.WARNING, logger="samedevice"):
        sd.heal(model, language=language)
        model(ids())
    assert [moved in record.getMessage() for record in caplog.records] == [True]
    broken = MeetsMeta()
    sd.heal(broken, language=language)
    with pytest.raises(RuntimeError) as caught:
        broken(torch.ones(2, device="cuda:0"))
    assert any(note.startswith(kept) for note in caught.value.__notes__)
    with pytest.raises(UsageError) as refused:
        sd.heal(nn.DataParallel(model), language=language)
    assert ("副本" in str(refused.value)) == (language == "zh")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.runs = nn.Linear(4, 4), 0

    def forward(self, x):
        return self.encode(x) + 1

    def encode(self, x):
        self.runs += 1
        return self.layer(x) * torch.arange(4.0)

    def pieces(self, x):
        yield self.layer(x)

    @staticmethod
    def halved(x):
        return x / 2

    def train(self, mode=True):
        return super().train(mode)


@torch.no_grad()
def test_methods_beside_forward_are_healed():
    x = torch.ones(2, 4, device="cuda:0")
    expected = (Encoder().layer(x.cpu()) * torch.arange(4.0)).to("cuda:0")
    model = Encoder().to("cuda:0")
    kept = dict(vars(model))
    healing = sd.heal(model)
    assert {"encode", "forward"} <= set(vars(model)) - set(kept)
    assert not {"pieces", "halved", "train"} & set(vars(model))
    for times in range(1, 4):
        assert torch.equal(model.encode(x), expected)
        assert model.runs == times
    assert torch.equal(model(x), expected + 1)
    assert [(repair.module, repair.operand) for repair in healing.repairs] == [("Encoder", "other")]
    healing.remove()
    assert set(vars(model)) == set(kept)
    with pytest.raises(RuntimeError):
        model.encode(x)


@torch.no_grad()
def test_a_compiled_model_on_a_virtual_machine():
    x = torch.ones(2, 4, device="cuda:0")
    expected = Encoder().to("cuda:0").layer(x).cpu() * torch.arange(4.0) + 1
    model = torch.compile(Encoder().to("cuda:0"))
    healing = sd.heal(model)
    assert all(torch.equal(model(x).cpu(), expected) for _ in range(3))
    assert [repair.module for repair in healing.repairs] == ["Encoder"]


class Meshes(nn.Module):
    def forward(self, x):
        return torch.meshgrid(torch.ones(2), x, indexing="ij")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_device_error_of_a_block_has_a_reason(language):
    """What the virtual machine checks in front of a function of torch, no mode sees."""
    own = {"en": "not healed: ", "zh": "未修复："}  # noqa: RUF001 # Chinese punctuation
    with pytest.raises(RuntimeError, match="meshgrid") as caught, sd.heal(language=language):
        torch.meshgrid(torch.ones(2), torch.ones(2, device="cuda:0"), indexing="ij")
    model = Meshes()
    sd.heal(model, language=language)
    with pytest.raises(RuntimeError, match="meshgrid") as of_model:
        model(torch.ones(2, device="cuda:0"))
    for error in (caught.value, of_model.value):
        assert sum(note.startswith(own[language]) for note in error.__notes__) == 1
