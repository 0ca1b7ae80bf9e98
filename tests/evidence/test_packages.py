"""The wheel and the sdist hold what they must; `python -m evidence packages` also installs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from evidence.environments import packages

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both packages, built without an index."""
    folder = str(tmp_path_factory.mktemp("dist"))
    return {
        builder.PLUGIN_NAME: Path(next(builder(str(ROOT)).build(directory=folder)))
        for builder in (WheelBuilder, SdistBuilder)
    }


def test_the_wheel_holds_code_data_and_marker_and_nothing_else(built):
    names = packages.names_in(built["wheel"])
    assert packages.missing_in_wheel(names) == []
    assert {"samedevice/py.typed", "samedevice/messages/zh.toml"} < {*names}


def test_the_wheel_declares_its_command_and_its_pytest_plugin(built):
    entries = packages.text_in(built["wheel"], "entry_points.txt")
    assert "samedevice = samedevice.cli:main" in entries
    assert "[pytest11]\nsamedevice = samedevice.pytest_plugin" in entries


def test_the_wheel_needs_no_torch_and_its_extra_does(built):
    lines = packages.text_in(built["wheel"], "METADATA").splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist: ")]
    assert [line for line in needed if "torch" in line and "extra ==" not in line] == []
    assert any(line.startswith("Requires-Dist: torch") and "extra == 'torch'" in line for line in needed)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of git: nothing to compare with")
def test_the_sdist_holds_what_its_tests_read(built):
    assert packages.missing_in_sdist(packages.names_in(built["sdist"])) == []


def test_a_missing_and_a_foreign_file_are_noticed():
    whole = packages.package_files()
    assert packages.missing_in_wheel(whole[1:]) == [f"lacks {whole[0]}"]
    assert packages.missing_in_wheel([*whole, "tests/conftest.py"]) == ["holds tests"]
