"""What would decide a cause that a text leaves open: one command, with what it shows."""

from __future__ import annotations

import re

from samedevice.diagnosis._weigh import Verdict
from samedevice.diagnosis.paste import Pattern, Report
from samedevice.messages import Phrase

_LATE = frozenset({"device-assert", "illegal-access", "cublaslt"})
"""Errors of kernels, which are told later than they happen."""
_TWO_GPUS = Pattern(r"cuda:[1-9]|\b(?:two|three|four|eight|[2-9]) GPUs\b")
_COPY = "python -c \"import torch; x = torch.arange(8.); print(x.to('cuda:0').to('cuda:1').cpu())\""


def ask_of(report: Report, verdict: Verdict) -> Phrase | None:
    """The command for what is open; None where nothing is."""
    script = _script(report)
    if report.topic == "launcher-exit":
        return Phrase("ask.worker", command=f"torchrun --tee 3 --nproc-per-node {_gpus(report)} {script}")
    if report.topic == "collective-timeout":
        command = f"TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 torchrun {script}"
        return Phrase("ask.rank", command=command)
    if report.topic == "numbers" and _TWO_GPUS.search(report.words):
        return Phrase("ask.copy", command=_COPY)
    if report.topic == "out-of-memory":
        return Phrase("ask.memory", command=f"samedevice run --machine {_machine(report)} {script}")
    if report.kind in _LATE and verdict.confidence == "guess":
        return Phrase(
            "ask.late", command=f"CUDA_LAUNCH_BLOCKING=1 python {script} 2>&1 | samedevice explain -"
        )
    if report.topic is not None or verdict.confidence != "guess":
        return None
    if report.kind == "no-exception":
        return Phrase("ask.copy", command=_COPY)
    if not report.code:
        return Phrase("ask.whole", command=f"python {script} 2>&1 | samedevice explain -")
    return Phrase("ask.run", command=f"samedevice run --machine {_machine(report)} {script}")


def _script(report: Report) -> str:
    """The script that a frame shows, by its file's name."""
    for frame in report.frames:
        name = (frame.file or "").rpartition("/")[2]
        if frame.function == "<module>" and re.fullmatch(r"[\w.-]{1,80}\.py", name) and not frame.plumbing:
            return name
    return "script.py"


def _gpus(report: Report) -> int:
    """How many GPUs there are at least, by the numbers that the text names."""
    named = [int(each.partition(":")[2]) for each in report.devices if re.fullmatch(r"cuda:\d{1,2}", each)]
    told = max((each.gpus for each in (report.told, report.beside) if each is not None), default=0)
    return max(2, told, 1 + max(named, default=0), 1 + max(report.ranks, default=0))


def _machine(report: Report) -> str:
    total = report.memory.amounts.get("total", 0) if report.memory is not None else 0
    size = round(total / (1 << 30)) or 24
    return f"{min(_gpus(report), 64)}x{size}GB"
