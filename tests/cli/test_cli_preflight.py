"""`samedevice preflight` as a command: status, output, JSON, languages, wrong usage, and what its page
prints.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("warm")

FRESH = sys.executable
ROOT = Path(__file__).parents[2]
REFUSED = ROOT / "examples" / "preflight" / "refused" / "peft_306"
CORRECT = ROOT / "examples" / "preflight" / "correct" / "naive_model_parallel"


def preflight(folder, *words):
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "FORCE_COLOR", "CUDA_VISIBLE_DEVICES")
    }
    return subprocess.run(
        [sys.executable, "-m", "samedevice", "preflight", *words],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_refused_and_passed(tmp_path):
    done = preflight(REFUSED, "launch.sh", "--machine", "4xA100-80G", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 1, done.stderr
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["mode"]["name"] == "zero-3"
    assert document["launch"]["processes"] == 4
    (finding,) = document["findings"]
    assert (finding["code"], finding["cause"], finding["at"]["line"]) == (
        "SD132",
        "device-map-in-multi-process-launch",
        16,
    )
    assert finding["op"] is None
    assert "+    device_map=None," in finding["fixes"][0]["diff"]
    assert preflight(CORRECT, "launch.sh", "--machine", "4xA100-80G").returncode == 0


def test_chinese():
    done = preflight(REFUSED, "launch.sh", "--machine", "4xA100-80G", "--lang", "zh")
    assert "并行方式" in done.stdout
    assert "多进程启动时使用了 device_map" in done.stdout


def test_arguments_behind_the_dashes(tmp_path):
    (tmp_path / "train.py").write_text(
        "import argparse\nfrom transformers import AutoModel\nparser = "
        "argparse.ArgumentParser()\nparser.add_argument('--device_map')\n"
        "AutoModel.from_pretrained('m', device_map=parser.parse_args().device_map)\n"
    )
    words = ("train.py", "--machine", "2x24GB", "--launcher", "torchrun")
    assert preflight(tmp_path, *words).returncode == 0
    assert preflight(tmp_path, *words, "--", "--device_map", "auto").returncode == 1
    assert preflight(tmp_path, *words, "--nproc", "1", "--", "--device_map", "auto").returncode == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["none.py"], "there is no file"),
        (["launch.sh", "--machine", "nonsense"], "machine specification"),
        (["launch.sh", "--nproc", "0"], "at least 1"),
        (["train.py", "--launcher", "slurm"], "none of python, torchrun"),
        (["launch.sh", "--memory", "--method", "dora"], "none of full, lora, qlora"),
        (["launch.sh", "--memory", "--context", "0"], "at least 1"),
        (["launch.sh", "--lang", "none"], "'none' is not one of 'en'"),
        (["launch.sh", "--json", "/none/such/file"], "cannot be"),
    ],
)
def test_wrong_usage(words, complaint):
    done = preflight(REFUSED, *words)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_the_memory_is_what_the_page_of_s4_shows(tmp_path):
    page = (ROOT / "docs" / "situations" / "s4.md").read_text("utf-8")
    ((options, script, expected),) = re.findall(
        r"^\$ samedevice preflight (.* --memory .*) -- (.*)\n((?:.*\n)*?)```$", page, re.MULTILINE
    )
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "Qwen1.5-7B-Chat").mkdir()
    published = ROOT / "src" / "evidence" / "environments" / "example_models.json"
    models = json.loads(published.read_text("utf-8"))
    (tmp_path / "Qwen1.5-7B-Chat" / "config.json").write_text(json.dumps(models["qwen1.5-7b-chat"]["config"]))
    done = preflight(tmp_path, *options.split(), "--json", "found.json", "--", *script.split())
    assert done.stdout == expected
    assert done.returncode == 0, done.stderr
    memory = json.loads((tmp_path / "found.json").read_text())["memory"]
    assert [way["largest_micro_batch"] for way in memory["ways"]] == [0, 0]
    assert (memory["plan"]["mode"], memory["plan"]["fits"]) == ("fsdp", True)


def test_the_memory_in_chinese_and_without_a_model():
    done = preflight(CORRECT, "launch.sh", "--machine", "4xA100-80G", "--memory", "--lang", "zh")
    assert "未估算显存" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "words", "options"),
    [("preflight.md", "", ()), ("preflight.zh.md", " lang=zh", ("--lang", "zh"))],
)
def test_the_page_shows_what_is_printed(tmp_path, name, words, options):
    page = (ROOT / "docs" / name).read_text("utf-8")
    script = re.search(r"^```python file=finetune.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    fence = rf"^```text command=finetune.py{words}\n(.*?)^```$"
    expected = re.search(fence, page, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "finetune.py").write_text(script)
    done = preflight(tmp_path, "finetune.py", "--machine", "8xA100-80G", "--launcher", "torchrun", *options)
    shown = re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE)
    assert shown == re.sub(r"[ \t]+$", "", expected, flags=re.MULTILINE)
    assert preflight(tmp_path, "finetune.py", "--machine", "8xA100-80G").returncode == 0


def test_an_installed_program_is_judged_as_it_is_typed(tmp_path):
    """Its own options are not ours."""
    done = preflight(tmp_path, "--machine", "4x24GB", "llamafactory-cli", "train", "--lang", "fr")
    assert (done.returncode, done.stderr) == (0, "")
    assert "DDP: torchrun starts 4 processes" in done.stdout
    done = preflight(tmp_path, "--machine", "4x24GB", "llamafactory-cli", "--lang", "fr")
    assert (done.returncode, done.stderr) == (2, "samedevice: there is no file llamafactory-cli\n")


def test_a_closed_standard_output(tmp_path):
    (tmp_path / "a.py").write_text("import torch\n")
    for command in (["preflight", "a.py", "--machine", "2x24GB"], ["explain", "SD101"]):
        line = shlex.join([FRESH, "-m", "samedevice", *command])
        done = subprocess.run(
            ["sh", "-c", f"{line} >&-"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
