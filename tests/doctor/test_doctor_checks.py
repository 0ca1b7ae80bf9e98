"""Each check has what its page needs, and the tables behind them are what their generators write."""

from __future__ import annotations

import json
import re
import tomllib
from types import SimpleNamespace

import pytest

from evidence.found.case import cases
from samedevice.doctor import CHECKS, Facts, find_check
from samedevice.doctor.facts import Package
from samedevice.doctor.probes.project import read_project
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


def test_known_bugs_are_those_of_the_zoo_and_of_the_sweep():
    assert known_bad.TABLE.read_text("utf-8") == known_bad.table()
    assert known_bad.FOUND.read_text("utf-8") == known_bad.found_table()
    found = [bug for bug in known_bugs() if bug.good is None]
    assert len(found) == len(cases())
    assert all(bug.source.startswith("docs/found/") and bug.spread != bug.offloaded for bug in found)
    assert all(bug.good is None or bug.bad < bug.good for bug in known_bugs())
    assert all(bug.since is None or bug.since < bug.bad for bug in known_bugs())


def test_a_case_that_imports_only_what_many_cases_do_has_no_row():
    told = {bug.case for bug in known_bugs()}
    assert "static-cache-split" not in told  # imports Llama's classes alone
    assert "piq-gmsd-scale-weights" in told  # imports its library as a whole
    assert all(bug.names or bug.stems for bug in known_bugs() if bug.package == "transformers")


def test_more_cases_of_one_file_take_no_name_away(tmp_path, monkeypatch):
    (tmp_path / "cases").mkdir()
    facts = {"package": "lib", "bad": {"lib": "1"}, "good": {"lib": "2"}, "fix": "", "issue": ""}
    entries = [
        {"id": f"lib-{file}-{n}", "expect": {"file": f"lib/{file}.py"}, **facts}
        for n, file in enumerate(["ablation"] * 4 + ["loss", "table"])
    ]
    (tmp_path / "index.json").write_text(json.dumps(entries))
    for entry in entries:
        special = ", Ablation" if "ablation" in entry["id"] else ""
        (tmp_path / "cases" / f"{entry['id']}.py").write_text(f"from lib import wrap{special}\n")
    monkeypatch.setattr(known_bad, "ZOO", tmp_path)
    rows = tomllib.loads(known_bad.table())["bug"]
    assert [row["names"] for row in rows] == [["Ablation"]] * 4  # `wrap` is of three files


def test_what_the_sweep_found_has_classes_that_meet_it():
    assert all(bug.names or bug.stems for bug in known_bugs() if bug.good is None)
    case = cases()[0]
    bare = SimpleNamespace(name=case.name, script=case.script, seen={**case.seen, "classes": []})
    with pytest.raises(ValueError, match="without classes"):
        known_bad._found_row(bare)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("pipe.enable_group_offload(onload_device=gpu)", ["certain"]),
        ("# pipe.enable_group_offload(onload_device=gpu)", []),
        ('pipe = load(device_map="balanced")', []),
    ],
)
def test_a_bug_of_offloaded_weights_is_told_to_projects_that_offload(line, told):
    project = read_texts({"film.py": f"from diffusers import CogVideoXPipeline\n\n{line}\n"})
    facts = Facts(packages=(Package("diffusers", "0.42.1", "/site-packages"),), project=project)
    found = [fault for fault in find_check("SD305").look(facts) if "vae-groups" in str(fault.notes)]
    assert [fault.confidence for fault in found] == told


def test_every_row_has_its_source():
    rows = [*architectures(), *bad_drivers(), *companions().values(), *driver_minimum().values(), *pairs()]
    assert all(row["source"] for row in rows)


@pytest.mark.parametrize("language", doctor_page.PAGES)
def test_the_page_lists_every_check(language):
    page = doctor_page.PAGES[language]
    assert page.read_text("utf-8") == doctor_page.page(language), "stale: run python -m tools.doctor_page"


def read_texts(texts):
    """The project of some files."""

    class Files:
        def names(self, folder):
            return tuple(texts)

        def text(self, path):
            return texts[path.rpartition("/")[2]]

    return read_project(Files(), ".")


@pytest.mark.parametrize(
    ("line", "version", "told"),
    [
        ('AlbertForMaskedLM.from_pretrained("x", device_map="auto")', "5.23.0", ["Albert", "certain"]),
        ('AlbertForMaskedLM.from_pretrained("x", device_map="auto")', "5.22.0", ["Albert", "likely"]),
        ('AlbertForMaskedLM.from_pretrained("x", device_map="auto")', "5.21.0", []),
        ('AlbertForMaskedLM.from_pretrained("x", device_map="auto")', "5.24.0", []),
        ('AlbertForMaskedLM.from_pretrained("x").cuda()', "5.23.0", []),
        ('LlamaForCausalLM.from_pretrained("x", device_map="auto")', "5.23.0", []),
        (
            'GPT2ForSequenceClassification.from_pretrained("x", device_map="auto")',
            "5.23.0",
            ["GPT2ForSequenceClassification", "certain"],
        ),
    ],
)
def test_what_the_sweep_found_is_told_to_projects_that_spread_such_a_model(line, version, told):
    name = line.partition(".")[0]
    project = read_texts({"train.py": f"from transformers import {name}\n\nmodel = {line}\n"})
    facts = Facts(packages=(Package("transformers", version, "/site-packages"),), project=project)
    check = find_check("SD305")
    found = [
        word
        for fault in check.look(facts)
        for word in (dict(fault.reason.values)["subject"], fault.confidence)
    ]
    assert found == told
