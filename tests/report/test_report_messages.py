"""The catalogues of messages: every language says the same, every key is used, and every phrase has a
sentence that names its values.
"""

from __future__ import annotations

import ast
import re
import string
import tomllib
from pathlib import Path

import pytest
from rich.cells import cell_len

from samedevice.diagnosis import CODES
from samedevice.doctor import CHECKS
from samedevice.messages import (
    SOURCE,
    Bytes,
    Phrase,
    Several,
    catalogue,
    language_of,
    languages,
    short_operator,
)
from samedevice.report import render
from samedevice.rulebook import every_rule

SOURCES = Path(__file__).parents[2] / "src" / "samedevice"
RULE_TEXTS = {
    f"rules.{rule.name}.{part}": texts for rule in every_rule() for part, texts in rule.texts.items()
}
"""What the rules' own files say."""
CHECK_TEXTS = {
    f"checks.{check.name}.{part}": texts for check in CHECKS for part, texts in check.texts.items()
}
"""What the doctor's checks' own files say."""
OWN_TEXTS = {**RULE_TEXTS, **CHECK_TEXTS}
ENGLISH = {**catalogue(SOURCE), **{key: texts[SOURCE] for key, texts in OWN_TEXTS.items()}}


def values_of(sentence):
    """The names in braces; raises ValueError for what `str.format` would not take."""
    names = {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}
    if wrong := {name for name in names if not name.isidentifier()}:
        raise ValueError(wrong)
    return names


def differences(own, source):
    """Keys that only one of them has, or whose sentences do not name the same values. Sentences of rules may
    be missing: the rule's own file has them.
    """
    lacking = {key for key in source.keys() - own.keys() if not key.startswith(("rules.", "checks."))}
    unlike = {key for key in own.keys() & source.keys() if values_of(own[key]) != values_of(source[key])}
    return lacking | (own.keys() - source.keys()) | unlike


@pytest.mark.parametrize("language", languages())
def test_languages_have_the_same_keys_and_name_the_same_values(language):
    assert differences(catalogue(language), ENGLISH) == set()


@pytest.mark.parametrize("language", languages())
def test_a_catalogue_holds_what_its_file_holds(language):
    whole = tomllib.loads((SOURCES / "messages" / f"{language}.toml").read_text("utf-8"))
    plain = {key: entry for key, entry in whole.items() if isinstance(entry, str)}
    tables = {key: entry for key, entry in whole.items() if not isinstance(entry, str)}
    tabled = {f"{table}.{name}": entry for table, rows in tables.items() for name, entry in rows.items()}
    assert dict(catalogue(language)) == {**plain, **tabled}


def test_a_catalogue_does_not_have_what_its_file_does_not_have():
    for key in ("because", "because.nothing", "nothing", "rules.undetermined.title", "because.line.more"):
        assert key not in catalogue(SOURCE)


@pytest.mark.parametrize("key", OWN_TEXTS)
def test_rules_and_checks_say_the_same_in_each_language(key):
    texts = OWN_TEXTS[key]
    assert texts.keys() >= {"en", "zh"}
    assert {frozenset(values_of(sentence)) for sentence in texts.values()} == {
        frozenset(values_of(texts[SOURCE]))
    }
    command = key in CHECK_TEXTS and texts["zh"] == texts[SOURCE]  # the same in every language
    assert command or re.search(r"[\u4e00-\u9fff]", texts["zh"])


def test_english_is_plain():
    assert [key for key, sentence in ENGLISH.items() if not sentence.isascii() or not sentence] == []


def test_the_comparison_can_fail():
    source = {"a": "{x} and {y}", "b": "b", "rules.r.title": "r"}
    assert differences({"a": "{y}{x}", "b": "c"}, source) == set()
    assert differences({"a": "{x}", "c": "c"}, source) == {"a", "b", "c"}


def words_of(tree):
    """Every text that stands in the code as a value: docstrings do not count."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    }


def trees():
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCES.rglob("*.py"))}


def unused(keys, code):
    """Keys that are written whole nowhere.

    Of a rule or a check also the last part counts, in its `phrase(...)`.
    """
    words = set().union(*map(words_of, code))
    parts = {
        call.args[0].value
        for tree in code
        for call in calls(tree)
        if getattr(call.func, "attr", "") == "phrase" and isinstance(call.args[0], ast.Constant)
    }
    return {
        key
        for key in keys
        if key not in words
        and not (key.startswith(("rules.", "checks.")) and key.rpartition(".")[2] in parts)
    }


def calls(tree):
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)


def wrong_phrases(tree):
    """Lines with a phrase whose key no catalogue has, is put together, or names other values."""
    found = []
    for call in calls(tree):
        if getattr(call.func, "id", "") != "Phrase":
            continue
        key, given = call.args[0], {keyword.arg for keyword in call.keywords}
        options = [key.body, key.orelse] if isinstance(key, ast.IfExp) else [key]
        for option in options:
            if isinstance(option, ast.Constant):
                known = option.value in ENGLISH
                if not known or (None not in given and values_of(ENGLISH[option.value]) != given):
                    found.append((call.lineno, option.value))
            elif isinstance(option, (ast.JoinedStr, ast.BinOp)):
                found.append((call.lineno, ast.unparse(option)))
    return found


def test_every_message_is_used():
    assert unused(ENGLISH, trees().values()) == set()


def test_every_phrase_has_its_sentence():
    found = {str(path): wrong for path, tree in trees().items() if (wrong := wrong_phrases(tree))}
    assert found == {}


def test_the_search_can_fail():
    code = ast.parse('"""held"""\nPhrase("times", count=1)\nPhrase("times")\nPhrase(f"a.{b}")\nPhrase("no")')
    assert wrong_phrases(code) == [(3, "times"), (4, "f'a.{b}'"), (5, "no")]
    assert unused({"times", "held"}, [code]) == {"held"}


def test_labels_fit_their_column():
    for language in languages():
        for key, sentence in catalogue(language).items():
            assert not key.startswith("label.") or cell_len(sentence) <= 8, (language, key)


def test_every_kind_of_event_has_a_headline_and_a_reason():
    for rule in CODES:
        assert {"headline", "why"} <= rule.sentences.keys()
        assert re.fullmatch(r"SD1\d\d", rule.code)


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
    key = "rules.cross-device-operands.headline"
    phrase = Phrase(key, op=Phrase("operator-untold"), devices=devices)
    assert render(phrase) == "the operator got operands on cpu, cuda:0 and cuda:1"
    assert render(phrase, "zh") == "该算子的操作数分别在 cpu、cuda:0 和 cuda:1 上"
    held = Phrase("held", allocated=Bytes(3 << 29), total=Bytes(24 << 30), device="cuda:0")
    assert render(held) == "1.5 GiB of 24.0 GiB on cuda:0"
    assert render(Phrase("fix.export", name=Several(("A", "B"), "none"))) == "export AB"
    assert [render(Several(("a", "b")[:count])) for count in range(3)] == ["", "a", "a and b"]


def test_a_language_without_a_rule_says_it_in_english():
    assert render(Phrase("rules.out-of-memory.title"), "en") == "an allocation does not fit"
    for language in languages():
        assert render(Phrase("rules.out-of-memory.title"), language)


def test_short_names_of_operators():
    assert [
        short_operator(op)
        for op in ("aten.mul.Tensor", "aten.addmm.default", "torchvision.nms.default", "allocate")
    ] == [
        "mul",
        "addmm",
        "torchvision.nms",
        "allocate",
    ]
