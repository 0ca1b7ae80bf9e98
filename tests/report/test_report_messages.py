"""The catalogue of messages: both languages say the same, and every key is used."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from rich.cells import cell_len

from samedevice.messages import (
    SOURCE,
    Bytes,
    Phrase,
    Several,
    catalogue,
    enumerate_words,
    language_of,
    languages,
    short_operator,
)
from samedevice.report import render

SOURCES = Path(__file__).parents[2] / "src" / "samedevice"


def values_of(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", languages())
def test_languages_have_the_same_keys_and_name_the_same_values(language):
    source, own = catalogue(SOURCE), catalogue(language)
    assert own.keys() == source.keys()
    for key, sentence in own.items():
        assert values_of(sentence) == values_of(source[key]), key
        assert sentence or key.startswith("list.")
    assert language != SOURCE or all(sentence.isascii() for sentence in own.values())


def test_every_message_is_used():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    families = {
        "title",
        "why",
        "safety",
        "confidence",
        "status",
        "label",
        "memory",
        "mode",
        "moment",
        "offload",
        "part",
    }
    families |= {"parallel", "parallel-because", "list"}
    short = {"because", "fix", "placement", "heal"}  # named by the rest of their key
    unused = {
        key
        for key in catalogue(SOURCE)
        if (family := key.partition(".")[0]) not in families
        and f'"{key}"' not in text
        and not (family in short and f'"{key.partition(".")[2]}"' in text)
    }
    assert unused == set()


def test_labels_fit_their_column():
    for language in languages():
        for key, sentence in catalogue(language).items():
            assert not key.startswith("label.") or cell_len(sentence) <= 8, (language, key)


def test_title_and_reason_for_every_code():
    from samedevice.diagnosis import CODES

    for row in CODES:
        assert f"title.{row.name}" in catalogue(SOURCE)
        assert f"why.{row.name}" in catalogue(SOURCE)
        assert re.fullmatch(r"SD1\d\d", row.code)


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
    ],
)
def test_language_of_the_locale(variables, language):
    assert language_of(variables) == language


def test_a_phrase_gets_its_language_when_it_is_rendered():
    devices = Several(("cpu", "cuda:0", "cuda:1"))
    phrase = Phrase("title.cross-device-operands", op=Phrase("operator-untold"), devices=devices)
    assert render(phrase) == "the operator got operands on cpu, cuda:0 and cuda:1"
    assert render(phrase, "zh") == "该算子 的操作数分别在 cpu、cuda:0 和 cuda:1 上"
    held = Phrase("held", allocated=Bytes(3 << 29), total=Bytes(24 << 30), device="cuda:0")
    assert render(held) == "1.5 GiB of 24.0 GiB on cuda:0"
    assert render(Phrase("fix.export", name=Several(("A", "B"), "none"))) == "export AB"


def test_words():
    assert enumerate_words(["a"], "en") == "a"
    assert enumerate_words(["a", "b", "c"], "en") == "a, b and c"
    assert enumerate_words(["a", "b", "c"], "zh") == "a、b 和 c"
    assert [
        short_operator(op)
        for op in ("aten.mul.Tensor", "aten.addmm.default", "torchvision.nms.default", "allocate")
    ] == [
        "mul",
        "addmm",
        "torchvision.nms",
        "allocate",
    ]
