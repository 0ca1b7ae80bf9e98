"""The catalogue of messages: both languages say the same, and every key is used."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from samedevice.messages import LANGUAGES, MESSAGES, enumerate_words, language_of, say, short_operator

SOURCES = Path(__file__).parents[2] / "src" / "samedevice"


def values_of(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("key", MESSAGES)
def test_languages_carry_the_same_values(key):
    message = MESSAGES[key]
    assert values_of(message.en) == values_of(message.zh)
    assert message.en.isascii()
    filled = {name: "x" for name in values_of(message.en)}
    assert all(say(key, language, **filled) for language in LANGUAGES)


def test_every_message_is_used():
    text = "".join(
        path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "messages.py"
    )
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
    families |= {"parallel", "parallel-because"}
    short = {"because", "fix", "placement", "heal"}  # named by the rest of their key
    unused = {
        key
        for key in MESSAGES
        if (family := key.partition(".")[0]) not in families
        and f'"{key}"' not in text
        and not (family in short and f'"{key.partition(".")[2]}"' in text)
    }
    assert unused == set()


def test_labels_fit_their_column():
    for key, message in MESSAGES.items():
        if key.startswith("label."):
            assert len(message.en) <= 8
            assert 2 * len(message.zh) <= 8


def test_title_and_reason_for_every_code():
    from samedevice.diagnosis import CODES

    for row in CODES:
        assert f"title.{row.name}" in MESSAGES
        assert f"why.{row.name}" in MESSAGES
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
