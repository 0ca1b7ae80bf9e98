"""The rules: one for each cause of the taxonomy, each with a whole page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from samedevice.diagnosis import CAUSES, CODES, HEADINGS, REFUSALS, RULES, find_rule
from samedevice.messages import languages
from samedevice.parts import in_order
from samedevice.report import page_text
from samedevice.rulebook import every_rule
from tools.pages import main, page_name

ROOT = Path(__file__).parents[2]
TAXONOMY = [entry["slug"] for entry in json.loads((ROOT / "corpus" / "taxonomy.json").read_text("utf-8"))]


def test_every_cause_of_the_taxonomy_is_a_rule():
    names = [rule.name for rule in CAUSES]
    assert [name for name in names if name in TAXONOMY] == TAXONOMY


def test_codes_that_were_given_never_change():
    assert [rule.code for rule in CODES] == [f"SD{number}" for number in range(101, 111)]
    given = [f"SD{number}" for number in range(111, 142)]
    assert [rule.code for rule in CAUSES[: len(given)]] == given
    assert [rule.name for rule in CAUSES[: len(given)]] == TAXONOMY[: len(given)]
    given = [f"SD{number}" for number in range(401, 407)]
    assert [rule.code for rule in REFUSALS[: len(given)]] == given


@pytest.mark.parametrize("field", ["code", "name"])
def test_two_rules_with_one_code_or_name_are_refused(field):
    first, second = RULES[:2]
    assert in_order((second, first)) == (first, second)
    with pytest.raises(AssertionError, match=f"two rules have {getattr(first, field)}"):
        in_order((first, replace(second, **{field: getattr(first, field)})))


def test_one_file_a_rule():
    folder = ROOT / "src" / "samedevice" / "diagnosis" / "rules"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == {
        rule.name.replace("-", "_") for rule in RULES
    }


def complaints(page, language="en"):
    """What a page lacks."""
    found = re.findall(r"^## (.+)$", page, re.MULTILINE)
    parts = re.split(r"^## .+$", page, flags=re.MULTILINE)
    if tuple(found) != HEADINGS[language]:
        return [f"headings are {found}"]
    return [f"{heading} is empty" for heading, part in zip(found, parts[1:], strict=True) if not part.strip()]


def code_of(page):
    """What a page's examples do, without their comments."""
    lines = re.findall(r"^```(?!text).*?^```$", page, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s*#.*", "", line) for block in lines for line in block.splitlines()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page(rule):
    assert rule.page.keys() == set(languages())
    for language, page in rule.page.items():
        assert complaints(page, language) == []
        assert code_of(page) == code_of(rule.page["en"])
    assert rule.page["en"].strip().splitlines()[0].rstrip().isascii()
    assert not rule.page["zh"].strip().splitlines()[0].isascii()
    assert len(rule.title["en"]) <= 60
    assert re.fullmatch(r"SD[1-9]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.title["zh"] in page_text(rule, "zh")
    assert find_rule(rule.code.lower()) is rule
    assert find_rule(rule.name) is rule


def test_the_check_of_pages_can_fail():
    page = RULES[0].page["en"]
    assert complaints(page.replace("## Known limits", "## Known problems"))
    assert complaints(re.sub(r"(## Fix safety\n).*?(?=## )", r"\1\n", page, flags=re.DOTALL))


def test_pages_can_be_written_and_their_links_lead_somewhere(tmp_path):
    assert main([str(tmp_path)]) == 0
    written = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    names = {"README.md", *(f"{rule.code}.md" for rule in every_rule())}
    assert written.keys() == {page_name(name, language) for name in names for language in languages()}
    for content in written.values():
        prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", content, flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)", prose):
            assert (
                link in written
                or link.startswith("https://")
                or (ROOT / "docs" / link.removeprefix("../")).exists()
            ), link


def test_the_key_of_the_zoo_is_whole():
    key = json.loads((ROOT / "src" / "evidence" / "zoo" / "causes.json").read_text("utf-8"))
    cases = json.loads((ROOT / "src" / "evidence" / "zoo" / "index.json").read_text("utf-8"))
    assert key["kinds"].keys() == {case["kind"] for case in cases}
    assert key["guilty"].keys() == {case["id"] for case in cases}
    for row in key["kinds"].values():
        assert {row["cause"], *row.get("also", ())} <= set(TAXONOMY)
        assert row.get("why") or not row.get("also"), "a second cause has a reason"
