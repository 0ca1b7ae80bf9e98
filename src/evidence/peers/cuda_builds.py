"""Programs run with what people install: PyPI's builds of torch with CUDA, on a computer without a GPU.

Time: some minutes for each torch, once its environment is there.
Needs: PyPI and several GiB of disk for each torch; uv.

    python -m evidence cuda-builds [--torch 2.13.0] [--environments FOLDER] [PROGRAM ...]

For each torch an environment is made with uv (one that is there is used again), then each program of
`cuda_programs` runs on two virtual GPUs, `ranks` under torchrun. `imports` must print what it prints without
a machine. Exit status: 0 all programs ran to their end without a finding, 1 not so.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from evidence.commands import command_parser
from evidence.environments.torch_environments import NEWEST, PINNED, torch_environment, variables
from evidence.places import ROOT

PROGRAMS = Path(__file__).with_name("cuda_programs")
NAMES = ("imports", "vision", "images", "detection", "ranks")
WITH = ("transformers", "accelerate", "typer", "rich", "ruamel.yaml", "psutil", "packaging", "PyYAML")
BESIDE = ("torchvision", "torchaudio", "timm", "ultralytics")
LIMIT = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the environments, run the programs, print a table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("programs", nargs="*", default=list(NAMES), metavar="PROGRAM", help=", ".join(NAMES))
    parser.add_argument(
        "--torch",
        action="append",
        help="a version, or `newest`; by default that of constraints.txt and the newest",
    )
    parser.add_argument("--environments", type=Path, default=ROOT / ".cuda")
    given = parser.parse_args(arguments)
    print(f"{'torch':16} {'program':10} {'outcome':8} {'seconds':>7}")
    good = True
    for wanted in given.torch or [PINNED, NEWEST]:
        python = torch_environment(given.environments / wanted, wanted, (*WITH, *BESIDE))
        version = _run([python, "-c", "import torch; print(torch.__version__)"])[1].strip()
        for name in given.programs:
            began = time.monotonic()
            wrong = outcome(python, name)
            good = good and not wrong
            print(
                f"{version:16} {name:10} {'WRONG' if wrong else 'ok':8} {time.monotonic() - began:7.0f}  "
                f"{wrong}",
                flush=True,
            )
    return 0 if good else 1


def outcome(python: str, name: str) -> str:
    """What is wrong with a program's run; nothing where all is right."""
    program = str(PROGRAMS / f"{name}.py")
    ranks = 2 if name == "ranks" else 1
    launch = ["--launcher", "torchrun", "--nproc", str(ranks)] if ranks > 1 else []
    code, out, error = _run([python, "-m", "samedevice", "run", "--machine", "2x24GB", *launch, program])
    if code != 0:
        return f"exit {code}: {error.strip().splitlines()[-1] if error.strip() else ''}"
    if out.count("done") < ranks:
        return "it did not come to its end"
    if name == "imports" and (alone := _run([python, program])[1]) != out:
        return f"without a machine it prints {alone!r}"
    return ""


def _run(command: list[str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            command, env=variables(), capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, "", f"no end after {LIMIT} s"
    return done.returncode, done.stdout, done.stderr
