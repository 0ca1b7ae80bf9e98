"""What the five situations print: the exact text of the first finding of each, in both languages.

`diagnoses/<script>.json` is the event of a real run on the tiny model; `<script>.<language>.txt` is what a
person reads. After a wanted change, write the texts anew with `PYTHONPATH=src python
tests/situations/test_diagnoses.py` and read them.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from samedevice.diagnosis import judge
from samedevice.events import Event, EventKind, Operand, Place, Running
from samedevice.report import finding_text, render

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).with_name("diagnoses")
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
CAUSES = {
    "s1_chat": "lm-head-or-tied-weight-split",
    "s2_describe": "rope-table-on-wrong-device",
    "s3_batch": "generation-helper-on-wrong-device",
    "s3_video": "tensor-created-on-wrong-device",
    "s4_finetune": "dispatched-model-moved",
    "s5_server_block": "cache-or-beam-state-on-wrong-device",
}


def place(record):
    return None if record is None else Place(**record)


def operand(record):
    changed = {
        "shape": tuple(record["shape"]),
        "tied": tuple(record["tied"]),
        "made": place(record["made"]),
        "moved": place(record["moved"]),
    }
    return Operand(**{**record, **changed})


def event(record):
    """The event of a JSON record."""
    return Event(
        **{
            **record,
            "kind": EventKind(record["kind"]),
            "at": place(record["at"]),
            "user_at": place(record["user_at"]),
            "operands": tuple(operand(each) for each in record["operands"]),
            "stack": tuple(place(each) for each in record["stack"]),
            "notes": tuple(record["notes"]),
            "running": tuple(
                Running(**{**each, "own": tuple(each["own"]), "below": tuple(each["below"])})
                for each in record["running"]
            ),
        }
    )


def finding(name):
    """The finding of a kept event."""
    document = json.loads(
        (FOLDER / f"{name}.json").read_text("utf-8").replace("{EXAMPLES}", str(ROOT / "examples"))
    )
    return judge(event(document["event"]), document["count"])


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", NAMES)
def test_text(name, language, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert finding_text(finding(name), language) == (FOLDER / f"{name}.{language}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_cause_and_what_to_do(name):
    found = finding(name)
    assert found.cause == CAUSES[name]
    assert found.confidence == "likely"
    assert found.guilty
    assert found.fixes


@pytest.mark.parametrize("language", ["en", "zh"])
def test_only_a_served_block_is_offered_a_guard_for_its_cache(language):
    """A whole model makes its own cache; a block that is called by itself gets one from outside."""
    document = json.loads((FOLDER / "s5_server_block.json").read_text("utf-8"))
    served = event(document["event"])
    block = served.running[-1]
    titles = [render(fix.title, language) for fix in judge(served).fixes]
    offered = [title for title in titles if "sd.guard_cache(block)" in title]
    assert len(offered) == 1 and block.kind in offered[0]
    for changed in (
        replace(
            served,
            running=(*served.running, replace(block, name="LlamaForCausalLM", kind="LlamaForCausalLM")),
        ),
        replace(served, operands=tuple(replace(each, holder=None) for each in served.operands)),
    ):
        assert not any("guard_cache" in render(fix.title, language) for fix in judge(changed).fixes)


if __name__ == "__main__":
    os.chdir(ROOT)
    for each in NAMES:
        for chosen in ("en", "zh"):
            (FOLDER / f"{each}.{chosen}.txt").write_text(finding_text(finding(each), chosen), "utf-8")
    sys.exit()
