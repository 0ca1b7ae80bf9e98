"""What failed trials teach: plans are made again until one holds, or nothing fits any more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from samedevice.events import Decision, Event, EventKind, Operand, Place, Running
from samedevice.machines import parse_machine
from samedevice.planner.inference import Block, Lesson, Peak, Proof, Run, Workload
from samedevice.planner.inference._blocks import Loads, taught
from samedevice.planner.inference._lessons import lessons_of, with_lessons
from samedevice.report.plan import Plan
from tests.planner.test_planner_inference import GIB, MIB, folder, placed

MARIAN = {
    "model_type": "marian", "architectures": ["MarianMTModel"], "d_model": 64, "encoder_layers": 3,
    "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128, "vocab_size": 2000, "pad_token_id": 1999, "decoder_start_token_id": 1999,
    "max_position_embeddings": 512,
}  # fmt: skip
ROW = tuple(
    Block((name,), "Layer", 100, prefill=10, home_prefill=10, decode=5, home_decode=5)
    for name in ("embed", "tower.a", "tower.b", "tower.c", "layers.0", "layers.1", "head")
)
RUNS = (Run(0, 0, 3), Run(1, 3, 5), Run(2, 5, 7))
MACHINE = parse_machine("3x2GB")
BUDGETS = dict.fromkeys(range(3), 1000)
LINE = Place("model.py", 7, "forward", "x + y")


def operand(device, *steps, parameter=None):
    lineage = tuple(Decision("placed", device, name=name) for name in steps)
    return Operand("self", device, (2,), "float32", parameter=parameter, lineage=lineage)


def proof(*events, error=None, peaks=(), out_of_memory=False):
    return Proof({}, tuple(peaks), tuple((each, 1) for each in events), out_of_memory, error, 1.0, {})


def peak(gpu, load, prompt, last, reserved):
    return Peak(gpu, {"load": load, "prompt": prompt, "last_token": last}, reserved)


def meeting(*operands, running=("tower",), at=LINE):
    modules = (*running, "Model")
    stack = tuple(Running(name, "Kind", None, (), ()) for name in modules)
    return Event(EventKind.MISMATCH, "aten.add.Tensor", "", at, None, modules[0], operands, running=stack)


def learnt(found, earlier=(), blocks=ROW, runs=RUNS, trial=1):
    return lessons_of(found, MACHINE, blocks, runs, BUDGETS, earlier, trial)


def test_a_decoder_whose_positions_meet_the_shared_embedding_is_planned_again(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**MARIAN, "torch_dtype": "float32"}))
    plan = placed(tmp_path, work=Workload(1, 64, 8))
    assert plan.proved and len(plan.shares) > 1
    assert plan.rounds == len(plan.lessons) + 1
    lesson, *_ = plan.lessons
    assert lesson.trial == 1 and lesson.statement.code == "hidden_states = inputs_embeds + position_ids"
    assert set(lesson.together) == {"model.shared", "model.decoder.embed_positions"}
    placed_at = plan.device_map
    assert placed_at["model.decoder.embed_positions"] == placed_at["model.shared"]
    # The layers of the decoder stay where the division wants them, behind the encoder's.
    assert placed_at["model.decoder.layers.2"] == max(placed_at.values())
    said = str(Plan(plan))
    assert "trial 1: model.shared and model.decoder.embed_positions must be on one GPU" in said
    assert "holds" in said
    written, *_ = Plan(plan).as_json()["learned"]
    assert written["trial"] == 1 and written["together"] == list(lesson.together)


def test_what_was_learnt_may_make_it_too_large(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**MARIAN, "torch_dtype": "float32"}))
    whole = placed(tmp_path, 1, GIB, Workload(1, 64, 8))
    apart = placed(tmp_path, work=Workload(1, 64, 8))
    fullest = max(share.planned.total for share in apart.shares)
    short = placed(tmp_path, budget=fullest - MIB // 8, work=Workload(1, 64, 8))
    assert not short.proved
    assert not short.fits and short.room < 0
    assert whole.shares[0].planned.total > fullest


def test_the_blocks_that_put_the_operands_there_come_first():
    found = learnt(proof(meeting(operand("cuda:0", "embed.weight"), operand("cuda:1", "tower.c.weight"))))
    assert [lesson.together for lesson in found] == [("embed", "tower.c")]
    assert found[0].statement == LINE
    row = with_lessons(ROW, found)
    assert [block.names for block in row][:2] == [("embed", "tower.c"), ("tower.a",)]
    assert sum(block.weights for block in row) == 700


def test_the_layer_that_was_running_is_the_other_side():
    found = learnt(
        proof(
            meeting(
                operand("cuda:0", "tower.b.scale"), operand("cuda:1", "tower.c.weight"), running=("layers.0",)
            )
        )
    )
    assert [lesson.together for lesson in found] == [("tower.b", "layers.0")]


def test_the_same_statement_again_is_taken_wider_each_time():
    event = meeting(operand("cuda:0", "tower.a.weight"), operand("cuda:1", "tower.c.weight"))
    chosen = []
    earlier = ()
    for trial in range(1, 5):
        found = learnt(proof(event), earlier, trial=trial)
        chosen.append(found[0].together)
        earlier += found
    assert chosen == [
        ("tower.a", "tower.c"),
        ("tower.b", "tower.c"),  # both sides of the border
        ("tower.a", "tower.b", "tower.c"),  # the module that was running
        tuple(block.names[0] for block in ROW),
    ]


def test_what_the_division_did_not_cause_teaches_nothing():
    assert not learnt(proof(meeting(operand("cuda:0", "embed.weight"), operand("cpu"))))
    assert not learnt(proof(error="ValueError: no"), runs=(Run(0, 0, 7),))


def test_code_that_fails_when_it_is_divided_stays_whole():
    (lesson,) = learnt(proof(error="ValueError: no"))
    assert lesson.error == "ValueError: no"
    assert len(with_lessons(ROW, [lesson])) == 1


def test_bytes_that_were_missing_are_added_to_the_blocks_that_were_there():
    planned = Loads(ROW).peak(3, 5)
    peaks = (peak(0, 300, 300, 300, 400), peak(1, 900, 1100, 950, 1200), peak(2, 200, 200, 200, 300))
    (lesson,) = learnt(proof(peaks=peaks))
    assert (lesson.gpu, lesson.missing, lesson.gaps) == (1, 1100 - planned, False)
    assert lesson.blocks == ("tower.c", "layers.0")
    assert Loads(with_lessons(ROW, [lesson])).peak(3, 5) == 1100


def test_gaps_of_the_allocator_are_left_free():
    total = MACHINE.gpus[0].total_memory
    peaks = (peak(0, 300, 300, 300, total + 100 * MIB), peak(1, 900, 900, 900, 1 << 20))
    (lesson,) = learnt(proof(peaks=peaks, out_of_memory=True))
    assert (lesson.gpu, lesson.missing, lesson.gaps) == (0, 100 * MIB, True)


def test_an_idle_parameter_goes_where_it_is_used():
    bias = Block(("bias",), "Tensor", 50, idle=True, home_prefill=70, home_late=90)
    row = taught((bias, *ROW), [frozenset({"bias", "head"})], {})
    assert [block.names[0] for block in row] == ["embed", "tower.a", "tower.b", "tower.c", "layers.0",
                                                 "layers.1", "bias"]  # fmt: skip
    assert row[-1].names == ("bias", "head") and row[-1].weights == 150
    # What the caller holds is where the first block is.
    assert (row[0].home_prefill, row[0].home_late) == (70, 90)


def test_lessons_hold_for_the_longest_context_too(tmp_path, monkeypatch):
    from samedevice.planner.inference import _plan

    real = _plan.prove
    model = folder(tmp_path, "llama")
    first = placed(model, work=Workload(2, 1, 64), most="context", budget=24 * MIB)
    assert first.proved and not first.most.limited

    def needs_more(source, machine, device_map, workload):
        """The trial of the longest prompt shows one MiB more on its fullest GPU than was calculated."""
        found = real(source, machine, device_map, workload)
        if workload.context < first.most.value:
            return found
        peaks = [
            replace(each, phases={**each.phases, "prompt": each.phases["prompt"] + MIB})
            for each in found.peaks
        ]
        return Proof(found.device_map, tuple(peaks), found.events, False, None, 1.0, found.versions)

    monkeypatch.setattr(_plan, "prove", needs_more)
    again = placed(model, work=Workload(2, 1, 64), most="context", budget=24 * MIB)
    assert again.proved
    assert again.most.value < first.most.value
    assert {lesson.missing > 0 for lesson in again.lessons} == {True}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_lesson_is_said(language):
    from samedevice.report import render
    from samedevice.report.plan._facts import lesson_phrase

    lessons = [
        Lesson(1, ("a", "b"), LINE),
        Lesson(1, ("a", "b", "c", "d"), LINE),
        Lesson(2, ("a", "b"), error="ValueError: no"),
        Lesson(3, gpu=1, missing=MIB),
        Lesson(3, gpu=1, missing=MIB, gaps=True),
    ]
    said = [render(lesson_phrase(lesson), language) for lesson in lessons]
    assert len(set(said)) == len(lessons)
    assert "x + y" in said[0] and "model.py:7" in said[0]
    assert "ValueError: no" in said[2]
    assert all("cuda:1" in each and "1.0 MiB" in each for each in said[3:])


def test_kinds_that_hold_at_once_learn_nothing(tmp_path):
    plan = placed(folder(tmp_path, "llama"))
    assert plan.proved and plan.lessons == ()
