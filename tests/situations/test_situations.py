"""The examples show their situation on tiny models, and their repaired twins show nothing.

Full-size models and the remaining versions are for `python -m evidence situations`.
"""

import subprocess
import sys

import pytest

from evidence.bugs import situations
from evidence.environments import example_models
from tests.warm_python import TORCH, warm_python

OF_TORCH = {"numpy"}
"""What torch itself loads; where an environment pins it, Python starts afresh."""


def quick_runs():
    """The first run on a tiny model of every script that shows its bug, and of every one that is clean."""
    first = {}
    for run in situations.TABLE["runs"]:
        if situations.is_tiny(run):
            first.setdefault((run["script"], bool(run["expect"])), run)
    return list(first.values())


def name_of(run):
    return "-".join(
        [run["script"].removesuffix(".py"), run["environment"], "shows" if run["expect"] else "clean"]
    )


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The tiny models, made once for the session; pytest-xdist's workers share them."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if own.name.startswith("popen-gw") else own
    return shared / "models"


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory):
    """A Python that has torch loaded when it starts, and no library that an overlay may have another of."""
    with warm_python(tmp_path_factory.mktemp("warm"), TORCH) as python:
        yield python


def test_what_is_loaded_beforehand_is_of_no_overlay(with_torch):
    code = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [with_torch, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "torch" in loaded
    for environment in situations.TABLE["environments"]:
        pinned = {name.replace("-", "_") for name in situations.pins_of(environment)}
        assert pinned & set(loaded) <= OF_TORCH, environment


@pytest.mark.parametrize("run", quick_runs(), ids=name_of)
def test_situation(run, models, with_torch, monkeypatch):
    if not situations.is_cached(run["environment"]):
        pytest.skip(
            f"the overlays of environment {run['environment']} are not built: python -m evidence situations "
            "--build-only"
        )
    for package in ("transformers", "accelerate"):
        pytest.importorskip(package)

    if not OF_TORCH & situations.pins_of(run["environment"]).keys():
        monkeypatch.setattr(sys, "executable", with_torch)
    document, status, output = situations.execute(run, models)

    assert situations.judge(run, document, status, output) == []
    assert status == (1 if run["expect"] else 0)


def test_every_bug_has_a_repaired_twin_in_the_same_situation_and_size():
    runs = situations.TABLE["runs"]
    clean = {(run["script"], run.get("model")) for run in runs if not run["expect"]}
    for run in runs:
        if run["expect"]:
            assert (run["script"].replace(".py", "_repaired.py"), run.get("model")) in clean


def test_every_script_and_model_and_environment_of_the_table_exists():
    for run in situations.TABLE["runs"]:
        assert (situations.EXAMPLES / run["script"]).is_file()
        assert run["environment"] in situations.TABLE["environments"]
        assert run.get("model") is None or run["model"] in example_models.SPECIFICATIONS


EXPECTED = {
    "file": "lib/model.py",
    "function": "forward",
    "op": "aten.mul",
    "devices": {"self": "cpu", "other": "cuda:0"},
}


def finding(**changes):
    operands = [
        {"name": "self", "device": "cpu", "parameter": None},
        {"name": "other", "device": "cuda:0", "parameter": None},
    ]
    at = {"file": "/somewhere/lib/model.py", "line": 3, "function": "forward", "code": ""}
    return {"at": at, "op": "aten.mul.Tensor", "operands": operands, **changes}


def document(*findings, status="completed"):
    return {"status": status, "findings": list(findings)}


def test_a_finding_at_the_expected_statement_is_right():
    assert situations.judge({"expect": [EXPECTED]}, document(finding()), 1, "") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "aten.mul_.Tensor"},
        {"at": {"file": "/somewhere/lib/model.py", "line": 3, "function": "backward", "code": ""}},
        {"at": {"file": "/somewhere/other.py", "line": 3, "function": "forward", "code": ""}},
        {"at": None},
        {"operands": [{"name": "self", "device": "cuda:0", "parameter": None}]},
    ],
)
def test_another_statement_found_first_is_wrong(changes):
    assert situations.judge({"expect": [EXPECTED]}, document(finding(**changes), finding()), 1, "") == [
        "another statement was found first"
    ]


def test_a_bug_that_is_not_found_is_wrong():
    assert situations.judge({"expect": [EXPECTED]}, document(), 0, "") == ["nothing found"]


def test_a_finding_in_a_clean_script_is_wrong():
    assert situations.judge({"expect": []}, document(finding()), 1, "") == ["1 found in a clean script"]


def test_a_script_that_fails_is_wrong():
    wrong = situations.judge(
        {"expect": []}, document(status="script-error"), 3, "ValueError: no\nsamedevice: nothing found"
    )
    assert wrong == ["script-error: ValueError: no"]


def test_a_script_that_does_not_print_what_it_should_is_wrong():
    wrong = situations.judge(
        {"expect": [], "prints": "weights on ['cuda:7']"}, document(), 0, "weights on ['cuda:0']"
    )
    assert wrong == ["does not print \"weights on ['cuda:7']\""]


def test_a_run_without_a_report_is_wrong():
    assert situations.judge({"expect": []}, None, 2, "no such machine") == [
        "no report, exit status 2: no such machine"
    ]
