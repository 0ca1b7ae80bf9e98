"""What the five situations print: the exact text of the first finding of each, in both languages.

`diagnoses/<script>.json` is the event of a real run on the tiny model, with the functions on its stack;
`<script>.<language>.txt` is what a person reads. After a wanted change, write the texts anew with
`PYTHONPATH=src python tests/situations/test_diagnoses.py` and read them.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
from dataclasses import is_dataclass, replace
from enum import Enum
from itertools import repeat
from pathlib import Path
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

import pytest

from samedevice.diagnosis import judge
from samedevice.events import Event
from samedevice.report import finding_text, render

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).with_name("diagnoses")
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
CAUSES = {
    "s1_chat": "lm-head-or-tied-weight-split",
    "s2_describe": "device-map-incomplete-or-wrong",
    "s3_batch": "generation-helper-on-wrong-device",
    "s3_video": "tensor-created-on-wrong-device",
    "s4_finetune": "dispatched-model-moved",
    "s5_server_block": "cache-or-beam-state-on-wrong-device",
}


def revived(kind, value):
    """The value of a type that a JSON record stands for: dataclasses, enumerations and tuples of them."""
    if value is None:
        return None
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        kinds = repeat(arguments[0]) if arguments[-1] is Ellipsis else arguments
        return tuple(revived(inner, each) for inner, each in zip(kinds, value, strict=False))
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (each for each in arguments if each is not NoneType)
        return revived(inner, value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: revived(hints[name], each) for name, each in value.items()})
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value


def read(name):
    """A kept event, and how often it happened. The functions on its stack are where `linecache` has them."""
    text = (FOLDER / f"{name}.json").read_text("utf-8").replace("{EXAMPLES}", str(ROOT / "examples"))
    document = json.loads(text)
    for file, blocks in document.get("sources", {}).items():
        lines: list[str] = []
        for first, block in sorted(((int(first), block) for first, block in blocks.items())):
            lines += ["\n"] * (first - 1 - len(lines)) + block.splitlines(keepends=True)
            lines[-1] += "\n"
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    return revived(Event, document["event"]), document["count"]


def finding(name):
    """The finding of a kept event."""
    return judge(*read(name))


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
    served, _ = read("s5_server_block")
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
