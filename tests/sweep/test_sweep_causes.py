"""Statements that fail for the same decision are one finding."""

from __future__ import annotations

from dataclasses import replace

from samedevice.diagnosis import verdict_of
from samedevice.events import Decision, Event, EventKind, Operand, Place
from samedevice.sweep._causes import mark_of, root_of, statement_of
from samedevice.sweep._store import Target
from samedevice.sweep._sweep import roots_of

HEAD = Place("/env/lib/python3.11/site-packages/lib/models/a.py", 7, "forward", "loss = f(x, labels)")
LABELS = Operand("target", "cuda:0", (2,), "int64", argument="labels", local="labels")
LOGITS = Operand("self", "cuda:1", (2, 3), "float32", local="x")


def event(at=HEAD, *operands, op="aten.nll_loss.default"):
    return Event(EventKind.MISMATCH, op, "found two", at, None, None, operands or (LOGITS, LABELS))


def root(seen):
    return root_of(seen, replace(verdict_of(seen), guilty="target"))


def test_a_statement_is_named_below_the_library():
    assert statement_of(event()) == "lib/models/a.py:7"


def test_labels_in_two_files_are_one_cause():
    other = replace(HEAD, file="/env/lib/python3.11/site-packages/lib/models/b.py", code="y = g(labels)")
    assert root(event()) == root(event(other)) == "labels of the caller meet a loss on another GPU"


def test_another_argument_is_another_cause():
    boxes = replace(LABELS, argument="bbox")
    keys = [root(event(HEAD, LOGITS, each, op="aten.add.Tensor")) for each in (LABELS, boxes)]
    assert keys == ["argument labels meets results", "argument bbox meets results"]


def test_a_tensor_made_by_the_same_expression_is_one_cause():
    made = Place("/x/site-packages/lib/a.py", 3, "f", "m = torch.ones(3)")
    copy = replace(made, file="/x/site-packages/lib/b.py", line=9, code="m  =  torch.ones(3)")
    places = [(Decision("created", "cpu", at),) for at in (made, copy)]
    tensors = [Operand("target", "cpu", (3,), "float32", lineage=each) for each in places]
    seen = [event(HEAD, LOGITS, each, op="aten.add.Tensor") for each in tensors]
    assert root(seen[0]) == root(seen[1]) == "created by m=torch.ones(3)"


CUT = {"layers.0.attention.query": "0", "layers.0.attention.value": "1"}


def test_what_fails_in_a_block_that_the_map_cuts_fails_for_the_cut():
    forward = Place("/x/site-packages/lib/a.py", 3, "forward", "x = attend(q, k)")
    cache = Place("/x/site-packages/lib/cache.py", 9, "update", "v = cat(v, w)")
    seen = replace(
        event(cache, LOGITS, LABELS, op="aten.cat.default"), stack=(forward, cache), device_map=CUT
    )
    assert root(replace(seen, module="layers.0.attention")) == "block cut in lib/a.py"
    for module in (None, "layers.0", "layers.1.attention"):
        assert not root(replace(seen, module=module)).startswith("block cut"), module
    shards = {"embed.first": "0", "embed.second": "1", "layers.0": "1"}
    assert root(replace(seen, module="embed", device_map=shards)) == "block cut in lib/a.py"
    holds = {"model.embed": "0", "model.norm": "1", "model.layers.0": "1"}
    assert not root(replace(seen, module="model", device_map=holds)).startswith("block cut")
    whole = {"embed": "0", "norm": "1", "layers.0": "0", "layers.1": "1"}
    assert not root(replace(seen, module="model", device_map=whole)).startswith("block cut")


def test_of_two_tensors_the_one_that_the_map_placed_is_not_the_odd_one():
    at = Place("/x/site-packages/lib/a.py", 3, "f", "mask = torch.eye(3)")
    mask = Operand("mask", "cuda:0", (3,), "bool", lineage=(Decision("created", "cuda:0", at),))
    weight = Operand("self", "cuda:1", (3,), "float32", lineage=(Decision("placed", "cuda:1", HEAD),))
    seen = event(HEAD, weight, mask, op="aten.masked_fill.Scalar")
    assert root_of(seen, replace(verdict_of(seen), guilty=None)) == "created by mask=torch.eye(3)"


def told(cause):
    return {"kind": "finding", "statement": "a.py:7", "root": cause, "document": {"code": cause}}


RUN = {"kind": "run", "machine": "2x24GB", "action": "loss", "status": "found", "statements": ["a.py:7"]}


def target(name, *lines, declares=True):
    return Target(f"m:{name}", "e", "ended", 1.0, 1, ({"kind": "built", "declares": declares}, *lines))


def test_classes_are_listed_under_their_cause():
    met = {"kind": "met", "statement": "a.py:7", "root": "labels"}
    targets = [target("A", told("labels"), RUN), target("B", met, RUN, declares=False)]
    (made,) = roots_of(targets, {mark_of("a.py:7", "labels"): told("labels")})
    assert made.targets == ("A", "B")
    assert (made.declares, made.one_gpu, made.confirmed) == (True, False, ())


def test_a_line_that_all_models_share_has_the_cause_of_each():
    confirmed = {"kind": "confirmed", "statement": "a.py:7", "memory": {"0": 1}}
    targets = [target("A", told("cut in a"), RUN), target("B", told("cut in b"), RUN, confirmed)]
    found = {mark_of("a.py:7", cause): told(cause) for cause in ("cut in a", "cut in b")}
    roots = {root.key: root for root in roots_of(targets, found)}
    assert {key: root.targets for key, root in roots.items()} == {"cut in a": ("A",), "cut in b": ("B",)}
    assert roots["cut in a"].document["code"] == "cut in a"
    assert [len(roots[key].confirmed) for key in ("cut in a", "cut in b")] == [0, 1]


def test_a_class_of_an_older_file_has_the_cause_that_was_told_once():
    targets = [target("A", told("labels"), RUN), target("B", RUN)]
    (made,) = roots_of(targets, {mark_of("a.py:7", "labels"): told("labels")})
    assert made.targets == ("A", "B")


def test_a_model_that_was_moved_under_its_hooks_is_one_cause():
    seen = [event(replace(HEAD, line=line), LOGITS, LABELS, op="aten.addmm.default") for line in (7, 9)]
    moved = [root_of(each, replace(verdict_of(each), cause="dispatched-model-moved")) for each in seen]
    assert moved == ["a model that a map had spread was moved"] * 2


def test_weights_that_an_offload_left_are_one_cause_for_each_file_that_is_called():
    decode = Place("/x/site-packages/lib/vae.py", 3, "_decode", "self.decoder(z)")
    inner = Place("/x/site-packages/lib/up.py", 9, "forward", "self.conv(x)")
    weight = Operand("weight", "cpu", (3,), "float32", parameter="decoder.conv.weight", role="parameter")
    seen = replace(event(inner, LOGITS, weight, op="aten.convolution.default"), stack=(decode, inner))
    verdict = replace(verdict_of(seen), cause="module-left-on-other-device", guilty="weight")
    assert root_of(seen, verdict) == "weights in host memory that lib/vae.py reads"
    on_gpu = replace(seen, operands=(LOGITS, replace(weight, device="cuda:0")))
    assert root_of(on_gpu, verdict) == "parameter weight in self.conv(x)"


def test_what_a_part_computed_is_one_cause_for_all_lines_of_a_pipeline():
    call = Place("/x/site-packages/lib/pipe.py", 3, "__call__", "x = cat(a, b)")
    hook = Decision("hook", "cuda:0", Place("/x/vae.py", 8, "_encode", "self.encoder(x)"), inherited=True)
    latents = Operand("latents", "cuda:0", (3,), "float32", lineage=(hook,))
    made = Operand("noise", "cuda:1", (3,), "float32", lineage=(Decision("created", "cuda:1", call),))
    seen = replace(event(call, latents, made, op="aten.cat.default"), stack=(call,))
    verdict = replace(verdict_of(seen), guilty=None)
    assert root_of(seen, verdict) == "what a part of a pipeline computed stays on the GPU of that part"
    in_script = replace(seen, stack=(replace(call, function="generate"),))
    assert root_of(in_script, verdict) != root_of(seen, verdict)
    meta = replace(seen, operands=(latents, replace(made, device="meta", lineage=())))
    assert root_of(meta, verdict) == "made on the meta device, where offloaded weights are"
