"""Statements that fail for the same decision are one finding."""

from __future__ import annotations

from dataclasses import replace

from samedevice.diagnosis import judge
from samedevice.events import Decision, Event, EventKind, Operand, Place
from samedevice.sweep._causes import root_of, statement_of
from samedevice.sweep._store import Target
from samedevice.sweep._sweep import roots_of

HEAD = Place("/env/lib/python3.11/site-packages/lib/models/a.py", 7, "forward", "loss = f(x, labels)")
LABELS = Operand("target", "cuda:0", (2,), "int64", argument="labels", local="labels")
LOGITS = Operand("self", "cuda:1", (2, 3), "float32", local="x")


def event(at=HEAD, *operands, op="aten.nll_loss.default"):
    return Event(EventKind.MISMATCH, op, "found two", at, None, None, operands or (LOGITS, LABELS))


def root(seen):
    return root_of(seen, replace(judge(seen), guilty="target"))


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


def test_classes_are_listed_under_their_cause():
    finding = {"kind": "finding", "statement": "a.py:7", "root": "labels", "document": {"code": "SD101"}}
    run = {"kind": "run", "machine": "2x24GB", "action": "loss", "status": "found", "statements": ["a.py:7"]}
    targets = [
        Target("m:A", "e", "ended", 1.0, 1, ({"kind": "built", "declares": True}, finding, run)),
        Target("m:B", "e", "ended", 1.0, 1, ({"kind": "built", "declares": False}, run)),
    ]
    (made,) = roots_of(targets, {"a.py:7": finding})
    assert made.targets == ("A", "B")
    assert (made.declares, made.one_gpu, made.confirmed) == (True, False, ())
