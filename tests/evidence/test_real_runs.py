"""What a real GPU did with programs that have a bug, beside what a virtual machine says of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from evidence.bugs import real_runs
from evidence.bugs.subjects import Subject

MESSAGE = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
VIRTUAL = {
    "group": "programs",
    "findings": 1,
    "message": MESSAGE,
    "silent_result": None,
    "at": ["kit/layer.py", 7],
}
REAL = {"status": 1, "error": f"RuntimeError: {MESSAGE}", "frames": [["run.py", 2], ["lib/kit/layer.py", 7]]}


@pytest.mark.parametrize(
    ("virtual", "real", "wanted"),
    [
        ({}, {}, "same"),
        ({"at": ["kit/layer.py", 8]}, {}, "same error, another statement"),
        ({}, {"error": "RuntimeError: mat2 is elsewhere"}, "same statement, other words"),
        ({}, {"error": "ModuleNotFoundError: No module named 'kit'"}, "does not run there"),
        ({}, {"error": "ValueError: no", "frames": [["run.py", 2]]}, "another error"),
        ({}, {"status": 0}, "the GPU ran it, the machine found something"),
        ({"findings": 0, "message": None, "at": None}, {"status": 0}, "both ran"),
        ({"findings": 0, "message": None, "at": None}, {}, "the machine found nothing"),
        ({"silent_result": "meta"}, {"status": 0}, "raises nothing, as told"),
        ({"at": ["torch/nn/functional.py", 7]}, {"frames": [["torch/nn/functional.py", 9]]}, "same"),
        ({}, {"status": None}, "took too long"),
    ],
)
def test_a_verdict(virtual, real, wanted):
    assert real_runs.verdict({"virtual": VIRTUAL | virtual, "real": REAL | real}) == wanted


@pytest.mark.parametrize("path", sorted(real_runs.RECORDINGS.glob("*.json.gz")), ids=lambda path: path.stem)
def test_what_was_recorded_is_what_the_machine_says(path):
    rows = json.loads(gzip.decompress(path.read_bytes()))["rows"]
    ran = [row for row in rows if real_runs.verdict(row) != "does not run there"]
    assert sum(real_runs.verdict(row).startswith(("same", "both", "raises")) for row in ran) > 0.98 * len(ran)
    assert not [row for row in ran if real_runs.verdict(row).startswith("the GPU ran it")]


def test_a_program_is_prepared_and_recorded_where_there_is_no_gpu(tmp_path):
    script = tmp_path / "table.py"
    script.write_text(
        "import torch\n\n\ndef shift(x):\n    return x + torch.arange(4)\n\n\n"
        "print(shift(torch.ones(4, device='cuda')).sum())\n"
    )
    folder = tmp_path / "prepared"
    real_runs.prepare(Subject("programs", "table", script, "2x24GB", {}), folder)
    virtual = json.loads((folder / "table" / "virtual.json").read_text())
    assert (virtual["findings"], virtual["changed"], virtual["at"]) == (1, True, ["table.py", 5])
    assert "device=x.device" in (folder / "table" / "with_fixes" / "table.py").read_text()
    row = real_runs.record(folder, "table", float("inf"))
    assert row is not None
    assert row["real"]["status"] == row["fixed"]["status"] == 1
    assert row["real"]["frames"][0] == ["table.py", 8]
    assert real_runs.record(folder, "table", 0.0) is None


def test_programs_that_name_a_second_gpu_are_left_out():
    names = {subject.name for subject in real_runs.subjects(40) if subject.group == "programs"}
    assert names
    assert not any("cuda:1" in Path(each.script).read_text() for each in real_runs.subjects(40))


def test_recording_wants_a_file_and_a_gpu(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        real_runs.main(["--record", str(tmp_path)])
    assert real_runs.main(["--record", str(tmp_path), str(tmp_path / "new.json.gz")]) == 2
    assert "torch sees no GPU" in capsys.readouterr().err
