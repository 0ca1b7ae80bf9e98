"""Each check has what its page needs, and the tables behind them are what their generators write."""

from __future__ import annotations

import re

import pytest

from samedevice.doctor import CHECKS, Facts, find_check
from samedevice.doctor.tables import architectures, bad_drivers, companions, driver_minimum, known_bugs, pairs
from samedevice.messages import languages
from samedevice.parts import in_order
from samedevice.report import check_text
from tools import doctor_page, known_bad


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_says_where_its_knowledge_is_from(check):
    assert re.fullmatch(r"SD3\d\d", check.code)
    assert check.sources and all(check.sources)
    assert len(check.title["en"]) <= 80
    assert not check.title["en"].endswith(".")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_without_facts_no_check_says_anything(check):
    assert list(check.look(Facts())) == []


@pytest.mark.parametrize("language", languages())
def test_explain_tells_of_a_check(language):
    for check in CHECKS:
        text = check_text(find_check(check.code.lower()), language)
        assert text.startswith(f"{check.code} {check.name}: ")
        assert all(source in text for source in check.sources)
        assert "{" not in text
    assert find_check("SD399") is None


def test_a_code_is_given_once():
    with pytest.raises(AssertionError, match="two checks have"):
        in_order([CHECKS[0], CHECKS[0]], "checks")


def test_known_bugs_are_those_of_the_zoo():
    assert known_bad.TABLE.read_text("utf-8") == known_bad.table()
    assert all(bug.bad < bug.good for bug in known_bugs())


def test_every_row_has_its_source():
    rows = [*architectures(), *bad_drivers(), *companions().values(), *driver_minimum().values(), *pairs()]
    assert all(row["source"] for row in rows)


@pytest.mark.parametrize("language", doctor_page.PAGES)
def test_the_page_lists_every_check(language):
    page = doctor_page.PAGES[language]
    assert page.read_text("utf-8") == doctor_page.page(language), "stale: run python -m tools.doctor_page"
