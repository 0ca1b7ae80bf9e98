"""Launches that `samedevice plan --train` writes run as they were planned, on the machine of the plan.

Time: some two minutes.
Needs: transformers, accelerate; for ZeRO deepspeed (with `DS_BUILD_OPS=0` it builds nothing).

    python -m evidence plan-launches [WAY ...]

A small Llama on two GPUs, in ways that need every setting: replicas, FSDP2, accumulation, activation
checkpointing, adapters, ZeRO-2 and ZeRO-3. Each is planned and written; then the command in its `launch.sh`
runs on a virtual machine of that kind, with every rank, and says what transformers and accelerate made of the
files. Exit status: 0 where every launch ran with the micro-batch, the accumulation, the processes and the
precision of its plan, without a finding, 1 otherwise. The peaks are printed beside those of the plan.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.places import ROOT, SOURCES

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 8000, "tie_word_embeddings": False, "max_position_embeddings": 4096,
}  # fmt: skip
WAYS: Mapping[str, Sequence[str]] = {
    "ddp": ("--machine", "2x24GB", "--batch", "16", "--mode", "ddp"),
    "ddp-accumulated": ("--machine", "2x3GB", "--batch", "64", "--mode", "ddp"),
    "fsdp": ("--machine", "2x24GB", "--batch", "16", "--mode", "fsdp"),
    "fsdp-accumulated": ("--machine", "2x3GB", "--batch", "64", "--mode", "fsdp"),
    "fsdp-checkpointing": ("--machine", "2x2304MiB", "--context", "1024", "--batch", "2", "--mode", "fsdp"),
    "lora": ("--machine", "2x24GB", "--batch", "16", "--method", "lora"),
    "zero2": ("--machine", "2x24GB", "--batch", "16", "--mode", "zero2"),
    "zero3": ("--machine", "2x24GB", "--batch", "16", "--mode", "zero3"),
}
_SAID = re.compile(r"(\w+) of (\d+) processes, micro-batch (\d+), accumulation (\d+), (\w+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan, write and run every way, and print a line for each."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    given = parser.parse_args(arguments)
    good = True
    for way in given.ways or WAYS:
        if way.startswith("zero") and find_spec("deepspeed") is None:
            print(f"{way:20} deepspeed is not installed")
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            right, said = run_way(Path(folder), WAYS[way])
        good = good and right
        took = time.monotonic() - began
        print(f"{way:20} {'as planned' if right else 'NOT as planned':14} {took:4.0f} s  {said}", flush=True)
    return 0 if good else 1


def run_way(folder: Path, options: Sequence[str]) -> tuple[bool, str]:
    """Plan and write a launch into an empty folder, and run it: whether it ran as planned; what it said."""
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(MODEL), "utf-8")
    context = () if "--context" in options else ("--context", "512")
    _samedevice(
        folder, "plan", "model", "--train", *options, *context, "--write", "out", "--json", "plan.json"
    )
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    (*_, command) = (folder / "out" / "launch.sh").read_text("utf-8").splitlines()
    words = [word for word in shlex.split(command) if word != "$@"]
    output = _samedevice(folder, "run", "--machine", plan["machine"]["spec"], "--json", "run.json", *words)
    run = json.loads((folder / "run.json").read_text("utf-8"))
    return _compared(plan, run, output)


def _compared(plan: Mapping[str, Any], run: Mapping[str, Any], output: str) -> tuple[bool, str]:
    training, told = plan["training"], _SAID.search(output)
    if told is None or run["status"] != "completed":
        return False, f"{run['status']}: {output[-300:]}"
    kind, processes, micro, accumulation, precision = told.groups()
    asked = (training["ranks"], training["micro_batch"], training["accumulation"])
    right = (int(processes), int(micro), int(accumulation)) == asked and not run["findings"]
    right = right and precision == training["precision"].partition("-")[0]
    peak = max(each["peak_allocated"] for each in run["memory"].values())
    moments = plan["proof"] or {"formula": training["peak"]}
    planned = max(size for name, size in moments.items() if name not in ("built", "reserved"))
    again = ", activation checkpointing" if training["checkpointing"] else ""
    return right, (
        f"{kind}, {processes} processes, micro-batch {micro}, accumulation {accumulation}, "
        f"{precision}{again}; peak {peak / 2**20:.0f} MiB, planned {planned / 2**20:.0f} MiB "
        f"({peak / planned - 1:+.1%})"
    )


def _samedevice(folder: Path, *words: str) -> str:
    path = os.pathsep.join([str(SOURCES), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DS_BUILD_OPS": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"{shlex.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr
