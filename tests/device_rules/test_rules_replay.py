"""The replay of a recording, or of the table's own predictions, on a virtual machine."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's own test helpers import it")

from evidence.engine import op_cases, replays, rule_cases  # only when their imports are there
from evidence.engine.recordings import Recording, load

EVERY = 30
"""Every so many operators, which takes some eight seconds; `python -m evidence replay-rules` takes all."""


def names() -> list[str]:
    return list(op_cases.operators())[::EVERY]


def test_a_case_has_a_name_and_back():
    case = rule_cases.Case("nn.functional.linear", "call", 3, 1, True)
    assert case.key == "nn.functional.linear|call|3|1|0"
    assert rule_cases.case_of(case.key) == case


def test_the_tables_own_predictions_replay_without_a_fault(capsys):
    """What is predicted is refused, accepted or not checked; nothing breaks, and a second run agrees with the
    first.
    """
    recordings = replays.newest()
    recorded = load(recordings[-1]) if recordings else None
    families = replays.compare(recorded, names()).families
    replays.show(families, 20)
    print(
        f"agreement with {recordings[-1].name if recordings else 'its own predictions'}, every {EVERY}th "
        "operator"
    )
    cases = sum(each.cases for each in families.values())
    agreeing = sum(each.outcome for each in families.values())
    assert cases > len(names())
    assert agreeing / cases >= (0.995 if recordings else 1.0), capsys.readouterr().out
    assert replays.broken(recorded, families) == []


def test_every_refusal_says_which_devices():
    """No refusal comes from a Python exception of our own."""
    for name in (
        "add",
        "cat",
        "nn.functional.linear",
        "index_put",
        "where",
        "nn.functional.conv2d",
        "scatter",
    ):
        for key, result in replays.replay(name).items():
            if result["outcome"] == "error":
                assert result["type"] == "RuntimeError", (key, result)
                assert "device" in result["message"] or "should be the same" in result["message"], (
                    key,
                    result,
                )


def test_a_disagreement_is_seen():
    found = replays.compare(recorded({"outcome": "ok", "devices": ["cuda:0"]}), ["nn.functional.linear"])
    family = found.families["nn.functional"]
    assert (family.cases, family.outcome) == (1, 0)
    assert "wrapper_CUDA_addmm" in family.different[0]


def recorded(result: dict[str, object], op: str = "nn.functional.linear", digest: str = "") -> Recording:
    """One case of one operator."""
    case, call = next(
        (case, call)
        for case, call in rule_cases.cases("nn.functional.linear")
        if case.key == "nn.functional.linear|call|0|1|n"
    )
    return Recording(
        {},
        {case.key.replace(case.op, op): result},
        {case.sample_key.replace(case.op, op): digest or rule_cases.digest(call)},
    )


def test_what_another_torch_ran_is_told_and_not_compared():
    result = {"outcome": "ok", "devices": ["cuda:0"]}
    other = replays.compare(recorded(result, digest="float32[9, 9] float32[9]"), ["nn.functional.linear"])
    assert not other.families
    assert other.left_out() == (
        "not compared: 0 cases of 0 operators unknown here, 1 cases of 1 operators with other samples here"
    )
    unknown = replays.compare(recorded(result, op="of_tomorrow"), ["nn.functional.linear"])
    assert not unknown.families
    assert "1 cases of 1 operators unknown here, 0 cases" in unknown.left_out()


def test_a_digest_tells_shapes_and_types():
    call = op_cases.Call(None, torch.add, (torch.ones(2, 3), [torch.ones((), dtype=torch.int64)]), {"x": 1})
    assert rule_cases.digest(call) == "float32[2, 3] int64[]"
