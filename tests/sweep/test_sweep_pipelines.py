"""Pipelines: parts from annotations, sizes that come to fit, offloads and placements, all of it made up."""

from __future__ import annotations

import enum
import sys
from types import ModuleType, SimpleNamespace
from typing import Union

import pytest

from samedevice.sweep import _calls
from samedevice.sweep._case import Untried
from samedevice.sweep._fitting import Fitting, Try, fitted
from samedevice.sweep._parts import Part, parts_of
from samedevice.sweep._tiny import others, tiny, tiny_part, tokens
from samedevice.sweep._trial import Asked, try_target

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
from torch import nn  # noqa: E402 # after the skip


class Encoder(nn.Module):
    """Words to vectors; `wide` is as wide as the head wants it, or not."""

    def __init__(self, hidden_size: int = 512, num_layers: int = 12) -> None:
        super().__init__()
        self.table = nn.Embedding(8, hidden_size)
        self.layers = nn.ModuleList([nn.Linear(hidden_size, hidden_size) for _ in range(num_layers)])

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return x


class Head(nn.Module):
    """Takes two texts side by side, so it is to be twice as wide as the encoder."""

    def __init__(self, cross_attention_dim: int = 1280, out_channels: int = 4) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(out_channels))
        self.inner = nn.Linear(cross_attention_dim, out_channels)

    def forward(self, x):
        return self.inner(x)


class Plan:
    """Has no weights."""

    config_name = "plan.json"


class Kinds(enum.Enum):
    """A choice of classes by their names."""

    Plan = 1


class Pipeline:
    """With a weight that `__call__` reads where no hook moves anything, if `reads` says so."""

    reads = True

    def __init__(
        self,
        encoder: Encoder,
        head: Union[Head, list[Head]],  # noqa: UP007 # both spellings of a choice are read
        plan: Plan | None = None,
        names: list[str] | None = None,
    ) -> None:
        self.encoder, self.head, self.plan = encoder, head, plan
        self.hf_device_map = None

    @property
    def components(self):
        return {"encoder": self.encoder, "head": self.head, "plan": self.plan}

    @property
    def device(self):
        return next(self.encoder.parameters()).device

    def to(self, device):
        self.encoder.to(device)
        self.head.to(device)
        return self

    def __call__(self, prompt, height=None, max_sequence_length=2, latents=None):
        if height and height < 64:
            raise ValueError("too small")
        ids = torch.zeros(1, 2, dtype=torch.int64, device=self.device)
        x = self.encoder(ids)
        made = self.head(torch.cat([x, x], -1))
        return made * self.head.scale if self.reads else made


class Quiet(Pipeline):
    reads = False


@pytest.fixture(autouse=True)
def _of_a_library(monkeypatch):
    """The choice of classes is looked up in the library that it stands in."""
    library = ModuleType("madeup_pipes")
    library.Plan = Plan
    monkeypatch.setitem(sys.modules, "madeup_pipes", library)
    monkeypatch.setattr(Kinds, "__module__", "madeup_pipes.kinds")


def fitting(pipeline, parts=None):
    return Fitting(
        parts or parts_of(pipeline),
        lambda made: pipeline(**made),
        lambda _, tried: _calls.inputs(pipeline.__call__, tried.choices, tried.otherwise),
        _calls.choices(),
        _calls.optional(pipeline.__call__),
    )


def test_parts_are_made_from_annotations_and_are_tiny():
    parts = {part.name: part for part in parts_of(Pipeline)}
    assert list(parts) == ["encoder", "head", "plan", "names"]
    assert parts["encoder"].values == {"hidden_size": 32, "num_layers": 1}
    assert parts["head"].values == {"cross_attention_dim": 32, "out_channels": 4}
    assert parts["plan"].optional
    assert isinstance(parts["plan"].build(), Plan)
    assert parts["names"].build() is None


def test_a_choice_of_classes_by_name_is_a_part():
    class Chosen(Pipeline):
        def __init__(self, plan: Kinds) -> None:
            pass

    Chosen.__init__.__annotations__["plan"] = Kinds
    (part,) = parts_of(Chosen)
    assert isinstance(part.build(), Plan)


def test_a_part_that_may_be_any_model_is_a_plain_one():
    base = pytest.importorskip("transformers").PreTrainedModel

    class Free(Pipeline):
        def __init__(self, encoder: object) -> None:
            pass

    Free.__init__.__annotations__["encoder"] = base
    (part,) = parts_of(Free)
    assert isinstance(part.build(), base)


def test_a_tokenizer_that_reads_a_vocabulary_gets_a_file_of_letters():
    reader = pytest.importorskip("sentencepiece").SentencePieceProcessor
    base = pytest.importorskip("transformers").PreTrainedTokenizerBase

    class Reads(base):
        def __init__(self, vocab_file, model_max_length):
            self.pieces = reader(model_file=vocab_file).EncodeAsPieces("ab")

        def __call__(self, text):
            return text

        pad_token = chat_template = "pad"

        def add_tokens(self, *_, **__):
            return 0

    class Reading(Pipeline):
        def __init__(self, tokenizer: Reads) -> None:
            pass

    Reading.__init__.__annotations__["tokenizer"] = Reads
    (part,) = parts_of(Reading)
    assert part.build().pieces[-2:] == ["a", "b"]


def test_what_cannot_be_made_is_the_reason():
    class Odd(Pipeline):
        def __init__(self, thing: SimpleNamespace) -> None:
            pass

    Odd.__init__.__annotations__["thing"] = SimpleNamespace
    with pytest.raises(Untried, match="nothing is known to give for thing"):
        parts_of(Odd)


def test_sizes_change_until_a_run_ends():
    pipeline, given = fitted(fitting(Pipeline))
    assert pipeline.head.inner.in_features == 2 * pipeline.encoder.table.embedding_dim
    assert pipeline.encoder.table.embedding_dim == 32, "the part that failed was changed, not the other"
    assert given["height"] == 64, "the next size of a picture was tried"
    assert given["max_sequence_length"] == 64
    assert "latents" not in given


def test_a_field_that_only_checkpoints_have_is_made_up():
    class EncoderConfig:
        def __init__(self, values):
            vars(self).update(values)

    def encoder(values):
        config = EncoderConfig(values)
        return Encoder(config.hidden_size) if config.rotates else Encoder()

    parts = [
        Part("encoder", encoder, {"hidden_size": 8}),
        Part("head", lambda values: Head(**values), {"cross_attention_dim": 16}),
    ]
    pipeline, _ = fitted(fitting(Quiet, parts))
    assert pipeline.encoder.table.embedding_dim == 8


def test_what_never_runs_has_the_last_reason():
    class Never(Pipeline):
        def __call__(self, prompt):
            raise RuntimeError("no way")

    with pytest.raises(Untried, match="run: RuntimeError: no way"):
        fitted(fitting(Never))


def test_an_optional_part_is_given_where_nothing_runs_without_it():
    class Needs(Quiet):
        def __call__(self, prompt):
            if self.plan is None:
                raise ValueError("wants a plan")

    pipeline, _ = fitted(fitting(Needs))
    assert isinstance(pipeline.plan, Plan)


def test_a_part_keeps_its_values_in_a_fresh_pipeline():
    made = fitting(Quiet, [Part("encoder", lambda v: Encoder(**v), {"hidden_size": 8, "num_layers": 1}),
                           Part("head", lambda v: Head(**v), {"cross_attention_dim": 16})])  # fmt: skip
    tried = Try({part.name: part.values for part in made.parts})
    kept: dict = {}
    first, second = made.made(tried, kept), made.made(tried, kept)
    assert first.encoder is second.encoder
    assert made.made(tried).encoder is not first.encoder


@pytest.mark.parametrize("reads", [True, False])
def test_a_placed_pipeline_is_tried_and_only_what_no_hook_moves_is_told(reads):
    from samedevice.sweep._pipelines import pipeline_case

    kind = Pipeline if reads else Quiet
    library = SimpleNamespace(case=lambda name, actions: pipeline_case(kind))
    told: list = []
    asked = Asked(actions=("loss",), confirm=False)
    try_target(library, "pipe", asked, told.append, lambda finding: {"code": finding.code})
    runs = [each for each in told if each["kind"] == "run"]
    assert [run["cut"] for run in runs] == ["", "head@0", "head@1"]
    assert runs[0]["status"] == "ran"
    found = [each for each in told if each["kind"] == "finding"]
    assert bool(found) is reads
    if reads:
        lines = open(__file__).read().splitlines()  # noqa: PTH123 # the statement is in this file
        assert "self.head.scale" in lines[int(found[0]["statement"].rpartition(":")[2]) - 1]


def test_offloads_are_those_that_the_release_has():
    from samedevice.sweep._pipelines import pipeline_case

    class Offloaded(Quiet):
        def enable_model_cpu_offload(self, device=None):
            from accelerate import cpu_offload_with_hook

            self.hooks = [cpu_offload_with_hook(each, device)[1] for each in (self.encoder, self.head)]

    assert pipeline_case(Quiet).offloads == {}
    case = pipeline_case(Offloaded)
    assert list(case.offloads) == ["model"]


def test_numbers_become_small_and_go_on_fitting():
    values = {
        "num_layers": 19, "attention_head_dim": 128, "num_attention_heads": 24,
        "axes_dims_rope": (16, 56, 56), "joint_attention_dim": 4096, "in_channels": 64,
        "patch_size": 2, "eos_token_id": 49407,
        "image_token_id": 151655, "sample_size": None,
    }  # fmt: skip
    made = tiny(values)
    assert made["num_layers"] == 2
    assert tiny_part(values)["num_layers"] == 1
    assert sum(made["axes_dims_rope"]) == made["attention_head_dim"] == 16
    assert all(each % 2 == 0 for each in made["axes_dims_rope"])
    assert (made["joint_attention_dim"], made["in_channels"], made["patch_size"]) == (32, 64, 2)
    assert made["eos_token_id"] < 1000
    assert list(tokens())[made["image_token_id"]] == "<|image_pad|>"
    assert made["sample_size"] == 16


def test_levels_become_two_and_stay_on_request():
    values = {"block_out_channels": (320, 640, 1280, 1280), "down_block_types": ("A", "B", "C", "D")}
    assert tiny(values) == {"block_out_channels": (32, 32), "down_block_types": ("A", "D")}
    assert len(tiny_part(values, levels=True)["block_out_channels"]) == 4


def test_a_part_of_a_configuration_is_divided_like_the_whole():
    made = tiny({"hidden_size": 8192, "num_attention_heads": 64, "rope_parameters": {"rope_theta": 1.0}})
    assert made["rope_parameters"] == {"rope_theta": 1.0, "mrope_section": [2, 3, 3]}


def test_other_values_are_offered_only_to_what_has_the_fields():
    assert others({"width": 3}) == []
    (filled,) = others({"patch_size": None, "in_channels": 8})
    assert filled == {"patch_size": 2, "in_channels": 8}


def test_every_row_of_calls_makes_something():
    sizes = {name: each[0] for name, each in _calls._calls().sizes.items()}
    rows = _calls._calls().rows
    names = [name for row in rows for name in row.names]
    assert len(names) == len(set(names))
    for row in rows:
        assert _calls._made(row.form, sizes) is not None
    film = _calls._made({"film": "RGB"}, sizes)
    assert len(film) == sizes["frames"]
    assert film[0].size == (sizes["side"], sizes["side"])
