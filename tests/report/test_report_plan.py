"""A plan as text, as data and as Python, from a real placement of a small model."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import pytest

from samedevice.machines import parse_machine
from samedevice.messages import Bytes, Phrase, languages
from samedevice.planner.inference import Workload, place_model, prove_automatic
from samedevice.report import render
from samedevice.report.plain import plain_text
from samedevice.report.plan import Plan
from samedevice.report.web import plan_page

MODEL = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}  # fmt: skip
MiB = 1 << 20


@pytest.fixture(scope="module")
def placed():
    pytest.importorskip("transformers")
    return place_model(MODEL, parse_machine("2xRTX4090"), Workload(1, 64, 8), reserve=256 * MiB)


def test_everything_of_a_plan_is_said_in_each_language(placed):
    for language in languages():
        text = plain_text(Plan(placed, language, concurrent=2), 300)
        for key in ("place.best", "place.proof", "place.python", "place.serve", "place.note"):
            assert render(Phrase(key), language) in text
        assert "399.6 MiB" in text
        assert "8.1 MiB" in text


def test_a_plan_as_data_has_what_is_left_alone_for(placed):
    document = json.loads(json.dumps(Plan(placed).as_json()))
    assert document["reserve"] == 256 * MiB
    assert document["overhead"] == {"context": pytest.approx(400 * MiB, rel=0.01), "blas": 8519680}
    assert document["proved"]
    assert set(document["device_map"].values()) <= {0, 1}


def test_the_line_and_the_script_are_python(placed):
    plan = Plan(placed)
    compile(plan.python(), "line", "exec")
    compile(plan.script(), "script", "exec")
    assert "range(" in plan.python() or "model.layers.0" in plan.python()


@pytest.fixture(scope="module")
def automatic(placed):
    return prove_automatic(placed.profile.source, placed.machine, placed.workload)


def test_auto_is_tried_on_the_same_machine(placed, automatic):
    assert automatic.error is None
    assert not automatic.out_of_memory
    assert set(automatic.device_map.values()) <= {0, 1}
    assert {peak.gpu for peak in automatic.peaks} == {0, 1}
    weights = sum(share.planned.weights for share in placed.shares)
    assert sum(peak.phases["load"] for peak in automatic.peaks) >= weights


@pytest.mark.parametrize("language", languages())
def test_the_page_has_the_plan_beside_auto(placed, automatic, language):
    page = plan_page(Plan(placed, language), language, version="1", automatic=automatic)
    assert render(Phrase("page.beside-auto"), language) in html.unescape(page)
    for peak in automatic.peaks:
        assert str(Bytes(peak.allocated)) in page
    assert "auto" not in plan_page(Plan(placed, language), language, version="1").split("</style>")[1]


def test_what_auto_cannot_do_is_said(placed, automatic):
    def said(**changes):
        proof = replace(automatic, **changes)
        return html.unescape(plan_page(Plan(placed), "en", version="1", automatic=proof))

    assert "auto runs out of memory on this machine" in said(out_of_memory=True, peaks=())
    assert "auto does not run on this machine: <b>" in said(error="<b>no")
    assert "puts a part of the model on the host" in said(device_map={"": "cpu"}, peaks=())
    large = tuple(replace(peak, phases={**peak.phases, "prompt": 100 << 30}) for peak in automatic.peaks)
    assert "goes beyond what is to be left alone" in said(peaks=large)


def test_a_proof_that_needs_segments_that_grow_says_so_and_its_script_asks_for_them(placed):
    plan = Plan(replace(placed, proof=replace(placed.proof, expandable=True)))
    text = " ".join(plain_text(plan, 300).split())
    assert "holds with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in text
    assert plan.as_json()["proof"]["expandable_segments"]
    script = plan.script()
    compile(script, "script", "exec")
    lines = script.splitlines()
    asked = next(n for n, line in enumerate(lines) if "PYTORCH_CUDA_ALLOC_CONF" in line)
    assert asked < next(n for n, line in enumerate(lines) if line.startswith("from transformers"))
    assert "PYTORCH_CUDA_ALLOC_CONF" not in Plan(placed).script()


def test_gaps_alone_are_told_from_too_many_bytes(placed):
    plan = Plan(replace(placed, proof=replace(placed.proof, out_of_memory=True)))
    text = " ".join(plain_text(plan, 300).split())
    assert "the tensors fit, and torch's allocator leaves gaps" in text
    assert not plan.proved
