"""The replay of a recording, or of the table's own predictions, on a virtual machine."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's own test helpers import it")

from evidence.engine import op_cases, replays, rule_cases  # only when their imports are there
from evidence.engine.recording_worker import run_virtual
from evidence.engine.recordings import ASKED, KINDS, Recording, load
from samedevice.events import EventKind

EVERY = 41
"""Every so many operators, which takes some seconds; `python -m evidence replay-rules` takes all."""
SHARE = 0.99
META = 0.9
"""Of cases with an argument on the meta device, where another torch than the recorded one is asked."""


def names() -> list[str]:
    return list(op_cases.operators())[::EVERY]


def names_of(recorded: Recording) -> list[str]:
    """Those of all that was recorded, and every so many."""
    recorded_names = {key.partition("|")[0] for key in recorded.results}
    return [name for name in rule_cases.names((*KINDS, *ASKED)) if name in recorded_names][::EVERY]


def test_a_case_has_a_name_and_back():
    case = rule_cases.Case("nn.functional.linear", "call", 3, 1, True)
    assert case.key == "nn.functional.linear|call|3|1|0"
    assert rule_cases.case_of(case.key) == case


def recordings(*, meta):
    return [path for path in replays.newest() if ("meta" in path.name) is meta]


@pytest.mark.parametrize("path", recordings(meta=True), ids=lambda path: path.stem)
def test_what_a_gpu_did_with_an_argument_on_meta(path, capsys):
    recorded = load(path)
    families = replays.compare(recorded, names_of(recorded)).families
    replays.show(families, 20)
    for part, whole in (("outcome", "cases"), ("message", "refused"), ("devices", "accepted")):
        of = sum(getattr(each, whole) for each in families.values())
        share = sum(getattr(each, part) for each in families.values()) / of if of else 1.0
        assert share >= META, (part, capsys.readouterr().out)


@pytest.mark.parametrize("path", recordings(meta=False), ids=lambda path: path.stem)
def test_what_a_gpu_did_is_what_the_table_says(path, capsys):
    """All but a hundredth of the cases end alike, and none that the GPU accepts is refused."""
    recorded = load(path)
    families = replays.compare(recorded, names_of(recorded)).families
    replays.show(families, 20)
    cases = sum(each.cases for each in families.values())
    different = [line for each in families.values() for line in each.different]
    assert cases > len(names())
    assert sum(each.outcome for each in families.values()) / cases >= SHARE, capsys.readouterr().out
    assert sum(each.message for each in families.values()) / sum(
        each.refused for each in families.values()
    ) >= (SHARE - 0.02), capsys.readouterr().out
    assert not [line for line in different if re.search(r": ok .* the virtual machine: (?!ok)", line)]


@pytest.mark.long
def test_the_tables_own_predictions_replay_without_a_fault(capsys):
    """What is predicted is refused, accepted or not checked; nothing breaks, and a second run agrees with the
    first.
    """
    families = replays.compare(None, names()[::3]).families
    replays.show(families, 20)
    assert all(each.outcome == each.cases for each in families.values()), capsys.readouterr().out
    assert replays.broken(None, families) == []


@pytest.mark.long
def test_every_refusal_says_which_devices():
    """No refusal comes from a Python exception of our own.

    Among the last kind is a mask without dimensions, at which torch itself fails an assertion on any device.
    """
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
            if result["outcome"] == "error" and "|alone|" not in key:
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


@pytest.mark.parametrize("again", [0, 1, 2])
def test_a_case_is_judged_by_its_own_events(monkeypatch, again):
    kinds = EventKind.UNMATERIALIZED, EventKind.UNCHECKED
    events = [SimpleNamespace(kind=kind, message=kind.value) for kind in (*kinds, EventKind.UNCHECKED)]
    virtual = SimpleNamespace(events=events[:2], event_counts=[1, 1])

    def run(case, call):
        if again == 2:
            virtual.events.append(events[2])
            virtual.event_counts.append(0)
        virtual.event_counts[again] += 1
        return {"outcome": "ok"}

    monkeypatch.setattr(rule_cases, "run", run)
    assert run_virtual(virtual, None, None)["outcome"] == ("crash" if again else "ok")


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
