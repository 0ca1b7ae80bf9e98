"""Cases of docs/found: short scripts of users, patches that apply, pages that are made from them."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

import pytest

from evidence.found.case import cases
from evidence.found.found import on_one_device
from evidence.found.overlay import overlay
from samedevice.sweep._layers import layer_packages
from tools import found_pages

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_script_is_short_and_knows_nothing_of_us(case):
    text = case.script.read_text()
    assert len(text.splitlines()) <= 20
    assert "samedevice" not in text
    loads = "from_pretrained" in text or "model_kwargs=" in text  # a constructor that loads takes these
    assert loads or case.seen["package"] in layer_packages()  # these load nothing
    alone = on_one_device(text)
    assert "device_map" not in alone
    assert "max_memory" not in alone
    compile(alone, case.name, "exec")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_says_all_that_its_page_shows(case):
    assert case.reading["severity"] in found_pages.SEVERITIES
    assert len(case.reading["why"]) > 100
    assert case.seen["finding"]["operands"]
    assert not re.search(r"(?<![\w.>:])/[\w.-]+/", (case.folder / "seen.json").read_text()), (
        "an absolute path"
    )


def test_pages_are_what_the_cases_say():
    assert found_pages.main(["--check"]) == 0


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case.name)
def test_a_patch_applies_to_a_copy_and_leaves_the_release_alone(case, tmp_path):
    try:
        installed = version(case.seen["package"])
    except PackageNotFoundError:
        installed = ""
    if installed != case.seen["version"]:
        pytest.skip("another release is installed")
    folder = overlay(case, tmp_path / "copy")
    (file,) = case.patched
    changed = (folder / file).read_text()
    lines = case.patch.read_text().splitlines()
    added = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert all(line in changed for line in added)
    others = [path for path in (folder / file).parent.iterdir() if path.name != (folder / file).name]
    assert others
    assert all(path.is_symlink() for path in others if path.is_file())
    release = next(path for path in others if path.is_file()).resolve().parent / (folder / file).name
    assert not all(line in release.read_text() for line in added)
