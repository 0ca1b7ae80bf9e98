"""GPUs whose memory has errors, or that wait for a reset."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    for gpu in facts.gpus or ():
        if gpu.uncorrectable:
            reason = Phrase("checks.gpu-needs-reset.errors", index=gpu.index, count=gpu.uncorrectable)
        elif gpu.rows_pending:
            reason = Phrase("checks.gpu-needs-reset.rows", index=gpu.index)
        elif gpu.reset_required:
            reason = Phrase("checks.gpu-needs-reset.required", index=gpu.index)
        else:
            continue
        yield Fault(reason, Phrase("checks.gpu-needs-reset.reset", index=gpu.index))


CHECK = Check(
    code="SD320",
    name="gpu-needs-reset",
    title={"en": "a GPU has memory errors or waits for a reset", "zh": "GPU 显存有错误，或等待重置"},
    reads=("driver", "gpus"),
    sources=(
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",
        "nvidia-smi -q: ECC Errors, Remapped Rows",
    ),
    look=_look,
    sentences={
        "errors": {
            "en": "GPU {index} had memory errors that ECC could not correct: {count} since the driver was "
            "loaded; each ends the program that meets it",
            "zh": "GPU {index} 自驱动加载以来有 {count} 次 ECC 无法纠正的显存错误，碰到的程序都会被终止",
        },
        "rows": {
            "en": "GPU {index} replaces faulty memory rows at its next reset",
            "zh": "GPU {index} 有故障显存行，要重置后才会被替换",
        },
        "required": {"en": "GPU {index} asks for a reset", "zh": "GPU {index} 要求重置"},
        "reset": {
            "en": "end what runs on it, then sudo nvidia-smi --gpu-reset -i {index} (or reboot); if the "
            "count grows, "
            "replace the board",
            "zh": "结束上面的程序后 sudo nvidia-smi --gpu-reset -i {index}（或重启）；若计数继续增加，"
            "应更换该卡",
        },
    },
)
