"""A script through real launchers: every rank on the same virtual machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
SOURCES = Path(__file__).parents[2] / "src"


def start(folder, *words, **options):
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "samedevice", "run", *map(str, words)]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def run(folder, *words):
    process = start(folder, *words)
    out, error = process.communicate(timeout=300)
    return process.returncode, out, error


def test_collectives_and_ddp_agree_with_gloo(tmp_path):
    launch = ("--machine", "2x24GB", "--json", "found.json", "--launcher", "torchrun", "--nproc", 2)
    code, _, error = run(tmp_path, *launch, SCRIPTS / "collectives.py", tmp_path, "--bug")
    assert (tmp_path / "0.done").exists() and (tmp_path / "1.done").exists(), error
    document = json.loads((tmp_path / "found.json").read_text())
    assert (code, document["status"]) == (1, "completed"), error
    (finding,) = document["findings"]
    assert (finding["code"], finding["op"], finding["ranks"], finding["count"]) == ("SD101", "aten.add.Tensor", [0, 1], 2)
    assert finding["user_at"]["file"] == str(SCRIPTS / "collectives.py")
    ranks = {each["rank"]: each["memory"] for each in document["ranks"]}
    assert ranks[0]["cuda:0"]["peak_allocated"] > 0 and ranks[1]["cuda:1"]["peak_allocated"] > 0
    assert document["memory"]["cuda:1"]["peak_allocated"] >= ranks[1]["cuda:1"]["peak_allocated"]
