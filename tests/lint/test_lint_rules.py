"""The rules of lint: the example of each page is flagged, what it says to write instead is not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from samedevice.diagnosis import HEADINGS, UNDETERMINED
from samedevice.diagnosis.fixes import combined
from samedevice.lint import RULES, Options, check_text, chosen_rules, find_rule
from samedevice.messages import languages
from samedevice.report import page_text
from samedevice.rulebook import code_of, every_rule, rule_named

FOLDER = Path(__file__).parents[2] / "src" / "samedevice" / "lint" / "rules"
ALL = Options(select=("ALL",))


def examples(rule, heading="Example"):
    """The code under a heading of a rule's page."""
    part = rule.page["en"].split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


@pytest.fixture
def path(tmp_path):
    """A module of a package."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    return package / "model.py"


def codes(path, text, options=ALL):
    return [finding.code for finding in check_text(path, text, options).findings]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_example_is_flagged_and_what_to_use_instead_is_not(rule, path):
    bad, good = examples(rule), examples(rule, "Use instead")
    assert bad
    assert len(bad) == len(good)
    for text in bad:
        assert rule.code in codes(path, text)
    for text in good:
        assert rule.code not in codes(path, text)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_safe_fix_leaves_nothing_to_find(rule, path):
    alone = Options(select=(rule.code,))
    for text in examples(rule):
        before = codes(path, text, alone)
        for fix in (fix for finding in check_text(path, text, alone).findings for fix in finding.fixes):
            changed, refused = combined(text, [fix.diff])
            assert not refused
            ast.parse(changed)
            assert len(codes(path, changed, alone)) < len(before)


def test_a_script_may_write_its_own_gpu(tmp_path):
    text = examples(find_rule("SD202"))[0]
    assert codes(tmp_path / "train.py", text) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page(rule):
    assert rule.page.keys() == set(languages())
    for language, page in rule.page.items():
        assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == HEADINGS[language]
        assert re.findall(r"^```python\n.*?^```$", page, re.M | re.S) == re.findall(
            r"^```python\n.*?^```$", rule.page["en"], re.M | re.S
        )
        assert rule.title[language] in page_text(rule, language)
    assert len(rule.title["en"]) <= 60
    assert re.fullmatch(r"SD2\d\d", rule.code)
    assert rule.cause == UNDETERMINED or rule_named(rule.cause).kind is None
    for text in rule.sentences.values():
        assert text.keys() == set(languages())
    assert code_of(rule.code) is rule
    assert find_rule(rule.name) is rule


def test_one_file_a_rule():
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == {
        rule.name.replace("-", "_") for rule in RULES
    }


def test_codes_and_names_are_everybodys_own():
    rules = every_rule()
    assert len({rule.code for rule in rules}) == len({rule.name for rule in rules}) == len(rules)


def test_rules_are_chosen_by_code_by_its_beginning_and_by_name():
    assert [rule.code for rule in chosen_rules(Options(select=("SD205",)))] == ["SD205"]
    assert len(chosen_rules(Options(select=("SD2",)))) == len(RULES)
    assert [rule.code for rule in chosen_rules(Options(select=("load-without-map-location",)))] == ["SD205"]
    assert all(rule.default for rule in chosen_rules(Options()))
    assert "SD205" not in {rule.code for rule in chosen_rules(Options(ignore=("SD205",)))}


def test_a_file_without_a_rules_words_is_not_read_for_it():
    for rule in RULES:
        for text in examples(rule):
            assert any(word in text for word in rule.words), rule.code
