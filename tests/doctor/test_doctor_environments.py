"""The doctor on recorded environments: broken ones are named with a repair, healthy ones are left alone."""

from __future__ import annotations

import pytest

from evidence.environments.doctor import judged
from evidence.environments.recorded import PROJECT, RecordedHost, environments
from samedevice.doctor import CHECKS, examine, read_facts
from samedevice.messages import Phrase, languages
from samedevice.report import render

ALL = judged()


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.recorded.id)
def test_what_is_wrong_is_named_and_nothing_else(each):
    assert each.right
    assert each.more == ()


def test_there_are_enough_environments():
    broken = [each for each in ALL if each.recorded.expect is not None]
    assert len(broken) >= 24
    assert len(ALL) - len(broken) >= 6
    by_test = {"copies-corrupted"}  # needs GPUs, or virtual ones: test_doctor_copies.py
    assert {each.recorded.expect for each in broken} | by_test == {check.name for check in CHECKS}


@pytest.mark.parametrize("language", languages())
def test_every_verdict_can_be_said(language):
    for recorded in environments():
        for finding in examine(read_facts(RecordedHost(recorded.description), PROJECT)).findings:
            for phrase in (finding.title, *finding.reasons, finding.cure, *finding.notes):
                assert isinstance(phrase, Phrase)
                assert "{" not in render(phrase, language)


def test_a_healthy_environment_becomes_a_broken_one_by_one_fact():
    recorded = next(each for each in environments() if each.id == "eight-h200-tensor-parallel")
    torch = {**recorded.description["torch"], "count": 0}
    changed = {**recorded.description, "driver": "418.39", "driver_cuda": "10.1", "torch": torch}
    findings = examine(read_facts(RecordedHost(changed), PROJECT)).findings
    assert [finding.code for finding in findings] == ["SD301"]
