"""Judging events: codes, titles, and causes only where the event carries the evidence."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from samedevice.diagnosis import CODES, code_of, judge
from samedevice.events import Decision, Event, EventKind, Operand, Place, Running
from samedevice.report import render, render_finding

TAXONOMY = Path(__file__).parents[2] / "corpus" / "taxonomy.json"
SCRIPT = Place("/home/user/chat.py", 30, "<module>", "ids = tokens.to('cuda:0')")
LIBRARY = Place(
    "/env/site-packages/transformers/models/qwen2/modeling_qwen2.py", 99, "forward", "self.embed_tokens(ids)"
)


def event(
    op="aten.add.Tensor", *operands, kind=EventKind.MISMATCH, message="Expected all tensors", at=LIBRARY
):
    return Event(kind, op, message, at, SCRIPT, None, tuple(operands))


def weight(device="cuda:7", name="weight", parameter="model.embed_tokens.weight", **more):
    return Operand(name, device, (10, 4), "float32", parameter=parameter, role="parameter", **more)


def tensor(name="indices", device="cuda:0", **more):
    return Operand(name, device, (2,), "int64", **more)


def test_codes_are_unique_and_found():
    assert [row.code for row in CODES] == [
        "SD101",
        "SD102",
        "SD103",
        "SD104",
        "SD105",
        "SD106",
        "SD107",
        "SD108",
        "SD109",
        "SD110",
    ]
    assert code_of("SD104").kind is EventKind.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("seen", "code", "title"),
    [
        (
            event("aten.mul.Tensor", tensor("self"), tensor("other", "cpu")),
            "SD101",
            "mul got operands on cuda:0 and cpu",
        ),
        (
            event(
                "aten.cat.default",
                tensor("tensors[0]"),
                tensor("tensors[1]", "cuda:1"),
                tensor("tensors[2]", "cpu"),
            ),
            "SD101",
            "cat got operands on cuda:0, cuda:1 and cpu",
        ),
        (
            event("aten.mm.default", tensor("self"), weight("meta"), kind=EventKind.UNMATERIALIZED),
            "SD102",
            "mm met weights that were never loaded: model.embed_tokens.weight",
        ),
        (
            event("aten.normal_.default", kind=EventKind.GENERATOR),
            "SD103",
            "normal_ got a random generator of another device",
        ),
        (
            event(
                "allocate",
                kind=EventKind.OUT_OF_MEMORY,
                message="CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has",
            ),
            "SD104",
            "2.00 GiB more does not fit on cuda:3",
        ),
        (
            event("aten.foo.default", tensor("a"), tensor("b", "cuda:1"), kind=EventKind.UNCHECKED),
            "SD105",
            "foo checks nothing and got tensors on cuda:0 and cuda:1",
        ),
        (event(kind=EventKind.NONDETERMINISTIC_DEVICE), "SD106", "a device was picked from an unordered set"),
        (
            event(
                "c10d.allreduce_.default",
                tensor("tensor", "cpu"),
                Operand("group", "cuda:1", (), ""),
                kind=EventKind.COLLECTIVE,
            ),
            "SD109",
            "c10d.allreduce_ got a tensor on cpu, and its process group works on cuda:1",
        ),
        (event(kind=EventKind.DUPLICATE_GPU), "SD107", "two ranks of a process group use the same GPU"),
    ],
)
def test_code_and_title(seen, code, title):
    finding = render_finding(judge(seen, 5))
    assert (finding.code, finding.title, finding.count) == (code, title, 5)
    assert render_finding(judge(seen, 5), "zh").title != title
    assert finding.message == seen.message
    json.dumps(finding.as_json())
    assert judge(pickle.loads(pickle.dumps(seen)), 5) == judge(seen, 5)


CAUSES = [
    (
        "plain operators tell nothing",
        event("aten.add.Tensor", tensor("self"), tensor("other", "cpu")),
        "undetermined",
        "guess",
    ),
    (
        "ids that the script moved elsewhere",
        event("aten.embedding.default", weight(), tensor(moved=SCRIPT)),
        "input-not-on-embedding-device",
        "likely",
    ),
    (
        "ids that the script made and never moved",
        event("aten.embedding.default", weight(), tensor(device="cpu", made=SCRIPT)),
        "input-not-on-embedding-device",
        "likely",
    ),
    (
        "ids that a library placed",
        event("aten.embedding.default", weight(), tensor(made=SCRIPT, moved=LIBRARY)),
        "input-not-on-embedding-device",
        "guess",
    ),
    (
        "ids of unknown origin",
        event("aten.embedding.default", weight(), tensor()),
        "input-not-on-embedding-device",
        "guess",
    ),
    (
        "weight left on the host",
        event("aten.embedding.default", weight("cpu"), tensor(moved=SCRIPT)),
        "module-left-on-other-device",
        "likely",
    ),
    (
        "a weight on the host that never moved",
        event("aten.addmm.default", tensor("mat1"), weight("cpu", "mat2", "head.weight")),
        "module-left-on-other-device",
        "guess",
    ),
    (
        "a weight on the host with the name of an adapter, which alone decides nothing",
        event("aten.mm.default", tensor("self"), weight("cpu", "mat2", "q_proj.lora_A.default.weight")),
        "module-left-on-other-device",
        "guess",
    ),
    (
        "labels that the script left behind",
        event("aten.nll_loss_forward.default", tensor("self"), tensor("target", "cpu", made=SCRIPT)),
        "loss-or-label-on-other-device",
        "likely",
    ),
    (
        "a generator",
        event("aten.normal_.default", tensor("self"), tensor("generator", "cpu"), kind=EventKind.GENERATOR),
        "generator-or-default-device",
        "certain",
    ),
    (
        "a named weight on meta",
        event("aten.mm.default", tensor("self"), weight("meta"), kind=EventKind.UNMATERIALIZED),
        "meta-tensor-not-materialized",
        "likely",
    ),
    (
        "a nameless tensor on meta",
        event("aten.mm.default", tensor("self"), tensor("mat2", "meta"), kind=EventKind.UNMATERIALIZED),
        "undetermined",
        "guess",
    ),
    ("memory", event("allocate", kind=EventKind.OUT_OF_MEMORY), "undetermined", "guess"),
]


@pytest.mark.parametrize(
    ("seen", "cause", "confidence"), [row[1:] for row in CAUSES], ids=[row[0] for row in CAUSES]
)
def test_cause(seen, cause, confidence):
    finding = judge(seen)
    assert (finding.cause, finding.confidence) == (cause, confidence)
    slugs = {entry["slug"] for entry in json.loads(TAXONOMY.read_text(encoding="utf-8"))}
    assert {finding.cause, *finding.candidates} <= slugs
    assert finding.cause not in finding.candidates


def test_tied_embedding_is_a_candidate():
    finding = judge(event("aten.embedding.default", weight(tied=("lm_head.weight",)), tensor(moved=SCRIPT)))
    assert finding.candidates == ("lm-head-or-tied-weight-split",)


def test_fixes_name_the_weight():
    (fix,) = judge(event("aten.embedding.default", weight(), tensor(moved=SCRIPT))).fixes
    assert fix.safety == "safe"
    assert "model.embed_tokens.weight" in render(fix.title)
    (fix,) = judge(event("aten.normal_.default", tensor("self"), kind=EventKind.GENERATOR)).fixes
    assert 'torch.Generator(device="cuda:0")' in render(fix.title)


def spread_failure(operands, running, device_map, **more):
    """A statement of a model that a map spreads over two GPUs."""
    at = Place("/x/site-packages/lib/model.py", 7, "forward", "return a + b", "a + b")
    return Event(
        EventKind.MISMATCH, "aten.add.Tensor", "found two", at, None, None, operands,
        stack=(at,), running=running, device_map=device_map, **more,
    )  # fmt: skip


BOTH = ("cuda:0", "cuda:1")
SPREAD = Running("Model", "Model", "cuda:0", (), BOTH, repeated=4)
ATTENTION = Running("layers.0.attn", "Attention", None, (), BOTH)
ENTRIES = {"embed": "cuda:0", "scale": "cuda:0", "layers.0.attn.q": "cuda:1", "layers.0.attn.k": "cuda:0"}


def of_layer(name, device, **more):
    at = Place("/x/site-packages/accelerate/utils.py", 3, "f", "x.to(device)")
    steps = (Decision("placed", device, at, name=f"{more.pop('layer', name)}.bias", inherited=True),)
    return Operand(name, device, (2, 4), "float32", local=name, lineage=steps, **more)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("table.scale", "device-map-incomplete-or-wrong"),  # of a module that does not run
        ("scale", "block-split-across-devices"),  # its own: parts of the model met it
    ],
)
def test_a_weight_that_a_spread_model_reads_itself(name, cause):
    placed = Decision("placed", "cuda:0", None, name=name)
    scale = Operand("other", "cuda:0", (4,), "float32", parameter=name, role="parameter", lineage=(placed,))
    seen = spread_failure((of_layer("self", "cuda:1"), scale), (SPREAD,), {**ENTRIES, "table": "cuda:0"})
    found = judge(seen)
    assert (found.cause, found.guilty) == (cause, "other")


def test_what_follows_an_input_of_a_spread_model_and_meets_its_layers_is_a_join():
    moved = Decision("moved", "cuda:0", None)
    mask = Operand("other", "cuda:0", (2, 4), "bool", local="mask", lineage=(moved,))
    found = judge(spread_failure((of_layer("self", "cuda:1"), mask), (SPREAD,), ENTRIES))
    assert (found.cause, found.guilty) == ("embedding-streams-on-different-devices", "other")


@pytest.mark.parametrize(
    ("op", "cause"),
    [
        ("aten.cat.default", "embedding-streams-on-different-devices"),
        ("aten.add.Tensor", "block-split-across-devices"),  # as embeddings of the same tokens
    ],
)
def test_two_parts_of_a_spread_model_that_meet_in_its_own_code(op, cause):
    parts = of_layer("self", "cuda:0"), of_layer("other", "cuda:1")
    failure = spread_failure(parts, (SPREAD,), ENTRIES)
    assert judge(replace(failure, op=op)).cause == cause


def test_what_a_cut_attention_put_into_a_cache_is_cut_with_it():
    query = of_layer("self", "cuda:1", layer="layers.0.attn.q")
    key = of_layer("other", "cuda:0", layer="layers.0.attn.k", holder="DynamicCache")
    seen = spread_failure((query, key), (ATTENTION, SPREAD), ENTRIES)
    assert judge(seen).cause == "block-split-across-devices"
