"""`sd.guard` names the cause of a bug on devices that are real for torch, where no machine keeps a record.

Time: ten minutes for every eighth program of `seen`.
Needs: g++, transformers and accelerate.

    python -m evidence guarded-programs [--every 8] [--record] [--gpu] [--jobs N] [--folder DIR] [--json FILE]

The programs are those of `programs`, with `twin:0` and `twin:1` in the place of two GPUs: host memory with a
dispatch key of its own, which refuses operands of two devices in CUDA's words. Programs that need CUDA's own
functions, or an operator that the twins do not have, are left out and counted. With `--gpu` the programs run
as they are on the GPUs of this machine, without those that name one that it does not have. `sure` are causes
that are wrong and not called a guess; `undetermined` is what guard says when nothing tells why.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from evidence.bugs.programs import PROGRAMS, is_named, labels
from evidence.commands import command_parser
from evidence.forks import answers
from samedevice.diagnosis import UNDETERMINED, find_rule

_FACADE = re.compile(r"torch\.twin\.|torch\.backends|pin_memory|DataParallel|init_process_group")
_OF_TWINS = re.compile(
    r"not implemented|convolution_overrideable|Could not run|PrivateUse1|'Twin' object|numpy"
    r"|set the storage of"
)
_NO_SUCH_GPU = re.compile("invalid device (?:ordinal|id)", re.I)
_NUMBERS = re.compile(r"cuda:(\d+)")
_LIMIT = 90
"""Seconds that a program may take."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the programs, each in a fork, and print what guard said of those that failed by device."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--every", type=int, default=8, help="only every Nth program (8)")
    parser.add_argument("--record", action="store_true", help="guard keeps decisions while they run")
    parser.add_argument("--folder", type=Path, help="other labelled programs, all of them")
    parser.add_argument("--json", type=Path, help="also write every outcome to this file")
    parser.add_argument("--gpu", action="store_true", help="on the GPUs of this machine, not on twins")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once (1)")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if not options.gpu:
        from evidence.environments import twin_device

        twin_device.enter()
    import accelerate
    import transformers

    transformers.logging.set_verbosity_error()
    assert accelerate
    outcomes = {}
    programs = (
        sorted((PROGRAMS / "seen").glob("*.py"))[:: options.every]
        if options.folder is None
        else sorted(options.folder.resolve().glob("*.py"))
    )
    work = partial(_outcome, record=options.record, gpu=options.gpu)
    for program, answer in answers(work, programs, options.jobs, _LIMIT):
        outcomes[program.stem] = found = answer or {"left_out": "died, or took too long"}
        if "cause" in found:
            wanted = " or ".join(labels(program)[0])
            right = "" if found["right"] else f", not {wanted}"
            print(f"  {program.stem}: {found['cause']} ({found['confidence']}){right}", flush=True)
    _told(outcomes)
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
    return 0


def _told(outcomes: dict[str, dict[str, Any]]) -> None:
    judged = [each for each in outcomes.values() if "cause" in each]
    named = [each["named"] for each in judged if each["named"] is not None]
    wrong = [each for each in judged if not each["right"] and each["cause"] != UNDETERMINED]
    print(
        f"{len(judged)} of {len(outcomes)} programs judged: cause right in "
        f"{sum(each['right'] for each in judged)}, tensor in {sum(named)} of {len(named)}, undetermined "
        f"{sum(each['cause'] == UNDETERMINED for each in judged)}, wrong and sure "
        f"{sum(each['confidence'] != 'guess' for each in wrong)}"
    )
    for why, count in Counter(each["left_out"] for each in outcomes.values() if "left_out" in each).items():
        print(f"  left out: {count} {why}")


def _outcome(program: Path, *, record: bool, gpu: bool) -> dict[str, Any]:
    import torch

    import samedevice as sd

    source = program.read_text("utf-8")
    if gpu:
        if max(map(int, _NUMBERS.findall(source)), default=0) >= torch.cuda.device_count():
            return {"left_out": "need more GPUs"}
    else:
        source = source.replace("cuda", "twin")
        if _FACADE.search(source):
            return {"left_out": "need CUDA's own functions"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / program.name
        path.write_text(source, "utf-8")
        os.chdir(folder)
        sys.argv = [str(path)]
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
                sd.guard(record=record),
            ):
                exec(compile(source, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except Exception as error:
            failure = error
            if (finding := getattr(error, "finding", None)) is None or (
                not gpu and _OF_TWINS.search(str(error))
            ):
                return {"left_out": "fail otherwise here"}
            if gpu and _NO_SUCH_GPU.search(str(error)):
                return {"left_out": "need more GPUs"}
        else:
            return {"left_out": "run to their end"}
    causes, guilty = labels(program)
    rule = find_rule(finding.code)
    return {
        "cause": finding.cause,
        "confidence": finding.confidence,
        "right": finding.cause in causes or (rule is not None and rule.name in causes),
        "message": str(failure)[:200],
        "note": (getattr(failure, "__notes__", None) or [""])[-1][:2000],
        "named": None if guilty == "?" else is_named(asdict(finding), guilty),
    }
