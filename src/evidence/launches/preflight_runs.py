"""Launches that preflight refuses fail on a virtual machine, and those that it passes run to their end.

Time: some ten minutes.
Needs: transformers, accelerate, peft; deepspeed for some.

    python -m evidence preflight-runs       # a tiny model, two ranks

Launches that need DeepSpeed are started where it is installed. unsloth, LLaMA-Factory and ms-swift are not
started here; what they did when they were started by hand is in `docs/measurements.md`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser
from evidence.launches.preflight_cases import CASES
from evidence.places import SOURCES

MACHINE = "2x24GB"
PORT = 29741
QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "tie_word_embeddings": False,
}
T5 = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 256,
    "decoder_start_token_id": 0,
}
_TRAINER = (
    "--output_dir out --max_steps 2 --per_device_train_batch_size 1 --save_strategy no --report_to none"
)
_ACCELERATE = (
    "--launcher accelerate --nproc 2 --launcher-args '--config_file {file} --num_processes 2 "
    "--main_process_port {port}'"
)
_TORCHRUN = "--launcher torchrun --nproc 2 --launcher-args '--master_port {port}'"
RUNS: dict[str, tuple[str, ...]] = {
    "refused/transformers_31557": ("train.py {qwen}",),
    "refused/accelerate_2486": (
        _ACCELERATE.replace("{file}", "config.yaml") + " train.py --model {qwen} --full-precision",
    ),
    "refused/peft_306": (
        _ACCELERATE.replace("{file}", "zero3.yaml") + " train.py --model_name_or_path {t5} --no-load_in_8bit",
    ),
    "refused/llamafactory_2735": (
        _ACCELERATE.replace("{file}", "config.yaml")
        + " src/train.py --stage dpo --do_train --model_name_or_path {qwen} --output_dir out",
    ),
    "refused/huatuogpt_32": (
        "--launcher accelerate --nproc 1 --launcher-args '--config_file zero2.yaml --num_processes 1' "
        "train.py --model_path {qwen}",
    ),
    "correct/ddp_rank_map": (_TORCHRUN + " train.py {qwen}",),
    "correct/accelerator": (_ACCELERATE.replace("{file}", "config.yaml") + " train.py --model {qwen}",),
    "correct/fsdp2": (_TORCHRUN + " train.py {qwen}",),
    "correct/zero3": (
        "--launcher deepspeed --nproc 2 --launcher-args '--master_port {port}'"
        " train.py --model {qwen} --deepspeed --deepspeed_config zero3.json",
    ),
    "correct/trainer_torchrun": (_TORCHRUN + " train.py --model_name_or_path {qwen} " + _TRAINER,),
    "correct/qlora": (_TORCHRUN + " finetune.py {qwen} --full-precision",),
    "correct/naive_model_parallel": ("train.py {qwen}",),
    "correct/tensor_parallel": (_TORCHRUN + " generate.py {qwen}",),
    "correct/resume": (_TORCHRUN + " train.py {qwen} last.pt",) * 2,
}
"""What `samedevice run` gets for each launch; quantized loads are replaced by whole ones, since bitsandbytes'
kernels are not there.
"""
NEEDS_DEEPSPEED = ("refused/peft_306", "refused/huatuogpt_32", "correct/zero3")


def start(case: str, words: str, folder: Path, port: int) -> tuple[int, float, str]:
    """Status, seconds, and the error that ended it."""
    values = {"qwen": folder / "qwen", "t5": folder / "t5", "port": port}
    command = [
        sys.executable,
        "-m",
        "samedevice",
        "run",
        "--machine",
        MACHINE,
        *shlex.split(words.format(**values)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PORT": str(port)}
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder / case, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    errors = re.findall(r"^(?:\[rank\d\]: )?(\w*(?:Error|Exception): .*)$", done.stderr, re.MULTILINE)
    told = re.findall(r"^SD\d+ [\w-]+", done.stderr, re.MULTILINE)
    return done.returncode, time.perf_counter() - began, " | ".join([*told[:1], *errors[:1]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each launch."""
    command_parser(__name__, __doc__).parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="samedevice-preflight-"))
    wrong = 0
    try:
        shutil.copytree(CASES, folder, dirs_exist_ok=True)
        for name, config in (("qwen", QWEN), ("t5", T5)):
            (folder / name).mkdir()
            (folder / name / "config.json").write_text(json.dumps(config))
        for number, (case, runs) in enumerate(RUNS.items()):
            if case in NEEDS_DEEPSPEED and importlib.util.find_spec("deepspeed") is None:
                print(f"{case:30} not started: DeepSpeed is not installed")
                continue
            for words in runs:
                status, seconds, error = start(case, words, folder, PORT + number)
                right = (status != 0) is case.startswith("refused")
                wrong += not right
                print(
                    f"{case:30} status {status}  {seconds:5.0f} s  "
                    f"{'' if right else 'UNEXPECTED  '}{error[:150]}",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0
